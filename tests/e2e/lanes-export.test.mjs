// Moving to another number of lanes: an export of all lanes into a directory that was prepared for another number has
// everything, in the lane of its tenant, once, whatever crashes on the way.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';

import { finished, Places } from './support/errands.mjs';
import { expectTriple } from './support/expect.mjs';
import { lanePath, TENANTS } from './support/lanes.mjs';
import { within } from './support/pace.mjs';
import { picture as pictured } from './support/picture.mjs';
import { ask, medley, over, pour } from './support/rebuild.mjs';
import { runTally, Server, TOTAL } from './support/server.mjs';

const RULES = `
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
const KEPT = ['ups', 'accounts', 'pulse', 'views'];
const SETTINGS = { 'checkpoint.every': '200ms', 'journal.segmentBytes': '1MiB', 'limits.counterGranularities': 4, 'limits.batchOps': 240 };

const places = new Places();
after(() => places.remove());

const server = (lanes, options = {}) => new Server({ config: RULES, data: places.fresh(), ...options, settings: { ...SETTINGS, 'store.lanes': lanes, 'ops.dir': places.ops, ...options.settings } });
const adminOf = (s) => s.tenant('operator', { scope: 'admin' });
const picture = async (s) => ({ ...(await pictured(s, TENANTS, KEPT)), tenants: null }); // their statuses stand with their usage
const fileOf = (name) => path.join(places.ops, 'exports', name);
const linesOf = (name) => readFileSync(fileOf(name), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
const exportTo = async (s, name, more = { ids: true }) => finished(adminOf(s), await adminOf(s).call('POST', '/api/admin/exports', { body: { name, ...more } }));
const startImport = (s, name) => adminOf(s).call('POST', '/api/admin/imports', { body: { name } });
const importFrom = async (s, name) => finished(adminOf(s), await startImport(s, name));
const keyed = (t) => t.increment('keyed', { ...TOTAL, amount: 7 }, { 'Idempotency-Key': 'once' });
const known = (id) => ({ eventId: `known ${id}`, type: 'up', occurredAt: 5, dimensions: { room: 'r9' } });
const send = (t, event) => t.call('POST', `/api/events/${t.id}`, { body: event });

/** An empty directory for that many lanes, which can take the ids of an export. */
async function prepared(name, lanes, settings = []) {
    const data = path.join(places.fresh('root'), 'prepared');
    const run = await runTally(['import', name, '--prepare', data, '--set', `ops.dir=${places.ops}`, '--set', `store.lanes=${lanes}`, ...settings]);
    assert.equal(run.code, 0, run.stderr);
    return data;
}

/** A life for each tenant; what was answered to what will be sent again. */
async function fill(s) {
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
async function expectRemembered(s, answers) {
    for (const id of TENANTS) {
        const t = s.tenant(id);
        const replay = await keyed(t);
        expectTriple(replay, 7);
        assert.equal(replay.headers.get('Idempotent-Replayed'), 'true', id);
        assert.equal((await t.increment('keyed', { ...TOTAL, amount: 8 }, { 'Idempotency-Key': 'once' })).status, 422);
        const { result, firstSeenAt } = (await send(t, known(id))).body;
        assert.deepEqual({ result, firstSeenAt }, { result: 'DROPPED_DUPLICATE', firstSeenAt: answers[id].firstSeenAt });
        assert.equal((await send(t, { ...known(id), type: 'down' })).body.conflict, true);
    }
}

const moves = [[1, 4], [4, 1], [4, 2]];
for (const [from, to] of moves) {
    describe(`from ${from} lanes to ${to}`, () => {
        const name = `from-${from}-to-${to}.ndjson`;
        const source = server(from);
        let answers, expected, target;
        after(async () => {
            await source.stop();
            await target?.stop();
        });

        test('SPEC 11: an export is of all lanes, each as of one moment that its header says', async () => {
            await source.start();
            answers = await fill(source);
            expected = await picture(source);
            const job = await exportTo(source, name);
            const lines = linesOf(name);
            const [header] = lines;
            assert.equal(header.lanes.length, from);
            const sum = header.lanes.reduce((total, one) => total + BigInt(one.sequence), 0n);
            assert.deepEqual([header.sequence, job.sequence], [String(sum), String(sum)]);
            assert.equal(header.moment, header.lanes.map((one) => one.moment).sort().at(-1));
            const definitions = lines.filter((line) => line.kind === 'definition').map((line) => line.counter);
            assert.deepEqual(definitions.sort(), [...KEPT].sort(), 'each counter is defined once');
            for (let lane = 0; from > 1 && lane < from; lane++) assert.ok(!existsSync(lanePath(source.data, lane, 'snapshot')));
        });

        test('SPEC 10, 11: everything reads as before; ids and keys are remembered; twice is once', async () => {
            target = server(to, { data: await prepared(name, to) });
            await target.start();
            for (let round = 0; round < 2; round++) {
                await importFrom(target, name);
                assert.deepEqual(await picture(target), expected);
            }
            await expectRemembered(target, answers);
            await target.restart({ hard: true });
            await expectRemembered(target, answers);
            assert.deepEqual(await picture(target), expected, 'and after kill -9');
        });

        test('SPEC 7: entities go on where they were, and new events count', async () => {
            for (const id of TENANTS) {
                const t = target.tenant(id);
                const before = BigInt((await t.get('accounts', {})).body.net);
                const on = { type: 'up', dimensions: { account: 'fresh', master: 'm' } };
                await pour(t, [on, on]);
                assert.equal((await t.get('accounts', {})).body.net, String(before + 1n));
            }
        });
    });
}

test('SPEC 7, 11: a rebuild that begins with an export takes in each lane what is of its tenants', async () => {
    const s = server(4, { env: { TALLY_PAUSE_POINT: 'rebuild.after_swap:200' } }); // lanes end one after the other
    await s.start();
    for (const [index, id] of TENANTS.entries()) await pour(s.tenant(id), medley(30, index + 1));
    await exportTo(s, 'base.ndjson', {});
    for (const [index, id] of TENANTS.entries()) await pour(s.tenant(id), medley(30, index + 100));
    const values = async () => Promise.all(TENANTS.map(async (id) => (await s.tenant(id).call('GET', `/api/counters/${id}/ups/cells`)).body.cells.map(({ dimensions, net, added, subbed }) => ({ dimensions, net, added, subbed }))));
    const expected = await values();
    await importFrom(s, 'base.ndjson');
    assert.notDeepEqual(await values(), expected);
    const job = await over(adminOf(s), (await ask(adminOf(s), 'ups', { from: 'base.ndjson' })).body.job);
    assert.equal(job.state, 'done', JSON.stringify(job));
    assert.deepEqual(await values(), expected);
    await s.stop();
});

describe('an import into four lanes', () => {
    const source = server(1);
    let expected, answers;
    after(() => source.stop());

    test('the export', async () => {
        await source.start();
        answers = await fill(source);
        expected = await picture(source);
        await exportTo(source, 'crashing.ndjson');
    });

    for (const point of ['import.after_chunk:1', 'import.after_chunk:7', 'import.before_done']) {
        test(`X-08: killed at ${point} it goes on where each lane was`, async () => {
            const settings = { 'limits.batchOps': 40, 'limits.atomicOps': 40 };
            const data = await prepared('crashing.ndjson', 4);
            const doomed = server(4, { data, settings, env: { TALLY_CRASH_POINT: point } });
            await doomed.start();
            const reply = await startImport(doomed, 'crashing.ndjson');
            assert.equal((await within(20000, 'the crash', doomed.exited)).signal, 'SIGKILL');
            await doomed.kill();
            const next = server(4, { data, settings });
            await next.start();
            assert.equal((await over(adminOf(next), reply.body.job)).state, 'done');
            assert.deepEqual(await picture(next), expected);
            await expectRemembered(next, answers);
            await next.stop();
        });
    }
});
