// What goes with time and what stays: events and their audit, windows, buckets; never totals and ids
// (seeds 000, 001; SPEC 5 to 7).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { allDuplicates, allEvents, dropped, eventById, events, metric, send } from './support/events.mjs';
import { expectError, expectExactly, expectTriple, NOT_FOUND } from './support/expect.mjs';
import { filesIn } from './support/lanes.mjs';
import { eventually, sleep } from './support/pace.mjs';
import { dim, newId, rulesServer } from './support/rules.mjs';

const CONFIG = `
counters:
  - counterName: total
    dimensions: [k]
    rollups: [[]]
    rules: [{ on: up, op: increment }]
  - counterName: inside
    transition: { entity: [who] }
    rules: [{ on: up, op: increment }, { on: down, op: decrement }]
  - counterName: window
    mode: windowed
    window: 1s
    trailing: true
    rules: [{ on: up, op: increment }]
  - counterName: series
    mode: series
    granularities: [0, 1, 60]
    keep: 1s
    rules: [{ on: up, op: increment }]
  - counterName: kept_long
    mode: series
    granularities: [1]
    keep: 1h
    rules: [{ on: up, op: increment }]
  - counterName: kept_for_ever
    mode: series
    granularities: [1]
    rules: [{ on: up, op: increment }]
`;

const one = (eventId, more = {}) => ({ eventId, type: 'up', dimensions: { k: 'a', who: eventId }, ...more });

const FORGETFUL = { 'clock.settle': '0s', 'events.retention': '1s', 'checkpoint.every': '100ms', 'expiry.sweepEvery': '100ms' };
const gone = (t) => eventually('the events to go', async () => (await allEvents(t)).length === 0);
const total = (t) => t.net('total');

/* They wait most of the time, so they wait together, each with a server of its own. */
describe('what goes with time', { concurrency: true }, () => {
    describe('events that go', { concurrency: true }, () => {
        const { tenant } = rulesServer(CONFIG, { settings: FORGETFUL });

        test('S1-02 S1-14 S1-58 X-09: reads forget, counters and ids do not', async () => {
            const t = tenant();
            const first = (await t.events(one('e1'))).body;
            await t.events(one('e2'));
            await dropped(t, one('e1'));
            assert.deepEqual((await allEvents(t)).map((event) => event.eventId), ['e1', 'e2']);
            assert.equal((await allDuplicates(t)).length, 1);
            await gone(t);
            await eventually('the audit to go', async () => (await allDuplicates(t)).length === 0);
            expectExactly(await eventById(t, 'e1'), 404, NOT_FOUND);
            assert.deepEqual([await total(t), await t.net('total', { k: 'a' }), await t.net('inside')], [2, 2, 2]);
            const late = await dropped(t, one('e1'));
            assert.equal(late.id, first.id, 'the first one\'s id is still known');
            assert.ok(Date.parse(late.firstSeenAt) < Date.now() - 900);
            assert.ok(!('conflict' in late));
            assert.equal((await dropped(t, one('e1', { type: 'other' }))).conflict, true);
            assert.equal(await total(t), 2);
        });

        test('S1-25: a duplicate that came after its event was gone is audited for as long again', async () => {
            const t = tenant();
            await t.events(one('e1'));
            await gone(t);
            await dropped(t, one('e1'));
            const [record] = await allDuplicates(t);
            assert.equal(record.event_id, 'e1');
            assert.ok(Date.parse(record.duplicate_seen_at) - Date.parse(record.first_seen_at) > 900);
            await eventually('the audit to go', async () => (await allDuplicates(t)).length === 0);
        });

        test('SPEC 6: the state of an entity outlives the events it came from', async () => {
            const t = tenant();
            await t.events(one('x'));
            await gone(t);
            await t.send('up', { who: 'x' });
            assert.equal(await t.net('inside'), 1, 'x was on already');
            await t.send('down', { who: 'x' });
            assert.equal(await t.net('inside'), 0);
        });

        test('SPEC 3: a cursor from before the drop goes on after it', async () => {
            const t = tenant();
            await send(t, Array.from({ length: 6 }, (_, i) => one(`old-${i}`)));
            const { body } = await events(t, { limit: 2 });
            await gone(t);
            await send(t, [one('new-0'), one('new-1')]);
            assert.deepEqual((await allEvents(t, { after: body.next })).map((event) => event.eventId), ['new-0', 'new-1']);
        });
    });

    describe('files that go', { concurrency: 1 }, () => {
        const { server, tenant } = rulesServer(CONFIG, { settings: { ...FORGETFUL, 'store.kind': 'embedded' } });

        test('SPEC 6: the archive lets go of files, and an idle server writes nothing', async () => {
            const t = tenant();
            const files = () => filesIn(server.data, 'archive').filter((name) => /^events-[0-9a-f]+-[0-9a-f]+\.tally$/.test(name));
            await t.send('up', { k: 'a' });
            const [first] = await eventually('a file', () => files().length && files());
            await eventually('the first file to go', async () => {
                await t.send('up', { k: 'a' });
                return !files().includes(first);
            }, { every: 100 });
            const counted = await total(t);
            await gone(t);
            assert.ok(files().length <= 6, `${files()}`);
            let last;
            await eventually('quiet', async () => {
                const before = last;
                last = await metric(server, 'tally_durable_sequence');
                return before === last;
            }, { every: 700 });
            assert.equal(await total(t), counted);
        });
    });

    describe('events that go, and what stays', { concurrency: 1 }, () => {
        const { server, tenant, admin } = rulesServer(CONFIG, { settings: FORGETFUL });

        test('S1-14 S1-16: a late duplicate is dropped after kill -9, after a restart, alone and in bulk', async () => {
            const t = tenant();
            const names = Array.from({ length: 50 }, (_, i) => `bulk-${i}`);
            await send(t, names.map((name) => one(name)));
            await gone(t);
            for (const hard of [true, false]) {
                await server.restart({ hard });
                const { body } = await send(t, names.map((name) => one(name)));
                assert.deepEqual([body.applied, body.duplicates, body.rejected], [0, 50, 0]);
                await dropped(t, one('bulk-7'));
                assert.equal(await total(t), 50);
                assert.equal(await t.net('inside'), 50);
            }
        });

        test('S1-50 X-09: a total never falls: retention, expiry, kill -9, restart, rebuild, reload', async () => {
            const t = tenant();
            let least = 0;
            let stop = false;
            let pausing = false;
            const watch = (async () => {
                while (!stop) {
                    if (pausing) await sleep(5);
                    else {
                        const seen = await total(t).catch((error) => (pausing ? least : Promise.reject(error)));
                        assert.ok(seen >= least, `${seen} after ${least}`);
                        least = seen;
                    }
                }
            })();
            const quietly = async (work) => {
                pausing = true;
                await work();
                pausing = false;
            };
            let sent = 0;
            const more = async () => {
                for (let i = 0; i < 20; i++, sent++) await t.send('up', { k: 'a' });
            };
            await more();
            await gone(t);
            await quietly(() => server.restart({ hard: true }));
            await more();
            const { status } = await admin().call('POST', '/api/admin/counters/total/rebuild');
            assert.ok([202, 409].includes(status));
            expectExactly(await admin().call('POST', '/api/admin/reload'), 200, { reloaded: true });
            await more();
            await gone(t);
            await quietly(() => server.restart());
            expectError(await admin().call('POST', '/api/admin/counters/total/rebuild'), 409, 'history_incomplete');
            await more();
            assert.equal(await total(t), sent);
            stop = true;
            await watch;
            assert.equal(await total(t), sent);
        });
    });

    describe('cells that go', { concurrency: 1 }, () => {
        const { server, tenant } = rulesServer(CONFIG, { settings: { 'clock.settle': '0s', 'expiry.sweepEvery': '50ms', 'checkpoint.every': '100ms' } });
        const bucket = (t, name, durationSeconds, timestamp) => t.get(name, { durationSeconds, timestamp });

        test('S0-39 S0-40: a window that is over is not swept before seven days have passed', async () => {
            const t = tenant();
            await t.send('up', {});
            const open = (await t.windowsByName()).window;
            await eventually('the window to end', () => Date.now() > open.windowEnd + 500);
            for (const hard of [undefined, false, true]) {
                if (hard !== undefined) await server.restart({ hard });
                await sleep(300);
                const { window } = await t.windowsByName();
                assert.deepEqual(window, { ...open, currentValue: 0, trailing: window.trailing }, 'it keeps its times');
                assert.equal((await t.allCells('window')).length, 1);
            }
            await t.send('up', {});
            const next = (await t.windowsByName()).window;
            assert.equal(next.currentValue, 1);
            assert.ok(next.windowStart >= open.windowEnd);
        });

        test('SPEC 7: a bucket goes its keep after its end, the one of all time never', async () => {
            const t = tenant();
            const at = new Date(Math.floor(Date.now() / 1000) * 1000);
            const occurredAt = at.toISOString();
            await t.events({ eventId: newId(), type: 'up', occurredAt, dimensions: {} });
            const expires = at.getTime() + 2000;
            const early = await bucket(t, 'series', 1, occurredAt);
            if (Date.now() < expires) expectTriple(early, 1);
            await eventually('the bucket to go', async () => (await bucket(t, 'series', 1, occurredAt)).body.net === '0');
            assert.ok(Date.now() >= expires, 'not too early');
            expectTriple(await bucket(t, 'series', 60, occurredAt), 1);
            expectTriple(await bucket(t, 'series', 0, 0), 1);
            expectTriple(await bucket(t, 'kept_long', 1, occurredAt), 1);
            await server.restart({ hard: true });
            await sleep(200);
            expectTriple(await bucket(t, 'series', 1, occurredAt), 0);
            expectTriple(await bucket(t, 'series', 0, 0), 1);
            expectTriple(await bucket(t, 'kept_for_ever', 1, occurredAt), 1);
            const shown = await t.series('series', { durationSeconds: 1, startTime: at.getTime() - 5000, endTime: Date.now() });
            assert.deepEqual(shown.body.buckets, []);
        });

        test('SPEC 7: a late event counts for all time, whatever becomes of its bucket', async () => {
            const t = tenant();
            const old = '2020-02-02T02:02:02Z';
            for (let i = 1; i <= 3; i++) {
                await t.send('up', {}, { occurredAt: old });
                expectTriple(await bucket(t, 'series', 0, 0), i);
                await eventually('its bucket to go', async () => (await bucket(t, 'series', 60, old)).body.net === '0');
            }
            expectTriple(await bucket(t, 'kept_for_ever', 1, old), 3);
            expectTriple(await t.sumRange('kept_for_ever', { durationSeconds: 1, startTime: old, endTime: old, ...dim({}) }), 3);
            assert.equal(await t.net('total'), 3);
        });
    });
});
