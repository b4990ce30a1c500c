// database.mjs -- a durable PostgreSQL that can be killed, frozen and cut off, and is watched meanwhile.
//
// What it says is read for deadlocks: its own counter of them does not outlive a crash. Waits for locks are looked at
// several times a second; the longest one is kept.

import { spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import path from 'node:path';

import { command } from '../../bench/peers.mjs';
import { Database } from '../e2e/support/postgres.mjs';
import { makeNetwork } from './network.mjs';

const LOCK_MS_MAX = 7000; // a node that hangs holds its lane for 5 s; the rest is a busy machine's
const WATCH = `SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0) * 1000
    FROM pg_locks WHERE NOT granted AND locktype IN ('tuple', 'transactionid') \\watch 0.2\n`;

export class WatchedDatabase extends Database {
    #network = null;
    #watch = null;
    deadlocks = 0;
    longestWaitMs = 0;

    /** `cuttable`: in a network of its own, which cut() and heal() are about. Where that cannot be made, `network` says so. */
    static async watched({ cuttable = false, settings = {} } = {}) {
        const database = await this.create({ durable: true, settings: { max_connections: 300, log_lock_waits: 'on', ...settings } });
        if (cuttable) await database.#move();
        try {
            await database.start();
        } catch (error) {
            await database.stop();
            throw error;
        }
        return database;
    }

    async #move() {
        this.#network = await makeNetwork();
        if (this.#network.why) return;
        this.settings.listen_addresses = '*';
        this.host = this.#network.address;
    }

    get dsn() {
        return `${super.dsn}?sslmode=disable`;
    }

    /** Why it has no network of its own; null: it has. */
    get network() {
        return this.#network?.why ?? null;
    }

    asOwner(program, args) {
        const [first, rest] = super.asOwner(program, args);
        return this.#network?.name ? ['ip', ['netns', 'exec', this.#network.name, first, ...rest]] : [first, rest];
    }

    /** Over the socket, which no cut of the network reaches. */
    sql(text, seconds = 60) {
        return command('psql', ['-h', this.directory, '-p', String(this.port), '-U', 'postgres', '-X', '-q', '-A', '-t',
            '-v', 'ON_ERROR_STOP=1', '-c', text], { seconds });
    }

    async number(text) {
        return Number((await this.sql(text)).trim());
    }

    async startServer() {
        if (this.#network?.name) appendFileSync(path.join(this.directory, 'data/pg_hba.conf'), ['all', 'replication'].map((what) => `host ${what} all ${this.#network.range} trust\n`).join(''));
        await super.startServer();
        this.child.stderr.on('data', (text) => (this.deadlocks += String(text).split('deadlock detected').length - 1));
        this.#watch?.kill();
        this.#watch = spawn('psql', ['-h', this.directory, '-p', String(this.port), '-U', 'postgres', '-X', '-q', '-A', '-t'], { stdio: ['pipe', 'pipe', 'ignore'] });
        this.#watch.stdin.on('error', () => {});
        this.#watch.stdin.write(WATCH);
        this.#watch.stdout.on('data', (text) => {
            for (const line of String(text).split('\n')) this.longestWaitMs = Math.max(this.longestWaitMs, Number(line) || 0);
        });
    }

    cut() {
        return this.#network.cut();
    }

    heal() {
        return this.#network.heal();
    }

    async stop() {
        this.#watch?.kill();
        await super.stop();
        await this.#network?.remove?.();
    }

    /** What it saw that must not be. */
    async verdict() {
        const counted = await this.number("SELECT coalesce(sum(deadlocks), 0) FROM pg_stat_database");
        const wrong = [];
        if (counted || this.deadlocks) wrong.push(`PostgreSQL found ${Math.max(counted, this.deadlocks)} deadlocks`);
        if (this.longestWaitMs > LOCK_MS_MAX) wrong.push(`somebody waited ${Math.round(this.longestWaitMs)} ms for a lock`);
        return wrong;
    }
}
