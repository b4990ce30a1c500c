// Online backups: one moment under load, incremental, restored exactly, never half.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, sequenceOf } from './support/expect.mjs';
import { backedUp, backup, backups, Places, Writers } from './support/errands.mjs';
import { homeOf, homesOf, laneOf } from './support/lanes.mjs';
import { eventually, times, together, within } from './support/pace.mjs';
import { config, counter, look, over } from './support/rebuild.mjs';
import { LANES, runTally, Server, TOTAL } from './support/server.mjs';

const RULES = config(counter('ups', '\n    dimensions: []'));
const BUSY = { 'checkpoint.every': '200ms', 'checkpoint.journalBytes': 1048576, 'journal.segmentBytes': 1048576, 'journal.keep': '0s', 'limits.counterGranularities': 4, 'limits.batchOps': 240 };

const places = new Places();
after(() => places.remove());

const server = (options = {}) => new Server({ config: RULES, data: places.fresh(), ...options, settings: { ...BUSY, 'ops.dir': places.ops, ...options.settings } });
const adminOf = (s) => s.tenant('operator', { scope: 'admin' });

/** Starts a server on a restored backup, runs `look` on it, stops it. */
async function onRestored(name, look) {
    const data = places.fresh('restored');
    const run = await places.restore(name, data);
    assert.equal(run.code, 0, run.stderr);
    const restored = server({ data });
    await restored.start();
    try {
        await look(restored);
    } finally {
        await restored.stop();
    }
}

/** How far the tenant's lane is in a backup. */
async function momentOf(s, name) {
    const { sequence, lanes } = (await backups(adminOf(s))).find((one) => one.name === name);
    return BigInt(lanes ? lanes[laneOf('load')].sequence : sequence);
}

async function historyOf(t) {
    const ids = [];
    for (let cursor = ''; cursor !== null;) {
        const page = await t.call('GET', `/api/events/load?limit=1000${cursor && `&after=${cursor}`}`);
        ids.push(...page.body.events.map((event) => event.eventId));
        cursor = page.body.next;
    }
    return ids;
}

/** What a restored server holds is what had been acknowledged up to the change `moment`, in every part of the store. */
async function expectMoment(restored, writers, moment) {
    const r = restored.tenant('load');
    for (const [counter, value] of writers.at(moment)) {
        if (value === 0) assert.equal((await r.get(counter)).status, 404, counter);
        else expectTriple(await r.get(counter), value);
    }
    const then = writers.events.filter((event) => event.sequence <= moment).map((event) => event.eventId);
    assert.equal((await r.get('ups')).body.net, String(then.length), 'as many events were counted as had come');
    assert.deepEqual((await historyOf(r)).sort(), then.sort(), 'those are in the history, and no others');
    // Ids that were remembered then are, others are not.
    const text = writers.events.map(({ eventId }) => JSON.stringify({ eventId, type: 'up', occurredAt: 5 })).join('\n');
    const again = await r.call('POST', '/api/events/load?results=errors', { body: text, headers: { 'Content-Type': 'application/x-ndjson' } });
    assert.equal(again.body.duplicates, then.length, again.text);
    assert.equal(again.body.applied, writers.events.length - then.length);
    assert.equal((await historyOf(r)).length, writers.events.length, 'history is whole and each event is in it once');
}

describe('a backup under load', () => {
    const s = server();
    before(() => s.start());
    after(() => s.stop());

    test('SPEC 10: it equals the state at exactly one moment between its start and its end, and the server goes on meanwhile', async () => {
        const t = s.tenant('load');
        const admin = adminOf(s);
        const writers = new Writers(s, t, 6);
        const jobs = [];
        for (const name of ['one', 'two', 'three']) {
            await eventually('some more writes', () => writers.changes.length > (jobs.length + 1) * times(300));
            const last = writers.changes.at(-1).sequence;
            const job = await backedUp(admin, name);
            if (LANES === 1) assert.equal(BigInt(job.sequence), await momentOf(s, name));
            const end = sequenceOf(await t.increment('mark', TOTAL));
            const moment = await momentOf(s, name);
            assert.ok(moment >= last, `what was acknowledged before is in it: ${moment} >= ${last}`);
            assert.ok(moment < end, `what was sent after is not: ${moment} < ${end}`);
            jobs.push({ name, moment });
        }
        await writers.stop();
        assert.ok(writers.changes.at(-1).sequence > jobs.at(-1).moment);

        for (const { name, moment } of jobs) await onRestored(name, (restored) => expectMoment(restored, writers, moment));
    });

    test('SPEC 10: incremental: what has not changed is linked, and any one of a chain can go', async () => {
        const admin = adminOf(s);
        const listed = await backups(admin);
        assert.deepEqual(listed.map((b) => b.name), ['one', 'two', 'three']);
        await backedUp(admin, 'idle-1');
        await backedUp(admin, 'idle-2');
        const idle = (await backups(admin)).find((b) => b.name === 'idle-2');
        assert.ok(BigInt(idle.newBytes) < BigInt(idle.bytes), JSON.stringify(idle));
        const tables = readdirSync(homeOf(places.backup('idle-2'), 'load', 'state')).filter((name) => name.endsWith('.sst'));
        const shared = tables.filter((name) => statSync(homeOf(places.backup('idle-2'), 'load', 'state', name)).nlink > 1);
        assert.ok(shared.length > 0, 'tables are shared with the one before');
        expectExactly(await admin.call('DELETE', '/api/admin/backups/idle-1'), 200, { deleted: true });
        assert.ok(!existsSync(places.backup('idle-1')));
        await onRestored('idle-2', async (restored) => {
            expectTriple(await restored.tenant('load').get('mark'), 3);
        });
        expectError(await admin.call('DELETE', '/api/admin/backups/idle-1'), 404, 'not_found');
    });

    test('SPEC 3: the list is paged, by a cursor that need not be there any more', async () => {
        const admin = adminOf(s);
        for (const name of ['page-b', 'page-a']) await backedUp(admin, name);
        const page = async (query) => (await admin.call('GET', `/api/admin/backups?${new URLSearchParams(query)}`)).body;
        const all = (await backups(admin)).map((one) => one.name);
        const names = [];
        let after = '';
        do {
            const { backups: shown, next } = await page({ limit: 2, after });
            assert.ok(shown.length <= 2);
            names.push(...shown.map((one) => one.name));
            after = next;
        } while (after);
        assert.deepEqual(names, all);
        const first = await page({ limit: all.length - 1 });
        await admin.call('DELETE', '/api/admin/backups/page-b');
        assert.deepEqual((await page({ after: first.next })).backups.map((one) => one.name), ['page-a']);
        expectError(await admin.call('GET', '/api/admin/backups?limit=0'), 400, 'invalid_request');
        expectError(await admin.call('GET', '/api/admin/backups?after=!'), 400, 'invalid_request');
    });

    test('names are names, never paths, each is used once, and only an admin may ask', async () => {
        const admin = adminOf(s);
        for (const name of ['../x', '.hidden', 'a/b', '', 'x'.repeat(241), 'x'.repeat(256), 5]) expectError(await backup(admin, name), 400, 'invalid_request');
        expectError(await admin.call('DELETE', '/api/admin/backups/..%2Fx'), 404, 'not_found');
        expectError(await admin.call('DELETE', '/api/admin/backups/.making-x'), 404, 'not_found');
        expectError(await backup(admin, 'one'), 409, 'conflict');
        const t = s.tenant('load');
        for (const [method, target] of [['POST', '/api/admin/backups'], ['GET', '/api/admin/backups'], ['DELETE', '/api/admin/backups/one']]) {
            expectError(await t.call(method, target), 403, 'forbidden');
        }
        assert.ok(existsSync(places.backup('one', 'MANIFEST')));
        const crowd = await together(8, () => backup(admin, 'wanted'));
        assert.deepEqual(crowd.map((reply) => reply.status).sort(), [202, ...Array(7).fill(409)]);
        assert.equal((await over(admin, crowd.find((reply) => reply.status === 202).body.job)).state, 'done');
        const longest = 'x'.repeat(240); // what a file system has room for, with something in front of it
        assert.equal((await over(admin, (await backup(admin, longest)).body.job)).state, 'done');
        expectExactly(await admin.call('DELETE', `/api/admin/backups/${longest}`), 200, { deleted: true });
        const named = await admin.call('POST', '/api/admin/backups');
        assert.match(named.body.name, /^\d{8}T\d{6}\.\d{3}Z$/);
        assert.equal((await over(admin, named.body.job)).state, 'done');
    });

    test('a directory that is not empty is never restored into, and a missing backup is said to be missing', async () => {
        const full = places.fresh('full');
        writeFileSync(path.join(full, 'mine'), 'precious');
        const refused = await places.restore('one', full);
        assert.equal(refused.code, 1);
        assert.match(refused.stderr, /is not empty/);
        assert.deepEqual(readdirSync(full), ['mine']);
        assert.match((await places.restore('nothing', places.fresh())).stderr, /there is no backup nothing/);
        assert.equal((await runTally(['restore'])).code, 2);
    });

    test('a flipped byte in any file of a backup is found, the file is named, and nothing is left of the try', async () => {
        const admin = adminOf(s);
        await backedUp(admin, 'damaged');
        for (const part of ['IDENTITY', 'state', 'journal', 'MANIFEST']) {
            const full = part === 'MANIFEST' ? places.backup('damaged', part) : homeOf(places.backup('damaged'), 'load', part);
            const file = statSync(full).isDirectory() ? path.join(full, readdirSync(full).find((name) => !/CURRENT|OPTIONS|MANIFEST/.test(name))) : full;
            const bytes = readFileSync(file);
            const flipped = Buffer.from(bytes);
            flipped[Math.floor(bytes.length / 2)] ^= 1;
            rmSync(file); // it may be linked into another backup
            writeFileSync(file, flipped);
            const data = places.fresh();
            const run = await places.restore('damaged', data);
            assert.equal(run.code, 1, part);
            assert.match(run.stderr, /damaged/);
            assert.ok(run.stderr.includes(path.basename(file)), run.stderr);
            assert.deepEqual(readdirSync(data), [], 'nothing is left');
            rmSync(file);
            writeFileSync(file, bytes);
        }
        const journal = homeOf(places.backup('damaged'), 'load', 'journal');
        const [gone] = readdirSync(journal);
        rmSync(path.join(journal, gone));
        assert.match((await places.restore('damaged', places.fresh())).stderr, new RegExp(`${gone} is missing`));
    });
});

test('a file of a backup that is damaged is never linked into the next one, and the next one says so', async () => {
    const s = server();
    await s.start();
    const admin = adminOf(s);
    await s.tenant('load').increment('kept', { ...TOTAL, amount: 7 });
    await s.restart(); // so that there are tables, and nothing changes any more
    await backedUp(admin, 'first');
    const tables = (name) => {
        const state = homeOf(places.backup(name), 'load', 'state');
        return readdirSync(state).filter((file) => file.endsWith('.sst')).map((file) => path.join(state, file));
    };
    const before = await backedUp(admin, 'second');
    assert.equal(before.warning, undefined);
    const [victim] = tables('first').filter((file) => statSync(file).nlink === 2);
    const bytes = readFileSync(victim);
    bytes[bytes.length >> 1] ^= 1;
    writeFileSync(victim, bytes); // the second has it too

    const job = await backedUp(admin, 'third');
    const name = path.relative(places.backup('first'), victim);
    assert.match(job.warning, new RegExp(`1 file of the earlier backup second is damaged, ${name} first`));
    assert.equal(statSync(places.backup('third', name)).nlink, 1, 'it has a copy of its own');
    assert.ok(tables('third').filter((file) => statSync(file).nlink > 1).length > 0, 'the others are linked');
    const listed = (await backups(admin)).find((one) => one.name === 'third');
    assert.ok(BigInt(listed.newBytes) >= BigInt(bytes.length), JSON.stringify(listed));
    for (const old of ['first', 'second']) assert.equal((await runTally(['verify', old, '--set', `ops.dir=${places.ops}`])).code, 1);
    assert.equal((await runTally(['verify', 'third', '--set', `ops.dir=${places.ops}`])).code, 0);
    await onRestored('third', async (restored) => expectTriple(await restored.tenant('load').get('kept'), 7));
    await s.stop();
});

/* The thread that makes a backup stands still at a place while clients write and the store checkpoints, merges and
 * archives: were any part of it taken on the other side of that place, it would show another moment. At the last place
 * it is the commits that stand still, with half of each batch shown. */
describe('a backup that is held up on its way', () => {
    for (const [point, ms, writes, rounds] of [['snapshot.between_links', 700, 100, 1], ['snapshot.before_moment', 700, 100, 1], ['snapshot.before_journal', 700, 100, 1], ['publish.between', 200, 10, 6]]) {
        test(`SPEC 10: at ${point}: counters, ids, events and history still show one moment`, async () => {
            const s = server({ env: { TALLY_PAUSE_POINT: `${point}:${ms}` }, settings: { 'clock.settle': '0s', 'events.retention': '1h', 'checkpoint.every': '100ms' } });
            await s.start();
            const t = s.tenant('load');
            const writers = new Writers(s, t, 6);
            const moments = [];
            for (let round = 1; round <= rounds; round++) {
                await eventually('some writes', () => writers.changes.length > times(writes) * round);
                const name = `held-${point}-${round}`;
                await backedUp(adminOf(s), name);
                moments.push([name, await momentOf(s, name)]);
            }
            const written = writers.changes.length;
            await eventually('some more writes', () => writers.changes.length > written + times(writes / 2));
            await writers.stop();
            await s.stop();
            for (const [name, moment] of moments) await onRestored(name, (restored) => expectMoment(restored, writers, moment));
        });
    }
});

describe('a crash during a backup', () => {
    for (const point of ['snapshot.before_journal', 'backup.after_file', 'backup.before_manifest', 'backup.before_rename', 'backup.after_rename']) {
        test(`X-08: killed at ${point}: no false backup, and the errand is done after the restart`, async () => {
            const name = `crash-${point}`;
            const doomed = server({ env: { TALLY_CRASH_POINT: point } });
            await doomed.start();
            const t = doomed.tenant('crash');
            expectTriple(await t.increment('kept', { ...TOTAL, amount: 5 }), 5);
            const asked = await backup(adminOf(doomed), name);
            assert.equal(asked.status, 202, asked.text);
            assert.equal((await within(10000, 'the crash', doomed.exited)).signal, 'SIGKILL');
            await doomed.kill();
            if (point !== 'backup.after_rename') assert.ok(!existsSync(places.backup(name)), 'it does not have its name yet');

            const next = server({ data: doomed.data });
            await next.start();
            const job = await over(adminOf(next), asked.body.job);
            assert.equal(job.state, 'done', JSON.stringify(job));
            assert.deepEqual(readdirSync(path.join(places.ops, 'backups')).filter((entry) => entry.startsWith('.')), []);
            for (const home of homesOf(next.data)) assert.ok(!existsSync(path.join(home, 'snapshot')));
            await next.stop();
            await onRestored(name, async (restored) => expectTriple(await restored.tenant('crash').get('kept'), 5));
        });
    }

    for (const point of ['restore.after_file', 'restore.before_done']) {
        test(`a restore killed at ${point} leaves a directory that no server takes for data`, async () => {
            const s = server();
            await s.start();
            await backedUp(adminOf(s), `half-${point}`);
            await s.stop();
            const data = places.fresh();
            const run = await places.restore(`half-${point}`, data, { env: { TALLY_CRASH_POINT: point } });
            assert.equal(run.signal, 'SIGKILL');
            await assert.rejects(server({ data }).start(), /restore did not finish/);
            rmSync(data, { recursive: true });
            assert.equal((await places.restore(`half-${point}`, data)).code, 0);
        });
    }
});

test('X-08: a store that cannot be linked: the job names the file and the reason, and the next one is made', async () => {
    const s = server();
    await s.start();
    const part = homeOf(s.data, 'load', 'archive');
    renameSync(part, `${part}.away`);
    const job = await over(adminOf(s), (await backup(adminOf(s), 'unlinked')).body.job);
    assert.equal(job.state, 'failed', JSON.stringify(job));
    assert.equal(job.error, `${part} cannot be listed: No such file or directory`);
    assert.ok(!existsSync(places.backup('unlinked')));
    renameSync(`${part}.away`, part);
    await backedUp(adminOf(s), 'unlinked');
    await s.stop();
});

test('the number of errands that wait is bounded, and each is to be looked at', async () => {
    const s = server();
    await s.start();
    const admin = adminOf(s);
    const replies = await Promise.all(Array.from({ length: 40 }, (_, i) => backup(admin, `many-${i}`)));
    const taken = replies.filter((reply) => reply.status === 202);
    for (const reply of replies.filter((r) => r.status !== 202)) expectError(reply, 503, 'overloaded');
    assert.ok(taken.length >= 16);
    for (const reply of taken) assert.equal((await over(admin, reply.body.job)).state, 'done');
    expectError(await look(admin, '999999'), 404, 'not_found');
    await s.stop();
});
