// A tenant's usage row, its health, and tenants by status (seed 004; SPEC 8).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly } from './support/expect.mjs';
import { sleep, together } from './support/pace.mjs';
import { newId, rulesServer } from './support/rules.mjs';

const CONFIG = `
statuses:
  Provisioned: active
  Decommissioned: decommissioned
counters:
  - counterName: entry_count
    floorAtZero: true
    transition: { entity: [entry_id] }
    group: usage
    limit: 10
    rules:
      - { on: Created, op: increment }
      - { on: Deleted, op: decrement }
      - { on: Archived, op: decrement }
  - counterName: storage_bytes
    floorAtZero: true
    group: usage
    limit: 1000
    rules:
      - { on: Created, op: increment, amount: payload.content_size }
      - { on: Deleted, op: decrement, amount: payload.content_size }
  - counterName: api_call_count
    group: usage
    rules: [{ on: Called, op: increment }]
  - counterName: request_bytes
    dimensions: [route]
    rollups: [[]]
    group: usage
    rules: [{ on: Called, op: increment, amount: payload.request_size }]
  - counterName: nothing_allowed
    group: usage
    limit: 0
    rules: [{ on: Forbidden, op: increment }]
  - counterName: balance
    group: usage
    limit: 100
    rules: [{ on: Refunded, op: decrement }]
  - counterName: calls_2s
    mode: windowed
    window: 2s
    group: usage
    rules: [{ on: Called, op: increment }]
  - counterName: per_route_only
    dimensions: [route]
    group: usage
    rules: [{ on: Called, op: increment }]
  - counterName: not_usage
    rules: [{ on: Called, op: increment }]
`;

const ZEROS = {
    entry_count: '0', storage_bytes: '0', api_call_count: '0', request_bytes: '0', nothing_allowed: '0', balance: '0', calls_2s: '0',
};

describe('usage', () => {
    const { tenant, admin } = rulesServer(CONFIG);

    async function row(t) {
        const reply = await t.usage();
        assert.equal(reply.status, 200, reply.text);
        return reply.body;
    }
    const created = (t, entry_id, content_size) => t.send('Created', { entry_id }, content_size === undefined ? {} : { payload: { content_size } });

    test('SPEC 8: a tenant without a row reads as zeros, its health as unknown', async () => {
        const t = tenant();
        expectExactly(await t.usage(), 200, { tenant_id: t.id, status: null, last_updated_at: null, ...ZEROS });
        const health = await t.health();
        assert.equal(health.body.status, 'unknown');
        assert.deepEqual(health.body.metrics.entry_count, { current: '0', limit: '10', usage_pct: 0, status: 'ok' });
    });

    test('S4-18: Provisioned makes a row of zeros with status active', async () => {
        const t = tenant();
        const before = Date.now();
        await t.send('Provisioned', {});
        const { last_updated_at, ...rest } = await row(t);
        assert.deepEqual(rest, { tenant_id: t.id, status: 'active', ...ZEROS });
        assert.ok(Date.parse(last_updated_at) >= before - 5 && Date.parse(last_updated_at) <= Date.now() + 5);
    });

    test('S4-45: provisioned, b1, b2 created, b1 deleted: one entry, active', async () => {
        const t = tenant();
        await t.send('Provisioned', {});
        await created(t, 'b1');
        await created(t, 'b2');
        await t.send('Deleted', { entry_id: 'b1' });
        const { entry_count, status } = await row(t);
        assert.deepEqual({ entry_count, status }, { entry_count: '1', status: 'active' });
    });

    test('S4-24 S4-25 S4-43: a first Created makes the row, active, with the others 0', async () => {
        const t = tenant();
        await created(t, 'b1');
        const { last_updated_at, ...rest } = await row(t);
        assert.deepEqual(rest, { tenant_id: t.id, status: 'active', ...ZEROS, entry_count: '1' });
        assert.ok(last_updated_at);
    });

    test('S4-20 S4-21 S4-27 S4-44: counts follow events and never fall below 0', async () => {
        const t = tenant();
        await t.send('Provisioned', {});
        for (let i = 0; i < 5; i++) await t.send('Deleted', { entry_id: `b${i}` }, { payload: { content_size: 7 } });
        const { entry_count, storage_bytes } = await row(t);
        assert.deepEqual({ entry_count, storage_bytes }, { entry_count: '0', storage_bytes: '0' });
    });

    test('S4-28: a decrement for a tenant without a row makes none', async () => {
        const t = tenant();
        await t.send('Deleted', { entry_id: 'b1' }, { payload: { content_size: 7 } });
        expectExactly(await t.usage(), 200, { tenant_id: t.id, status: null, last_updated_at: null, ...ZEROS });
        assert.equal((await t.health()).body.status, 'unknown');
    });

    test('S4-19 S4-26 A-37: Decommissioned keeps the counters, and a later Created leaves the status', async () => {
        const t = tenant();
        await t.send('Provisioned', {});
        await created(t, 'b1');
        await t.send('Decommissioned', {});
        assert.deepEqual([(await row(t)).status, (await row(t)).entry_count], ['decommissioned', '1']);
        await created(t, 'b2');
        assert.deepEqual([(await row(t)).status, (await row(t)).entry_count], ['decommissioned', '2']);
    });

    test('S4-22 A-32, defect 15: Archived then Deleted of one entry subtracts once', async () => {
        const t = tenant();
        await created(t, 'b1');
        await created(t, 'b2');
        await t.send('Archived', { entry_id: 'b1' });
        assert.equal((await row(t)).entry_count, '1');
        await t.send('Deleted', { entry_id: 'b1' });
        assert.equal((await row(t)).entry_count, '1');
    });

    test('S4-16 S4-17: other events are taken and change nothing', async () => {
        const t = tenant();
        await t.send('Provisioned', {});
        const before = await row(t);
        await t.send('SomethingElse', { entry_id: 'b1' });
        assert.deepEqual(await row(t), before);
    });

    test('S4-37 S4-38 S4-39: one event drives several counters, by amounts of its payload', async () => {
        const t = tenant();
        await created(t, 'b1', 120);
        await created(t, 'b2', '30');
        await created(t, 'b3');
        await t.send('Deleted', { entry_id: 'b1' }, { payload: { content_size: 120 } });
        await t.send('Called', { route: '/a' }, { payload: { request_size: 500 } });
        await t.send('Called', { route: '/b' }, { payload: { request_size: 11 } });
        const { entry_count, storage_bytes, api_call_count, request_bytes } = await row(t);
        assert.deepEqual({ entry_count, storage_bytes, api_call_count, request_bytes }, {
            entry_count: '2', storage_bytes: '30', api_call_count: '2', request_bytes: '511',
        });
    });

    test('SPEC 8: the row holds counters of the group that keep the whole tenant, and no others', async () => {
        const t = tenant();
        await t.send('Called', { route: '/a' });
        assert.deepEqual(Object.keys(await row(t)), ['tenant_id', 'status', 'last_updated_at', ...Object.keys(ZEROS)]);
    });

    test('S4-41 S4-42: a windowed counter in the row reads 0 once its window is over', async () => {
        const t = tenant();
        await t.send('Called', { route: '/a' });
        await t.send('Called', { route: '/a' });
        assert.equal((await row(t)).calls_2s, '2');
        await sleep(2100);
        assert.equal((await row(t)).calls_2s, '0');
        assert.equal((await row(t)).api_call_count, '2');
    });

    test('S4-29: increments at the same time all count', async () => {
        const t = tenant();
        await together(40, (i) => created(t, `b${i}`));
        assert.equal((await row(t)).entry_count, '40');
    });

    test('S4-11: last_updated_at moves with every change and with nothing else', async () => {
        const t = tenant();
        await created(t, 'b1');
        const first = (await row(t)).last_updated_at;
        await sleep(5);
        assert.equal((await row(t)).last_updated_at, first);
        await created(t, 'b2');
        const second = (await row(t)).last_updated_at;
        assert.ok(Date.parse(second) > Date.parse(first));
        const event = { eventId: newId(), type: 'Created', dimensions: { entry_id: 'b3' } };
        await t.events(event);
        const third = (await row(t)).last_updated_at;
        await sleep(5);
        await t.events(event);
        assert.equal((await row(t)).last_updated_at, third, 'a duplicate is no change');
    });

    test('S4-05 S4-15: each tenant sees its own row only', async () => {
        const [a, b] = [tenant(), tenant()];
        await created(a, 'b1');
        assert.equal((await row(b)).entry_count, '0');
        assert.equal((await a.call('GET', `/api/usage/${b.id}`)).status, 404);
        assert.equal((await a.call('GET', `/api/usage/${b.id}/health`)).status, 404);
    });

    test('E4-02 S4-46: health by the share of the limit: ok, warning from 80 %, at_limit from 100 %', async () => {
        const t = tenant();
        await t.send('Provisioned', {});
        const metric = async () => {
            const { body } = await t.health();
            return [body.status, body.metrics.entry_count.usage_pct, body.metrics.entry_count.status];
        };
        const levels = [];
        for (let i = 1; i <= 11; i++) {
            await created(t, `b${i}`);
            if (i >= 7) levels.push(await metric());
        }
        assert.deepEqual(levels, [
            ['healthy', 70, 'ok'], ['warning', 80, 'warning'], ['warning', 90, 'warning'],
            ['critical', 100, 'at_limit'], ['critical', 110, 'at_limit'],
        ]);
    });

    test('E4-02: percentages have one decimal; no limit is null; a limit of 0 is 0 or 100; below zero is ok', async () => {
        const t = tenant();
        await created(t, 'b1', 333);
        await t.send('Called', { route: '/a' });
        await t.send('Refunded', {});
        const before = Date.now();
        const { body } = await t.health();
        assert.deepEqual(Object.keys(body).sort(), ['metrics', 'queried_at', 'status', 'tenant_id']);
        assert.ok(Date.parse(body.queried_at) >= before - 5);
        assert.deepEqual(body.metrics.storage_bytes, { current: '333', limit: '1000', usage_pct: 33.3, status: 'ok' });
        assert.deepEqual(body.metrics.api_call_count, { current: '1', limit: null, usage_pct: null, status: 'ok' });
        assert.deepEqual(body.metrics.nothing_allowed, { current: '0', limit: '0', usage_pct: 0, status: 'ok' });
        assert.deepEqual(body.metrics.balance, { current: '-1', limit: '100', usage_pct: -1, status: 'ok' });
        assert.equal(body.status, 'healthy');
        await t.send('Forbidden', {});
        const after = (await t.health()).body;
        assert.deepEqual(after.metrics.nothing_allowed, { current: '1', limit: '0', usage_pct: 100, status: 'at_limit' });
        assert.equal(after.status, 'critical');
    });

    test('E4-02: the level goes by the exact share, up to the last unit below 80 %', async () => {
        const t = tenant();
        await created(t, 'b1', 799);
        const metrics = async () => (await t.health()).body.metrics.storage_bytes;
        assert.deepEqual(await metrics(), { current: '799', limit: '1000', usage_pct: 79.9, status: 'ok' });
        await created(t, 'b2', 1);
        assert.deepEqual(await metrics(), { current: '800', limit: '1000', usage_pct: 80, status: 'warning' });
    });

    test('S4-12: an admin lists tenants by status, paged; others may not', async () => {
        const prefix = `listed-${process.pid}-`;
        for (const name of ['a', 'b', 'c', 'd']) await tenant(prefix + name).send('Provisioned', {});
        await tenant(`${prefix}b`).send('Decommissioned', {});
        const operator = admin();
        const list = async (query) => {
            const found = [];
            let after;
            do {
                const page = await operator.call('GET', `/api/admin/tenants?${new URLSearchParams(after ? { ...query, after } : query)}`);
                assert.equal(page.status, 200, page.text);
                found.push(...page.body.tenants);
                after = page.body.next;
            } while (after);
            return found.filter((one) => one.tenant_id.startsWith(prefix));
        };
        const short = (found) => found.map((one) => [one.tenant_id.slice(prefix.length), one.status]);
        for (const limit of [1, 2, 100]) {
            assert.deepEqual(short(await list({ limit })), [['a', 'active'], ['b', 'decommissioned'], ['c', 'active'], ['d', 'active']]);
            assert.deepEqual(short(await list({ limit, status: 'active' })), [['a', 'active'], ['c', 'active'], ['d', 'active']]);
            assert.deepEqual(short(await list({ limit, status: 'decommissioned' })), [['b', 'decommissioned']]);
        }
        assert.ok((await list({})).every((one) => !Number.isNaN(Date.parse(one.last_updated_at))));
        await created(tenant(`${prefix}c`), 'entry', 1);
        const { last_updated_at } = await row(tenant(`${prefix}c`));
        assert.deepEqual((await list({})).filter((one) => one.tenant_id === `${prefix}c`), [{ tenant_id: `${prefix}c`, status: 'active', last_updated_at }], 'S4-11: by its counters, too');
        expectError(await tenant().call('GET', '/api/admin/tenants'), 403, 'forbidden');
        expectError(await operator.call('GET', '/api/admin/tenants?after=*'), 400, 'invalid_request');
    });
});
