// Backups of several lanes: each lane as of one moment of its own, incremental, restored exactly, never half.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';

import { backedUp, backup, backups, finished, Places } from './support/errands.mjs';
import { expectLived, lanePath, laneServer, live, refusal, TENANTS } from './support/lanes.mjs';
import { within } from './support/pace.mjs';
import { over } from './support/rebuild.mjs';

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
