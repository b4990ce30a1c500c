// errands.mjs -- backups, exports and imports: asking for them, waiting for them, and what a server holds.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import path from 'node:path';

import { sequenceOf } from './expect.mjs';
import { over } from './rebuild.mjs';
import { newDirectory, removeDirectory, runTally } from './server.mjs';

export const backup = (admin, name) => admin.call('POST', '/api/admin/backups', { body: { name } });
export const backups = async (admin) => (await admin.call('GET', '/api/admin/backups')).body.backups;

/** Asks and waits until it is over; the job. */
export async function finished(admin, reply) {
    assert.equal(reply.status, 202, reply.text);
    const job = await over(admin, reply.body.job);
    assert.equal(job.state, 'done', JSON.stringify(job));
    return job;
}

export const backedUp = async (admin, name) => finished(admin, await backup(admin, name));

/** A place for data directories and one ops.dir, for the length of a test file. */
export class Places {
    root = newDirectory('ops');
    ops = path.join(this.root, 'ops');
    #count = 0;

    fresh(label = 'data') {
        const directory = path.join(this.root, `${label}-${++this.#count}`);
        mkdirSync(directory);
        return directory;
    }

    backup(name, ...rest) {
        return path.join(this.ops, 'backups', name, ...rest);
    }

    restore(name, data, options) {
        return runTally(['restore', name, '--data', data, '--set', `ops.dir=${this.ops}`], options);
    }

    remove() {
        removeDirectory(this.root);
    }
}

/** Clients that write one after the other and remember the sequence of each change. */
export class Writers {
    #stopped = false;
    #running;
    changes = []; // {counter, sequence} of what was acknowledged
    events = []; // {eventId, sequence}

    constructor(server, t, count) {
        this.#running = Promise.all(Array.from({ length: count }, (_, index) => this.#write(server, t, index)));
    }

    async #write(server, t, index) {
        for (let turn = 0; !this.#stopped; turn++) {
            const counter = `w${index}-${turn % 7}`;
            const reply = await t.increment(counter, { durationSeconds: 0, timestamp: 0 });
            assert.equal(reply.status, 200, reply.text);
            this.changes.push({ counter, sequence: sequenceOf(reply) });
            const eventId = `e-${index}-${turn}`;
            const event = await t.call('POST', `/api/events/${t.id}`, { body: { eventId, type: 'up', occurredAt: 1000 + turn } });
            assert.equal(event.status, 200, event.text);
            this.events.push({ eventId, sequence: BigInt(event.body.id) });
        }
    }

    async stop() {
        this.#stopped = true;
        await this.#running;
    }

    /** What each counter was after the change `sequence`. */
    at(sequence) {
        const values = new Map(this.changes.map(({ counter }) => [counter, 0]));
        for (const change of this.changes) {
            if (change.sequence <= sequence) values.set(change.counter, values.get(change.counter) + 1);
        }
        return values;
    }
}
