// clients.mjs -- clients that retry at another node until they are told, and write down what they were told.
//
//     Adder     increments one counter, each with a key of its own, and reads it
//     Setter    sets and gets one counter
//     Sender    sends events, which rules count, and reads what they count
//
// All of them now and then send something that was decided long ago again, at whichever node comes next: the answer
// has to be the one that was given. What must not be goes into `book.wrong`, a sentence each.

import http from 'node:http';

import { between } from '../crash/random.mjs';
import { sleep } from '../e2e/support/pace.mjs';
import { tokenFor } from '../e2e/support/tokens.mjs';

const CELL = { durationSeconds: 0, timestamp: 0 };
const QUERY = '?durationSeconds=0&timestamp=0';
const PATIENCE_MS = 3000; // a node that has not answered by then is given up for another
const LONGEST_MS = 90000; // no fault lasts this long

/** One request, answered or not: {status, text, body}. Rejects where the connection breaks or nothing comes in time. */
export function request(port, method, path, { token, headers = {}, body, agent, ms = PATIENCE_MS } = {}) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return new Promise((resolve, reject) => {
        const all = { Authorization: `Bearer ${token}`, ...(text && { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }), ...headers };
        const asked = http.request({ host: '127.0.0.1', port, method, path, agent, headers: all }, (reply) => {
            const parts = [];
            reply.on('data', (part) => parts.push(part));
            reply.on('error', over);
            reply.on('end', () => {
                clearTimeout(late);
                const said = Buffer.concat(parts).toString();
                let parsed;
                try {
                    parsed = JSON.parse(said);
                } catch {
                    // what is no JSON has no body
                }
                resolve({ status: reply.statusCode, headers: reply.headers, text: said, body: parsed });
            });
        });
        const over = (error) => {
            clearTimeout(late);
            reject(error);
        };
        const late = setTimeout(() => asked.destroy(new Error('no answer in time')), ms);
        asked.on('error', over);
        asked.end(text);
    });
}

/** What a client needs: the nodes, the tenant, numbers by chance, and the book that all write in. */
class Client {
    #agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
    #decided = []; // what may be sent again: {send, same}
    #count = 0;

    constructor({ nodes, tenant, name, random, book }) {
        Object.assign(this, { nodes, tenant, name, random, book });
        this.token = tokenFor(tenant);
        this.at = between(random, 0, nodes.length - 1);
    }

    get counter() {
        return `${this.tenant}/${this.name}`;
    }

    /** A name that nobody used before, for an operation. */
    fresh() {
        return `${this.id}-${++this.#count}`;
    }

    async once(method, path, options = {}) {
        const began = performance.now();
        let reply;
        try {
            reply = await request(this.nodes[this.at].port, method, path, { token: this.token, agent: this.#agent, ...options });
        } finally {
            this.book.feel(this.tenant, performance.now() - began, reply?.status);
        }
        this.book.reached(this.tenant, reply.headers['tally-sequence']);
        return reply;
    }

    /** Another node from now on. */
    turn() {
        this.at = (this.at + 1) % this.nodes.length;
    }

    /** Asks until the outcome is known; null: that took longer than any fault does. */
    async insist(method, path, options) {
        for (const end = Date.now() + LONGEST_MS; !this.book.closed && Date.now() < end; ) {
            const reply = await this.once(method, path, options).catch(() => null);
            if (reply && reply.status !== 503 && reply.status !== 429) return reply;
            this.turn();
            await sleep(between(this.random, 10, 80));
        }
        this.book.wrong.push(`${this.counter}: ${this.id} had no answer for ${LONGEST_MS / 1000} s`);
        return null;
    }

    /** Reads once; a read that fails has told nothing. */
    async look(kind) {
        const op = this.book.history.begin(this.counter, { kind, client: this.id });
        const reply = await this.once('GET', this.path(`get${QUERY}${this.book.from(this.tenant)}`)).catch(() => null);
        if (reply?.status === 200 || reply?.status === 404) this.book.history.end(op, reply.body.net ?? 0);
        else this.book.history.forget(this.counter, op);
        if (!reply || reply.status === 503) this.turn();
        if (reply && ![200, 404, 429, 503].includes(reply.status)) this.book.wrong.push(`${this.counter}: a read was answered ${reply.status} ${reply.text}`);
    }

    path(action) {
        return `/api/counters/${this.tenant}/${this.name}/${action}`;
    }

    /** `send` gives an answer of which `same` says whether it is as the first one. */
    remember(send, same) {
        this.#decided.push({ send, same });
        if (this.#decided.length > 50) this.#decided.splice(between(this.random, 0, 49), 1);
    }

    /** Something that was decided is sent again. */
    async again() {
        const old = this.#decided[between(this.random, 0, this.#decided.length - 1)];
        if (!old) return;
        this.turn();
        const reply = await old.send();
        const wrong = reply && old.same(reply);
        if (wrong) this.book.wrong.push(`${this.counter}: ${wrong}`);
        this.book.repeated++;
    }

    async run(over) {
        while (!over()) {
            const dice = this.random();
            if (dice < 0.05) await this.again();
            else await this.step(dice);
            await sleep(between(this.random, 0, 20));
        }
        this.#agent.destroy();
    }
}

export class Adder extends Client {
    async step(dice) {
        if (dice < 0.3) return this.look('read');
        const amount = between(this.random, 1, 9);
        const options = { body: { ...CELL, amount }, headers: { 'Idempotency-Key': this.fresh() } };
        const op = this.book.history.begin(this.counter, { kind: 'add', amount: BigInt(amount), client: this.id });
        const send = () => this.insist('POST', this.path('increment'), options);
        const reply = await send();
        if (!reply) return undefined;
        if (reply.status !== 200) return this.book.wrong.push(`${this.counter}: an increment was answered ${reply.status} ${reply.text}`);
        this.book.history.end(op, reply.body.net);
        this.book.acknowledge(this.tenant, op);
        return this.remember(send, ({ text }) => (text === reply.text ? '' : `one key, two answers: ${reply.text} and ${text}`));
    }
}

export class Setter extends Client {
    #values = 0;

    async step(dice) {
        if (dice < 0.5) return this.look('get');
        const value = this.share + ++this.#values * 100; // no two clients set the same one
        const op = this.book.history.begin(this.counter, { kind: 'set', net: BigInt(value), client: this.id });
        const body = { ...CELL, targetValue: value };
        // One of five has no key, so it must not be sent again: whether it counts is told by the gets, or never.
        const reply = dice < 0.9 ? await this.insist('PUT', this.path('set'), { body, headers: { 'Idempotency-Key': this.fresh() } })
            : await this.once('PUT', this.path('set'), { body }).catch(() => null);
        if (reply?.status === 200) {
            this.book.history.end(op, reply.body.net);
            if (reply.body.net !== String(value)) this.book.wrong.push(`${this.counter}: was set to ${value}, and the answer is ${reply.text}`);
        } else if (reply && reply.status !== 503 && reply.status !== 429) {
            this.book.wrong.push(`${this.counter}: a set was answered ${reply.status} ${reply.text}`);
        } else {
            this.turn();
        }
        return undefined;
    }
}

export class Sender extends Client {
    async step(dice) {
        if (dice < 0.3) return this.look('read');
        const eventId = this.fresh();
        const options = { body: { eventId, type: 'x', occurredAt: '2026-01-01T00:00:00Z', payload: { eventId } } };
        const op = this.book.history.begin(this.counter, { kind: 'add', amount: 1n, client: this.id });
        const send = () => this.insist('POST', `/api/events/${this.tenant}`, options);
        const reply = await send();
        if (!reply) return undefined;
        if (reply.status !== 200) return this.book.wrong.push(`${this.counter}: an event was answered ${reply.status} ${reply.text}`);
        this.book.history.end(op);
        this.book.acknowledge(this.tenant, op);
        this.#keep(eventId, reply.body.id);
        return this.remember(send, ({ text, body }) =>
            (body.result === 'DROPPED_DUPLICATE' && body.id === reply.body.id ? '' : `one event, two answers: ${reply.text} and ${text}`));
    }

    /** No two events of a tenant have one sequence. */
    #keep(eventId, id) {
        const key = `${this.tenant} ${id}`;
        const other = this.book.events.get(key);
        if (other) this.book.wrong.push(`${this.counter}: events ${other} and ${eventId} both have the id ${id}`);
        this.book.events.set(key, eventId);
    }
}
