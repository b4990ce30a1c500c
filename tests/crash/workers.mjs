// workers.mjs -- clients that keep their own books, to be compared with the server's after a crash.
//
// Every worker owns its counters, sends until its connection breaks, and can say afterwards what the
// server must hold:
//
//     PlainWorker     no keys: acknowledged <= stored <= sent, for added and for subbed
//     KeyedWorker     one keyed operation at a time, retried until decided: exactly the model,
//                     and every answer, replayed or not, is the one the model expects
//     TransferWorker  atomic keyed batches between accounts: their sum never changes
//     BulkWorker      NDJSON with a key per line, retried whole: every line counts once
//
// `run` returns when the server is gone; `settle` brings undecided work to its decision on the
// restarted server; `verify` returns a list of sentences, one for each thing that is wrong.

import { between } from './random.mjs';

const CELL = { durationSeconds: 0, timestamp: 0 };
const DECIDED = new Set([200, 409]);

export class Worker {
    constructor(tenant, name, random) {
        this.tenant = tenant;
        this.name = name;
        this.random = random;
        this.acknowledgedOps = 0;
    }

    /** Sends until the connection breaks or `over()` says so. */
    async run(server, over) {
        let connection;
        try {
            connection = await server.raw();
            while (!over()) await this.step(connection);
        } catch {
            // The server died under us: what is undecided stays so until `settle`.
        } finally {
            connection?.destroy();
        }
    }

    /** One call that must be answered by a live server. */
    async ask(connection, method, path, options) {
        for (;;) {
            const reply = await connection.call(method, path, { token: this.tenant.token, ...options });
            if (reply.status !== 429 && reply.status !== 503) return reply;
            await new Promise((resolve) => setTimeout(resolve, 10));
        }
    }

    async triple(connection, name, query = '?durationSeconds=0&timestamp=0') {
        const reply = await this.ask(connection, 'GET', this.tenant.path(name, 'get') + query);
        if (reply.status === 404) return { net: 0n, added: 0n, subbed: 0n };
        const { net, added, subbed } = reply.body;
        return { net: BigInt(net), added: BigInt(added), subbed: BigInt(subbed) };
    }

    async settle() {}
}

/** Adds and subtracts without keys, several pipelined at a time, over a few minutes of buckets. */
export class PlainWorker extends Worker {
    sent = { added: 0n, subbed: 0n };
    acknowledged = { added: 0n, subbed: 0n };

    async step(connection) {
        const count = between(this.random, 1, 8);
        const ops = Array.from({ length: count }, () => this.#choose());
        connection.write(ops.map((op) => op.text).join(''));
        for (const op of ops) {
            const reply = await connection.reply();
            if (!reply) throw new Error('closed');
            if (reply.status !== 200) continue;
            this.acknowledged[op.field] += op.amount;
            this.acknowledgedOps++;
        }
    }

    #choose() {
        const lower = this.random() < 0.3;
        const sync = this.random() < 0.3 ? 'Sync' : '';
        const amount = BigInt(between(this.random, 1, 9));
        const field = lower ? 'subbed' : 'added';
        const body = JSON.stringify({ durationSeconds: 60, timestamp: between(this.random, -5, 5) * 60, amount: String(amount) });
        const path = this.tenant.path(this.name, `${lower ? 'decrement' : 'increment'}${sync}`);
        this.sent[field] += amount;
        const head = `POST ${path} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer ${this.tenant.token}\r\nContent-Length: ${body.length}\r\n\r\n`;
        return { text: head + body, field, amount };
    }

    async verify(connection) {
        const wrong = [];
        const range = '?durationSeconds=60&startTime=-300&endTime=300';
        const { body } = await this.ask(connection, 'GET', this.tenant.path(this.name, 'sumRange') + range);
        for (const field of ['added', 'subbed']) {
            const stored = BigInt(body[field]);
            if (this.acknowledged[field] > stored || stored > this.sent[field]) {
                wrong.push(`${this.name}.${field}: acknowledged ${this.acknowledged[field]}, stored ${stored}, sent ${this.sent[field]}`);
            }
        }
        if (BigInt(body.added) - BigInt(body.subbed) !== BigInt(body.net)) wrong.push(`${this.name}: added - subbed is not net: ${JSON.stringify(body)}`);
        const { body: series } = await this.ask(connection, 'GET', this.tenant.path(this.name, 'series') + range);
        const sum = series.buckets.reduce((total, bucket) => total + BigInt(bucket.net), 0n);
        if (sum !== BigInt(body.net)) wrong.push(`${this.name}: series adds up to ${sum}, sumRange says ${body.net}`);
        if (series.buckets.some((bucket) => BigInt(bucket.net) < 0n)) wrong.push(`${this.name}: a bucket is negative`);
        return wrong;
    }
}

/** One keyed operation after another on a counter of its own: its model must match exactly. */
export class KeyedWorker extends Worker {
    model = { added: 0n, subbed: 0n };
    wrong = [];
    #pending = null;
    #count = 0;

    async step(connection) {
        this.#pending ??= this.#choose();
        await this.#decide(connection);
    }

    #choose() {
        const action = ['increment', 'increment', 'incrementSync', 'decrement', 'decrementSync', 'set'][between(this.random, 0, 5)];
        const amount = between(this.random, 1, 20);
        const body = action === 'set' ? { ...CELL, targetValue: amount } : { ...CELL, amount };
        return { action, amount: BigInt(amount), body, key: `${this.name}-${++this.#count}` };
    }

    /** What the model says the operation does: {status, added, subbed} afterwards. */
    #expect({ action, amount }) {
        const { added, subbed } = this.model;
        const net = added - subbed;
        if (action === 'set') return { status: 200, added: amount > net ? added + amount - net : added, subbed: amount < net ? subbed + net - amount : subbed };
        if (action.startsWith('increment')) return { status: 200, added: added + amount, subbed };
        return amount > net ? { status: 409, added, subbed } : { status: 200, added, subbed: subbed + amount };
    }

    async #decide(connection) {
        const op = this.#pending;
        const reply = await this.ask(connection, op.action === 'set' ? 'PUT' : 'POST', this.tenant.path(this.name, op.action), {
            body: op.body, headers: { 'Idempotency-Key': op.key },
        });
        const expected = this.#expect(op);
        const good = reply.status === expected.status
            && (reply.status !== 200 || (reply.body.added === String(expected.added) && reply.body.subbed === String(expected.subbed)));
        if (!good) this.wrong.push(`${op.key} ${op.action} ${op.amount}: expected ${expected.status} ${expected.added}/${expected.subbed}, got ${reply.status} ${reply.text}`);
        this.model = { added: expected.added, subbed: expected.subbed };
        this.#pending = null;
        this.acknowledgedOps++;
        return good;
    }

    async settle(connection) {
        if (this.#pending) await this.#decide(connection);
    }

    async verify(connection) {
        const { net, added, subbed } = await this.triple(connection, this.name);
        const wrong = this.wrong.splice(0);
        if (added !== this.model.added || subbed !== this.model.subbed || net !== added - subbed) {
            wrong.push(`${this.name}: stored ${net} = ${added} - ${subbed}, the model has ${this.model.added} - ${this.model.subbed}`);
        }
        return wrong;
    }
}

/** Moves amounts between accounts that all transfer workers share; money is neither made nor lost. */
export class TransferWorker extends Worker {
    static ACCOUNTS = ['account-a', 'account-b', 'account-c', 'account-d'];
    static START = 1000;
    #pending = null;
    #count = 0;

    static async open(tenant) {
        for (const name of TransferWorker.ACCOUNTS) await tenant.set(name, { ...CELL, targetValue: TransferWorker.START });
    }

    async step(connection) {
        this.#pending ??= this.#choose();
        await this.settle(connection);
    }

    #choose() {
        const pick = () => TransferWorker.ACCOUNTS[between(this.random, 0, 3)];
        const amount = between(this.random, 1, 400);
        const ops = [{ op: 'increment', name: pick(), ...CELL, amount }, { op: 'decrement', name: pick(), ...CELL, amount }];
        return { body: { ops, atomic: true }, key: `${this.name}-${++this.#count}` };
    }

    async settle(connection) {
        if (!this.#pending) return;
        const { body, key } = this.#pending;
        const reply = await this.ask(connection, 'POST', `/api/counters/${this.tenant.id}/batch`, { body, headers: { 'Idempotency-Key': key } });
        if (!DECIDED.has(reply.status)) throw new Error(`${key}: ${reply.status} ${reply.text}`);
        this.#pending = null;
        this.acknowledgedOps += 2;
    }

    async verify(connection) {
        const body = { queries: TransferWorker.ACCOUNTS.map((name) => ({ get: { name, ...CELL } })) };
        const reply = await this.ask(connection, 'POST', `/api/counters/${this.tenant.id}/query`, { body });
        const sum = reply.body.results.reduce((total, one) => total + BigInt(one.net ?? 0), 0n);
        const expected = BigInt(TransferWorker.START * TransferWorker.ACCOUNTS.length);
        return sum === expected ? [] : [`${this.name}: the accounts hold ${sum}, not ${expected}`];
    }
}

/** Large NDJSON requests with a key on each line, repeated whole until decided: once each. */
export class BulkWorker extends Worker {
    #lines;
    #counted = 0n;
    #pending = null;
    #count = 0;

    async step(connection) {
        this.#pending ??= this.#choose();
        await this.settle(connection);
    }

    /** `lines` is how many go into one request. */
    constructor(tenant, name, random, lines) {
        super(tenant, name, random);
        this.#lines = lines;
    }

    #choose() {
        const round = ++this.#count;
        const lines = [];
        for (let i = 0; i < this.#lines; i++) {
            lines.push(`{"op":"increment","name":"${this.name}","durationSeconds":0,"timestamp":0,"idempotencyKey":"${this.name}-${round}-${i}"}`);
        }
        return lines.join('\n');
    }

    async settle(connection) {
        if (!this.#pending) return;
        const reply = await this.ask(connection, 'POST', `/api/counters/${this.tenant.id}/batch?results=errors`, {
            body: this.#pending, headers: { 'Content-Type': 'application/x-ndjson' },
        });
        if (reply.status !== 200) throw new Error(`${this.name}: ${reply.status} ${reply.text}`);
        if (reply.body.results.some((result) => result.status !== 503 && result.status !== 429)) throw new Error(`${this.name}: ${reply.text.slice(0, 300)}`);
        if (reply.body.results.length) return;
        this.#pending = null;
        this.#counted += BigInt(this.#lines);
        this.acknowledgedOps += this.#lines;
    }

    async verify(connection) {
        const { added, subbed } = await this.triple(connection, this.name);
        return added === this.#counted && subbed === 0n ? [] : [`${this.name}: stored ${added} - ${subbed}, sent once each ${this.#counted}`];
    }
}
