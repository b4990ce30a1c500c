// world.mjs -- nodes over databases, clients that count at them, and books that have to be right in the end.

import path from 'node:path';

import { between, randomFrom } from '../crash/random.mjs';
import { TENANTS } from '../crash/spread.mjs';
import { freePort } from '../../bench/peers.mjs';
import { eventually, together } from '../e2e/support/pace.mjs';
import { newDirectory, removeDirectory, Server } from '../e2e/support/server.mjs';
import { tokenFor } from '../e2e/support/tokens.mjs';
import { Adder, request, Sender, Setter } from './clients.mjs';
import { History } from './history.mjs';

export const LANES = 4; // for which spread.mjs knows tenants
export const RECOVERED_MS = 15000; // by then a tenant is served again, whatever happened
const ADMIN = tokenFor('operator', { scope: 'admin' });
const SEEN = 'seen'; // what counts events

const rulesOf = (names) => `counters:${names.map((name) => `
  - counterName: ${name}
    rules: [{ on: x, op: increment }]`).join('')}\n`;

/** A list of databases is for the file; one may as well be an option. */
const listOf = (dsn) => (Array.isArray(dsn) ? `store: { kind: postgres, postgres: { dsn: ${JSON.stringify(dsn)} } }\n` : '');

/** What all clients write into. */
class Book {
    history = new History();
    wrong = [];
    events = new Map();
    felt = new Map(); // tenant -> what its requests have met since this was last cleared
    repeated = 0;
    closed = false; // nobody asks for it any more
    #positions = new Map(); // tenant -> the highest sequence that anybody was told
    #newest = new Map(); // tenant -> when the newest operation began that was acknowledged

    constructor({ session }) {
        this.session = session;
    }

    reached(tenant, position) {
        const sequence = Number(position?.slice(2) ?? 0);
        if (sequence > (this.#positions.get(tenant) ?? 0)) this.#positions.set(tenant, sequence);
    }

    /** Where reads are to be at least, as a session of all clients: standbys may answer them. Else nothing. */
    from(tenant) {
        return this.session ? `&minSequence=0-${this.#positions.get(tenant) ?? 0}` : '';
    }

    /** How one request went: `status` is undefined where no answer came. */
    feel(tenant, ms, status) {
        const felt = this.felt.get(tenant) ?? { longest: 0, failed: 0 };
        this.felt.set(tenant, felt);
        felt.longest = Math.max(felt.longest, ms);
        if (!(status < 500) && !this.closed) felt.failed++;
    }

    acknowledge(tenant, op) {
        this.#newest.set(tenant, Math.max(op.begin, this.#newest.get(tenant) ?? 0));
    }

    /** Whether something that was asked for after `moment` has been acknowledged. */
    servedSince(tenant, moment) {
        return (this.#newest.get(tenant) ?? 0) > moment;
    }
}

export class World {
    nodes = [];
    rules = [SEEN];
    tenants = TENANTS.slice(0, LANES);
    notes = [];
    frozen = new Set();
    #over = false;
    #running = [];
    #directory = newDirectory('cluster');

    /** `dsns`: how each node reaches the database, or the databases. `session`: reads say what of the lane has been seen already. */
    constructor({ seed, dsns, settings = {}, session = false }) {
        this.book = new Book({ session });
        this.random = randomFrom(seed);
        this.seed = seed;
        this.dsns = dsns;
        this.settings = { 'store.lanes': LANES, ...settings };
    }

    async start() {
        for (const [i, dsn] of this.dsns.entries()) {
            const listen = `127.0.0.1:${await freePort()}`;
            const node = new Server({ data: path.join(this.#directory, `node${i}`), listen, config: listOf(dsn) + rulesOf(this.rules), settings: { ...this.settings, ...(!Array.isArray(dsn) && { 'store.kind': 'postgres', 'store.postgres.dsn': dsn }) } });
            await node.start();
            this.nodes.push(node);
        }
        return this;
    }

    /** Clients of all kinds for every tenant, from now on. */
    load() {
        const add = (kind, tenant, name, i) => {
            const number = this.#running.length;
            const client = new kind({ nodes: this.nodes, tenant, name, random: randomFrom(this.seed * 1000 + number), book: this.book });
            Object.assign(client, { id: `${name}-${number}`, share: i });
            this.#running.push(client.run(() => this.#over));
        };
        for (const tenant of this.tenants) {
            for (let i = 0; i < 2; i++) add(Adder, tenant, 'sum', i);
            for (let i = 0; i < 2; i++) add(Setter, tenant, 'level', i);
            add(Sender, tenant, SEEN, 0);
        }
    }

    freeze(node) {
        node.signal('SIGSTOP');
        this.frozen.add(node);
    }

    thaw(node) {
        node.signal('SIGCONT');
        this.frozen.delete(node);
    }

    pick() {
        return this.nodes[between(this.random, 0, this.nodes.length - 1)];
    }

    /** How long it takes until each of these tenants has been served by an operation begun from now on. */
    async served(what, tenants = this.tenants, ms = RECOVERED_MS) {
        const began = performance.now();
        await eventually(`${what}: tenants to be served again`, () => tenants.every((tenant) => this.book.servedSince(tenant, began)), { ms, every: 20 });
        const took = Math.round(performance.now() - began);
        this.notes.push(`${what} ${took} ms`);
        return took;
    }

    /** Rules with one counter more are put in force at `node`; from then on it is held against the events sent. */
    async adopt(node) {
        const name = `later${this.rules.length}`;
        this.rules.push(name);
        node.writeConfig(listOf(this.dsns[this.nodes.indexOf(node)]) + rulesOf(this.rules));
        const began = performance.now();
        await eventually('the rules to be reloaded', async () =>
            (await request(node.port, 'POST', '/api/admin/reload', { token: ADMIN, ms: 20000 }).catch(() => null))?.status === 200, { ms: 30000 });
        this.adoptions ??= [];
        this.adoptions.push({ name, began, ended: performance.now() });
    }

    /** Events begun after the reload ended count, those answered before it began do not. */
    async #checkAdoptions() {
        const wrong = [];
        for (const { name, began, ended } of this.adoptions ?? []) {
            for (const tenant of this.tenants) {
                const ops = this.book.history.of(`${tenant}/${SEEN}`).filter((op) => op.kind === 'add');
                const [least, most] = [ops.filter((op) => op.begin > ended).length, ops.filter((op) => op.end > began).length];
                const net = Number(await this.#final(tenant, name));
                if (net < least || net > most) wrong.push(`${tenant}/${name}: ${net} is not from ${least} to ${most}, the events since its rule`);
            }
        }
        return wrong;
    }

    async #final(tenant, name) {
        const path = `/api/counters/${tenant}/${name}/get?durationSeconds=0&timestamp=0`;
        const reply = await eventually(`the last ${name} of ${tenant}`, async () => {
            const each = await request(this.pick().port, 'GET', path + this.book.from(tenant), { token: tokenFor(tenant) }).catch(() => null);
            return each && (each.status === 200 || each.status === 404) && each;
        }, { ms: 30000 });
        return reply.body.net ?? '0';
    }

    async #finalReads() {
        for (const tenant of this.tenants) {
            for (const name of ['sum', 'level', SEEN]) {
                const op = this.book.history.begin(`${tenant}/${name}`, { kind: name === 'level' ? 'get' : 'read', client: 'the last look' });
                this.book.history.end(op, await this.#final(tenant, name));
            }
        }
    }

    /** Lets the clients come to an end, and returns what was wrong in all of it. */
    async finish() {
        this.#over = true;
        await Promise.all(this.#running);
        await this.#finalReads();
        const wrong = [...this.book.wrong, ...this.book.history.check(), ...await this.#checkAdoptions(), ...await this.#stopNodes()];
        if (this.book.history.count < 30) wrong.push(`only ${this.book.history.count} operations: this was no load`);
        return wrong;
    }

    note() {
        return [`${this.book.history.count} operations, ${this.book.repeated} sent again`, ...this.notes].join('; ');
    }

    /** The polite end, after which each node must have ended well. */
    async #stopNodes() {
        const ends = await together(this.nodes.length, (i) => this.nodes[i].stop().then(() => [], (error) => [`node ${i}: ${error.message}`]));
        return ends.flat();
    }

    /** Whatever still runs ends, after a failure. */
    async end() {
        this.#over = this.book.closed = true;
        for (const node of this.nodes) await node.kill().catch(() => {}); // it may be dead already
        removeDirectory(this.#directory);
    }
}
