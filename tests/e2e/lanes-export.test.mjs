// Moving to another number of lanes: an export of all lanes into a directory that was prepared for another number has
// everything, in the lane of its tenant, once, whatever crashes on the way.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';

import { finished, Places } from './support/errands.mjs';
import { lanePath, TENANTS } from './support/lanes.mjs';
import { within } from './support/pace.mjs';
import { pages, picture as pictured } from './support/picture.mjs';
import { expectRemembered, fill, history, KEPT, known, prepared as preparedFor, RULES, send, SETTINGS } from './support/porting.mjs';
import { ask, medley, over, pour } from './support/rebuild.mjs';
import { Server } from './support/server.mjs';

const places = new Places();
after(() => places.remove());

const server = (lanes, options = {}) => new Server({ config: RULES, data: places.fresh(), ...options, settings: { ...SETTINGS, 'store.lanes': lanes, 'ops.dir': places.ops, ...options.settings } });
const adminOf = (s) => s.tenant('operator', { scope: 'admin' });
const picture = (s) => pictured(s, TENANTS, KEPT);
const ALL = { ids: true, events: true };
const fileOf = (name) => path.join(places.ops, 'exports', name);
const linesOf = (name) => readFileSync(fileOf(name), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
const exportTo = async (s, name, more = ALL) => finished(adminOf(s), await adminOf(s).call('POST', '/api/admin/exports', { body: { name, ...more } }));
const startImport = (s, name) => adminOf(s).call('POST', '/api/admin/imports', { body: { name } });
const importFrom = async (s, name) => finished(adminOf(s), await startImport(s, name));

const prepared = (name, lanes, settings) => preparedFor(places, name, lanes, settings);

const moves = [[1, 4], [4, 1], [4, 2]];
for (const [from, to] of moves) {
    describe(`from ${from} lanes to ${to}`, () => {
        const name = `from-${from}-to-${to}.ndjson`;
        const source = server(from);
        let answers, expected, past, target;
        after(async () => {
            await source.stop();
            await target?.stop();
        });

        test('SPEC 11: an export is of all lanes, each as of one moment that its header says', async () => {
            await source.start();
            answers = await fill(source);
            expected = await picture(source);
            past = await history(source);
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
                assert.deepEqual(await history(target), past);
            }
            await expectRemembered(target, answers);
            await target.restart({ hard: true });
            await expectRemembered(target, answers);
            assert.deepEqual(await picture(target), expected, 'and after kill -9');
            for (const [id, now] of Object.entries(await history(target))) {
                assert.deepEqual(now.events, past[id].events);
                assert.deepEqual(now.duplicates.slice(0, past[id].duplicates.length), past[id].duplicates);
                assert.deepEqual(now.known, past[id].known);
            }
        });

        test('SPEC 7, 11: a rebuild counts the imported events, in order of arrival', async () => {
            const bare = async () => Promise.all(TENANTS.map(async (id) => Promise.all(['ups', 'accounts', 'views'].map(async (counter) => (await pages(target.tenant(id), `/api/counters/${id}/${counter}/cells`, 'cells')).map(({ dimensions, net, added, subbed }) => ({ dimensions, net, added, subbed }))))));
            const before = await bare();
            for (const counter of ['ups', 'accounts', 'views']) {
                assert.equal((await over(adminOf(target), (await ask(adminOf(target), counter, { force: true })).body.job)).state, 'done');
            }
            assert.deepEqual(await bare(), before);
        });

        test('SPEC 7: entities go on where they were, and new events count', async () => {
            for (const id of TENANTS) {
                const t = target.tenant(id);
                const before = BigInt((await t.get('accounts', {})).body.net);
                const on = { type: 'up', dimensions: { account: 'fresh', master: 'm' } };
                await pour(t, [on, on]);
                assert.equal((await t.get('accounts', {})).body.net, String(before + 1n));
                const numbers = (await history(target))[id].events.map((event) => BigInt(event.id));
                const highest = past[id].events.reduce((most, event) => (BigInt(event.id) > most ? BigInt(event.id) : most), 0n);
                assert.equal(numbers.length, past[id].events.length + 2);
                for (const number of numbers.slice(-2)) assert.ok(number > highest, 'numbers go on above the highest');
            }
            await importFrom(target, name); // has nothing new
            for (const [id, now] of Object.entries(await history(target))) assert.equal(now.events.length, past[id].events.length + 2);
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

test('SPEC 10: an export of an older version, which names no lanes and no numbers, is imported as ever', async () => {
    const source = server(1);
    await source.start();
    const answers = await fill(source);
    const expected = await picture(source);
    await exportTo(source, 'newer.ndjson', { ids: true });
    const older = linesOf('newer.ndjson').map(({ lanes, id, checksum, ...line }) => JSON.stringify(line));
    writeFileSync(fileOf('older.ndjson'), `${older.join('\n')}\n`);
    const target = server(4, { data: await prepared('older.ndjson', 4) });
    await target.start();
    await importFrom(target, 'older.ndjson');
    assert.deepEqual(await picture(target), expected);
    for (const id of TENANTS) {
        const { result, firstSeenAt } = (await send(target.tenant(id), known(id))).body;
        assert.deepEqual({ result, firstSeenAt }, { result: 'DROPPED_DUPLICATE', firstSeenAt: answers[id].firstSeenAt });
    }
    await target.stop();
    await source.stop();
});

describe('an import into four lanes', () => {
    const source = server(1);
    let expected, answers, past;
    after(() => source.stop());

    test('the export', async () => {
        await source.start();
        answers = await fill(source);
        expected = await picture(source);
        past = await history(source);
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
            assert.deepEqual(await history(next), past);
            await expectRemembered(next, answers);
            await next.stop();
        });
    }
});

describe('events that cannot be imported, and those that are already there', () => {
    const source = server(2);
    after(() => source.stop());
    const failed = async (s, name) => (await over(adminOf(s), (await startImport(s, name)).body.job)).error;

    test('SPEC 11: a lane whose numbers would collide takes none, and says what would', async () => {
        await source.start();
        await fill(source);
        await exportTo(source, 'first.ndjson', { events: true });
        const fresh = server(4);
        await fresh.start();
        assert.match(await failed(fresh, 'first.ndjson'), /^the events in this export have ids up to \d+, and lane \d gives out those after \d+; `tally import NAME --prepare` makes/);
        assert.deepEqual(await history(fresh), await history(fresh));
        assert.deepEqual((await fresh.tenant('t0').listAll()), [], 'nothing was changed');
        await fresh.stop();
    });

    test('SPEC 6: order is arrival, so a lane with events of its own takes none', async () => {
        const used = server(1, { data: await prepared('first.ndjson', 1) });
        await used.start();
        await pour(used.tenant('other'), [{ type: 'up' }]);
        assert.equal(await failed(used, 'first.ndjson'), 'lane 0 has events of its own, and the events of an export can only come before the first of them');
        await used.stop();
    });

    test('SPEC 11: a later export of the same store brings what is new in it, ids of events too', async () => {
        const target = server(3, { data: await prepared('first.ndjson', 3) });
        await target.start();
        await importFrom(target, 'first.ndjson');
        for (const [index, id] of TENANTS.entries()) {
            await pour(source.tenant(id), medley(10, 50 + index));
            await send(source.tenant(id), known(id));
        }
        await exportTo(source, 'second.ndjson', { events: true });
        await importFrom(target, 'second.ndjson');
        const past = await history(source);
        assert.deepEqual(await history(target), past);
        for (const id of TENANTS) assert.equal((await send(target.tenant(id), known(id))).body.id, past[id].known.id);
        await target.stop();
    });

    test('SPEC 10: the store that made an export takes it back without its events coming twice', async () => {
        const past = await history(source);
        await importFrom(source, 'second.ndjson');
        assert.deepEqual(await history(source), past);
    });
});

describe('reconciliation goes on in another number of lanes', () => {
    const RECONCILED = `
counters:
  - counterName: present
    dimensions: [room]
    rules: [{ on: enter, op: increment }]
  - { counterName: shelved, dimensions: [shelf], rules: [] }
reconcile:
  - { name: rooms, tenants: all, entity: [room], source: { events: true }, counters: [present], scanEvery: 50ms, minInterval: 0s }
  - { name: shelves, tenants: all, entity: [shelf], source: { postgres: "env:NOWHERE_DSN" }, counters: { shelved: "SELECT $1, $2" }, scanEvery: 1h }
`;
    const NOWHERE = { NOWHERE_DSN: 'postgresql://nobody@127.0.0.1:1/nothing' };
    const options = { config: RECONCILED, env: NOWHERE };
    const source = server(3, options);
    after(() => source.stop());
    const waiting = async (s) => Promise.all(TENANTS.map(async (id) => (await s.tenant(id).call('GET', `/api/reconcile/${id}/shelves/status`)).body.pending));
    const present = async (s) => Promise.all(TENANTS.map(async (id) => (await pages(s.tenant(id), `/api/counters/${id}/present/cells`, 'cells')).map(({ dimensions, net }) => [dimensions.room, net])));

    test('SPEC 9, 11: what waits to be counted waits there too, and scans change nothing that was imported', async () => {
        await source.start();
        for (const [index, id] of TENANTS.entries()) {
            const t = source.tenant(id);
            await pour(t, Array.from({ length: 5 + index }, (_, i) => ({ type: 'enter', dimensions: { room: `r${i % 3}` } })));
            for (let i = 0; i <= index % 3; i++) assert.equal((await t.call('POST', `/api/reconcile/${id}/shelves/request`, { body: { shelf: `s${i}` } })).status, 200);
        }
        const expected = await present(source);
        const marks = await waiting(source);
        assert.deepEqual(marks, TENANTS.map((_, index) => 1 + (index % 3)));
        await exportTo(source, 'reconciled.ndjson');
        const target = server(4, { ...options, data: await prepared('reconciled.ndjson', 4) });
        await target.start();
        await importFrom(target, 'reconciled.ndjson');
        assert.deepEqual(await waiting(target), marks);
        assert.deepEqual(await present(target), expected);
        await target.stop();
    });
});
