// Reading counters that rules keep: get, sumRange, series, query and the list (SPEC 7).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, NOT_FOUND, triple } from './support/expect.mjs';
import { together } from './support/pace.mjs';
import { dim, newId, rulesServer } from './support/rules.mjs';
import { TOTAL } from './support/server.mjs';

const CONFIG = `
counters:
  - counterName: active_connections
    mode: persistent
    dimensions: [masterAccountId]
    floorAtZero: true
    rules:
      - { on: account.connected, op: increment }
      - { on: account.disconnected, op: decrement }
    idempotency: { requireEventId: true, scope: globalEventId }
  - counterName: connects_total
    mode: persistent
    dimensions: [masterAccountId]
    floorAtZero: false
    rules:
      - { on: account.connected, op: increment }
    idempotency: { requireEventId: true, scope: globalEventId }
  - counterName: balance
    dimensions: [masterAccountId]
    rules:
      - { on: account.connected, op: increment }
      - { on: account.disconnected, op: decrement }
  - counterName: connected_accounts
    dimensions: [masterAccountId]
    floorAtZero: true
    transition: { entity: [accountId] }
    rules:
      - { on: account.connected, op: increment }
      - { on: account.disconnected, op: decrement }
  - counterName: page_views
    mode: series
    granularities: [0, 60, 3600]
    dimensions: [page, lang]
    rollups: [[page], []]
    rules: [{ on: page.viewed, op: increment }]
  - counterName: minutes_only
    mode: series
    granularities: [60]
    rules: [{ on: page.viewed, op: increment }]
  - counterName: views_1h
    mode: windowed
    window: 1h
    dimensions: [page]
    rules: [{ on: page.viewed, op: increment }]
`;

const AT = '2026-01-01T00:00:30Z';
const MINUTE = { durationSeconds: 60, timestamp: AT };
const KEPT = [0, 60, 3600]; // of page_views

describe('reading rule counters', () => {
    const { tenant } = rulesServer(CONFIG);

    const connect = (t, masterAccountId, accountId = 'a') => t.send('account.connected', { masterAccountId, accountId });
    const disconnect = (t, masterAccountId, accountId = 'a') => t.send('account.disconnected', { masterAccountId, accountId });

    test('S1-45 S1-46: connect adds to both counters, disconnect takes from one', async () => {
        const t = tenant();
        const m1 = dim({ masterAccountId: 'm1' });
        await connect(t, 'm1');
        expectTriple(await t.get('active_connections', m1), 1);
        expectTriple(await t.get('connects_total', m1), 1);
        await disconnect(t, 'm1');
        expectTriple(await t.get('active_connections', m1), 1, 1);
        expectTriple(await t.get('connects_total', m1), 1);
    });

    test('S1-47: an event delivered again changes nothing', async () => {
        const t = tenant();
        const event = { eventId: newId(), type: 'account.connected', dimensions: { masterAccountId: 'm1', accountId: 'a' } };
        assert.equal((await t.events(event)).body.result, 'APPLIED');
        assert.equal((await t.events(event)).body.result, 'DROPPED_DUPLICATE');
        expectTriple(await t.get('active_connections', dim({ masterAccountId: 'm1' })), 1);
    });

    test('S1-48: events at the same time for the same key all apply', async () => {
        const t = tenant();
        await together(20, (i) => connect(t, 'm1', `a${i}`));
        assert.equal(await t.net('active_connections', { masterAccountId: 'm1' }), 20);
    });

    test('S1-36 S1-37 S1-38 S1-49 A-06, defect 4: disconnect first is 0 with a floor, -1 without, ignored by state', async () => {
        const t = tenant();
        await disconnect(t, 'm1');
        const m1 = dim({ masterAccountId: 'm1' });
        expectTriple(await t.get('active_connections', m1), 0);
        expectExactly(await t.get('balance', m1), 200, { net: '-1', added: '0', subbed: '1' });
        expectTriple(await t.get('connected_accounts', m1), 0);
        await connect(t, 'm1');
        assert.equal(await t.net('active_connections', { masterAccountId: 'm1' }), 1);
        assert.equal(await t.net('balance', { masterAccountId: 'm1' }), 0);
    });

    test('S1-43: only the named dimensions make the key', async () => {
        const t = tenant();
        await t.send('account.connected', { masterAccountId: 'm1', accountId: 'x', region: 'eu' });
        await t.send('account.connected', { masterAccountId: 'm1', accountId: 'y', region: 'us' });
        assert.equal(await t.net('connects_total', { masterAccountId: 'm1' }), 2);
    });

    test('S1-61: dimensions must name exactly one kept set', async () => {
        const t = tenant();
        await connect(t, 'm1');
        for (const query of [{}, dim({ other: 'x' }), dim({ masterAccountId: 'm1', accountId: 'a' }), { 'dim.': 'y' }]) {
            expectError(await t.get('active_connections', query), 400, 'unknown_dimension_set');
        }
        await t.send('page.viewed', { page: '/', lang: 'en' }, { occurredAt: AT });
        assert.equal(await t.net('page_views', {}).catch(() => 'refused'), 'refused', 'a series asks for its granularity');
        for (const set of [{}, { page: '/' }, { page: '/', lang: 'en' }]) {
            expectTriple(await t.get('page_views', { ...TOTAL, ...dim(set) }), 1);
        }
        expectError(await t.get('page_views', { ...TOTAL, ...dim({ lang: 'en' }) }), 400, 'unknown_dimension_set');
    });

    test('SPEC 7: on a direct counter any dim. is 400', async () => {
        const t = tenant();
        await t.increment('direct', { ...TOTAL });
        expectError(await t.get('direct', { ...TOTAL, ...dim({ a: '1' }) }), 400, 'unknown_dimension_set');
        expectTriple(await t.get('direct'), 1);
        expectExactly(await t.get('nobody-knows-it'), 404, NOT_FOUND);
    });

    test('SPEC 7: an absent cell of a defined counter reads as zeros, also in ranges', async () => {
        const t = tenant();
        const range = { durationSeconds: 60, startTime: AT, endTime: AT };
        expectTriple(await t.get('active_connections', dim({ masterAccountId: 'nobody' })), 0);
        expectTriple(await t.get('views_1h', dim({ page: '/none' })), 0);
        expectTriple(await t.get('page_views', MINUTE), 0);
        expectTriple(await t.sumRange('page_views', range), 0);
        expectExactly(await t.series('page_views', range), 200, { buckets: [] });
    });

    test('SPEC 7: durationSeconds and timestamp are optional for persistent and windowed counters', async () => {
        const t = tenant();
        await connect(t, 'm1');
        await t.send('page.viewed', { page: '/' });
        const m1 = dim({ masterAccountId: 'm1' });
        for (const extra of [{}, TOTAL, { durationSeconds: 0 }, { timestamp: AT }]) {
            expectTriple(await t.get('active_connections', { ...m1, ...extra }), 1);
            expectTriple(await t.get('views_1h', { ...dim({ page: '/' }), ...extra }), 1);
        }
        expectError(await t.get('active_connections', { ...m1, durationSeconds: -1 }), 400, 'invalid_request');
        expectError(await t.get('page_views', {}), 400, 'invalid_request');
    });

    test('SPEC 7: a granularity that the counter does not keep is 404 granularity_not_kept, which says what it keeps', async () => {
        const t = tenant();
        await connect(t, 'm1');
        await t.send('page.viewed', { page: '/' }, { occurredAt: AT });
        const m1 = dim({ masterAccountId: 'm1' });
        const range = { durationSeconds: 300, startTime: AT, endTime: AT };
        const refused = async (asked, granularities) => {
            const reply = await asked;
            expectError(reply, 404, 'granularity_not_kept');
            assert.deepEqual(reply.body.granularities, granularities, reply.text);
        };
        await refused(t.get('page_views', { ...MINUTE, durationSeconds: 300 }), KEPT);
        await refused(t.sumRange('page_views', range), KEPT);
        await refused(t.series('page_views', range), KEPT);
        await refused(t.read('cells', 'page_views', { durationSeconds: 300 }), KEPT);
        await refused(t.get('active_connections', { ...m1, ...MINUTE }), [0]);
        await refused(t.read('cells', 'active_connections', { durationSeconds: 60 }), [0]);
        await refused(t.get('views_1h', { ...dim({ page: '/' }), durationSeconds: 60 }), []);
        await refused(t.read('cells', 'views_1h', { durationSeconds: 3600 }), []);
        const { body } = await t.query([
            { sumRange: { name: 'page_views', ...range } },
            { get: { name: 'active_connections', dimensions: { masterAccountId: 'm1' }, durationSeconds: 60 } },
        ]);
        assert.deepEqual(body.results.map(({ status, code, granularities }) => [status, code, granularities]),
            [[404, 'granularity_not_kept', KEPT], [404, 'granularity_not_kept', [0]]]);
    });

    test('SPEC 7: ranges of a counter without buckets are 400 not_a_series', async () => {
        const t = tenant();
        const range = { durationSeconds: 60, startTime: AT, endTime: AT };
        for (const [name, dims] of [['active_connections', { masterAccountId: 'm1' }], ['views_1h', { page: '/' }]]) {
            expectError(await t.sumRange(name, { ...range, ...dim(dims) }), 400, 'not_a_series');
            expectError(await t.series(name, { ...range, ...dim(dims) }), 400, 'not_a_series');
        }
    });

    test('SPEC 7: series buckets go by occurredAt, in every granularity', async () => {
        const t = tenant();
        for (const second of [0, 59, 60, 3599]) {
            await t.send('page.viewed', { page: '/' }, { occurredAt: new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString() });
        }
        const range = { startTime: '2026-01-01T00:00:00Z', endTime: '2026-01-01T00:59:59Z', ...dim({ page: '/' }) };
        expectTriple(await t.get('page_views', { ...MINUTE, ...dim({ page: '/' }) }), 2);
        expectTriple(await t.sumRange('page_views', { ...range, durationSeconds: 60 }), 4);
        expectTriple(await t.sumRange('page_views', { ...range, durationSeconds: 3600 }), 4);
        const series = await t.series('page_views', { ...range, durationSeconds: 60 });
        expectExactly(series, 200, {
            buckets: [
                { timeStart: '2026-01-01T00:00:00.000Z', ...triple(2) },
                { timeStart: '2026-01-01T00:01:00.000Z', ...triple(1) },
                { timeStart: '2026-01-01T00:59:00.000Z', ...triple(1) },
            ],
        });
    });

    test('A-11: a dimension compares by its string form; null is absent', async () => {
        const t = tenant();
        await t.send('account.connected', { masterAccountId: 7, accountId: 'a' });
        await t.send('account.connected', { masterAccountId: '7', accountId: 'b' });
        await t.send('account.connected', { masterAccountId: true, accountId: 'c' });
        assert.equal(await t.net('connects_total', { masterAccountId: '7' }), 2);
        assert.equal(await t.net('connects_total', { masterAccountId: 'true' }), 1);
        const reply = await t.query([
            { get: { name: 'connects_total', dimensions: { masterAccountId: 7 } } },
            { get: { name: 'connects_total', dimensions: { masterAccountId: true } } },
            { get: { name: 'page_views', dimensions: { page: null }, ...TOTAL } },
            { get: { name: 'connects_total', dimensions: { masterAccountId: 1.5 } } },
            { get: { name: 'connects_total', dimensions: 'm1' } },
        ]);
        assert.deepEqual(reply.body.results.map((one) => [one.status, one.net ?? one.code]), [
            [200, '2'], [200, '1'], [200, '0'], [400, 'invalid_request'], [400, 'invalid_request'],
        ]);
    });

    test('SPEC 5: query reads rule counters and direct ones in one call', async () => {
        const t = tenant();
        await connect(t, 'm1');
        await t.send('page.viewed', { page: '/', lang: 'en' }, { occurredAt: AT });
        await t.increment('direct', { ...TOTAL, amount: 5 });
        const range = { durationSeconds: 60, startTime: AT, endTime: AT };
        const reply = await t.query([
            { get: { name: 'active_connections', dimensions: { masterAccountId: 'm1' } } },
            { get: { name: 'views_1h', dimensions: { page: '/' } } },
            { sumRange: { name: 'page_views', dimensions: { lang: 'en', page: '/' }, ...range } },
            { series: { name: 'page_views', ...range } },
            { get: { name: 'direct', ...TOTAL } },
            { get: { name: 'direct', dimensions: {}, ...TOTAL } },
            { get: { name: 'direct', dimensions: { a: '1' }, ...TOTAL } },
            { get: { name: 'active_connections' } },
            { series: { name: 'active_connections', dimensions: { masterAccountId: 'm1' }, ...range } },
            { get: { name: 'absent', ...TOTAL } },
        ]);
        assert.equal(reply.status, 200, reply.text);
        assert.deepEqual(reply.body.results.map((one) => one.net ?? one.buckets?.length ?? one.code), [
            '1', '1', '1', 1, '5', '5', 'unknown_dimension_set', 'unknown_dimension_set', 'not_a_series', 'not_found',
        ]);
    });

    test('SPEC 5: the list shows rule counters that have counted among the direct ones, by name', async () => {
        const t = tenant();
        for (const name of ['a-direct', 'n-direct', 'z-direct']) await t.increment(name, { ...TOTAL });
        assert.deepEqual((await t.listAll()).map((one) => one.name), ['a-direct', 'n-direct', 'z-direct']);
        await connect(t, 'm1');
        await t.send('page.viewed', { page: '/' });
        const expected = [
            { name: 'a-direct', granularities: [0] },
            { name: 'active_connections', granularities: [0] },
            { name: 'balance', granularities: [0] },
            { name: 'connected_accounts', granularities: [0] },
            { name: 'connects_total', granularities: [0] },
            { name: 'minutes_only', granularities: [60] },
            { name: 'n-direct', granularities: [0] },
            { name: 'page_views', granularities: [0, 60, 3600] },
            { name: 'views_1h', granularities: [] },
            { name: 'z-direct', granularities: [0] },
        ];
        for (const limit of [1, 2, 3, 9, 10, 100]) assert.deepEqual(await t.listAll({ limit }), expected, `limit ${limit}`);
        assert.deepEqual((await t.listAll({ prefix: 'conn', limit: 1 })).map((one) => one.name), ['connected_accounts', 'connects_total']);
        assert.deepEqual(await tenant().listAll(), [], 'another tenant sees none of it');
    });

    test('X-04: one tenant\'s events change nothing of another\'s', async () => {
        const [a, b] = [tenant(), tenant()];
        await connect(a, 'm1');
        expectTriple(await b.get('active_connections', dim({ masterAccountId: 'm1' })), 0);
    });
});

describe('rule counters after a restart', () => {
    const { server, tenant } = rulesServer(CONFIG);

    test('values, windows and lists are what they were, after a stop and after kill -9', async () => {
        const t = tenant();
        await t.send('account.connected', { masterAccountId: 'm1', accountId: 'a' });
        await t.send('page.viewed', { page: '/', lang: 'en' }, { occurredAt: AT });
        const read = async () => [
            (await t.get('active_connections', dim({ masterAccountId: 'm1' }))).text,
            (await t.get('page_views', { ...MINUTE, ...dim({ page: '/' }) })).text,
            (await t.windows({ page: '/' })).text,
            (await t.cells('active_connections')).text,
            (await t.list()).text,
        ];
        const before = await read();
        for (const hard of [true, false]) {
            await server.restart({ hard });
            assert.deepEqual(await read(), before);
        }
    });
});
