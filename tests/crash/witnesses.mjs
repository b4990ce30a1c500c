// witnesses.mjs -- more clients with books of their own, for what only a lost disk write shows.
//
//     SoloWorker   one operation at a time without keys: sets, deletes, expiring cells. What is
//                  stored is what was answered last, with or without the operation under way
//     CrowdWorker  new counters in atomic batches without keys: each batch whole or not at all, and
//                  there if it was answered
//     Watcher      only reads: what it has once seen of `added` and `subbed` is never undone
//
// Writes also carry a sequence number, which must grow, over restarts too. See workers.mjs for
// `run`, `settle` and `verify`.

import { between } from './random.mjs';
import { PlainWorker, Worker } from './workers.mjs';

const ABSENT = Object.freeze({ exists: false, added: 0n, subbed: 0n, expires: 0 });
const LIFETIME_MS = 1500;

/** Fails, with a sentence, if a later write has a lower number, or one that changed something no higher one. */
class Sequences {
    #last = 0n;

    check(reply, changed) {
        const text = reply.headers.get('tally-sequence');
        if (text === undefined) return [];
        const last = this.#last;
        this.#last = BigInt(text.replace(/^0-/, ''));
        return this.#last > last || (this.#last === last && !changed) ? [] : [`sequence ${text} was given after ${last}`];
    }
}

/** What an operation does to a cell: {status, cell} afterwards. */
function outcome(cell, { action, amount, expires }) {
    const net = cell.added - cell.subbed;
    const kept = Math.max(cell.expires, expires);
    if (action === 'delete') return cell.exists ? { status: 200, cell: ABSENT } : { status: 404, cell };
    if (action === 'increment') return { status: 200, cell: { exists: true, added: cell.added + amount, subbed: cell.subbed, expires: kept } };
    if (action === 'decrement' && amount > net) return { status: 409, cell };
    if (action === 'decrement') return { status: 200, cell: { ...cell, subbed: cell.subbed + amount } };
    const added = amount > net ? cell.added + amount - net : cell.added;
    const subbed = amount < net ? cell.subbed + net - amount : cell.subbed;
    return { status: 200, cell: { exists: true, added, subbed, expires: kept } };
}

/** Knows every state its cell can be in: more than one only while an answer is missing. */
export class SoloWorker extends Worker {
    #cells = [ABSENT];
    #pending = null;
    #wrong = [];
    #sequences = new Sequences();
    #actions;

    /** With `expiring` every write carries a time in the near future or past, and nothing is deleted. */
    constructor(tenant, name, random, { expiring = false } = {}) {
        super(tenant, name, random);
        this.#actions = expiring ? ['increment', 'increment', 'decrement', 'set'] : ['increment', 'increment', 'decrement', 'set', 'set', 'delete'];
        this.expiring = expiring;
    }

    async step(connection) {
        const op = this.#choose();
        this.#pending = op;
        const reply = await this.#send(connection, op);
        const now = Date.now();
        const possible = this.#possible(now).map((cell) => outcome(cell, op)).filter(({ status, cell }) => status === reply.status && agrees(op, cell, reply));
        if (!possible.length) this.#wrong.push(`${this.name}: ${op.action} ${op.amount} on ${this.#cells.map(text)} answered ${reply.status} ${reply.text}`);
        else this.#cells = possible.map(({ cell }) => cell);
        const changed = reply.status === 200 && op.action !== 'set'; /* to what it is already, changes nothing */
        this.#wrong.push(...this.#sequences.check(reply, changed).map((sentence) => `${this.name}: ${sentence}`));
        this.#pending = null;
        this.acknowledgedOps++;
    }

    #choose() {
        const action = this.#actions[between(this.random, 0, this.#actions.length - 1)];
        const expires = this.expiring ? Date.now() + between(this.random, -LIFETIME_MS / 3, LIFETIME_MS) : 0;
        return { action, amount: BigInt(between(this.random, 1, 30)), expires };
    }

    async #send(connection, { action, amount, expires }) {
        if (action === 'delete') return this.ask(connection, 'DELETE', this.tenant.path(this.name));
        const body = { durationSeconds: 0, timestamp: 0, [action === 'set' ? 'targetValue' : 'amount']: String(amount) };
        if (expires) body.expiresAt = expires;
        return this.ask(connection, action === 'set' ? 'PUT' : 'POST', this.tenant.path(this.name, action), { body });
    }

    /** A cell past its time may be gone by now. */
    #possible(now) {
        const swept = this.#cells.some((cell) => cell.exists && cell.expires && cell.expires <= now);
        return swept ? [...this.#cells, ABSENT] : this.#cells;
    }

    async settle(connection) {
        const reply = await this.ask(connection, 'GET', `${this.tenant.path(this.name, 'get')}?durationSeconds=0&timestamp=0`);
        let cells = this.#possible(Date.now());
        if (this.#pending) cells = [...cells, ...cells.map((cell) => outcome(cell, this.#pending).cell)];
        this.#pending = null;
        const seen = cells.filter((cell) => (reply.status === 404 ? !cell.exists : cell.exists && agrees({}, cell, reply)));
        if (!seen.length) this.#wrong.push(`${this.name}: stored ${reply.status} ${reply.text}, expected one of ${cells.map(text)}`);
        else this.#cells = seen;
    }

    /** One more operation, which must know its past. */
    async verify(connection) {
        await this.step(connection);
        return this.#wrong.splice(0);
    }
}

function agrees({ action }, cell, reply) {
    if (reply.status !== 200 || action === 'delete') return true;
    return reply.body.added === String(cell.added) && reply.body.subbed === String(cell.subbed);
}

function text(cell) {
    return cell.exists ? `${cell.added}-${cell.subbed}` : 'absent';
}

export class CrowdWorker extends Worker {
    static SIZE = 5;
    #acknowledged = new Set(); // numbers of batches
    #doubtful = new Set();
    #count = 0;

    async step(connection) {
        const number = ++this.#count;
        const ops = Array.from({ length: CrowdWorker.SIZE }, (_, index) => ({ op: 'increment', name: `${this.name}-${number}-${index}`, durationSeconds: 0, timestamp: 0, amount: number }));
        this.#doubtful.add(number);
        const reply = await this.ask(connection, 'POST', `/api/counters/${this.tenant.id}/batch`, { body: { ops, atomic: true } });
        if (reply.status !== 200) return;
        this.#doubtful.delete(number);
        this.#acknowledged.add(number);
        this.acknowledgedOps += CrowdWorker.SIZE;
        await new Promise((resolve) => setTimeout(resolve, 3));
    }

    /** How many counters of each batch the list has. */
    async #listed(connection) {
        const found = new Map();
        let after = '';
        do {
            const { body } = await this.ask(connection, 'GET', `/api/counters/${this.tenant.id}?prefix=${this.name}-&limit=10000${after && `&after=${encodeURIComponent(after)}`}`);
            for (const { name } of body.counters) {
                const number = Number(name.split('-').at(-2));
                found.set(number, (found.get(number) ?? 0) + 1);
            }
            after = body.next ?? '';
        } while (after);
        return found;
    }

    async verify(connection) {
        const wrong = [];
        const found = await this.#listed(connection);
        for (const number of this.#acknowledged) if (!found.has(number)) wrong.push(`${this.name}: batch ${number} was answered and is gone`);
        for (const [number, count] of found) {
            if (count !== CrowdWorker.SIZE) wrong.push(`${this.name}: ${count} of ${CrowdWorker.SIZE} counters of batch ${number} are there`);
            if (!this.#acknowledged.has(number) && !this.#doubtful.has(number)) wrong.push(`${this.name}: batch ${number} is back`);
        }
        // From now on it is either there for good or gone for good.
        for (const number of this.#doubtful) if (found.has(number)) this.#acknowledged.add(number);
        this.#doubtful.clear();
        return [...wrong, ...await this.#checkSome(connection, [...found.keys()])].slice(0, 10);
    }

    async #checkSome(connection, numbers) {
        const some = numbers.slice(-20);
        if (!some.length) return [];
        const queries = some.map((number) => ({ get: { name: `${this.name}-${number}-0`, durationSeconds: 0, timestamp: 0 } }));
        const { body } = await this.ask(connection, 'POST', `/api/counters/${this.tenant.id}/query`, { body: { queries } });
        return some.filter((number, index) => body.results[index].added !== String(number)).map((number) => `${this.name}: batch ${number} has another value`);
    }
}

export class Watcher extends Worker {
    #seen = new Map(); // name -> {added, subbed}
    #names;

    constructor(tenant, name, random, workers) {
        super(tenant, name, random);
        this.#names = workers.filter((worker) => worker instanceof PlainWorker && worker.tenant.id === tenant.id).map((worker) => worker.name);
    }

    async #look(connection, name) {
        const reply = await this.ask(connection, 'GET', `${this.tenant.path(name, 'sumRange')}?durationSeconds=60&startTime=-300&endTime=300`);
        const before = this.#seen.get(name) ?? { added: 0n, subbed: 0n };
        const now = { added: BigInt(reply.body.added), subbed: BigInt(reply.body.subbed) };
        this.#seen.set(name, now);
        return now.added >= before.added && now.subbed >= before.subbed ? [] : [`${name}: was seen with ${before.added} - ${before.subbed}, now it has ${now.added} - ${now.subbed}`];
    }

    #wrong = [];

    async step(connection) {
        for (const name of this.#names) this.#wrong.push(...await this.#look(connection, name));
    }

    async verify(connection) {
        await this.step(connection);
        return this.#wrong.splice(0);
    }
}
