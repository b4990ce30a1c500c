// What goes out and in with exports: rules with every kind of counter, settings that make files small, and
// what must be the same in the store that everything was moved to.

import assert from 'node:assert/strict';
import path from 'node:path';

import { expectTriple } from './expect.mjs';
import { TENANTS } from './lanes.mjs';
import { pages } from './picture.mjs';
import { medley, pour } from './rebuild.mjs';
import { runTally, storeSettings, TOTAL } from './server.mjs';

export const KEPT = ['ups', 'accounts', 'pulse', 'views'];
export const RULES = `
counters:
  - counterName: ups
    dimensions: [room]
    rollups: [[]]
    rules: [{ on: up, op: increment }, { on: down, op: decrement, amount: payload.size }]
  - counterName: accounts
    floorAtZero: true
    dimensions: [master]
    rollups: [[]]
    group: usage
    limit: 10
    transition: { entity: [account] }
    rules: [{ on: up, op: increment }, { on: down, op: decrement }]
  - counterName: pulse
    mode: windowed
    window: 1h
    trailing: true
    dimensions: [room]
    rollups: [[]]
    rules: [{ on: up, op: increment }]
  - counterName: views
    mode: series
    granularities: [0, 60, 3600]
    keep: 9000d
    dimensions: [room]
    rules: [{ on: up, op: increment }]
statuses:
  opened: active
  closed: decommissioned
`;
export const SETTINGS = { 'checkpoint.every': '200ms', 'journal.segmentBytes': '1MiB', 'limits.counterGranularities': 4, 'limits.batchOps': 240 };

const keyed = (t) => t.increment('keyed', { ...TOTAL, amount: 7 }, { 'Idempotency-Key': 'once' });
export const known = (id) => ({ eventId: `known ${id}`, type: 'up', occurredAt: 5, dimensions: { room: 'r9' } });
export const send = (t, event) => t.call('POST', `/api/events/${t.id}`, { body: event });

/** What is retained of each tenant: events with their numbers and times, the audit, one event by its id. */
export async function history(s) {
    const seen = {};
    for (const id of TENANTS) {
        const t = s.tenant(id);
        seen[id] = {
            events: await pages(t, `/api/events/${id}`, 'events'),
            duplicates: await pages(t, `/api/duplicates/${id}`, 'duplicates'),
            known: (await t.call('GET', `/api/events/${id}/${encodeURIComponent(known(id).eventId)}`)).body,
        };
    }
    return seen;
}

/** A life for each tenant; what was answered to what will be sent again. */
export async function fill(s) {
    const answers = {};
    for (const [index, id] of TENANTS.entries()) {
        const t = s.tenant(id);
        await t.increment('direct', { ...TOTAL, amount: index + 1 });
        await t.increment('direct', { durationSeconds: 60, timestamp: 1000, amount: 2, expiresAt: '9999-01-01T00:00:00Z' });
        await t.increment(`only-${id}`, TOTAL);
        await pour(t, medley(60, index + 1));
        await pour(t, [{ type: 'opened' }, ...(index % 3 ? [] : [{ type: 'closed' }])]);
        expectTriple(await keyed(t), 7);
        assert.equal((await send(t, known(id))).body.result, 'APPLIED');
        answers[id] = (await send(t, known(id))).body;
    }
    return answers;
}

/** What is sent again is answered as it was, and counts nothing. */
export async function expectRemembered(s, answers) {
    for (const id of TENANTS) {
        const t = s.tenant(id);
        const replay = await keyed(t);
        expectTriple(replay, 7);
        assert.equal(replay.headers.get('Idempotent-Replayed'), 'true', id);
        assert.equal((await t.increment('keyed', { ...TOTAL, amount: 8 }, { 'Idempotency-Key': 'once' })).status, 422);
        assert.deepEqual((await send(t, known(id))).body, answers[id]);
        assert.equal((await send(t, { ...known(id), type: 'down' })).body.conflict, true);
    }
}

/** Makes an empty store, which `data` stands for, that can take the ids and events of an export in `ops`. */
export async function prepare(ops, name, data, settings = {}) {
    const own = await storeSettings(settings, data);
    const all = { 'ops.dir': ops, ...own, ...settings };
    const where = all['store.kind'] === 'postgres' ? [] : [data];
    return runTally(['import', name, '--prepare', ...where, ...Object.entries(all).flatMap(([key, value]) => ['--set', `${key}=${value}`])]);
}

export async function prepared(places, name, lanes, settings = {}) {
    const data = path.join(places.fresh('root'), 'prepared');
    const run = await prepare(places.ops, name, data, { 'store.lanes': lanes, ...settings });
    assert.equal(run.code, 0, run.stderr);
    return data;
}
