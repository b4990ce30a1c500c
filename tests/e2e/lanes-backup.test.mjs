// Backups of several lanes: each lane as of one moment of its own, incremental, restored exactly, never half. And their
// verification: every lane is read, and what is wrong with one is said of that one.

import assert from 'node:assert/strict';
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';

import { backedUp, backup, backups, finished, Places } from './support/errands.mjs';
import { expectError, expectTriple } from './support/expect.mjs';
import { expectLived, lanePath, laneServer, live, refusal, TENANTS } from './support/lanes.mjs';
import { within } from './support/pace.mjs';
import { over } from './support/rebuild.mjs';
import { runTally, TOTAL } from './support/server.mjs';

const places = new Places();
after(() => places.remove());

const server = (lanes, options) => laneServer(places, lanes, options);
const lane = (s, number, ...rest) => lanePath(s.data, number, ...rest);
const adminOf = (s) => s.tenant('operator', { scope: 'admin' });

/** Starts a server on a restored backup, runs `look` on it, stops it. */
async function onRestored(name, look) {
    const data = places.fresh('restored');
    const run = await places.restore(name, data);
    assert.equal(run.code, 0, run.stderr);
    assert.match(run.stdout, /all checked; serve it with store\.lanes 4/);
    const restored = await server(4, { data }).start();
    try {
        await look(restored);
    } finally {
        await restored.stop();
    }
}

describe('backups of four lanes', () => {
    const s = server(4);
    after(() => s.stop());

    test('SPEC 10, 11: a backup has each lane as of one moment, and is restored to exactly that', async () => {
        await s.start();
        await live(s, 1);
        const job = await backedUp(adminOf(s), 'first');
        await live(s, 2);
        await backedUp(adminOf(s), 'second');
        const [first, second] = await backups(adminOf(s));
        assert.equal(first.lanes.length, 4);
        const sum = first.lanes.reduce((total, one) => total + BigInt(one.sequence), 0n);
        assert.deepEqual([first.sequence, job.sequence], [String(sum), String(sum)]);
        assert.equal(first.moment, first.lanes.map((one) => one.moment).sort().at(-1));
        first.lanes.forEach((one, index) => assert.ok(BigInt(one.sequence) < BigInt(second.lanes[index].sequence)));
        for (const [name, rounds] of [['first', 1], ['second', 2]]) {
            await onRestored(name, async (restored) => {
                await expectLived(restored, rounds);
                for (const id of TENANTS) assert.equal((await restored.tenant(id).call('GET', `/api/events/${id}?limit=100`)).body.events.length, 5 * rounds);
            });
        }
    });

    test('SPEC 10: what has not changed in a lane is linked, and any backup of a chain can go', async () => {
        await s.restart();
        await backedUp(adminOf(s), 'idle-1');
        await backedUp(adminOf(s), 'idle-2');
        const idle = (await backups(adminOf(s))).find((one) => one.name === 'idle-2');
        assert.ok(BigInt(idle.newBytes) < BigInt(idle.bytes), JSON.stringify(idle));
        for (let number = 0; number < 4; number++) {
            const state = lanePath(places.backup('idle-2'), number, 'state');
            assert.ok(readdirSync(state).some((name) => name.endsWith('.sst') && statSync(path.join(state, name)).nlink > 1), `tables of lane ${number} are shared`);
        }
        await adminOf(s).call('DELETE', '/api/admin/backups/idle-1');
        await onRestored('idle-2', (restored) => expectLived(restored, 2));
    });

    test('X-08: a lane that cannot be linked: the job names it, and the next backup is made', async () => {
        renameSync(lane(s, 2, 'archive'), lane(s, 2, 'away'));
        const job = await over(adminOf(s), (await backup(adminOf(s), 'unlinked')).body.job);
        assert.equal(job.state, 'failed', JSON.stringify(job));
        assert.equal(job.error, `${lane(s, 2, 'archive')} cannot be listed: No such file or directory`);
        assert.ok(!existsSync(places.backup('unlinked')));
        renameSync(lane(s, 2, 'away'), lane(s, 2, 'archive'));
        await backedUp(adminOf(s), 'unlinked');
    });

    test('a damaged file of a lane is found when it is restored, and nothing is left of the try', async () => {
        const file = lanePath(places.backup('second'), 3, 'IDENTITY');
        const bytes = readFileSync(file);
        bytes[30] ^= 1;
        rmSync(file);
        writeFileSync(file, bytes);
        const data = places.fresh();
        const run = await places.restore('second', data);
        assert.equal(run.code, 1);
        assert.match(run.stderr, /lane-003\/IDENTITY is damaged/);
        assert.deepEqual(readdirSync(data), []);
    });

    for (const point of ['restore.after_file:30', 'restore.before_done']) {
        test(`a restore killed at ${point} leaves a directory that no server takes for data`, async () => {
            const data = places.fresh();
            const run = await places.restore('first', data, { env: { TALLY_CRASH_POINT: point } });
            assert.equal(run.signal, 'SIGKILL');
            for (const lanes of [1, 4]) assert.match(await refusal(server(lanes, { data })), /restore did not finish/);
        });
    }
});

for (const point of ['snapshot.before_journal:3', 'backup.after_file:20', 'backup.after_rename']) {
    test(`X-08: killed at ${point}: no false backup, and the errand is done after the restart`, async () => {
        const name = `crash-${point.replace(':', '-')}`;
        const doomed = server(4, { env: { TALLY_CRASH_POINT: point } });
        await doomed.start();
        await live(doomed, 1);
        const asked = await backup(adminOf(doomed), name);
        assert.equal((await within(10000, 'the crash', doomed.exited)).signal, 'SIGKILL');
        await doomed.kill();
        if (point !== 'backup.after_rename') assert.ok(!existsSync(places.backup(name)), 'it does not have its name yet');
        const next = server(4, { data: doomed.data });
        await next.start();
        await finished(adminOf(next), asked);
        for (let number = 0; number < 4; number++) assert.ok(!existsSync(lane(next, number, 'snapshot')));
        await next.stop();
        await onRestored(name, (restored) => expectLived(restored, 1));
    });
}

describe('a verification of four lanes', () => {
    const s = server(4, { settings: { 'journal.keep': '1h', 'journal.keepBytes': '1GiB' } });
    const verify = async (data, ...more) => {
        const run = await runTally(['verify', '--json', '--data', data, '--set', `ops.dir=${places.ops}`, ...more], { ms: 60000 });
        return { ...run, found: run.stdout.trim().split('\n').filter(Boolean).map((line) => JSON.parse(line)) };
    };
    const which = (found, verdict, what) => found.filter((f) => f.verdict === verdict && (!what || f.what === what)).map((f) => f.lane);
    const copied = () => {
        const data = places.fresh('copy');
        cpSync(s.data, data, { recursive: true });
        return data;
    };
    after(() => s.stop());

    test('SPEC 10, 11: each lane is what its journal adds up to, from an empty start or from the newest backup', async () => {
        await s.start();
        await live(s, 1);
        await s.stop();
        const before = readdirSync(s.data, { recursive: true }).sort();
        const plain = await verify(s.data);
        assert.equal(plain.code, 0, plain.stdout + plain.stderr);
        assert.deepEqual(which(plain.found, 'good', 'balance'), [0, 1, 2, 3]);
        assert.match(plain.found[0].text, /^installation [0-9a-f]{16}, 4 lanes$/);
        assert.ok(plain.found.every((f) => f.verdict === 'good' || f.what === 'sums'), plain.stdout);
        assert.deepEqual(readdirSync(s.data, { recursive: true }).sort(), before, 'nothing was changed');

        await s.start();
        await backedUp(adminOf(s), 'base');
        await live(s, 2);
        await s.kill();
        const based = await verify(s.data);
        assert.equal(based.code, 0, based.stdout + based.stderr);
        assert.equal(based.found.filter((f) => f.what === 'balance' && /from backup base$/.test(f.text)).length, 4, based.stdout);
        assert.equal(based.found.filter((f) => f.what === 'backup').length, 1, 'it is read once for all');
        const text = await runTally(['verify', '--data', s.data, '--set', `ops.dir=${places.ops}`]);
        assert.match(text.stdout, /^good: +journal +lane 2: \d+ files/m);
        await s.start();
    });

    test('a store in use is refused, also one of its lanes; a backup of it can be verified meanwhile', async () => {
        for (const data of [s.data, lane(s, 1)]) {
            const run = await verify(data);
            assert.equal(run.code, 1);
            assert.deepEqual(run.found.map((f) => [f.what, f.verdict]), [['identity', 'refused']]);
        }
        const run = await verify(s.data, 'base');
        assert.equal(run.code, 0, run.stdout + run.stderr);
        assert.deepEqual(which(run.found, 'good', 'recovery'), [0, 1, 2, 3]);
        assert.ok(!existsSync(places.backup('.verifying')));
        await s.stop();
    });

    test('one lane alone is verified too, and that the others were not is said', async () => {
        const run = await verify(lane(s, 1));
        assert.equal(run.code, 0, run.stdout + run.stderr);
        assert.ok(run.found.some((f) => f.what === 'balance' && f.verdict === 'good' && /from backup base$/.test(f.text)), run.stdout);
        assert.ok(run.found.some((f) => f.what === 'lanes' && f.verdict === 'unchecked' && /this is lane 1 of 4/.test(f.text)), run.stdout);
        await s.start();
        await expectLived(s, 2);
        await s.stop();
    });

    test('damage is said of its lane, and the others are read all the same', async () => {
        const data = copied();
        const [name] = readdirSync(lanePath(data, 1, 'state')).filter((one) => one.endsWith('.sst'));
        const file = lanePath(data, 1, 'state', name);
        const bytes = readFileSync(file);
        bytes[bytes.length >> 1] ^= 1;
        writeFileSync(file, bytes);
        const run = await verify(data);
        assert.equal(run.code, 1);
        assert.deepEqual(which(run.found, 'damaged'), [1]);
        assert.ok(run.found.some((f) => f.lane === 1 && f.text.includes(name)), run.stdout);
        assert.deepEqual(which(run.found, 'good', 'balance'), [0, 2, 3]);
    });

    test('a lane that is missing, and one that lies where another belongs, are damage', async () => {
        const data = copied();
        rmSync(lanePath(data, 1), { recursive: true });
        rmSync(lanePath(data, 3), { recursive: true });
        cpSync(lanePath(data, 2), lanePath(data, 3), { recursive: true });
        const run = await verify(data);
        assert.equal(run.code, 1);
        assert.deepEqual(run.found.filter((f) => f.verdict === 'damaged').map((f) => f.text), [
            `${lanePath(data, 1)} is missing`,
            `${lanePath(data, 3)} is lane 2 and lies where lane 3 belongs; put it back.`,
        ]);
        assert.deepEqual(which(run.found, 'good', 'balance'), [0, 2]);
    });
});

test('SPEC 13: what was written after a backup is lost with the store that had it', async () => {
    const s = server(1);
    await s.start();
    const t = s.tenant('t1');
    const kept = (await t.increment('total', TOTAL)).headers.get('Tally-Sequence');
    await backedUp(adminOf(s), 'before');
    for (let i = 0; i < 50; i++) await t.increment('total', TOTAL);
    const lost = (await t.increment('total', TOTAL)).headers.get('Tally-Sequence');
    await s.stop();
    const data = places.fresh('restored');
    assert.equal((await places.restore('before', data)).code, 0);
    const restored = server(1, { data });
    await restored.start();
    expectTriple(await restored.tenant('t1').get('total', { ...TOTAL, minSequence: kept }), 1);
    expectError(await restored.tenant('t1').get('total', { ...TOTAL, minSequence: lost }), 409, 'position_lost');
    await restored.stop();
});
