// What goes on beside the requests, with four lanes: reload, sweep, retention, rebuild, removal of counters, reconciliation,
// and the views of a tenant. Each has to reach every lane, so each is looked at for tenants of all of them.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';

import { Places } from './support/errands.mjs';
import { allDuplicates, allEvents, dropped, event } from './support/events.mjs';
import { onDisk } from './support/exceptions.mjs';
import { expectError, expectExactly, expectTriple, NOT_FOUND } from './support/expect.mjs';
import { lanePath, laneServer, TENANTS } from './support/lanes.mjs';
import { eventually } from './support/pace.mjs';
import { asked, config, counter, over, pour, rebuilt } from './support/rebuild.mjs';
import { RuleTenant } from './support/rules.mjs';
import { TOTAL } from './support/server.mjs';
import { EventStream } from './support/sse.mjs';

const places = new Places();
after(() => places.remove());

const adminOf = (s) => s.tenant('operator', { scope: 'admin' });
const everywhere = (s, work) => Promise.all(TENANTS.map((id, index) => work(new RuleTenant(s, id), index)));
const lanesOf = async (s) => (await adminOf(s).call('GET', '/api/admin/lanes')).body.lanes;
const reload = async (s, ...counters) => {
    s.writeConfig(config(...counters));
    return adminOf(s).call('POST', '/api/admin/reload');
};

describe('rules in four lanes', () => {
    const s = laneServer(places, 4, { config: config(counter('ups')) });
    after(() => s.stop());

    test('SPEC 7, 11: a reload is answered when every lane goes by the new rules', async () => {
        await s.start();
        await everywhere(s, (t) => t.send('up', {}));
        expectExactly(await reload(s, counter('ups'), counter('second')), 200, { reloaded: true });
        await everywhere(s, async (t) => {
            await t.send('up', {});
            assert.deepEqual([await t.net('ups'), await t.net('second')], [2, 1]);
        });
        assert.equal(new Set((await lanesOf(s)).map((one) => one.rules.digest)).size, 1);
    });

    test('SPEC 2, 11: so is one by SIGHUP', async () => {
        const before = (await lanesOf(s))[0].rules.digest;
        s.writeConfig(config(counter('ups'), counter('second'), counter('third')));
        s.signal('SIGHUP');
        await eventually('every lane to have them', async () => (await lanesOf(s)).every((one) => one.rules.digest !== before));
        await everywhere(s, async (t) => {
            await t.send('up', {});
            assert.deepEqual([await t.net('ups'), await t.net('second'), await t.net('third')], [3, 2, 1]);
        });
    });

    test('SPEC 7: rules that are refused change nothing in any lane', async () => {
        const before = (await lanesOf(s)).map((one) => one.rules);
        expectError(await reload(s, counter('ups', '\n    mode: windowed\n    window: 1h')), 400, 'invalid_config');
        assert.deepEqual((await lanesOf(s)).map((one) => one.rules), before);
        expectExactly(await reload(s, counter('ups'), counter('second'), counter('third')), 200, { reloaded: true });
    });

    test('SPEC 7: a rebuild recounts every tenant, while events come in, under one number', async () => {
        await everywhere(s, (t, index) => pour(t, Array.from({ length: 10 * (index + 1) }, () => ({ type: 'up' }))));
        expectExactly(await reload(s, counter('ups'), counter('third'), counter('second'), counter('fourth')), 200, { reloaded: true });
        await everywhere(s, async (t) => assert.deepEqual([await t.net('ups') > 12, await t.net('fourth')], [true, 0]));
        const job = await asked(adminOf(s), 'fourth');
        await everywhere(s, (t) => t.send('up', {}));
        const done = await over(adminOf(s), job);
        assert.deepEqual([done.state, done.type, done.counter], ['done', 'rebuild', 'fourth'], JSON.stringify(done));
        await everywhere(s, async (t) => assert.equal(await t.net('fourth'), await t.net('ups'), t.id));
        const events = (await Promise.all(TENANTS.map((id) => allEvents(s.tenant(id), { limit: 1000 })))).flat();
        assert.ok(Number(done.events) <= events.length && Number(done.events) >= events.length - TENANTS.length, `${done.events} of ${events.length}`);
    });

    test('SPEC 7: what was counted in any lane is there after kill -9, rebuilt cells too', async () => {
        const before = await everywhere(s, (t) => t.net('fourth'));
        await s.restart({ hard: true });
        assert.deepEqual(await everywhere(s, (t) => t.net('fourth')), before);
        expectExactly(await reload(s, counter('ups'), counter('third'), counter('second')), 200, { reloaded: true });
        await rebuilt(adminOf(s), 'second');
        await everywhere(s, async (t) => assert.equal(await t.net('second'), await t.net('ups')));
    });

    test('SPEC 7: a counter that left the config is frozen, and forgotten in every lane at an operator\'s word', async () => {
        const before = await everywhere(s, (t) => t.net('third'));
        expectExactly(await reload(s, counter('ups')), 200, { reloaded: true });
        await everywhere(s, (t) => t.send('up', {}));
        assert.deepEqual(await everywhere(s, (t) => t.net('third')), before);
        expectError(await adminOf(s).call('DELETE', '/api/admin/counters/ups'), 409, 'managed_by_rules');
        expectExactly(await adminOf(s).call('DELETE', '/api/admin/counters/third'), 200, { deleted: true });
        await everywhere(s, async (t) => {
            expectExactly(await t.get('third'), 404, NOT_FOUND);
            assert.ok(!(await t.listAll()).some(({ name }) => name === 'third'));
            expectTriple(await t.increment('third', TOTAL), 1);
        });
        expectExactly(await adminOf(s).call('DELETE', '/api/admin/counters/third'), 404, NOT_FOUND);
    });
});

describe('what goes with time in four lanes', { concurrency: true }, () => {
    const FORGETFUL = { 'clock.settle': '0s', 'events.retention': '1s', 'expiry.sweepEvery': '100ms' };

    test('SPEC 5: cells that are over are swept in every lane, and no others', async () => {
        const s = laneServer(places, 4, { settings: FORGETFUL });
        await s.start();
        await everywhere(s, async (t) => {
            await t.increment('stays', { ...TOTAL, amount: 3 });
            await t.increment('goes', { ...TOTAL, expiresAt: new Date(Date.now() + 500).toISOString() });
        });
        await everywhere(s, (t) => eventually(`the cell of ${t.id} to be swept`, async () => (await t.get('goes')).status === 404, { every: 50 }));
        await everywhere(s, async (t) => {
            expectTriple(await t.get('stays'), 3);
            expectTriple(await t.increment('goes', TOTAL), 1);
        });
        await s.stop();
    });

    test('SPEC 6: retention lets events go in every lane; counters and ids stay, over a restart too', async () => {
        const s = laneServer(places, 4, { settings: FORGETFUL });
        await s.start();
        const sent = event('e1', 'up', { occurredAt: 1000 });
        await everywhere(s, (t) => t.events(sent));
        await everywhere(s, (t) => dropped(t, sent));
        const first = await everywhere(s, async (t) => (await dropped(t, sent)).id);
        await everywhere(s, (t) => eventually(`the events of ${t.id} to go`, async () => (await allEvents(t)).length + (await allDuplicates(t)).length === 0, { ms: 20000, every: 50 }));
        await s.restart({ hard: true });
        assert.deepEqual(await everywhere(s, async (t) => [await t.net('ups'), (await dropped(t, sent)).id]), first.map((id) => [1, id]));
        await s.stop();
    });
});

describe('views of tenants in four lanes', () => {
    const CONFIG = `
statuses: { Provisioned: active, Decommissioned: gone }
counters:
  - { counterName: entries, group: usage, limit: 10, rules: [{ on: up, op: increment }] }
  - { counterName: recent, mode: windowed, window: 1h, rules: [{ on: up, op: increment }] }
  - { counterName: by_page, dimensions: [page], rules: [{ on: up, op: increment }] }
reconcile:
  - { name: pages, tenants: all, entity: [page], source: { events: true }, counters: [by_page], minInterval: 1s, scanEvery: 100ms }
`;
    const s = laneServer(places, 4, { config: CONFIG });
    after(() => s.stop());
    const count = (index) => (index % 10) + 1;

    test('SPEC 8: usage, health and windows are a tenant\'s own', async () => {
        await s.start();
        await everywhere(s, async (t, index) => {
            await t.send(index % 2 ? 'Provisioned' : 'Decommissioned', {});
            for (let i = 0; i < count(index); i++) await t.send('up', { page: `p${i % 2}` });
            const { body: usage } = await t.usage();
            assert.deepEqual([usage.tenant_id, usage.status, usage.entries], [t.id, index % 2 ? 'active' : 'gone', String(count(index))]);
            assert.equal((await t.health()).body.status, count(index) === 10 ? 'critical' : count(index) >= 8 ? 'warning' : 'healthy');
            assert.equal((await t.windowsByName()).recent.currentValue, count(index));
        });
    });

    test('SPEC 10: a stream shows its tenant, and the figures of the whole server', async () => {
        const streams = await everywhere(s, (t) => EventStream.open(s, t.id, t.token));
        await everywhere(s, async (t, index) => {
            const { tenant, windows, server } = await streams[index].state('the state');
            assert.deepEqual([tenant, windows[0].currentValue], [t.id, count(index)]);
            assert.ok(Number(server.durableSequence) > 0);
        });
        await everywhere(s, (t) => t.send('up', { page: 'p0' }));
        await everywhere(s, async (t, index) => {
            await streams[index].state('the event', ({ windows, activity }) => windows[0].currentValue === count(index) + 1 && activity.applied === '1');
            await streams[index].close();
        });
    });

    test('SPEC 9: entities of every lane are counted anew, by themselves and when asked', async () => {
        await everywhere(s, (t) => eventually(`nothing of ${t.id} to wait`, async () => (await t.call('GET', `/api/reconcile/${t.id}/pages/status`)).body.pending === 0, { ms: 20000, every: 100 }));
        await everywhere(s, async (t) => {
            const run = await t.call('POST', `/api/reconcile/${t.id}/pages/run`, { body: { page: 'p0' } });
            assert.equal(run.status, 200, run.text);
            assert.equal(await t.net('by_page', { page: 'p0' }), (await allEvents(t)).filter(({ dimensions }) => dimensions?.page === 'p0').length);
        });
    });
});

/* Needs a file system of its own for one lane, which only root may mount (disk-full.test.mjs). */
const disk = places.fresh('disk');
mkdirSync(lanePath(disk, 2), { recursive: true });
const elsewhere = onDisk('disk');
const mounted = elsewhere ? { status: 0 } : spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', lanePath(disk, 2)]);
const reason = mounted.status === 0 ? false : `cannot mount a tmpfs here: ${(mounted.stderr ?? mounted.error ?? '').toString().trim()}`;
if (reason) console.log(`the test of a lane without room is left out: ${reason}`);

describe('a lane without room', { skip: elsewhere || reason }, () => {
    const filler = path.join(lanePath(disk, 2), 'filler');
    const s = laneServer(places, 4, { data: disk, config: config(counter('ups')) });
    after(async () => {
        try {
            await s.stop();
        } finally {
            spawnSync('umount', [lanePath(disk, 2)]);
        }
    });

    function fillDisk() {
        const file = openSync(filler, 'a');
        for (let size = 1048576; size >= 4096; size /= 4) {
            try {
                while (writeSync(file, Buffer.alloc(size, 120)) === size);
            } catch (error) {
                assert.equal(error.code, 'ENOSPC');
            }
        }
        closeSync(file);
    }

    /** The tenants whose writes are taken now. */
    const taken = async () => {
        const ops = Array.from({ length: 200 }, (_, i) => ({ op: 'increment', name: `filling-${i}-${'x'.repeat(100)}`, ...TOTAL }));
        const statuses = await everywhere(s, async (t) => (await t.batch(ops, { query: '?results=errors' })).status);
        for (const status of statuses) assert.ok([200, 503].includes(status), `${status}`);
        return TENANTS.filter((_, index) => statuses[index] === 200);
    };

    test('SPEC 10, 11: its tenants\' writes are refused and all others\' go on; a reload says which lane, and that gets the rules once there is room', async () => {
        await s.start();
        await everywhere(s, (t) => t.send('up', {}));
        const [, others] = await eventually('a lane to refuse', async () => {
            fillDisk();
            const now = await taken();
            return now.length < TENANTS.length && [true, now];
        }, { ms: 30000, every: 0 });
        assert.ok(others.length >= 3, `the other lanes take writes: ${others}`);
        await eventually('lane 2 to say so', async () => {
            fillDisk();
            await taken();
            return (await lanesOf(s)).every(({ lane, writable }) => writable === (lane !== 2));
        }, { ms: 30000, every: 50 });
        assert.equal((await s.call('GET', '/readyz')).status, 503);

        const said = await reload(s, counter('ups'), counter('second'));
        expectError(said, 503, 'storage_unavailable');
        assert.match(said.body.error, /^The new rules are in force in 3 of 4 lanes. Lane 2 cannot be written now/);
        const digests = (await lanesOf(s)).map((one) => one.rules.digest);
        assert.deepEqual([new Set(digests).size, digests.filter((one) => one === digests[2]).length], [2, 1]);
        await Promise.all(others.map(async (id) => {
            const t = new RuleTenant(s, id);
            await t.send('up', {});
            assert.deepEqual([await t.net('ups'), await t.net('second')], [2, 1], id);
        }));

        rmSync(filler);
        await eventually('every lane to have the rules', async () => new Set((await lanesOf(s)).map((one) => one.rules.digest)).size === 1, { ms: 30000, every: 100 });
        await everywhere(s, async (t) => {
            await t.send('up', {});
            assert.equal(await t.net('second'), others.includes(t.id) ? 2 : 1, t.id);
        });
        assert.equal((await s.call('GET', '/readyz')).status, 200);
        assert.match(s.stderr, /"a lane has got the reloaded rules","lane":2/);
    });
});
