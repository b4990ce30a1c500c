// postgres.mjs -- a real PostgreSQL for a test file, started here and ended with it. It is the bench's
// (bench/peers.mjs), on a loopback port as well, and, if nobody asks for more, without syncs: nothing has to survive.
//
//     const primary = await Database.make();                     // { durable: true }: with its syncs
//     const standby = await primary.standby({ sync: true });     // by pg_basebackup; streams from then on
//     await standby.pauseReplay();                               // falls behind; resumeReplay() lets it catch up
//     await primary.crash();                                     // "immediate"; down() is the polite way; up() starts either again
//     await standby.promote();                                   // is a primary once this resolves
//     await standby.stop();                                      // ends it and removes its directory
//
// halt() and wake() are SIGSTOP and SIGCONT for all its processes. `dsn` goes over the loopback, `socketDsn` over the
// socket in its directory. `settings` are PostgreSQL's; what is changed there holds from the next up() on.

import { execFile } from 'node:child_process';
import path from 'node:path';
import { after, before } from 'node:test';

import { command, freePort, Postgres } from '../../../bench/peers.mjs';
import { eventually } from './pace.mjs';
import { newDirectory, removeDirectory } from './server.mjs';

const LAX = { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off' };

export class Database extends Postgres {
    #standbys = 0;
    host = '127.0.0.1'; // where others reach it

    /** Not yet started: start() does it. */
    static async create({ durable = false, settings = {}, env = {} } = {}) {
        const database = new this(newDirectory('pg'));
        database.port = await freePort();
        database.env = env;
        database.settings = {
            listen_addresses: '127.0.0.1',
            port: database.port,
            ...(durable ? {} : LAX),
            shared_buffers: '32MB',
            max_wal_size: '1GB',
            max_connections: 60,
            ...settings,
        };
        return database;
    }

    static async make(options) {
        const database = await this.create(options);
        await database.start();
        return database;
    }

    /** A running copy that follows this one. `sync`: a commit here waits for it, and for nobody else. */
    async standby({ sync = false, settings = {} } = {}) {
        const name = `standby${++this.#standbys}`;
        const standby = await Database.create();
        standby.settings = { ...this.settings, port: standby.port, cluster_name: name, ...settings };
        standby.ownDirectory();
        await standby.asked('pg_basebackup', ['-D', path.join(standby.directory, 'data'), '-d',
            `host=${this.host} port=${this.port} user=postgres application_name=${name}`, '-c', 'fast', '-X', 'stream', '-R', '--no-sync'], { seconds: 120 });
        await standby.startServer();
        await eventually('the standby to stream', async () =>
            (await this.sql(`SELECT state FROM pg_stat_replication WHERE application_name = '${name}'`)).trim() === 'streaming', { ms: 20000 });
        if (sync) await this.waitFor(name);
        return standby;
    }

    /** Commits wait for the standbys of these names ('' for none), as the setting has them. */
    async waitFor(names) {
        await this.sql(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
        await this.sql('SELECT pg_reload_conf()');
        if (names) {
            await eventually('the standby to be synchronous', async () =>
                (await this.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')")).trim() !== '0', { ms: 20000 });
        }
    }

    async pauseReplay() {
        await this.sql('SELECT pg_wal_replay_pause()');
        await eventually('the replay to pause', async () => (await this.sql('SELECT pg_get_wal_replay_pause_state()')).trim() === 'paused');
    }

    async resumeReplay() {
        await this.sql('SELECT pg_wal_replay_resume()');
    }

    /** Resolves once the standby has replayed all that the primary has now. */
    async caughtUp(primary) {
        const end = (await primary.sql('SELECT pg_current_wal_lsn()')).trim();
        await eventually('the standby to catch up', async () =>
            (await this.sql(`SELECT pg_last_wal_replay_lsn() >= '${end}'`)).trim() === 't', { ms: 20000 });
    }

    async promote() {
        await this.sql('SELECT pg_promote(true, 60)');
    }

    /** How a program on this machine reaches it; the password is not asked for. */
    get dsn() {
        return `postgresql://postgres:${Database.PASSWORD}@${this.host}:${this.port}/postgres`;
    }

    get socketDsn() {
        return `postgresql://postgres:${Database.PASSWORD}@/postgres?host=${encodeURIComponent(this.directory)}&port=${this.port}`;
    }

    static PASSWORD = 'pw-that-nobody-may-see';

    sql(text, seconds = 60, name = 'postgres') {
        return this.#psql(name, ['-c', text], seconds);
    }

    /** Runs the statements of a file. */
    file(path, name = 'postgres') {
        return this.#psql(name, ['-1', '-f', path], 60);
    }

    /** Runs psql to its end, whatever becomes of it: {stdout, stderr}. */
    async psql(args, name = 'postgres') {
        const all = ['-h', '127.0.0.1', '-p', String(this.port), '-U', 'postgres', '-d', name, '-X', '-q', '-A', '-t', ...args];
        return new Promise((resolve) => execFile('psql', all, { timeout: 60000 }, (error, stdout, stderr) => resolve({ stdout, stderr })));
    }

    #psql(name, args, seconds) {
        return command('psql', ['-h', '127.0.0.1', '-p', String(this.port), '-U', 'postgres', '-d', name, '-X', '-q', '-A', '-t',
            '-v', 'ON_ERROR_STOP=1', ...args], { seconds });
    }

    /** Ends it and leaves its data; up() starts it on them, on the same port. */
    async down() {
        await super.stop();
    }

    async crash() {
        await super.stop('SIGQUIT');
    }

    async up() {
        await this.startServer();
    }

    async stop() {
        await super.stop('SIGQUIT');
        removeDirectory(this.directory);
    }
}

/** A database for the enclosing describe(), with `schema` in it. `database.current` once it runs. */
export function databaseFor(schema = '') {
    const holder = {};
    before(async () => {
        holder.current = await Database.make();
        if (schema) await holder.current.sql(schema);
    });
    after(() => holder.current?.stop());
    return holder;
}
