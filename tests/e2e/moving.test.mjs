// Moving between the embedded store and PostgreSQL: an export of one, with ids and events, makes the other read as the
// first did, and what is sent again is answered as it was. SPEC 11, 12.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';

import { finished, Places, Writers } from './support/errands.mjs';
import { expectError } from './support/expect.mjs';
import { laneOf, TENANTS } from './support/lanes.mjs';
import { eventually, within } from './support/pace.mjs';
import { picture as pictured } from './support/picture.mjs';
import { expectRemembered, fill, history, KEPT, prepare, prepared, RULES, SETTINGS } from './support/porting.mjs';
import { ask, look, medley, over, pour } from './support/rebuild.mjs';
import { endSharedDatabase, runTally, Server, sharedDatabase, storeSettings } from './support/server.mjs';

const places = new Places();
after(endSharedDatabase);
after(() => places.remove());

const server = (kind, lanes, { settings, ...options } = {}) => new Server({ config: RULES, data: places.fresh(), ...options, settings: { ...(kind === 'embedded' ? SETTINGS : { 'limits.counterGranularities': 4, 'limits.batchOps': 240 }), 'store.kind': kind, 'store.lanes': lanes, 'ops.dir': places.ops, ...settings } });
const adminOf = (s) => s.tenant('operator', { scope: 'admin' });
const picture = (s) => pictured(s, TENANTS, KEPT);
const ALL = { ids: true, events: true };
const fileOf = (name) => path.join(places.ops, 'exports', name);
const headerOf = (name) => JSON.parse(readFileSync(fileOf(name), 'utf8').split('\n', 1)[0]);
const startExport = (s, name, more = ALL) => adminOf(s).call('POST', '/api/admin/exports', { body: { name, ...more } });
const exportTo = async (s, name) => finished(adminOf(s), await startExport(s, name));
const startImport = (s, name) => adminOf(s).call('POST', '/api/admin/imports', { body: { name } });
const importFrom = async (s, name) => finished(adminOf(s), await startImport(s, name));
const preparedFor = (kind, name, lanes) => prepared(places, name, lanes, { 'store.kind': kind });

for (const [from, between, back] of [[1, 4, 1], [3, 3, 3], [4, 1, 2]]) {
    describe(`embedded with ${from} lanes -> PostgreSQL with ${between} -> embedded with ${back}`, () => {
        const [out, home] = [`out-${from}-${between}.ndjson`, `home-${from}-${between}.zst`];
        const source = server('embedded', from);
        let answers, expected, past, middle, target;
        after(() => Promise.all([source, middle, target].map((s) => s?.stop())));

        test('SPEC 12: what comes from the embedded store reads in PostgreSQL as before, and is remembered', async () => {
            await source.start();
            answers = await fill(source);
            expected = await picture(source);
            past = await history(source);
            await exportTo(source, out);
            middle = server('postgres', between, { data: await preparedFor('postgres', out, between) });
            await middle.start();
            for (let round = 0; round < 2; round++) {
                await importFrom(middle, out);
                assert.deepEqual(await picture(middle), expected);
                assert.deepEqual(await history(middle), past);
            }
            await expectRemembered(middle, answers);
            await middle.restart({ hard: true });
            await expectRemembered(middle, answers);
            assert.deepEqual(await picture(middle), expected, 'and after kill -9');
        });

        test('SPEC 12: an export of PostgreSQL says of each lane where it is, and goes home', async () => {
            for (const [index, id] of TENANTS.entries()) await pour(middle.tenant(id), medley(20, 300 + index));
            expected = await picture(middle);
            past = await history(middle);
            const job = await exportTo(middle, home);
            assert.match(job.node, / 127\.0\.0\.1:/, 'a job says which node has the file');
            assert.match(middle.stderr, /an export holds a snapshot of the database until it ends.*an export let go/s);
            target = server('embedded', back, { data: await preparedFor('embedded', home, back) });
            await target.start();
            await importFrom(target, home);
            assert.deepEqual(await picture(target), expected);
            assert.deepEqual(await history(target), past);
            await expectRemembered(target, answers);
        });

        test('SPEC 7: there too, a rebuild of all events finds what was counted', async () => {
            for (const s of [middle, target]) {
                const shown = async () => (await picture(s));
                const before = await shown();
                for (const counter of ['ups', 'accounts', 'views']) assert.equal((await over(adminOf(s), (await ask(adminOf(s), counter, { force: true })).body.job)).state, 'done');
                const net = (seen) => TENANTS.map((id) => ['ups', 'accounts', 'views'].map((name) => seen[id][`cells ${name}`].map((cell) => [cell.dimensions, cell.net])));
                assert.deepEqual(net(await shown()), net(before));
            }
        });
    });
}

/** Nodes over one schema, each with a data directory of its own, the first of which leads; stopped at the end. */
async function withNodes(use, { shared = false, settings, doomed = {} } = {}) {
    const own = await storeSettings({ 'store.kind': 'postgres' }, places.fresh('schema'));
    const node = (env = {}) => {
        const data = places.fresh('node');
        const ops = shared ? places.ops : path.join(data, 'ops');
        const made = server('postgres', 2, { data, env, settings: { ...own, 'ops.dir': ops, ...settings } });
        made.exports = path.join(ops, 'exports');
        return made;
    };
    const [first, second] = [node(doomed), node()];
    try {
        await first.start();
        await exportTo(first, shared ? 'begin.ndjson' : 'a.ndjson');
        await second.start();
        await use(first, second);
    } finally {
        await Promise.all([first.stop(), second.stop()]);
    }
}

describe('nodes over one database', () => {
    const source = server('embedded', 1);
    let answers, expected, past;
    after(() => source.stop());

    test('the export', async () => {
        await source.start();
        answers = await fill(source);
        expected = await picture(source);
        past = await history(source);
        await exportTo(source, 'nodes.ndjson');
    });

    test('SPEC 12: whichever node is asked, the one that leads makes the export, in its own ops.dir', async () => {
        await withNodes(async (first, second) => {
            await fill(second);
            const job = await exportTo(second, 'there.ndjson');
            assert.ok(job.node.includes(first.data), job.node);
            assert.deepEqual((await over(adminOf(first), job.job)), job, 'every node shows it');
            assert.ok(existsSync(path.join(first.exports, 'there.ndjson')));
            assert.ok(!existsSync(path.join(second.exports, 'there.ndjson')));
            const taken = await startExport(second, 'there.ndjson');
            assert.match((await over(adminOf(second), taken.body.job)).error, /there is an export of that name in /);
            expectError(await startExport(first, 'there.ndjson'), 409, 'conflict');
        });
    });

    test('SPEC 12: an import of a file that the node that leads does not have fails, and says where it looked', async () => {
        await withNodes(async (first, second) => {
            const reply = await startImport(second, 'nodes.ndjson');
            assert.equal(reply.status, 202, reply.text);
            const job = await over(adminOf(second), reply.body.job);
            assert.deepEqual([job.state, job.error], ['failed', `there is no export nodes.ndjson in ${first.exports}`]);
            expectError(await startImport(first, 'nodes.ndjson'), 404, 'not_found');
        });
    });

    test('SPEC 12: a node that dies while it exports is followed by another, which begins anew and keeps the file', async () => {
        await withNodes(async (first, second) => {
            await fill(second);
            const reply = await startExport(second, 'twice.ndjson');
            assert.equal((await within(20000, 'the crash', first.exited)).signal, 'SIGKILL');
            await first.kill();
            const job = await over(adminOf(second), reply.body.job);
            assert.equal(job.state, 'done', JSON.stringify(job));
            assert.ok(job.node.includes(second.data), job.node);
            assert.ok(existsSync(path.join(second.exports, 'twice.ndjson')));
            await first.start();
            await second.stop();
            await exportTo(first, 'b.ndjson');
            assert.deepEqual(readdirSync(first.exports).sort(), ['a.ndjson', 'b.ndjson'], 'and nothing is left of the half one');
        }, { doomed: { TALLY_CRASH_POINT: 'export.lane:4' } });
    });

    for (const point of ['import.after_chunk:1', 'import.after_chunk:9', 'import.before_done']) {
        test(`SPEC 12: an import whose node dies at ${point} goes on at another node that has the file`, async () => {
            const own = await storeSettings({ 'store.kind': 'postgres' }, places.fresh('schema'));
            const settings = { ...own, 'store.kind': 'postgres', 'store.lanes': 2, 'limits.batchOps': 40, 'limits.atomicOps': 40 };
            const made = await prepare(places.ops, 'nodes.ndjson', '', settings);
            assert.equal(made.code, 0, made.stderr);
            const first = server('postgres', 2, { settings, env: { TALLY_CRASH_POINT: point } });
            const second = server('postgres', 2, { settings });
            await first.start();
            await second.start();
            const reply = await startImport(second, 'nodes.ndjson');
            assert.equal((await within(20000, 'the crash', first.exited)).signal, 'SIGKILL');
            await first.kill();
            assert.equal((await over(adminOf(second), reply.body.job)).state, 'done');
            assert.deepEqual(await picture(second), expected);
            assert.deepEqual(await history(second), past);
            await expectRemembered(second, answers);
            await second.stop();
        });
    }
});

test('SPEC 12: an export whose database goes away in the middle begins anew when it is back', async () => {
    const s = server('postgres', 3, { env: { TALLY_PAUSE_POINT: 'export.lane:3000' } });
    await s.start();
    const answers = await fill(s);
    const expected = await picture(s);
    const reply = await startExport(s, 'cut.ndjson');
    await eventually('the export to hold its snapshot', () => /an export holds a snapshot/.test(s.stderr));
    const database = await sharedDatabase();
    await database.down();
    await database.up();
    await eventually('the node to find it', async () => (await look(adminOf(s), reply.body.job)).status === 200);
    assert.equal((await over(adminOf(s), reply.body.job)).state, 'done');
    assert.ok(s.stderr.match(/an export holds a snapshot/g).length > 1, s.stderr);
    const target = server('embedded', 2, { data: await preparedFor('embedded', 'cut.ndjson', 2) });
    await target.start();
    await importFrom(target, 'cut.ndjson');
    assert.deepEqual(await picture(target), expected);
    await expectRemembered(target, answers);
    await target.stop();
    await s.stop();
});

test('SPEC 12: an export of PostgreSQL shows all lanes at one moment, which its header says, while others write', async () => {
    const s = server('postgres', 4, { env: { TALLY_PAUSE_POINT: 'export.lane:100' } });
    await s.start();
    const tenants = ['load', 'audited'];
    const writers = tenants.map((id) => new Writers(s, s.tenant(id), 2));
    await eventually('some changes', () => writers.every((each) => each.events.length > 20));
    await exportTo(s, 'moment.ndjson');
    await Promise.all(writers.map((each) => each.stop()));
    const lines = readFileSync(fileOf('moment.ndjson'), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
    const { lanes } = headerOf('moment.ndjson');
    for (const [index, id] of tenants.entries()) {
        const sequence = BigInt(lanes[laneOf(id, 4)].sequence);
        for (const [counter, value] of writers[index].at(sequence)) {
            const cell = lines.find((line) => line.kind === 'cell' && line.tenant === id && line.counter === counter);
            assert.equal(cell ? Number(cell.added) : 0, value, `${id} ${counter}`);
        }
        const events = lines.filter((line) => line.kind === 'event' && line.tenant === id).length;
        assert.equal(events, writers[index].events.filter((event) => event.sequence <= sequence).length, id);
    }
    await s.stop();
});

test('SPEC 12: an empty schema is made for an export, and nothing else in its place', async () => {
    const source = server('embedded', 1);
    await source.start();
    await fill(source);
    await exportTo(source, 'whole.ndjson');
    await finished(adminOf(source), await startExport(source, 'cells.ndjson', {}));
    const data = places.fresh('schema');
    const settings = { 'store.kind': 'postgres', 'store.lanes': 2 };
    assert.match((await prepare(places.ops, 'nothing', data, settings)).stderr, /there is no export nothing in /);
    assert.match((await prepare(places.ops, 'cells.ndjson', data, settings)).stderr, /has no ids and no events/);
    const made = await prepare(places.ops, 'whole.ndjson', data, settings);
    assert.match(made.stdout, /^the schema t\d+ is empty and can take whole\.ndjson; serve it with store\.lanes 2$/m);
    assert.match((await prepare(places.ops, 'whole.ndjson', data, settings)).stderr, /the schema t\d+ is there already/);
    const named = await runTally(['import', 'whole.ndjson', '--prepare', data, '--set', 'store.kind=postgres', '--set', 'store.postgres.dsn=postgresql://nobody@127.0.0.1:1/none']);
    assert.deepEqual([named.code, /a store in PostgreSQL has no directory/.test(named.stderr)], [2, true], named.stderr);
    const fresh = server('postgres', 2);
    await fresh.start();
    const refused = await over(adminOf(fresh), (await startImport(fresh, 'whole.ndjson')).body.job);
    assert.match(refused.error, /were made with another key; `tally import NAME --prepare` makes an empty schema/);
    await fresh.stop();
    await source.stop();
});
