// `tally verify`: everything is read again, what is damaged is named, and the state is what the journal adds up to.

import assert from 'node:assert/strict';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { backedUp, Places } from './support/errands.mjs';
import { expectTriple } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { config, counter, pour } from './support/rebuild.mjs';
import { runTally, Server, TOTAL } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

const RULES = config(counter('ups', '\n    dimensions: [room]\n    rollups: [[]]'), counter('pulse', '\n    mode: windowed\n    window: 1h\n    trailing: true'));
/* Small segments and an archive that is made at once, so that there is one of every kind of file. One lane: what is
 * looked at here is what is said of each file, and lanes-backup.test.mjs has what is said of several lanes. */
const SETTINGS = { 'store.lanes': 1, 'clock.settle': '0s', 'checkpoint.every': '200ms', 'journal.segmentBytes': 1048576, 'journal.keep': '1h', 'journal.keepBytes': '1GiB', 'limits.counterGranularities': 4, 'limits.batchOps': 240, 'events.retention': '60s' };

const places = new Places();
after(() => places.remove());

const server = (data, settings = {}) => new Server({ config: RULES, data, settings: { ...SETTINGS, 'ops.dir': places.ops, ...settings } });
const adminOf = (s) => s.tenant('operator', { scope: 'admin' });
const verify = (data, ...more) => runTally(['verify', '--data', data, '--set', `ops.dir=${places.ops}`, ...more]);
const findings = ({ stdout }) => stdout.trim().split('\n').map((line) => JSON.parse(line));

/** Another byte in the middle, in a file that shares nothing with others any more. */
function damage(file) {
    const bytes = readFileSync(file);
    bytes[Math.floor(bytes.length / 2)] ^= 1;
    rmSync(file);
    writeFileSync(file, bytes);
}

/** A bit of everything, over more than one checkpoint. */
async function live(s, round) {
    const t = s.tenant('audited');
    for (let i = 0; i < 5; i++) {
        const reply = await t.batch(Array.from({ length: 40 }, (_, j) => ({ op: 'increment', name: `c${j}`, durationSeconds: 60, timestamp: j * 60, amount: i + 1 })));
        assert.equal(reply.status, 200, reply.text);
    }
    await t.increment('expiring', { ...TOTAL, expiresAt: '2124-01-01T00:00:00Z' }, { 'Idempotency-Key': `k${round}` });
    await t.increment(`gone-${round}`, TOTAL);
    await t.delete(`gone-${round}`);
    await pour(t, Array.from({ length: 300 }, (_, i) => ({ type: 'up', dimensions: { room: `r${i % 9}` }, payload: { i } })));
}

async function metric(s, name) {
    const { text } = await s.call('GET', '/metrics');
    return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(text)[1]);
}

describe('a store that is whole', () => {
    const data = places.fresh();

    test('SPEC 10: its state equals what the journal adds up to from an empty start; what could not be checked is said', async () => {
        const s = server(data);
        await s.start();
        await live(s, 1);
        await s.stop();
        const before = readdirSync(data, { recursive: true }).sort();
        const run = await verify(data);
        assert.equal(run.code, 0, run.stdout + run.stderr);
        assert.match(run.stdout, /good: +balance +\d+ rows equal what the journal adds up to from an empty start/);
        assert.match(run.stdout, /not checked: sums/);
        assert.deepEqual(readdirSync(data, { recursive: true }).sort(), before, 'nothing was changed');
    });

    test('keys that came by the thousand, in a file of their own, are no damage', async () => {
        for (let round = 0; round < 3; round++) {
            const s = server(data, { 'checkpoint.every': '1h' }); // so that all are written back together, at the end
            await s.start();
            const lines = Array.from({ length: 6000 }, (_, i) => JSON.stringify({ op: 'increment', name: 'keyed', ...TOTAL, idempotencyKey: `${round}-${i}` }));
            const reply = await s.tenant('audited').call('POST', '/api/counters/audited/batch?results=errors', { body: lines.join('\n'), headers: { 'Content-Type': 'application/x-ndjson' } });
            assert.deepEqual([reply.status, reply.body.results], [200, []], reply.text);
            await s.stop();
        }
        const run = await verify(data);
        assert.equal(run.code, 0, run.stdout + run.stderr);
    });

    test('also after kill -9 with everything still in the journal', async () => {
        const s = server(data, { 'checkpoint.every': '1h' });
        await s.start();
        await live(s, 2);
        await s.kill();
        const run = await verify(data, '--json');
        assert.equal(run.code, 0, run.stdout + run.stderr);
        const found = findings(run);
        assert.deepEqual([...new Set(found.map((f) => f.verdict))].sort(), ['good', 'unchecked']);
        assert.ok(found.some((f) => f.what === 'balance' && f.verdict === 'good'), run.stdout);
    });

    test('a table that was only begun when the server was killed is no damage; one that is in use and empty is', async () => {
        const state = path.join(data, 'state');
        writeFileSync(path.join(state, '999999.sst'), '');
        const run = await verify(data);
        assert.equal(run.code, 0, run.stdout + run.stderr);
        const [used] = readdirSync(state).filter((name) => name.endsWith('.sst') && name !== '999999.sst');
        const bytes = readFileSync(path.join(state, used));
        truncateSync(path.join(state, used), 0);
        const worse = await verify(data);
        writeFileSync(path.join(state, used), bytes);
        rmSync(path.join(state, '999999.sst'));
        assert.notEqual(worse.code, 0, worse.stdout);
        assert.match(worse.stdout, new RegExp(`DAMAGED.*state.*${used}`));
    });

    test('from the newest backup where the journal no longer reaches the start; without one that is said', async () => {
        const short = { 'journal.keep': '0s', 'journal.keepBytes': 0, 'events.retention': '4s' };
        const s = server(data, short);
        await s.start();
        for (let round = 10; ; round++) {
            await live(s, round);
            if (await metric(s, 'tally_journal_segments') < 3 && round > 12) break;
            assert.ok(round < 200);
        }
        await s.stop();
        const without = await verify(data);
        assert.equal(without.code, 0, without.stdout + without.stderr);
        if (!/from an empty start/.test(without.stdout)) assert.match(without.stdout, /not checked: balance .* no backup is as recent/);

        const next = server(data);
        await next.start();
        await live(next, 300);
        await backedUp(adminOf(next), 'base');
        await live(next, 301);
        await next.restart();
        await live(next, 302);
        await next.stop();
        const run = await verify(data);
        assert.equal(run.code, 0, run.stdout + run.stderr);
        assert.match(run.stdout, /from backup base/);
        const ofBackup = await verify(data, 'base');
        assert.equal(ofBackup.code, 0, ofBackup.stdout + ofBackup.stderr);
        assert.match(ofBackup.stdout, /good: +recovery/);
        assert.ok(!existsSync(places.backup('.verifying')));
    });

    test('a store in use, a directory without one and a wrong name are no damage: what is the case is said, and what to do', async () => {
        const s = server(data);
        await s.start();
        const used = await verify(data);
        assert.equal(used.code, 1);
        assert.doesNotMatch(used.stdout, /DAMAGED/);
        assert.match(used.stderr, /^tally verify: .* is in use by another tally.*tally backup NAME/);
        assert.deepEqual(findings(await verify(data, '--json')).map((f) => [f.what, f.verdict]), [['identity', 'refused']]);
        await backedUp(adminOf(s), 'beside');
        assert.equal((await verify(data, 'beside')).code, 0, 'a backup can be verified beside a running server');
        await s.stop();

        const nothing = await verify(places.fresh());
        assert.equal(nothing.code, 1);
        assert.doesNotMatch(nothing.stdout, /DAMAGED/);
        assert.match(nothing.stderr, /^tally verify: there is no store in/);

        const wrong = await verify(data, 'besides');
        assert.equal(wrong.code, 1);
        assert.equal(wrong.stdout, '');
        assert.equal(wrong.stderr, `tally verify: there is no backup besides in ${path.join(places.ops, 'backups')}; there are: beside, base\n`);
        const empty = await runTally(['verify', 'besides', '--set', `ops.dir=${places.fresh()}`]);
        assert.match(empty.stderr, /there is no backup besides in .*, nor any other\n/);

        assert.equal((await runTally(['verify', 'a', 'b'])).code, 2);
        const place = await runTally(['verify', './data']);
        assert.equal(place.code, 2);
        assert.match(place.stderr, /no name of a backup; --data DIR verifies a directory/);
    });

    test('a backup of which several files are damaged: each is named, for itself and where it would be the base of a comparison', async () => {
        const root = places.backup('beside');
        const files = readdirSync(root, { recursive: true }).filter((name) => /(\.sst|^ids\/.*|^journal\/.*\.seg)$/.test(name)).slice(0, 3);
        assert.ok(files.length >= 2, files.join());
        for (const name of files) damage(path.join(root, name));
        const gone = readdirSync(path.join(root, 'state')).find((name) => /^OPTIONS/.test(name));
        rmSync(path.join(root, 'state', gone));
        const run = await verify(data, 'beside', '--json');
        assert.equal(run.code, 1, run.stdout);
        const damaged = findings(run).filter((f) => f.verdict === 'damaged').map((f) => f.text);
        assert.equal(damaged.length, files.length + 1, run.stdout);
        for (const name of files) assert.ok(damaged.some((text) => text.endsWith(`${name} is damaged: its checksum does not match`)), run.stdout);
        assert.ok(damaged.some((text) => text.endsWith(`${gone} is missing`)), run.stdout);

        const store = await verify(data, '--json'); // its journal goes on from both backups
        assert.equal(store.code, 1, store.stdout);
        for (const name of files) assert.ok(findings(store).some((f) => f.what === 'backup' && f.verdict === 'damaged' && f.text.includes(name)), store.stdout);
        assert.ok(findings(store).some((f) => f.what === 'balance' && f.verdict === 'good' && /from backup base/.test(f.text)), store.stdout);

        rmSync(path.join(root, 'MANIFEST'));
        assert.match((await verify(data, 'beside')).stdout, /DAMAGED: +manifest .*MANIFEST is missing/);
    });
});

describe('a store that is damaged', () => {
    const data = places.fresh();
    before(async () => {
        const s = server(data, { 'events.retention': '4s', 'events.types': '[up]' });
        await s.start();
        await live(s, 1);
        await eventually('events to be archived', async () => {
            await live(s, 2 + Math.random());
            return readdirSync(path.join(data, 'archive')).some((name) => name.startsWith('events-'));
        }, { ms: 30000 });
        await s.stop();
    });

    for (const [part, pattern] of [['journal', /^journal-/], ['archive', /^events-/], ['ids', /^filter/], ['ids', /^ids-/], ['state', /\.sst$/], ['IDENTITY', null]]) {
        test(`a flipped byte in ${part} ${pattern ?? ''} is found and its file is named`, async () => {
            const copy = places.fresh('copy');
            cpSync(data, copy, { recursive: true });
            const full = path.join(copy, part);
            const name = pattern ? readdirSync(full).filter((one) => pattern.test(one)).sort()[0] : 'IDENTITY';
            assert.ok(name, `there is a file to damage in ${part}`);
            const file = pattern ? path.join(full, name) : full;
            const bytes = readFileSync(file);
            const at = part === 'journal' ? 4096 + 100 : Math.floor(Math.min(bytes.length, statSync(file).size) / 2);
            bytes[at] ^= 1;
            writeFileSync(file, bytes);
            const run = await verify(copy, '--json');
            assert.equal(run.code, 1, run.stdout);
            const damaged = findings(run).filter((f) => f.verdict === 'damaged');
            assert.ok(damaged.some((f) => f.text.includes(name)), run.stdout);
            rmSync(copy, { recursive: true });
        });
    }

    test('a state that is whole but is not what the journal adds up to: the counter is named', async () => {
        const mine = places.fresh();
        const s = server(mine);
        await s.start();
        await live(s, 1);
        await s.stop();
        const other = places.fresh();
        cpSync(mine, other, { recursive: true });
        for (const [dir, amount] of [[mine, 1], [other, 2]]) {
            const one = server(dir);
            await one.start();
            expectTriple(await one.tenant('audited', { token: tokenFor('audited') }).increment('tampered', { ...TOTAL, amount }), amount);
            await one.stop();
        }
        rmSync(path.join(mine, 'state'), { recursive: true });
        cpSync(path.join(other, 'state'), path.join(mine, 'state'), { recursive: true });
        const run = await verify(mine);
        assert.equal(run.code, 1, run.stdout);
        assert.match(run.stdout, /DAMAGED: +balance +cell .*tampered.* has another value than the journal adds up to/);
    });
});
