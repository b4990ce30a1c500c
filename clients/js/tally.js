// tally.js -- a client for tally: exactly once, though connections break and servers restart.
//
// See tally.d.ts for the manual and README.md for an example.

import { Batcher } from './batcher.js';
import { take } from './options.js';
import { Position } from './position.js';
import { changeBody, eventBody, granularity, randomKey, readEvent, readValue, time, triple } from './shapes.js';
import { invalid, refusal, TallyError, Transport } from './transport.js';

export { Batcher, randomKey, TallyError };

/** The `sub` of a JWT, taken on trust: the server is the one that checks. */
function tokenTenant(token) {
    try {
        const claims = token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/');
        const bytes = Uint8Array.from(atob(claims), (c) => c.charCodeAt(0));
        const { sub } = JSON.parse(new TextDecoder().decode(bytes));
        return typeof sub === 'string' ? sub : undefined;
    } catch {
        return undefined;
    }
}

/** Names like any other, but fetch resolves such parts of a path away, encoded or not. */
const isDots = (name) => name === '.' || name === '..';

function range(startTime, endTime) {
    if (startTime === undefined) throw invalid('a range needs its startTime');
    return { startTime: time(startTime), endTime: time(endTime) };
}

export class Tally {
    #transport;
    #tenant;
    #position;

    constructor(options) {
        const taken = take('Tally', options);
        this.#transport = new Transport(taken);
        this.#tenant = taken.tenant ?? tokenTenant(taken.token);
        this.#position = new Position(taken.consistency);
    }

    get tenant() {
        return this.#tenant;
    }

    get address() {
        return this.#transport.address;
    }

    /** /api/<kind>/<tenant>/..., each part percent-encoded. */
    path(kind, ...parts) {
        if (!this.#tenant) throw invalid('which tenant? The token does not say, so the options must');
        const segments = [kind, this.#tenant, ...parts];
        if (segments.some(isDots)) throw invalid('fetch takes "." and ".." out of a path, so it cannot name them there');
        return ['/api', ...segments.map(encodeURIComponent)].join('/');
    }

    /** Any call of the HTTP interface, with this client's retries; resolves to the reply's body. */
    async call(method, path, options) {
        return (await this.#ask(method, path, take('call', options))).body;
    }

    /** Hears in replies about this tenant how far they are. */
    async #ask(method, path, options) {
        const own = this.#tenant && path.split('/')[3]?.split('?')[0] === encodeURIComponent(this.#tenant);
        try {
            const reply = await this.#transport.call(method, path, options);
            if (own) this.#position.hear(reply.headers);
            return reply;
        } catch (error) {
            if (own) this.#position.fail(error);
            throw error;
        }
    }

    #query(values) {
        return new URLSearchParams({ ...values, ...this.#position.query });
    }

    // -- Direct counters --

    increment(name, options) {
        return this.#change('increment', name, options);
    }

    decrement(name, options) {
        return this.#change('decrement', name, options);
    }

    set(name, value, options) {
        return this.#change('set', name, options, value);
    }

    async #change(op, name, given, target) {
        const { amount = 1, key = randomKey(), sync = false, signal, ...options } = take(op, given);
        const value = op === 'set' ? target : amount;
        if (isDots(name)) return this.#changeByBatch({ op, name, idempotencyKey: key, ...changeBody(op, value, options) }, signal);
        const body = JSON.stringify(changeBody(op, value, options));
        const call = sync ? `${op}Sync` : op;
        const reply = await this.#ask(op === 'set' ? 'PUT' : 'POST', this.path('counters', name, call), { body, key, signal });
        return readValue(reply.body, reply.headers.has('Idempotent-Replayed'));
    }

    async #changeByBatch(op, signal) {
        const body = JSON.stringify({ ops: [op] });
        const { results: [result] } = await this.call('POST', this.path('counters', 'batch'), { body, repeatable: true, signal });
        if (result.status !== 200) throw refusal(result.status, result);
        return readValue(result, result.replayed === true);
    }

    async delete(name, options) {
        const { key = randomKey(), signal } = take('delete', options);
        await this.#ask('DELETE', this.path('counters', name), { key, signal });
    }

    // -- Reads --

    async #read(name, call, { dimensions = {}, signal, ...where }, times) {
        if (isDots(name)) return this.#readByQuery({ [call]: { name, ...granularity(where), dimensions, ...times } }, signal);
        const query = this.#query({ ...granularity(where), ...times });
        for (const [key, value] of Object.entries(dimensions)) query.set(`dim.${key}`, value);
        return this.call('GET', `${this.path('counters', name, call)}?${query}`, { signal });
    }

    async #readByQuery(query, signal) {
        const body = JSON.stringify({ queries: [query] });
        const { results: [result] } = await this.call('POST', `${this.path('counters', 'query')}?${this.#query({})}`, { body, repeatable: true, signal });
        if (result.status !== 200) throw refusal(result.status, result);
        return result;
    }

    async get(name, options) {
        const { timestamp, ...rest } = take('get', options);
        try {
            return triple(await this.#read(name, 'get', rest, { timestamp: time(timestamp) }));
        } catch (error) {
            if (error instanceof TallyError && error.code === 'not_found') return null;
            throw error;
        }
    }

    async sum(name, options) {
        const { startTime, endTime, ...rest } = take('sum', options);
        return triple(await this.#read(name, 'sumRange', rest, range(startTime, endTime)));
    }

    async series(name, options) {
        const { startTime, endTime, fill = false, limit, ...rest } = take('series', options);
        const times = range(startTime, endTime);
        if (fill) times.fill = 'zero';
        if (limit !== undefined) times.limit = limit;
        const { buckets } = await this.#read(name, 'series', rest, times);
        return buckets.map((bucket) => ({ start: new Date(bucket.timeStart), ...(bucket.date && { date: bucket.date }), ...triple(bucket) }));
    }

    async *list(options) {
        const { prefix, signal } = take('list', options);
        let after;
        do {
            const query = this.#query({ ...(prefix !== undefined && { prefix }), ...(after && { after }) });
            const page = await this.call('GET', `${this.path('counters')}?${query}`, { signal });
            yield* page.counters;
            after = page.next;
        } while (after);
    }

    // -- Events --

    async event(event, options) {
        const { signal } = take('event', options);
        const body = JSON.stringify(eventBody(event));
        return readEvent(await this.call('POST', this.path('events'), { body, repeatable: true, signal }));
    }

    // -- Many at once --

    batcher(options) {
        return new Batcher(this, options);
    }
}
