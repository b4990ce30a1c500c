// What operators and clients see of lanes: nothing where a call is about one tenant or about all of them, each lane where it
// is asked for.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { after, describe, test } from 'node:test';

import { cliFor } from './support/cli.mjs';
import { Places } from './support/errands.mjs';
import { onDisk } from './support/exceptions.mjs';
import { expectError } from './support/expect.mjs';
import { expectLived, laneServer, lanePath, live, TENANTS } from './support/lanes.mjs';
import { eventually, within } from './support/pace.mjs';
import { Server, TOTAL } from './support/server.mjs';
import { WallClock } from './support/shift.mjs';
import { tokenFor } from './support/tokens.mjs';

const places = new Places();
after(() => places.remove());

const ON_DISK = !onDisk('directories');
const adminOf = (s) => s.tenant('operator', { scope: 'admin' });

describe('GET /api/admin/lanes and tally lanes', () => {
    const s = laneServer(places, 4);
    const lanes = async (query = '', server = s) => {
        const reply = await adminOf(server).call('GET', `/api/admin/lanes${query}`);
        assert.equal(reply.status, 200, reply.text);
        return reply.body;
    };
    after(() => s.stop());

    test('SPEC 2, 11: each lane says how far it is, what waits in it and where it lies', async () => {
        await s.start();
        const before = (await lanes()).lanes;
        const first = await live(s, 1);
        const { lanes: all, next } = await lanes();
        assert.equal(next, null);
        assert.deepEqual(all.map((one) => one.lane), [0, 1, 2, 3]);
        all.forEach((one, index) => {
            assert.ok(BigInt(one.sequence) > BigInt(before[index].sequence), `lane ${index} has tenants`);
            assert.equal(BigInt(one.ids) > 0n && BigInt(one.journalBytes) > 0n, ON_DISK, JSON.stringify(one));
            assert.equal(one.directory, ON_DISK ? lanePath(s.data, index) : null);
            assert.deepEqual([one.writable, one.queueOps, one.queueUrgentOps, one.waitingMs, one.clockSuspect], [true, 0, 0, 0, false]);
            assert.deepEqual([one.rules.digest, one.rules.generation], [all[0].rules.digest, '1']);
            assert.ok(Math.abs(Date.parse(one.time) - Date.now()) < 60000);
            if (ON_DISK) assert.ok(Date.parse(one.rules.since) <= Date.parse(one.time));
            else assert.equal(one.rules.since, null, 'a node that took them over does not know');
        });
        if (ON_DISK) assert.equal(all.reduce((sum, one) => sum + BigInt(one.ids), 0n), 6n * BigInt(TENANTS.length), 'five events and a key each');
        assert.ok(first.every((sequence) => all.some((one) => BigInt(one.sequence) >= BigInt(sequence))));
    });

    test('SPEC 3: it is paged, and for operators only', async () => {
        const found = [];
        for (let query = '?limit=3', pages = 1; ; pages++) {
            const page = await lanes(query);
            found.push(...page.lanes.map((one) => one.lane));
            query = `?limit=3&after=${page.next}`;
            if (page.next) continue;
            assert.equal(pages, 2);
            break;
        }
        assert.deepEqual(found, [0, 1, 2, 3]);
        for (const cursor of ['MTIzNDU', 'LTE', '!']) expectError(await adminOf(s).call('GET', `/api/admin/lanes?after=${cursor}`), 400, 'invalid_request');
        expectError(await s.tenant('t1').call('GET', '/api/admin/lanes'), 403, 'forbidden');
    });

    test('tally lanes prints a line for each, or the same JSON', async () => {
        const cli = cliFor(s, adminOf(s).token);
        const table = await cli('lanes');
        assert.equal(table.code, 0, table.stderr);
        const [head, ...lines] = table.stdout.trimEnd().split('\n');
        assert.match(head, /^LANE +STATE +SEQUENCE +APPLIED +QUEUED +WAIT MS +IDS +RULES +DISK MIB +WHERE$/);
        assert.equal(lines.length, 4);
        lines.forEach((line, index) => assert.match(line, new RegExp(`^ +${index}  ok.* [0-9a-f]{8} .*${ON_DISK ? `lane-00${index}` : '127\\.0\\.0\\.1:\\d+/postgres'}$`)));
        const json = JSON.parse((await cli('lanes', '--json')).stdout);
        assert.deepEqual(json.lanes.map(({ lane, directory }) => [lane, directory]), (await lanes()).lanes.map(({ lane, directory }) => [lane, directory]));
        assert.equal((await cliFor(s, s.tenant('t1').token)('lanes')).code, 1);
    });

    test('one lane, or none on a disk, is shown the same way', async () => {
        for (const [settings, directory] of [[{ 'store.lanes': 1 }, (one) => (ON_DISK ? one.data : null)], [{ 'store.kind': 'memory', 'store.lanes': 2 }, () => null]]) {
            const other = laneServer(places, 1, { settings });
            await other.start();
            await live(other, 1);
            const { lanes: all } = await lanes('', other);
            assert.equal(all.length, settings['store.lanes']);
            for (const one of all) assert.deepEqual([one.directory, one.writable], [directory(other), true]);
            await other.stop();
        }
    });
});

describe('figures of lanes', () => {
    const metrics = async (s) => (await s.call('GET', '/metrics')).text;
    const promtool = async (text) => {
        const child = spawn('promtool', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
        let said = '';
        for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (said += data));
        child.stdin.end(text);
        return [said, await within(15000, 'promtool', new Promise((resolve) => child.on('close', resolve)))];
    };
    const byLane = (text, name) => [...text.matchAll(new RegExp(`^${name}\\{lane="(\\d+)"\\} (\\S+)$`, 'gm'))].map(([, number, value]) => [Number(number), value]);

    test('SPEC 10: each lane has a series, with a bounded label; names are those of one lane', async () => {
        const s = laneServer(places, 4, { settings: { 'checkpoint.every': '1h' } });
        const one = laneServer(places, 1);
        await Promise.all([s.start(), one.start()]);
        await live(s, 1);
        const { lanes } = (await adminOf(s).call('GET', '/api/admin/lanes')).body;
        const text = await metrics(s);
        assert.deepEqual(byLane(text, 'tally_durable_sequence'), lanes.map(({ lane, sequence }) => [lane, sequence]));
        assert.deepEqual(byLane(text, 'tally_registry_ids'), lanes.map(({ lane, ids }) => [lane, ids]));
        for (const [, count] of byLane(text, 'tally_commit_seconds_count')) assert.ok(Number(count) > 0);
        assert.deepEqual(await promtool(text), ['', 0]);
        const names = (all) => [...all.matchAll(/^# TYPE (.*)$/gm)].map((match) => match[1]);
        const alone = await metrics(one);
        assert.deepEqual(names(text), names(alone));
        assert.ok(!alone.includes('lane='), 'a dashboard for one lane sees what it always saw');
        await Promise.all([s.stop(), one.stop()]);
    });

    test('SPEC 10: more than 16 lanes are one series', async () => {
        const s = laneServer(places, 17, { settings: { 'store.kind': 'memory' } });
        await s.start();
        await live(s, 1);
        const text = await metrics(s);
        assert.ok(!text.includes('lane='));
        assert.match(text, new RegExp(`^tally_registry_ids ${6 * TENANTS.length}$`, 'm'));
        assert.deepEqual(await promtool(text), ['', 0]);
        await s.stop();
    });

    test('tally top shows the whole server', { skip: onDisk('figures') }, async () => {
        const s = laneServer(places, 4);
        await s.start();
        await live(s, 1);
        const run = await cliFor(s, adminOf(s).token)('top', '--once');
        assert.equal(run.code, 0, run.stderr);
        assert.match(run.stdout, new RegExp(`ids +${6 * TENANTS.length}\\b`));
        await s.stop();
    });
});

test('SPEC 10, 11: the operator\'s word about the clock is for every lane', async (t) => {
    const DAY = 86400000;
    const claims = { exp: Math.floor((Date.now() + 400 * DAY) / 1000) };
    const wall = new WallClock();
    const s = laneServer(places, 4, { env: wall.env, settings: { 'clock.settle': '0s' } });
    t.after(async () => {
        await s.stop();
        wall.remove();
    });
    s.tenant = (id) => Server.prototype.tenant.call(s, id, claims);
    const token = tokenFor('operator', { ...claims, scope: 'admin' });
    const clock = async (action) => (await s.call(action ? 'POST' : 'GET', '/api/admin/clock', { token, body: action && { action } })).body;
    const leads = async () => (await s.call('GET', '/api/admin/lanes', { token })).body.lanes.map((one) => Math.round((Date.parse(one.time) - Date.now()) / DAY) + 0);
    const suspects = async () => (await s.call('GET', '/api/admin/lanes', { token })).body.lanes.map((one) => one.clockSuspect);
    /* A database is asked for the time with a commit, of each lane. */
    const heard = async () => ON_DISK || Promise.all(TENANTS.map((id) => s.tenant(id).increment('heard', TOTAL)));
    await s.start();
    await live(s, 1);
    wall.by(20 * DAY);
    await heard();
    await eventually('every lane to notice', async () => (await suspects()).every(Boolean));
    assert.deepEqual([(await clock()).suspect, await leads()], [true, [0, 0, 0, 0]]);
    assert.equal((await clock('accept')).suspect, false);
    assert.deepEqual([await suspects(), await leads()], [[false, false, false, false], [20, 20, 20, 20]]);
    await live(s, 2);
    wall.by(0);
    await heard();
    await clock('accept');
    assert.deepEqual(await leads(), [20, 20, 20, 20], 'time stands still');
    assert.equal((await clock('reset')).suspect, false);
    assert.deepEqual(await leads(), [0, 0, 0, 0]);
    await s.restart({ hard: true });
    assert.deepEqual(await leads(), [0, 0, 0, 0]);
    await expectLived(s, 2);
});

describe('the list of tenants', () => {
    const USAGE = `
statuses: { Provisioned: active, Decommissioned: decommissioned, Suspended: suspended }
counters:
  - { counterName: entry_count, group: usage, rules: [{ on: Entry, op: increment }] }
`;
    const STATUSES = { active: 'Provisioned', decommissioned: 'Decommissioned', suspended: 'Suspended' };
    const NAMES = Array.from({ length: 60 }, (_, i) => `${'zyxabc'[i % 6]}.${i}~`);
    const statusOf = (index) => Object.keys(STATUSES)[index % 5 === 0 ? 2 : index % 2];
    const servers = [1, 4].map((lanes) => laneServer(places, lanes, { config: USAGE }));
    after(() => Promise.all(servers.map((s) => s.stop())));

    /** Every page of a query; `between` runs before each page but the first. */
    async function pages(s, query, between) {
        const found = [];
        for (let after; ;) {
            const { status, body, text } = await adminOf(s).call('GET', `/api/admin/tenants?${new URLSearchParams({ ...query, ...(after && { after }) })}`);
            assert.equal(status, 200, text);
            assert.ok(body.tenants.length <= (query.limit ?? 100));
            found.push(body.tenants.map((one) => `${one.tenant_id} ${one.status}`));
            after = body.next;
            if (!after) return found;
            await between?.();
        }
    }

    test('SPEC 3, 8, 11: it is in order, complete and the same page by page, whatever the number of lanes', async () => {
        const wanted = [...NAMES.entries()].map(([index, name]) => `${name} ${statusOf(index)}`).sort();
        for (const s of servers) {
            await s.start();
            await Promise.all(NAMES.map((name, index) => s.tenant(name).call('POST', `/api/events/${name}`, {
                body: [{ eventId: 'made', type: STATUSES[statusOf(index)] }, { eventId: 'used', type: 'Entry' }],
            })));
            assert.deepEqual((await pages(s, {})).flat(), wanted);
        }
        for (const query of [{ limit: 1 }, { limit: 7 }, { limit: 59 }, { limit: 60 }, { limit: 61 }, { status: 'suspended', limit: 5 }, { status: 'active', limit: 100 }, { status: 'nothing' }]) {
            for (const s of servers) assert.deepEqual((await pages(s, query)).flat(), wanted.filter((line) => !query.status || line.endsWith(` ${query.status}`)), JSON.stringify(query));
        }
    });

    test('SPEC 8: each tenant is listed with the moment of its own last change', async () => {
        for (const s of servers) {
            const { tenants } = (await adminOf(s).call('GET', '/api/admin/tenants?limit=10')).body;
            for (const { tenant_id: id, last_updated_at: changed } of tenants) {
                assert.equal((await s.tenant(id).call('GET', `/api/usage/${id}`)).body.last_updated_at, changed, id);
            }
        }
    });

    test('SPEC 3: a cursor holds across restarts', async () => {
        const [, four] = servers;
        const all = (await pages(four, {})).flat();
        assert.deepEqual((await pages(four, { limit: 25 }, () => four.restart({ hard: true }))).flat(), all);
    });
});
