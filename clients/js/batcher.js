// batcher.js -- gathers changes and events and sends them together, in order.
//
// Each has its own key or id, so a batch that has to be sent again counts once. A batch goes when it
// is full, or `maxDelayMs` after its first part. One request is under way at a time.

import { take } from './options.js';
import { changeBody, eventBody, randomKey, readEvent, readValue } from './shapes.js';
import { invalid, refusal, unknown } from './transport.js';

/** Parts of one kind that wait to be sent. */
class Queue {
    #send;
    #limits;
    #parts = [];
    #timer;
    #sending = null;

    constructor(limits, send) {
        this.#limits = limits;
        this.#send = send;
    }

    get size() {
        return this.#parts.length;
    }

    add(line) {
        return new Promise((resolve, reject) => {
            this.#parts.push({ line, resolve, reject });
            if (this.#parts.length >= this.#limits.maxOps) this.#start();
            else this.#timer ??= setTimeout(() => this.#start(), this.#limits.maxDelayMs);
        });
    }

    /** Resolves when everything added so far has been answered. */
    async flush() {
        while (this.#parts.length || this.#sending) await (this.#sending ?? this.#start());
    }

    #start() {
        clearTimeout(this.#timer);
        this.#timer = undefined;
        if (!this.#sending && this.#parts.length) this.#sending = this.#drain();
        return this.#sending;
    }

    /** Ends in the same tick in which it finds nothing left, so that what is added next starts another. */
    async #drain() {
        while (this.#parts.length) {
            const parts = this.#parts.splice(0, this.#limits.maxOps);
            try {
                await this.#send(parts);
            } catch (error) {
                for (const part of parts) part.reject(error);
            }
        }
        this.#sending = null;
    }
}

export class Batcher {
    #tally;
    #changes;
    #events;
    #signal;
    #closed = false;
    #totals = { applied: 0, duplicates: 0, refused: 0, failed: 0 };

    constructor(tally, options) {
        const { maxOps = 1000, maxDelayMs = 20, signal } = take('batcher', options);
        if (!Number.isInteger(maxOps) || maxOps < 1 || maxOps > 100000) throw invalid('maxOps must be from 1 to 100000');
        this.#tally = tally;
        this.#signal = signal;
        this.#changes = new Queue({ maxOps, maxDelayMs }, (parts) => this.#sendChanges(parts));
        this.#events = new Queue({ maxOps, maxDelayMs }, (parts) => this.#sendEvents(parts));
    }

    /** How many were put in and not answered yet, apart from what is on its way. */
    get waiting() {
        return this.#changes.size + this.#events.size;
    }

    get totals() {
        return { ...this.#totals };
    }

    increment(name, options) {
        return this.#change('increment', name, options);
    }

    decrement(name, options) {
        return this.#change('decrement', name, options);
    }

    set(name, value, options) {
        return this.#change('set', name, options, value);
    }

    event(event) {
        return this.#add(this.#events, eventBody(event));
    }

    async flush() {
        await Promise.all([this.#changes.flush(), this.#events.flush()]);
        return this.totals;
    }

    /** Takes nothing more, and sends what is there. */
    close() {
        this.#closed = true;
        return this.flush();
    }

    async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
        await this.close();
    }

    #change(op, name, options, target) {
        const { amount = 1, key = randomKey(), ...rest } = take(`batcher.${op}`, options);
        const value = op === 'set' ? target : amount;
        return this.#add(this.#changes, { op, name, idempotencyKey: key, ...changeBody(op, value, rest) });
    }

    #add(queue, line) {
        if (this.#closed) throw invalid('the batcher is closed');
        const promise = queue.add(JSON.stringify(line));
        promise.catch(() => {}); // who does not wait for it asks flush() or totals instead
        return promise;
    }

    /** An answer for each part, or none. */
    async #post(path, parts) {
        try {
            const { results } = await this.#tally.call('POST', path, {
                body: parts.map((part) => `${part.line}\n`).join(''),
                type: 'application/x-ndjson',
                repeatable: true,
                signal: this.#signal,
            });
            if (results?.length !== parts.length) throw unknown('The reply is not what tally would say.', 'bad_reply');
            return results;
        } catch (error) {
            this.#totals.failed += parts.length;
            throw error;
        }
    }

    #refuse(part, result) {
        this.#totals.refused++;
        part.reject(refusal(result.status, result));
    }

    async #sendChanges(parts) {
        const results = await this.#post(this.#tally.path('counters', 'batch'), parts);
        results.forEach((result, i) => {
            if (result.status !== 200) return this.#refuse(parts[i], result);
            this.#totals[result.replayed ? 'duplicates' : 'applied']++;
            return parts[i].resolve(readValue(result, result.replayed === true));
        });
    }

    async #sendEvents(parts) {
        const results = await this.#post(this.#tally.path('events'), parts);
        results.forEach((result, i) => {
            if (result.result === undefined) return this.#refuse(parts[i], result);
            this.#totals[result.result === 'DROPPED_DUPLICATE' ? 'duplicates' : 'applied']++;
            return parts[i].resolve(readEvent(result));
        });
    }
}
