// GET /api/counters/{tenant}/{name}/cells: the dimension sets of a rule counter (SPEC 7).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, NOT_FOUND } from './support/expect.mjs';
import { sleep } from './support/pace.mjs';
import { dim, dimensionKey, newId, rulesServer } from './support/rules.mjs';
import { TOTAL } from './support/server.mjs';

const CONFIG = `
counters:
  - counterName: votes
    dimensions: [poll, choice]
    rollups: [[poll], []]
    rules:
      - { on: voted, op: increment, amount: payload.weight }
      - { on: withdrawn, op: decrement, amount: payload.weight }
  - counterName: views
    mode: series
    granularities: [0, 60]
    dimensions: [page]
    rules: [{ on: viewed, op: increment }]
  - counterName: views_by_minute
    mode: series
    granularities: [60]
    dimensions: [page]
    rules: [{ on: viewed, op: increment }]
  - counterName: views_2s
    mode: windowed
    window: 2s
    dimensions: [page]
    rules: [{ on: viewed, op: increment }]
`;

describe('cells', () => {
    const { tenant } = rulesServer(CONFIG);

    const vote = (t, poll, choice, weight = 1) => t.send('voted', { poll, choice }, { payload: { weight } });
    const dims = (rows) => rows.map((row) => row.dimensions);

    async function polls(t) {
        await vote(t, 'p1', 'yes', 5);
        await vote(t, 'p1', 'no', 3);
        await vote(t, 'p2', 'yes', 4);
    }

    test('S1-61: each dimension set with its values, its key and when it changed', async () => {
        const t = tenant();
        const before = Date.now();
        await polls(t);
        await t.send('withdrawn', { poll: 'p1', choice: 'no' }, { payload: { weight: 1 } });
        const rows = await t.allCells('votes');
        assert.deepEqual(rows.map(({ dimensions, net, added, subbed }) => [JSON.stringify(dimensions), net, added, subbed]), [
            ['{"choice":"no","poll":"p1"}', '2', '3', '1'],
            ['{"choice":"yes","poll":"p1"}', '5', '5', '0'],
            ['{"choice":"yes","poll":"p2"}', '4', '4', '0'],
            ['{"poll":"p1"}', '7', '8', '1'],
            ['{"poll":"p2"}', '4', '4', '0'],
            ['{}', '11', '12', '1'],
        ]);
        for (const row of rows) {
            assert.deepEqual(Object.keys(row), ['dimensions', 'dimensionKey', 'net', 'added', 'subbed', 'updatedAt']);
            assert.equal(row.dimensionKey, dimensionKey(row.dimensions));
            assert.ok(Date.parse(row.updatedAt) >= before - 5 && Date.parse(row.updatedAt) <= Date.now() + 5, row.updatedAt);
        }
    });

    test('E1-08, defect 6: an event delivered again is dropped by series as by totals', async () => {
        const t = tenant();
        const event = { eventId: newId(), type: 'viewed', occurredAt: '2026-01-01T00:00:30Z', dimensions: { page: '/' } };
        for (const duplicates of [1, 2, 2]) assert.equal((await t.events([event, event])).body.duplicates, duplicates);
        const minute = Date.parse('2026-01-01T00:00:00Z') / 1000;
        assert.deepEqual((await t.allCells('views')).map((row) => row.net), ['1']);
        for (const name of ['views', 'views_by_minute']) {
            const range = { durationSeconds: 60, startTime: minute, endTime: minute, ...dim({ page: '/' }) };
            assert.equal((await t.sumRange(name, range)).body.net, '1', name);
        }
    });

    test('SPEC 7: a filter gives the rows that have these values, whatever else they have', async () => {
        const t = tenant();
        await polls(t);
        assert.deepEqual(dims(await t.allCells('votes', dim({ poll: 'p1' }))), [
            { choice: 'no', poll: 'p1' }, { choice: 'yes', poll: 'p1' }, { poll: 'p1' },
        ]);
        assert.deepEqual(dims(await t.allCells('votes', dim({ choice: 'yes' }))), [
            { choice: 'yes', poll: 'p1' }, { choice: 'yes', poll: 'p2' },
        ]);
        assert.deepEqual(dims(await t.allCells('votes', dim({ choice: 'yes', poll: 'p2' }))), [{ choice: 'yes', poll: 'p2' }]);
        assert.deepEqual(await t.allCells('votes', dim({ poll: 'p' })), []);
        assert.deepEqual(await t.allCells('votes', dim({ unknown: 'x' })), []);
    });

    test('SPEC 7: values with quotes, commas, control bytes and other scripts are rows like others', async () => {
        const t = tenant();
        const odd = ['a,', '":"', 'say "hi"', 'back\\slash', 'tab\there', 'nul\u0001', 'ünïcödé', '日本', '', ','];
        for (const choice of odd) await vote(t, 'odd', choice);
        for (const choice of odd) {
            const rows = await t.allCells('votes', dim({ poll: 'odd', choice }));
            assert.deepEqual(dims(rows), [{ choice, poll: 'odd' }]);
            const reply = await t.get('votes', dim({ poll: 'odd', choice }));
            assert.equal(reply.body.net, '1', choice);
        }
        assert.equal((await t.allCells('votes')).length, odd.length + 2);
    });

    test('SPEC 3: pages meet without gap or repeat, in either order', async () => {
        const t = tenant();
        for (let i = 0; i < 9; i++) await vote(t, `p${i % 3}`, `c${i}`, 1 + (i * 7) % 5);
        const all = await t.allCells('votes');
        assert.equal(all.length, 13);
        const byNet = (sign) => [...all].sort((a, b) => sign * (Number(a.net) - Number(b.net)) ||
            Buffer.compare(Buffer.from(JSON.stringify(a.dimensions)), Buffer.from(JSON.stringify(b.dimensions))));
        for (const limit of [1, 2, 5, 12, 13, 100]) {
            assert.deepEqual(await t.allCells('votes', { limit }), all, `limit ${limit}`);
            assert.deepEqual(await t.allCells('votes', { limit, sort: 'net' }), byNet(-1), `desc, limit ${limit}`);
            assert.deepEqual(await t.allCells('votes', { limit, sort: 'net', order: 'asc' }), byNet(1), `asc, limit ${limit}`);
        }
    });

    test('SPEC 7: sort=net is top-N, with a filter too', async () => {
        const t = tenant();
        await polls(t);
        const top = await t.cells('votes', { sort: 'net', order: 'desc', limit: 2, ...dim({ poll: 'p1' }) });
        assert.deepEqual(top.body.cells.map((row) => [row.net, row.dimensions]), [['8', { poll: 'p1' }], ['5', { choice: 'yes', poll: 'p1' }]]);
        assert.equal(typeof top.body.next, 'string');
    });

    test('SPEC 3: a cursor of another listing, or of none, is 400', async () => {
        const t = tenant();
        await polls(t);
        const plain = (await t.cells('votes', { limit: 1 })).body.next;
        const sorted = (await t.cells('votes', { limit: 1, sort: 'net' })).body.next;
        expectError(await t.cells('votes', { after: sorted }), 400, 'invalid_request');
        expectError(await t.cells('votes', { sort: 'net', after: plain }), 400, 'invalid_request');
        expectError(await t.cells('votes', { after: '***' }), 400, 'invalid_request');
        expectError(await t.cells('votes', { limit: 0 }), 400, 'invalid_request');
        expectError(await t.cells('votes', { limit: 10001 }), 400, 'invalid_request');
        expectError(await t.cells('votes', { sort: 'name' }), 400, 'invalid_request');
    });

    test('SPEC 7: a series shows all of time, or the bucket asked for', async () => {
        const t = tenant();
        const at = (minute) => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString();
        await t.send('viewed', { page: 'a' }, { occurredAt: at(1) });
        await t.send('viewed', { page: 'a' }, { occurredAt: at(2) });
        await t.send('viewed', { page: 'b' }, { occurredAt: at(2) });
        const nets = async (name, query) => (await t.allCells(name, query)).map((row) => [row.dimensions.page, row.net]);
        assert.deepEqual(await nets('views'), [['a', '2'], ['b', '1']]);
        assert.deepEqual(await nets('views', { durationSeconds: 60, timestamp: at(1) }), [['a', '1']]);
        assert.deepEqual(await nets('views_by_minute', { durationSeconds: 60, timestamp: at(2) }), [['a', '1'], ['b', '1']]);
        assert.deepEqual(await nets('views_by_minute', { durationSeconds: 60 }), [], 'now, unless a timestamp is given');
        expectError(await t.cells('views_by_minute'), 400, 'invalid_request');
    });

    test('S0-35: a window that is over is a row of zeros', async () => {
        const t = tenant();
        await t.send('viewed', { page: 'a' });
        await sleep(2100);
        await t.send('viewed', { page: 'b' });
        assert.deepEqual((await t.allCells('views_2s')).map((row) => [row.dimensions.page, row.net]), [['a', '0'], ['b', '1']]);
    });

    test('SPEC 7: a counter that no rules define is 404, a direct one too', async () => {
        const t = tenant();
        await t.increment('direct', { ...TOTAL });
        expectExactly(await t.cells('direct'), 404, NOT_FOUND);
        expectExactly(await t.cells('absent'), 404, NOT_FOUND);
        expectExactly(await t.cells('votes'), 200, { cells: [], next: null });
        assert.equal((await t.call('GET', '/api/counters/someone-else/votes/cells')).status, 404);
    });

    test('SPEC 3: thousands of rows page through, a page shows what its limit says', async () => {
        const t = tenant();
        const events = Array.from({ length: 3000 }, (_, i) => ({
            eventId: newId(), type: 'voted', dimensions: { poll: 'big', choice: String(i).padStart(5, '0') }, payload: { weight: i + 1 },
        }));
        const sent = await t.events(events);
        assert.equal(sent.body.applied, 3000, sent.text.slice(0, 300));
        const rows = await t.allCells('votes', { limit: 700, ...dim({ poll: 'big' }) });
        assert.equal(rows.length, 3001);
        assert.ok(rows.slice(0, 3000).every((row, i) => row.net === String(i + 1)));
        const top = await t.cells('votes', { sort: 'net', limit: 3 });
        assert.deepEqual(top.body.cells.slice(2).map((row) => row.dimensions), [{ choice: '02999', poll: 'big' }]);
    });
});
