// postgres.mjs -- a real PostgreSQL for a test file, started here and ended with it. It is the bench's
// (bench/peers.mjs), on a loopback port as well, and without syncs: nothing here has to survive.

import { after, before } from 'node:test';

import { command, freePort, Postgres } from '../../../bench/peers.mjs';
import { newDirectory, removeDirectory } from './server.mjs';

export class Database extends Postgres {
    static async create() {
        const database = new Database(newDirectory('pg'));
        database.port = await freePort();
        database.settings = {
            listen_addresses: '127.0.0.1',
            port: database.port,
            fsync: 'off',
            full_page_writes: 'off',
            synchronous_commit: 'off',
            shared_buffers: '32MB',
            max_connections: 60,
        };
        return database;
    }

    /** How a program on this machine reaches it; the password is not asked for. */
    get dsn() {
        return `postgresql://postgres:${Database.PASSWORD}@127.0.0.1:${this.port}/postgres`;
    }

    static PASSWORD = 'pw-that-nobody-may-see';

    sql(text, seconds = 60) {
        return command('psql', ['-h', '127.0.0.1', '-p', String(this.port), '-U', 'postgres', '-X', '-q', '-A', '-t',
            '-v', 'ON_ERROR_STOP=1', '-c', text], { seconds });
    }

    /** Ends and starts it again on the same data and port. */
    async down() {
        await super.stop();
    }

    async up() {
        await this.startServer();
    }

    async stop() {
        await super.stop();
        removeDirectory(this.directory);
    }
}

/** A database for the enclosing describe(), with `schema` in it. `database.current` once it runs. */
export function databaseFor(schema = '') {
    const holder = {};
    before(async () => {
        holder.current = await Database.create();
        await holder.current.start();
        if (schema) await holder.current.sql(schema);
    });
    after(() => holder.current?.stop());
    return holder;
}
