// Many dimension sets, many counters an event, many writers (seeds 000, 001; SPEC 6 to 8).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { allEvents, expectWindow } from './support/events.mjs';
import { expectExactly, MAX, OVERFLOW } from './support/expect.mjs';
import { eventually, sleep, times, together } from './support/pace.mjs';
import { newId, rulesServer } from './support/rules.mjs';

const NDJSON = { 'Content-Type': 'application/x-ndjson' };

async function pour(t, list) {
    const body = list.map((event) => JSON.stringify(event)).join('\n');
    const reply = await t.call('POST', `/api/events/${t.id}?results=errors`, { body, headers: NDJSON });
    assert.equal(reply.status, 200, reply.text);
    assert.deepEqual([reply.body.applied, reply.body.duplicates, reply.body.rejected], [list.length, 0, 0], reply.text.slice(0, 300));
}

describe('many dimension sets', () => {
    const { server, tenant } = rulesServer(`
counters:
  - counterName: seen
    dimensions: [id]
    rollups: [[]]
    rules: [{ on: seen, op: increment, amount: payload.n }]
`, { settings: { 'store.cacheBytes': '4MiB', 'checkpoint.every': '200ms' } });
    const SETS = times(100000, 5000);
    const CHUNK = 20000;
    /* Every set has a value of its own, in an order unlike that of the names. */
    const amount = (i) => ((i * 7919) % SETS) + 1;
    const name = (i) => `id-${String(i).padStart(6, '0')}`;

    test('S1-43: a hundred thousand sets, most of them on disk: every one is right, in pages, by name and by value', async () => {
        const t = tenant('many');
        for (let at = 0; at < SETS; at += CHUNK) {
            await pour(t, Array.from({ length: Math.min(CHUNK, SETS - at) }, (_, i) => (
                { eventId: `e${at + i}`, type: 'seen', dimensions: { id: name(at + i) }, payload: { n: amount(at + i) } })));
        }
        const sum = (SETS * (SETS + 1)) / 2;
        assert.equal(await t.net('seen'), sum);
        for (let i = 0; i < SETS; i += Math.floor(SETS / 37)) assert.equal(await t.net('seen', { id: name(i) }), amount(i));

        const expectAll = async () => {
            let index = 0;
            let whole = 0;
            let after;
            do {
                const { status, body, text } = await t.cells('seen', after ? { limit: 10000, after } : { limit: 10000 });
                assert.equal(status, 200, text);
                for (const cell of body.cells) {
                    if (cell.dimensions.id === undefined) {
                        assert.equal(cell.net, String(sum));
                        whole++;
                    } else {
                        assert.equal(cell.dimensions.id, name(index));
                        assert.equal(cell.net, String(amount(index)));
                        index++;
                    }
                }
                after = body.next;
            } while (after);
            assert.deepEqual([index, whole], [SETS, 1]);
        };
        const top = await t.cells('seen', { sort: 'net', order: 'desc', limit: 100 });
        assert.deepEqual(top.body.cells.map((cell) => Number(cell.net)), [sum, ...Array.from({ length: 99 }, (_, i) => SETS - i)]);
        const least = await t.cells('seen', { sort: 'net', order: 'asc', limit: 50 });
        assert.deepEqual(least.body.cells.map((cell) => Number(cell.net)), Array.from({ length: 50 }, (_, i) => i + 1));

        await server.restart({ hard: true });
        assert.equal(await t.net('seen'), sum);
        await expectAll();
        const twice = Array.from({ length: 1000 }, (_, i) => ({ eventId: `e${i * Math.floor(SETS / 1000)}`, type: 'seen', dimensions: { id: 'other' }, payload: { n: 1 } }));
        const reply = await t.call('POST', `/api/events/${t.id}?results=errors`, { body: twice });
        assert.deepEqual([reply.body.applied, reply.body.duplicates], [0, 1000]);
        assert.equal(await t.net('seen'), sum);
    });

    test('SPEC 7: dim. finds one set among them all', async () => {
        const t = tenant('many');
        const { body } = await t.cells('seen', { 'dim.id': name(4711) });
        assert.deepEqual(body.cells.map((cell) => [cell.dimensions, cell.net]), [[{ id: name(4711) }, String(amount(4711))]]);
    });
});

describe('many counters', () => {
    const NAMES = Array.from({ length: 20 }, (_, i) => `c${i}`);
    const { server, tenant } = rulesServer(`counters:${NAMES.map((name, i) => `
  - counterName: ${name}
    dimensions: [k]
    rollups: [[]]
    rules: [{ on: big, op: increment, amount: ${i < 19 ? i + 1 : 'payload.n'} }]`).join('')}
`);
    const big = (t, dimensions, n = 20) => t.events(`{"eventId":"${newId()}","type":"big","dimensions":${JSON.stringify(dimensions)},"payload":{"n":${n}}}`);

    test('SPEC 6: one event drives 20 counters in 2 sets each, all or none, also under writers and kill -9', async () => {
        const t = tenant();
        const [writers, each] = [8, times(20)];
        await together(writers, async (w) => {
            for (let i = 0; i < each; i++) assert.equal((await big(t, { k: `k${w % 2}` })).body.counters, 40);
        });
        const expectAll = async () => {
            for (const [i, name] of NAMES.entries()) {
                const all = [await t.net(name), await t.net(name, { k: 'k0' }), await t.net(name, { k: 'k1' })];
                assert.deepEqual(all, [2, 1, 1].map((share) => (share * writers * each * (i + 1)) / 2), name);
            }
        };
        await expectAll();
        await server.restart({ hard: true });
        await expectAll();
        assert.equal((await big(t, {})).body.counters, 20, 'without k: the whole tenant only');
    });

    test('A-10: an event that would overflow the last of them changes none', async () => {
        const t = tenant();
        await big(t, { k: 'x' }, MAX);
        for (const k of ['x', 'y']) expectExactly(await big(t, { k }, 1), 400, OVERFLOW);
        for (const [i, name] of NAMES.slice(0, 19).entries()) {
            assert.deepEqual([await t.net(name), await t.net(name, { k: 'x' }), await t.net(name, { k: 'y' })], [i + 1, i + 1, 0], name);
        }
        assert.equal((await allEvents(t)).length, 1);
    });
});

describe('many writers', () => {
    const { server, tenant } = rulesServer(`
counters:
  - counterName: second
    mode: windowed
    window: 1s
    dimensions: [organizationId]
    rollups: [[]]
    rules: [{ on: ping, op: increment }]
  - counterName: hour
    mode: windowed
    window: 1h
    trailing: true
    dimensions: [organizationId]
    rollups: [[]]
    rules: [{ on: ping, op: increment }]
  - counterName: total
    dimensions: [organizationId]
    rollups: [[]]
    rules: [{ on: ping, op: increment }]
`);
    const second = async (t, dims) => (await t.windowsByName(dims)).second;

    test('S0-22 S0-26 S0-27: 64 writers meet a window that is over: it rotates once and no event is lost', async () => {
        for (let round = 0; round < 2; round++) {
            const t = tenant();
            await t.send('ping', { organizationId: 'o' });
            const old = await second(t);
            await eventually('the window to end', () => Date.now() >= old.windowEnd, { every: 5 });
            await together(64, (i) => t.send('ping', i % 2 ? { organizationId: 'o' } : {}));
            const all = await second(t);
            const one = await second(t, { organizationId: 'o' });
            assert.ok(all.windowStart >= old.windowEnd);
            const log = await allEvents(t);
            assert.equal(log.length, 65);
            expectWindow(all, log, 1000);
            expectWindow(one, log.filter((event) => event.dimensions.organizationId), 1000);
            const { hour } = await t.windowsByName();
            assert.deepEqual([hour.currentValue, hour.trailing, await t.net('total')], [65, 65, 65]);
        }
    });

    test('S0-26 S0-29: over many rotations under load, the windows account for every event of the log', async () => {
        const t = tenant();
        const rotations = new Map();
        let stop = false;
        const writers = together(16, async (w) => {
            while (!stop) await t.send('ping', { organizationId: `o${w % 2}` });
        });
        const until = Date.now() + 2600;
        while (Date.now() < until) {
            const { windowStart, windowEnd } = await second(t);
            if (windowStart) rotations.set(windowStart, windowEnd);
            await sleep(20);
        }
        stop = true;
        await writers;
        const last = await second(t);
        const starts = [...rotations.keys()];
        assert.ok(starts.length >= 2, `${starts}`);
        for (let i = 1; i < starts.length; i++) {
            assert.ok(starts[i] >= rotations.get(starts[i - 1]), 'no window starts before the last one ended');
        }
        const log = await allEvents(t, { limit: 10000 });
        expectWindow(last, log, 1000);
        const { hour } = await t.windowsByName();
        assert.deepEqual([hour.currentValue, await t.net('total')], [log.length, log.length]);
        for (const organizationId of ['o0', 'o1']) {
            const own = log.filter((event) => event.dimensions.organizationId === organizationId).length;
            assert.equal((await t.windowsByName({ organizationId })).hour.currentValue, own);
            assert.equal(await t.net('total', { organizationId }), own);
        }
    });

    test('S0-19 S0-29 S0-30 E1-07, defect 5: platform and organisations agree with the log, duplicates, kill -9 and all', async () => {
        const t = tenant();
        const sent = new Map();
        for (const hard of [undefined, true, false]) {
            if (hard !== undefined) await server.restart({ hard });
            await together(16, async (w) => {
                for (let i = 0; i < times(15); i++) {
                    const event = { eventId: newId(), type: 'ping', dimensions: i % 5 ? { organizationId: `o${(w + i) % 4}` } : {} };
                    sent.set(event.eventId, event.dimensions.organizationId);
                    await together(i % 3 ? 1 : 2, () => t.events(event));
                }
            });
            const log = await allEvents(t, { limit: 1000 });
            assert.equal(log.length, sent.size);
            assert.deepEqual(new Set(log.map((event) => event.eventId)), new Set(sent.keys()));
            assert.equal((await t.windowsByName()).hour.currentValue, log.length);
            assert.equal(await t.net('total'), log.length);
            for (let o = 0; o < 4; o++) {
                const dims = { organizationId: `o${o}` };
                const own = log.filter((event) => event.dimensions.organizationId === dims.organizationId).length;
                assert.deepEqual([(await t.windowsByName(dims)).hour.currentValue, await t.net('total', dims)], [own, own]);
            }
        }
    });
});
