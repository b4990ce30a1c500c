// A stream of events that is delivered in pieces, out of order, again and again, by senders that never
// know what arrived: it counts as one clean pass would (seed 004; SPEC 6).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { allDuplicates, allEvents, send } from './support/events.mjs';
import { eventually, sleep, times, together } from './support/pace.mjs';
import { bare, medley, rebuilt } from './support/rebuild.mjs';
import { rulesServer } from './support/rules.mjs';

const RULES = `
counters:
  - counterName: balance
    dimensions: [master]
    rollups: [[], [room, payload.kind]]
    rules:
      - { on: up, op: increment, amount: payload.size }
      - { on: down, op: decrement, amount: payload.size, where: { payload.kind: note } }
  - counterName: by_time
    mode: series
    granularities: [0, 60, 86400]
    dimensions: [room]
    rollups: [[]]
    rules: [{ on: up, op: increment }, { on: down, op: decrement }]
  - counterName: window
    mode: windowed
    window: 1h
    trailing: true
    rules: [{ on: up, op: increment }]
  - counterName: floored
    dimensions: [master]
    floorAtZero: true
    rules: [{ on: up, op: increment }, { on: down, op: decrement, amount: 2 }]
`;
const DAY = Date.UTC(2024, 0, 1);

describe('a stream', () => {
    const { server, tenant, admin } = rulesServer(RULES, { settings: { 'checkpoint.every': '100ms' } });
    const COUNT = times(400, 100);
    const PIECE = 20;
    const stream = medley(COUNT, 7).map((event, index) => ({ eventId: `s${index}`, ...event }));
    let state = 5;
    const random = (below) => {
        state = (state * 1103515245 + 12345) % 2147483648;
        return Math.floor((state / 2147483648) * below);
    };

    /** What does not depend on the order of arrival. */
    async function read(t) {
        const found = {};
        for (const name of ['balance', 'by_time']) found[name] = (await t.allCells(name)).map(bare);
        for (const durationSeconds of [60, 86400]) {
            const { body } = await t.series('by_time', { durationSeconds, startTime: DAY, endTime: DAY + 3 * 86400000 });
            found[durationSeconds] = body.buckets;
        }
        found.window = await t.net('window');
        found.trailing = (await t.windowsByName()).window.trailing;
        return found;
    }

    function shuffled(list) {
        const rest = [...list];
        return Array.from(list, () => rest.splice(random(rest.length), 1)[0]);
    }

    /** Sends a piece until there is an answer, whatever becomes of the server meanwhile. */
    async function insist(t, piece) {
        await eventually('an answer', async () => {
            const reply = await send(t, piece).catch(() => null);
            if (reply?.status !== 200) return false;
            assert.deepEqual([reply.body.applied + reply.body.duplicates, reply.body.rejected], [piece.length, 0], reply.text);
            return true;
        }, { ms: 30000, every: 20 });
    }

    async function deliver(t, list, senders) {
        const pieces = [];
        for (let at = 0; at < list.length; at += PIECE) pieces.push(list.slice(at, at + PIECE));
        await together(senders, async () => {
            for (let piece = pieces.pop(); piece; piece = pieces.pop()) await insist(t, piece);
        });
    }

    test('S4-33 S4-34 A-30 A-31 X-01: in pieces, in any order, again and again, with kill -9 between, it ends where one clean pass does', async () => {
        const clean = tenant();
        await deliver(clean, [...stream], 1);
        const expected = await read(clean);
        assert.ok(expected[60].length > 3 && expected.balance.length > 10);

        const t = tenant();
        for (let round = 0; round < 4; round++) {
            const part = shuffled(stream).slice(0, Math.ceil(COUNT * (0.3 + random(50) / 100)));
            const delivery = deliver(t, part, 6);
            if (round % 2) {
                await sleep(random(20));
                await server.restart({ hard: true });
            }
            await delivery;
        }
        await deliver(t, [...stream].reverse(), 3);

        assert.deepEqual(await read(t), expected);
        assert.deepEqual((await allEvents(t, { limit: 1000 })).map((event) => event.eventId).sort(), stream.map((event) => event.eventId).sort());
        assert.ok((await allDuplicates(t, { limit: 1000 })).length >= COUNT, 'and the audit has what was dropped');
        await deliver(clean, shuffled(stream), 4);
        assert.deepEqual(await read(clean), expected);
    });

    test('S4-31: with floors it is what the order of arrival says, which a rebuild finds again', async () => {
        const t = tenant();
        await deliver(t, shuffled(stream), 4);
        await deliver(t, shuffled(stream), 4);
        const floors = new Map();
        for (const { type, dimensions } of await allEvents(t, { limit: 1000 })) {
            if (dimensions.master === undefined) continue;
            const before = floors.get(dimensions.master) ?? 0;
            floors.set(dimensions.master, Math.max(0, before + (type === 'up' ? 1 : -2)));
        }
        const found = async () => new Map((await t.allCells('floored')).map((row) => [row.dimensions.master, Number(row.net)]));
        assert.ok(floors.size > 2);
        for (const [master, value] of floors) assert.equal((await found()).get(master) ?? 0, value, master);
        const before = await found();
        await rebuilt(admin(), 'floored');
        assert.deepEqual(await found(), before);
    });
});
