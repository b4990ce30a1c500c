// patroni.mjs -- two PostgreSQL under Patroni, with an etcd of their own: who is primary is decided by them.
//
// Everything is on the loopback and below one directory, and ends with the test. Patroni starts and stops PostgreSQL
// itself, so a machine is lost by killing its Patroni and its PostgreSQL at the same time.

import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { freePort, Postgres } from '../../bench/peers.mjs';
import { eventually } from '../e2e/support/pace.mjs';
import { newDirectory, removeDirectory } from '../e2e/support/server.mjs';
import { WatchedDatabase } from './database.mjs';

const SCOPE = 'tally';

/** A process with its log, as the user that PostgreSQL runs as. */
class Member {
    constructor(program, args, { directory, env = {}, asOwner }) {
        const [first, rest] = asOwner(program, args);
        this.said = '';
        this.child = spawn(first, rest, { cwd: directory, env: { ...process.env, LC_ALL: 'C.UTF-8', ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
        this.exited = new Promise((resolve) => this.child.on('close', resolve));
        for (const stream of [this.child.stdout, this.child.stderr]) stream.on('data', (text) => (this.said = (this.said + text).slice(-8000)));
    }

    end(signal) {
        if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
        return this.exited;
    }
}

function configOf({ name, port, rest, directory, etcd, bin }) {
    return JSON.stringify({ // which is YAML, too
        scope: SCOPE,
        name,
        restapi: { listen: `127.0.0.1:${rest}`, connect_address: `127.0.0.1:${rest}` },
        etcd3: { host: `127.0.0.1:${etcd}` },
        bootstrap: {
            dcs: {
                ttl: 10, loop_wait: 1, retry_timeout: 3, maximum_lag_on_failover: 0, synchronous_mode: true,
                postgresql: { use_pg_rewind: false, parameters: { max_connections: 100, shared_buffers: '32MB', wal_level: 'replica', hot_standby: 'on' } },
            },
            initdb: [{ encoding: 'UTF8' }, { auth: 'trust' }, 'no-sync'],
        },
        postgresql: {
            listen: `127.0.0.1:${port}`,
            connect_address: `127.0.0.1:${port}`,
            data_dir: path.join(directory, name),
            bin_dir: bin,
            pgpass: path.join(directory, `${name}.pgpass`),
            authentication: { superuser: { username: 'postgres', password: WatchedDatabase.PASSWORD }, replication: { username: 'postgres', password: WatchedDatabase.PASSWORD } },
            parameters: { unix_socket_directories: directory },
            pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
        },
    });
}

export class PatroniCluster {
    #directory = newDirectory('patroni');
    #tools = new Postgres(this.#directory);
    #etcd;
    members = [];

    #start(program, args, env) {
        return new Member(program, args, { directory: this.#directory, env, asOwner: (...both) => this.#tools.asOwner(...both) });
    }

    async start() {
        this.#tools.ownDirectory();
        await this.#startEtcd();
        for (const name of ['one', 'two']) {
            await this.#startMember(name);
            if (name === 'one') await eventually('a primary', () => this.primary(), { ms: 60000, every: 200 });
        }
        await eventually('a synchronous standby', async () => (await this.#roles()).includes('sync_standby'), { ms: 60000, every: 200 });
        return this;
    }

    async #startEtcd() {
        const [client, peer] = [await freePort(), await freePort()];
        const url = (port) => `http://127.0.0.1:${port}`;
        this.etcd = client;
        this.#etcd = this.#start('etcd', ['--data-dir', path.join(this.#directory, 'etcd'), '--listen-client-urls', url(client), '--advertise-client-urls', url(client),
            '--listen-peer-urls', url(peer), '--initial-advertise-peer-urls', url(peer), '--initial-cluster', `default=${url(peer)}`, '--unsafe-no-fsync']);
        await eventually('etcd', async () => (await fetch(`${url(client)}/health`).catch(() => null))?.ok, { ms: 20000 });
    }

    async #startMember(name) {
        const member = { name, port: await freePort(), rest: await freePort() };
        const file = path.join(this.#directory, `${name}.yml`);
        writeFileSync(file, configOf({ ...member, directory: this.#directory, etcd: this.etcd, bin: this.#tools.bin }));
        member.process = this.#start('patroni', [file]);
        this.members.push(member);
    }

    async #status(member) {
        const reply = await fetch(`http://127.0.0.1:${member.rest}/patroni`).catch(() => null);
        return reply?.json();
    }

    async #roles() {
        const reply = await fetch(`http://127.0.0.1:${this.members[0].rest}/cluster`).catch(() => null);
        return ((await reply?.json())?.members ?? []).map(({ role }) => role);
    }

    /** The member that takes writes now; undefined: none does. */
    async primary() {
        for (const member of this.members) {
            if (member.lost) continue;
            const status = await this.#status(member);
            if (status?.role === 'master' && status.state === 'running') return member;
        }
        return undefined;
    }

    /** Its Patroni and its PostgreSQL are gone at once, as with the machine they are on. */
    async lose(member) {
        member.lost = true;
        const postmaster = Number(readFileSync(path.join(this.#directory, member.name, 'postmaster.pid'), 'utf8').split('\n')[0]);
        const ended = member.process.end('SIGKILL');
        process.kill(postmaster, 'SIGKILL');
        await ended; // with all that has its pipes open
    }

    get dsn() {
        const hosts = this.members.map(({ port }) => `127.0.0.1:${port}`).join(',');
        return `postgresql://postgres:${WatchedDatabase.PASSWORD}@${hosts}/postgres?target_session_attrs=read-write`;
    }

    /** The last words of each process, for the report of a failure. */
    get said() {
        return [...this.members.map(({ name, process: each }) => `${name}: ${each.said.slice(-1500)}`), `etcd: ${this.#etcd?.said.slice(-500)}`].join('\n');
    }

    async stop() {
        for (const member of this.members) await member.process.end('SIGTERM'); // Patroni ends its PostgreSQL
        await this.#etcd?.end('SIGKILL');
        removeDirectory(this.#directory);
    }
}
