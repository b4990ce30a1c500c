// Several lanes in one data directory: tenants divided among them, each lane a store of its own, all of them one server.

import assert from 'node:assert/strict';
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';

import { Places } from './support/errands.mjs';
import { expectLived, lanePath, laneServer, live, refusal, TENANTS } from './support/lanes.mjs';
import { together } from './support/pace.mjs';
import { runTally, TOTAL } from './support/server.mjs';

const places = new Places();
after(() => places.remove());

const server = (lanes, options) => laneServer(places, lanes, options);
const lane = (s, number, ...rest) => lanePath(s.data, number, ...rest);

/** Room on disk, not length: files are made ahead of need. One that was given another name meanwhile is not counted. */
function diskUse(directory) {
    const blocks = (name) => statSync(path.join(directory, name), { throwIfNoEntry: false })?.blocks ?? 0;
    return readdirSync(directory, { recursive: true }).reduce((sum, name) => sum + blocks(name) * 512, 0);
}

describe('a store of four lanes', () => {
    const s = server(4);
    after(() => s.stop());

    test('SPEC 11: each lane has its own directory and order, and tenants are divided among them', async () => {
        await s.start();
        assert.deepEqual(readdirSync(s.data).filter((name) => /lane|journal|state/.test(name)).sort(), [0, 1, 2, 3].map((i) => `lane-00${i}`));
        const used = diskUse(s.data);
        assert.ok(used < 70 << 20, `a new store takes ${used} bytes`);
        const sequences = await live(s, 1);
        const same = Math.max(...sequences.map((one) => sequences.filter((other) => other === one).length));
        assert.ok(same > 1 && same <= 4, `sequences are a lane's: ${sequences}`);
        await expectLived(s, 1);
    });

    test('SPEC 11, X-08: what was acknowledged in any lane is there after a stop, and after kill -9', async () => {
        await s.restart();
        await expectLived(s, 1);
        await live(s, 2);
        await s.restart({ hard: true });
        await expectLived(s, 2);
        assert.equal((await s.call('GET', '/readyz')).status, 200);
    });

    test('a second server on the directory, or on one of its lanes, is refused', async () => {
        for (const [lanes, data] of [[4, s.data], [1, lane(s, 1)]]) assert.match(await refusal(server(lanes, { data })), /is in use by another tally/);
    });

    test('SPEC 11: another number of lanes is refused, and the way to move is said', async () => {
        await s.stop();
        for (const lanes of [1, 2, 5]) {
            const said = await refusal(server(lanes, { data: s.data }));
            assert.match(said, new RegExp(`store.lanes is ${lanes}, but .* was made with 4`));
            assert.match(said, /`tally export --ids --events`, and `tally import`/);
        }
        assert.match(await refusal(server(1, { data: lane(s, 1) })), /is lane 1 of 4 of a store/);
        await s.start();
        await expectLived(s, 2);
    });

    test('a lane that is missing, or lies where another belongs, is named and nothing is opened', async () => {
        await s.stop();
        renameSync(lane(s, 2), path.join(s.data, 'away'));
        assert.match(await refusal(s), /lane-002 is missing; .* has 4 lanes/);
        assert.ok(!existsSync(lane(s, 2)));
        cpSync(lane(s, 3), lane(s, 2), { recursive: true });
        assert.match(await refusal(s), /lane-002 is lane 3 and lies where lane 2 belongs/);
        rmSync(lane(s, 2), { recursive: true });
        const other = server(4);
        await other.start();
        await other.stop();
        cpSync(lane(other, 2), lane(s, 2), { recursive: true });
        assert.match(await refusal(s), /lane-002 is of another installation/);
        rmSync(lane(s, 2), { recursive: true });
        renameSync(path.join(s.data, 'away'), lane(s, 2));
        await s.start();
        await expectLived(s, 2);
    });

    test('damage in one lane refuses to start and says in which', async () => {
        await s.kill();
        const [name] = readdirSync(lane(s, 1, 'journal')).filter((one) => /^journal-/.test(one)).sort();
        const file = lane(s, 1, 'journal', name);
        const bytes = readFileSync(file);
        const wrong = Buffer.from(bytes);
        wrong[20] ^= 1;
        writeFileSync(file, wrong);
        assert.match(await refusal(s), new RegExp(`^tally: lane 1: .*${name}`));
        writeFileSync(file, bytes);
        await s.start();
        await expectLived(s, 2);
    });
});

test('SPEC 11: a store of before is one lane, and stays it', async () => {
    const s = server(1);
    await s.start();
    await live(s, 1);
    await s.stop();
    assert.ok(existsSync(path.join(s.data, 'journal')));
    assert.match(await refusal(server(4, { data: s.data })), /store.lanes is 4, but .* was made with 1/);
    assert.ok(!existsSync(lane(s, 0)));
    await s.start();
    await expectLived(s, 1);
    await s.stop();
});

test('SPEC 11: ids that all tenants share need one lane: it refuses to start, and check-config says where', async () => {
    const text = 'store:\n  lanes: 4\nevents:\n  idScope: installation\n';
    const s = server(1, { config: text, settings: { 'store.lanes': 4 } });
    assert.match(await refusal(s), /4:12: events\.idScope installation needs store\.lanes 1, not 4/);
    assert.deepEqual(readdirSync(s.data), [], 'nothing was made');
    const file = path.join(places.fresh('config'), 'lanes.yaml');
    writeFileSync(file, text);
    const run = await runTally(['check-config', file]);
    assert.equal(run.code, 1, run.stdout);
    assert.match(run.stderr + run.stdout, /lanes\.yaml:4:12: events\.idScope installation needs store\.lanes 1, not 4/);
    const alone = server(1, { config: text, settings: { 'store.lanes': 1 } });
    await alone.start();
    await alone.stop();
});

describe('a crash while the lanes are made', () => {
    for (const [point, lanes] of [['lanes.after_lane:2', 4], ['lanes.before_identity', 2], ['lanes.before_identity', 1]]) {
        test(`killed at ${point}: the next start with ${lanes} makes a whole store`, async () => {
            const data = places.fresh();
            const doomed = server(4, { data, env: { TALLY_CRASH_POINT: point } });
            await assert.rejects(doomed.start(), /SIGKILL/);
            assert.ok(!existsSync(path.join(data, 'IDENTITY')));
            const next = server(lanes, { data });
            await next.start();
            await live(next, 1);
            await next.restart({ hard: true });
            await expectLived(next, 1);
            await next.stop();
        });
    }
});

test('SPEC 11: lanes commit side by side, and none sees what belongs to another', async () => {
    const s = server(4);
    await s.start();
    const sums = await together(TENANTS.length, async (index) => {
        const t = s.tenant(TENANTS[index]);
        for (let i = 0; i < 40; i++) await t.increment('shared', { ...TOTAL, amount: index + 1 });
        return Number((await t.get('shared')).body.net);
    });
    assert.deepEqual(sums, TENANTS.map((_, index) => 40 * (index + 1)));
    await s.stop();
});
