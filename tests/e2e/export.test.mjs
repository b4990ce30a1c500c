// Exports and imports: everything comes out at one moment and goes into another server as it was.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gunzipSync } from 'node:zlib';

import { finished, Places, Writers } from './support/errands.mjs';
import { onDisk } from './support/exceptions.mjs';
import { expectError, expectExactly, expectTriple } from './support/expect.mjs';
import { laneOf } from './support/lanes.mjs';
import { eventually, times, within } from './support/pace.mjs';
import { pages, picture as pictured } from './support/picture.mjs';
import { KEPT, prepare, RULES, SETTINGS } from './support/porting.mjs';
import { ask, medley, over, pour } from './support/rebuild.mjs';
import { IN_POSTGRES, LANES, runTally, Server, TOTAL } from './support/server.mjs';

const MAX = '9223372036854775807';

const places = new Places();
after(() => places.remove());

const server = (options = {}) => new Server({ config: RULES, data: places.fresh(), ...options, settings: { ...SETTINGS, 'ops.dir': places.ops, ...options.settings } });
const adminOf = (s) => s.tenant('operator', { scope: 'admin' });
const exportTo = async (s, name, more = {}) => finished(adminOf(s), await adminOf(s).call('POST', '/api/admin/exports', { body: { name, ...more } }));
const startImport = (s, name) => adminOf(s).call('POST', '/api/admin/imports', { body: { name } });
const picture = (s, tenants) => pictured(s, tenants, KEPT);
const importFrom = async (s, name) => finished(adminOf(s), await startImport(s, name));
const fileOf = (name) => path.join(places.ops, 'exports', name);

const TENANTS = ['plain', 'ABCXYZabcxyz0189_.~-', 't'.repeat(255)];

async function fill(s) {
    for (const [index, id] of TENANTS.entries()) {
        const t = s.tenant(id);
        const names = ['a', 'ABCXYZabcxyz0189_.~-', '-', '.x', '~', 'n'.repeat(255)];
        for (const name of names) {
            expectTriple(await t.increment(name, { ...TOTAL, amount: MAX }), MAX);
            await t.decrement(name, { ...TOTAL, amount: String(index + 1) });
            await t.increment(name, { durationSeconds: 60, timestamp: '0001-01-01T00:00:30Z', amount: 3 });
            await t.increment(name, { durationSeconds: 2147483647, timestamp: '9999-12-31T23:59:59Z', expiresAt: '9999-12-31T23:59:59.999Z' });
        }
        await t.set('zero', { ...TOTAL, targetValue: 0 });
        await t.increment('deleted', TOTAL);
        await t.delete('deleted');
        await pour(t, medley(200, index + 1));
        await pour(t, [{ type: 'opened' }]);
    }
}

/** The last line of an export that somebody changed and stands by. */
const unsummed = (line) => line.replace(/,"checksum":"\d+"/, '');

describe('an export', () => {
    const source = server();
    before(async () => {
        await source.start();
        await fill(source);
    });
    after(() => source.stop());

    for (const name of ['plain.ndjson', 'packed.ndjson.gz', 'packed.zst']) {
        test(`SPEC 10: ${name} makes an empty server read as the first one, everywhere; twice is once`, async () => {
            const job = await exportTo(source, name);
            const expected = await picture(source, TENANTS);
            const target = server();
            await target.start();
            try {
                const done = await importFrom(target, name);
                assert.equal(done.lines, String(BigInt(job.lines) - 1n));
                assert.deepEqual(await picture(target, TENANTS), expected);
                await importFrom(target, name);
                assert.deepEqual(await picture(target, TENANTS), expected);
                await target.restart({ hard: true });
                assert.deepEqual(await picture(target, TENANTS), expected, 'and after kill -9');
                // Entities go on where they were: one that is on is not counted twice.
                const t = target.tenant('plain');
                const on = { type: 'up', dimensions: { account: 'fresh', master: 'm' } };
                const before = (await t.get('accounts', {})).body.net;
                await pour(t, [on, on]);
                assert.equal((await t.get('accounts', {})).body.net, String(BigInt(before) + 1n));
                expectError(await ask(adminOf(target), 'ups'), 409, 'history_incomplete');
            } finally {
                await target.stop();
            }
        });
    }

    test('is lines of JSON that a person can read, and each names one thing', () => {
        const lines = gunzipSync(readFileSync(fileOf('packed.ndjson.gz'))).toString().trimEnd().split('\n').map((line) => JSON.parse(line));
        assert.equal(lines[0].kind, 'header');
        assert.equal(lines[0].idKey, undefined, 'no key without ids');
        assert.equal(lines.at(-1).kind, 'end');
        assert.equal(lines.at(-1).lines, String(lines.length - 1));
        const cell = lines.find((line) => line.kind === 'cell' && line.counter === 'a' && line.durationSeconds === 0 && line.tenant === 'plain');
        assert.deepEqual({ ...cell, updatedAt: null }, { kind: 'cell', tenant: 'plain', counter: 'a', durationSeconds: 0, bucket: '0', added: MAX, subbed: '1', updatedAt: null });
        assert.equal(readFileSync(fileOf('plain.ndjson'), 'utf8').split('\n').length - 1, lines.length);
    });

    test('counters that the other server has no rules for are there, frozen', async () => {
        const bare = server({ config: 'counters: []\n' });
        await bare.start();
        const t = bare.tenant('plain');
        await importFrom(bare, 'plain.ndjson');
        const expected = (await source.tenant('plain').get('ups', {})).body;
        assert.deepEqual((await t.get('ups', {})).body, expected);
        await pour(t, [{ type: 'up', dimensions: { room: 'r1' } }]);
        assert.deepEqual((await t.get('ups', {})).body, expected);
        await bare.stop();
    });

    test('a file that is damaged or not an export changes nothing and says which line', async () => {
        const target = server();
        await target.start();
        const text = readFileSync(fileOf('plain.ndjson'), 'utf8').split('\n');
        const variants = {
            'cut.ndjson': [text.slice(0, -20).join('\n'), /cut short/],
            'odd.ndjson': [text.map((line, i) => (i === 5 ? '{"kind":"cell"}' : line)).join('\n'), /line 6/],
            'negative.ndjson': [text.map((line) => line.replace(`"added":"${MAX}"`, '"added":"-5"')).join('\n'), /negative/],
            'words.ndjson': ['hello\n', /line 1/],
            'bad.zst': ['hello', /damaged/],
            'bad.gz': [readFileSync(fileOf('packed.ndjson.gz')).subarray(0, 1000), /damaged/],
            'changed.ndjson': [text.map((line) => line.replace(`"added":"${MAX}"`, '"added":"5"')).join('\n'), /checksum/],
            'modes.ndjson': [text.map((line) => (line.includes('"definition","counter":"ups"') ? line.replace('"persistent"', '"series"') : unsummed(line))).join('\n'), /ups is persistent here/],
        };
        for (const [name, [content, why]] of Object.entries(variants)) {
            writeFileSync(fileOf(name), content);
            const reply = await startImport(target, name);
            assert.equal(reply.status, 202, reply.text);
            const job = await over(adminOf(target), reply.body.job);
            assert.equal(job.state, 'failed', name);
            assert.match(job.error, why);
        }
        assert.deepEqual(await target.tenant('plain').listAll(), []);
        expectError(await startImport(target, 'nothing'), 404, 'not_found');
        expectExactly(await adminOf(target).call('POST', '/api/admin/imports'), 400, { error: 'name is required.', code: 'invalid_request' });
        expectError(await startImport(target, '../x'), 400, 'invalid_request');
        expectError(await startImport(target), 400, 'invalid_request');
        expectError(await target.tenant('plain').call('POST', '/api/admin/imports', { body: { name: 'plain.ndjson' } }), 403, 'forbidden');
        await target.stop();
    });

    test('X-08: an import that is killed goes on where it was', async () => {
        const expected = await picture(source, TENANTS);
        const data = places.fresh();
        const doomed = server({ data, settings: { 'limits.batchOps': 40, 'limits.atomicOps': 40 }, env: { TALLY_CRASH_POINT: 'import.after_chunk:3' } });
        await doomed.start();
        const reply = await startImport(doomed, 'plain.ndjson');
        assert.equal((await within(10000, 'the crash', doomed.exited)).signal, 'SIGKILL');
        await doomed.kill();
        const next = server({ data, settings: { 'limits.batchOps': 40, 'limits.atomicOps': 40 } });
        await next.start();
        assert.equal((await over(adminOf(next), reply.body.job)).state, 'done');
        assert.deepEqual(await picture(next, TENANTS), expected);
        await next.stop();
    });

    test('ids and keys go along on request, into a store made with their key, and into no other', async () => {
        const t = source.tenant('ids');
        const key = { 'Idempotency-Key': 'once' };
        expectTriple(await t.increment('keyed', { ...TOTAL, amount: 7 }, key), 7);
        const event = { eventId: 'é "E1"', type: 'up', occurredAt: 5, dimensions: { room: 'r9' } };
        const first = await t.call('POST', '/api/events/ids', { body: event });
        assert.equal(first.body.result, 'APPLIED');
        const known = await t.call('POST', '/api/events/ids', { body: event });
        await exportTo(source, 'ids.zst', { ids: true });

        const other = server();
        await other.start();
        const refused = await over(adminOf(other), (await startImport(other, 'ids.zst')).body.job);
        assert.match(refused.error, /another key/);
        await other.stop();

        const data = path.join(places.root, 'prepared');
        const prepareFrom = (name) => prepare(places.ops, name, data, { 'store.lanes': LANES });
        assert.match((await prepareFrom('plain.ndjson')).stderr, /has no ids/);
        assert.equal((await prepareFrom('ids.zst')).code, 0);
        assert.match((await prepareFrom('ids.zst')).stderr, IN_POSTGRES ? /is there already/ : /is not empty/);
        const target = server({ data });
        await target.start();
        await importFrom(target, 'ids.zst');
        for (const hard of [false, true]) {
            const r = target.tenant('ids');
            const replay = await r.increment('keyed', { ...TOTAL, amount: 7 }, key);
            expectTriple(replay, 7);
            assert.equal(replay.headers.get('Idempotent-Replayed'), 'true');
            const again = await r.call('POST', '/api/events/ids', { body: event });
            assert.equal(again.body.result, 'DROPPED_DUPLICATE', again.text);
            assert.equal(again.body.firstSeenAt, known.body.firstSeenAt);
            const changed = await r.call('POST', '/api/events/ids', { body: { ...event, type: 'down' } });
            assert.equal(changed.body.conflict, true);
            if (!hard) await target.restart({ hard: true });
        }
        await target.stop();
    });

    test('tally export and tally import do the same from the command line', async () => {
        const target = server();
        await target.start();
        const env = (s) => ({ env: { TALLY_URL: s.url, TALLY_TOKEN: adminOf(s).token } });
        const out = await runTally(['export', 'cli.gz'], env(source));
        assert.equal(out.code, 0, out.stderr);
        assert.match(out.stdout, /^exported cli\.gz: \d+ lines, up to sequence \d+$/m);
        assert.equal((await runTally(['import', 'cli.gz'], env(target))).code, 0);
        assert.deepEqual(await picture(target, TENANTS), await picture(source, TENANTS));
        const missing = await runTally(['import', 'nothing'], env(target));
        assert.equal(missing.code, 1);
        assert.match((await runTally(['export', '--list'], env(target))).stdout, /cli\.gz/);
        assert.equal((await runTally(['export', '--remove', 'cli.gz', '--json'], env(target))).stdout.trim(), '{"deleted":true}');
        await target.stop();
    });

    test('tally backup makes, lists and removes one', { skip: onDisk('backups') }, async () => {
        const run = (...args) => runTally(['backup', ...args], { env: { TALLY_URL: source.url, TALLY_TOKEN: adminOf(source).token } });
        assert.equal(JSON.parse((await run('from-cli', '--json')).stdout).state, 'done');
        assert.match((await run('--list')).stdout, /from-cli/);
        assert.equal((await run('--remove', 'from-cli')).code, 0);
        assert.equal((await run('a', '--list')).code, 2);
    });

    test('exports are listed and removed by name', async () => {
        const admin = adminOf(source);
        const { body } = await admin.call('GET', '/api/admin/exports');
        assert.ok(body.exports.some((one) => one.name === 'packed.zst' && BigInt(one.bytes) > 0n), JSON.stringify(body));
        const names = body.exports.map((one) => one.name);
        const paged = [];
        for (let after = ''; after !== null;) {
            const page = (await admin.call('GET', `/api/admin/exports?limit=1&after=${after}`)).body;
            paged.push(...page.exports.map((one) => one.name));
            after = page.next;
        }
        assert.deepEqual(paged, names);
        assert.equal((await admin.call('DELETE', '/api/admin/exports/words.ndjson')).status, 200);
        expectError(await admin.call('DELETE', '/api/admin/exports/words.ndjson'), 404, 'not_found');
        expectError(await admin.call('POST', '/api/admin/exports', { body: { name: 'packed.zst' } }), 409, 'conflict');
    });
});

describe('a rebuild that begins with an export', () => {
    const s = server();
    before(() => s.start());
    after(() => s.stop());
    const counters = ['ups', 'accounts', 'views'];
    const values = (t) => Promise.all(counters.map(async (name) => (await pages(t, `/api/counters/${t.id}/${name}/cells`, 'cells')).map(({ dimensions, net, added, subbed }) => ({ dimensions, net, added, subbed }))));

    test('SPEC 7: base values from the export, then the events after it, entities included', async () => {
        const t = s.tenant('rebuilt');
        const admin = adminOf(s);
        await pour(t, medley(200, 7));
        await exportTo(s, 'base.ndjson');
        await pour(t, medley(200, 8));
        const expected = await values(t);
        await importFrom(s, 'base.ndjson'); // puts them back, and makes them counters with an import
        assert.notDeepEqual(await values(t), expected);
        for (const name of counters) {
            expectError(await ask(admin, name), 409, 'history_incomplete');
            const job = await over(admin, (await ask(admin, name, { from: 'base.ndjson' })).body.job);
            assert.equal(job.state, 'done', JSON.stringify(job));
        }
        assert.deepEqual(await values(t), expected);

        // The base is the file's, whatever was counted before it.
        const lines = readFileSync(fileOf('base.ndjson'), 'utf8').split('\n');
        writeFileSync(fileOf('more.ndjson'), lines.map((line) => (line.includes('"counter":"ups","dimensions":"{}"') ? line.replace(/"added":"(\d+)"/, (_, n) => `"added":"${BigInt(n) + 1000n}"`) : unsummed(line))).join('\n'));
        const before = BigInt((await t.get('ups', {})).body.net);
        assert.equal((await over(admin, (await ask(admin, 'ups', { from: 'more.ndjson' })).body.job)).state, 'done');
        assert.equal(BigInt((await t.get('ups', {})).body.net), before + 1000n);
        await s.restart({ hard: true });
        assert.equal(BigInt((await t.get('ups', {})).body.net), before + 1000n);
        expectError(await ask(adminOf(s), 'ups'), 409, 'history_incomplete');
    });

    test('an export that is not there, not of this installation or without the counter is refused', async () => {
        const admin = adminOf(s);
        expectError(await ask(admin, 'ups', { from: 'nothing' }), 400, 'invalid_request');
        expectError(await ask(admin, 'ups', { from: 'plain.ndjson' }), 400, 'invalid_request');
        const lines = readFileSync(fileOf('base.ndjson'), 'utf8').split('\n').filter((line) => !line.includes('"counter":"ups"'));
        const count = lines.length - 2;
        writeFileSync(fileOf('without.ndjson'), lines.map((line) => unsummed(line).replace(/"end","lines":"\d+"/, `"end","lines":"${count}"`)).join('\n'));
        const job = await over(admin, (await ask(admin, 'ups', { from: 'without.ndjson' })).body.job);
        assert.equal(job.state, 'failed');
        assert.match(job.error, /does not have this counter/);
    });
});

test('an export under load shows one moment', async () => {
    const s = server();
    await s.start();
    const t = s.tenant('load');
    const writers = new Writers(s, t, 4);
    await eventually('some writes', () => writers.changes.length > times(200));
    const job = await exportTo(s, 'moment.ndjson');
    await writers.stop();
    const target = server();
    await target.start();
    await importFrom(target, 'moment.ndjson');
    const header = JSON.parse(readFileSync(fileOf('moment.ndjson'), 'utf8').split('\n')[0]);
    const moment = LANES === 1 ? job.sequence : header.lanes[laneOf('load')].sequence;
    for (const [counter, value] of writers.at(BigInt(moment))) {
        const reply = await target.tenant('load').get(counter);
        if (value) expectTriple(reply, value);
        else assert.equal(reply.status, 404);
    }
    await target.stop();
    await s.stop();
});
