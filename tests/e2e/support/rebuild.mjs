// rebuild.mjs -- asking for rebuilds, waiting for them, and events for them to count again.

import assert from 'node:assert/strict';

import { expectExactly } from './expect.mjs';
import { eventually } from './pace.mjs';
import { newId } from './rules.mjs';

/** The text of a counter, and of a config of them. */
export const counter = (name, more = '', rule = '{ on: up, op: increment }') => `
  - counterName: ${name}
    rules: [${rule}]${more}`;
export const config = (...counters) => `counters:${counters.join('')}\n`;

export const ask = (admin, name, body) => admin.call('POST', `/api/admin/counters/${name}/rebuild`, { body });
export const look = (admin, job) => admin.call('GET', `/api/admin/jobs/${job}`);

export async function asked(admin, name, body) {
    const reply = await ask(admin, name, body);
    assert.equal(reply.status, 202, reply.text);
    assert.deepEqual(Object.keys(reply.body), ['job']);
    return reply.body.job;
}

/** The job once it is over. */
export function over(admin, job) {
    return eventually(`job ${job} to end`, async () => {
        const { status, body, text } = await look(admin, job);
        assert.equal(status, 200, text);
        return ['done', 'failed'].includes(body.state) && body;
    }, { ms: 30000, every: 10 });
}

export async function rebuilt(admin, name, body) {
    const job = await over(admin, await asked(admin, name, body));
    assert.equal(job.state, 'done', JSON.stringify(job));
    return job;
}

export function reloader(server, admin) {
    return async (...counters) => {
        server.writeConfig(config(...counters));
        expectExactly(await admin().call('POST', '/api/admin/reload'), 200, { reloaded: true });
    };
}

/** Events in bulk, all of them new. */
export async function pour(t, list) {
    const text = list.map((event) => JSON.stringify({ eventId: newId(), ...event })).join('\n');
    const reply = await t.call('POST', `/api/events/${t.id}?results=errors`, { body: text, headers: { 'Content-Type': 'application/x-ndjson' } });
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.body.applied, list.length, reply.text);
}

/** Some of everything: late events, missing dimensions, odd amounts, decrements too many. */
export function medley(count, seed = 1) {
    let state = seed;
    const random = (below) => {
        state = (state * 1103515245 + 12345) % 2147483648;
        return Math.floor((state / 2147483648) * below);
    };
    return Array.from({ length: count }, () => ({
        type: random(5) < 3 ? 'up' : 'down',
        occurredAt: new Date(Date.UTC(2024, 0, 1) + random(4) * 43200000 + random(100) * 1000).toISOString(),
        dimensions: {
            master: random(9) ? `m${random(4)}` : null, account: random(9) ? `a${random(12)}` : null, room: `r${random(3)}`,
        },
        payload: { kind: ['note', 'file'][random(2)], size: [random(1000), 'odd', undefined][random(9) ? 0 : 1 + random(2)] },
    }));
}

export const bare = ({ dimensions, net, added, subbed }) => JSON.stringify({ dimensions, net, added, subbed });

/* Chunks of a few events, so that a rebuild takes a while and much happens meanwhile. */
export const SLOW = { 'journal.segmentBytes': '2MiB', 'limits.batchOps': 48, 'limits.atomicOps': 48 };
