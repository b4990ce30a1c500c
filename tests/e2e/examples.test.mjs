// The files of etc/examples, each started as it is and played as its comments tell it.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { allDuplicates, allEvents, metric } from './support/events.mjs';
import { expectError, expectTriple } from './support/expect.mjs';
import { eventually, together } from './support/pace.mjs';
import { dim, newId, rulesServer } from './support/rules.mjs';
import { runTally } from './support/server.mjs';

const EXAMPLES = fileURLToPath(new URL('../../etc/examples/', import.meta.url));
const example = (name) => readFileSync(`${EXAMPLES}${name}`, 'utf8');
const HOUR = 3600000;

describe('the examples', () => {
    for (const name of readdirSync(EXAMPLES)) {
        test(`${name} is valid, and check-config names its counters`, async () => {
            const { code, stdout, stderr } = await runTally(['check-config', EXAMPLES + name]);
            assert.equal(code, 0, stderr);
            assert.match(stderr, /warning: .*`tally serve` would refuse to start: there is nothing to check tokens against/);
            for (const [, counter] of example(name).matchAll(/counterName: (\S+)/g)) {
                assert.ok(stdout.includes(counter), `${counter} in\n${stdout}`);
            }
        });
    }
});

describe('connections.yaml', () => {
    const { server, tenant } = rulesServer(example('connections.yaml'));
    const event = (eventId, type, masterAccountId = 'm1') => ({ eventId, type, dimensions: { masterAccountId, accountId: 'a1' } });
    const both = async (t, masterAccountId = 'm1') =>
        [await t.net('active_connections', { masterAccountId }), await t.net('connects_total', { masterAccountId })];

    test('S1-45 S1-46 S1-47: connect, disconnect, and the connect once more', async () => {
        const t = tenant();
        assert.equal((await t.events(event('E1', 'account.connected'))).body.counters, 2);
        assert.deepEqual(await both(t), [1, 1]);
        assert.equal((await t.events(event('E2', 'account.disconnected'))).body.counters, 1);
        assert.deepEqual(await both(t), [0, 1]);
        const before = await metric(server, 'duplicate_event_dropped_total');
        const again = (await t.events(event('E1', 'account.connected'))).body;
        assert.equal(again.result, 'DROPPED_DUPLICATE');
        assert.deepEqual(await both(t), [0, 1]);
        assert.equal(await metric(server, 'duplicate_event_dropped_total'), before + 1);
        assert.equal((await allDuplicates(t)).length, 1);
        await eventually('the log line', () => /"eventId":"E1","result":"DROPPED_DUPLICATE"/.test(server.stderr));
    });

    test('S1-48: E3 and E4 of one master at the same time both count', async () => {
        const t = tenant();
        await together(2, (i) => t.events(event(`E${3 + i}`, 'account.connected')));
        assert.deepEqual(await both(t), [2, 2]);
    });

    test('S1-49: disconnect before connect stays at 0, and the connect then counts', async () => {
        const t = tenant();
        await t.events(event('E5', 'account.disconnected'));
        assert.deepEqual(await both(t), [0, 0]);
        expectTriple(await t.get('active_connections', dim({ masterAccountId: 'm1' })), 0, 0);
        await t.events(event('E6', 'account.connected'));
        assert.deepEqual(await both(t), [1, 1]);
    });

    test('S1-43: a count for each master; an event without one is stored and not counted', async () => {
        const t = tenant();
        await t.events(event('a', 'account.connected', 'm1'));
        await t.events(event('b', 'account.connected', 'm2'));
        const reply = await t.events({ eventId: 'c', type: 'account.connected', dimensions: { accountId: 'a1' } });
        assert.deepEqual([reply.body.result, reply.body.counters], ['APPLIED', 0]);
        assert.deepEqual([await both(t, 'm1'), await both(t, 'm2')], [[1, 1], [1, 1]]);
        assert.equal((await allEvents(t)).length, 3);
        expectError(await t.get('connects_total', {}), 400, 'unknown_dimension_set');
    });

    test('S1-27: a day of 40 accounts, delivered three times by four senders in different orders', async () => {
        const t = tenant();
        const day = Array.from({ length: 40 }, (_, i) => [
            event(`up-${i}`, 'account.connected', `m${i % 3}`), ...(i % 4 ? [] : [event(`down-${i}`, 'account.disconnected', `m${i % 3}`)]),
        ]).flat();
        await t.events(day);
        await together(4, async (sender) => {
            for (let i = 0; i < day.length; i++) await t.events(day[(i * 7 + sender * 11) % day.length]);
        });
        const rows = await t.allCells('connects_total');
        assert.equal(rows.reduce((sum, row) => sum + Number(row.net), 0), 40);
        assert.equal((await t.allCells('active_connections')).reduce((sum, row) => sum + Number(row.net), 0), 30);
        assert.equal((await allDuplicates(t)).length, 4 * day.length);
    });
});

describe('pipeline.yaml', () => {
    const COUNTED = {
        artifact_received: 'artifacts_received_1h',
        artifact_completed: 'artifacts_completed_1h',
        artifact_failed: 'artifacts_failed_1h',
        transcription_completed: 'transcriptions_completed_1h',
        claims_extracted: 'claims_extracted_1h',
        entity_resolution_completed: 'entities_resolved_1h',
        drafts_generated: 'drafts_generated_1h',
    };
    const TYPES = [...example('pipeline.yaml').matchAll(/^ {4}- (\w+)$/gm)].map(([, type]) => type);
    const { tenant } = rulesServer(example('pipeline.yaml'));

    test('S0-09 to S0-18: 27 types are taken and stored, 7 of them count, each its own counter', async () => {
        assert.equal(new Set(TYPES).size, 27);
        const t = tenant();
        for (const type of TYPES) {
            const { counters } = await t.send(type, { organizationId: 'org1' });
            assert.equal(counters > 0, type in COUNTED, type);
        }
        for (const dims of [{}, { organizationId: 'org1' }]) {
            const windows = await t.windowsByName(dims);
            assert.deepEqual(Object.keys(windows), Object.values(COUNTED));
            for (const window of Object.values(windows)) assert.deepEqual([window.currentValue, window.trailing], [1, 1]);
        }
        assert.deepEqual((await allEvents(t)).map((event) => event.type), TYPES);
    });

    test('A-02d: a misspelled type is refused, stores nothing and leaves its id free', async () => {
        const t = tenant();
        const event = { eventId: 'e', type: 'artifact_recieved', dimensions: { organizationId: 'org1' } };
        expectError(await t.events(event), 400, 'unknown_event_type');
        assert.deepEqual(await allEvents(t), []);
        assert.equal((await t.events({ ...event, type: 'artifact_received' })).body.result, 'APPLIED');
    });

    test('S0-20 S0-21: the window starts with the first event and lasts an hour', async () => {
        const t = tenant();
        const began = Date.now();
        await t.send('artifact_received', { organizationId: 'org1' });
        const first = (await t.windowsByName({ organizationId: 'org1' })).artifacts_received_1h;
        assert.ok(first.windowStart >= began - 5 && first.windowStart <= Date.now() + 5);
        assert.equal(first.windowEnd, first.windowStart + HOUR);
        await t.send('artifact_received', { organizationId: 'org1' });
        assert.deepEqual((await t.windowsByName({ organizationId: 'org1' })).artifacts_received_1h, { ...first, currentValue: 2, trailing: 2 });
    });

    test('S0-24 S0-30 S0-31: organizations apart, the platform counts all and those without one', async () => {
        const t = tenant();
        for (const dimensions of [{ organizationId: 'a' }, { organizationId: 'a' }, { organizationId: 'b' }, { organizationId: null }, {}]) {
            await t.send('drafts_generated', dimensions);
        }
        const value = async (dims) => (await t.windowsByName(dims)).drafts_generated_1h.currentValue;
        assert.deepEqual([await value({}), await value({ organizationId: 'a' }), await value({ organizationId: 'b' })], [5, 2, 1]);
        assert.equal(await value({ organizationId: 'c' }), 0);
    });

    test('S0-19 S0-25 S0-27 S0-29: under 16 senders the counters agree with the log', async () => {
        const t = tenant();
        await together(16, async (sender) => {
            for (let i = 0; i < 10; i++) {
                const reply = await t.send(TYPES[(sender * 5 + i) % 27], { organizationId: `org${i % 3}` });
                assert.match(reply.id, /^\d+$/);
            }
        });
        const log = await allEvents(t);
        assert.equal(log.length, 160);
        for (const organizationId of [undefined, 'org0', 'org1', 'org2']) {
            const windows = await t.windowsByName(organizationId ? { organizationId } : {});
            for (const [type, name] of Object.entries(COUNTED)) {
                const logged = log.filter((event) => event.type === type && (!organizationId || event.dimensions.organizationId === organizationId));
                assert.equal(windows[name].currentValue, logged.length, `${name} of ${organizationId}`);
            }
        }
    });
});

describe('usage.yaml', () => {
    const { tenant, admin } = rulesServer(example('usage.yaml'));
    const created = (t, entryId, content_size) => t.send('Created', { entryId }, { payload: { content_size } });
    const row = async (t) => (await t.usage()).body;

    test('the story at its top: provisioned, created, read', async () => {
        const t = tenant();
        await t.events({ eventId: '1', type: 'Provisioned' });
        await t.events({ eventId: '2', type: 'Created', dimensions: { entryId: 'a' }, payload: { content_size: 1234 } });
        const { last_updated_at, ...rest } = await row(t);
        assert.deepEqual(rest, {
            tenant_id: t.id, status: 'active', entry_count: '1', storage_bytes: '1234', api_call_count: '0', request_bytes: '0', api_requests_per_minute: '0',
        });
        assert.ok(Date.parse(last_updated_at) <= Date.now() + 5);
    });

    test('S4-43: a first Created is 1', async () => {
        const t = tenant('tenant-a');
        await created(t, 'b1', 10);
        assert.deepEqual([(await row(t)).entry_count, (await row(t)).status], ['1', 'active']);
    });

    test('S4-44: provisioned, then deleted five times: 0, not below', async () => {
        const t = tenant();
        await t.send('Provisioned', {});
        for (let i = 0; i < 5; i++) await t.send('Deleted', { entryId: `b${i}` }, { payload: { content_size: 5 } });
        assert.deepEqual([(await row(t)).entry_count, (await row(t)).storage_bytes], ['0', '0']);
    });

    test('S4-45: provisioned, b1 and b2 created, b1 deleted: one, active', async () => {
        const t = tenant();
        await t.send('Provisioned', {});
        await created(t, 'b1', 10);
        await created(t, 'b2', 20);
        await t.send('Deleted', { entryId: 'b1' }, { payload: { content_size: 10 } });
        const { entry_count, storage_bytes, status } = await row(t);
        assert.deepEqual({ entry_count, storage_bytes, status }, { entry_count: '1', storage_bytes: '20', status: 'active' });
    });

    test('A-32: Archived takes the entry and not its space; Deleted then takes the space only', async () => {
        const t = tenant();
        await created(t, 'b1', 10);
        await created(t, 'b2', 20);
        await t.send('Archived', { entryId: 'b1' });
        assert.deepEqual([(await row(t)).entry_count, (await row(t)).storage_bytes], ['1', '30']);
        await t.send('Deleted', { entryId: 'b1' }, { payload: { content_size: 10 } });
        await t.send('Deleted', { entryId: 'b1' }, { payload: { content_size: 0 } });
        assert.deepEqual([(await row(t)).entry_count, (await row(t)).storage_bytes], ['1', '20']);
        await t.send('Deleted', { entryId: 'b2' });
        assert.deepEqual([(await row(t)).entry_count, (await row(t)).storage_bytes], ['0', '20'], 'a Deleted without a size');
    });

    test('health: entries at 79.9, 80 and 100 %, bytes at 10 GiB, requests of the minute', async () => {
        const t = tenant();
        await t.send('Provisioned', {});
        const many = async (from, to) => {
            for (let at = from; at < to; at += 4000) {
                const list = Array.from({ length: Math.min(4000, to - at) }, (_, i) => ({ eventId: newId(), type: 'Created', dimensions: { entryId: `n${at + i}` } }));
                assert.equal((await t.events(list)).body.applied, list.length);
            }
        };
        const metrics = async () => {
            const { body } = await t.health();
            return [body.status, body.metrics.entry_count.usage_pct, body.metrics.entry_count.status];
        };
        await many(0, 7990);
        assert.deepEqual(await metrics(), ['healthy', 79.9, 'ok']);
        await many(7990, 8000);
        assert.deepEqual(await metrics(), ['warning', 80, 'warning']);
        await many(8000, 10000);
        assert.deepEqual(await metrics(), ['critical', 100, 'at_limit']);
        await created(t, 'large', 10737418239);
        const bytes = (await t.health()).body.metrics.storage_bytes;
        assert.deepEqual([bytes.current, bytes.limit, bytes.status], ['10737418239', '10737418240', 'warning']);
        await t.send('ApiRequest', {}, { payload: { request_size: 77 } });
        const { body } = await t.health();
        assert.deepEqual([body.metrics.api_requests_per_minute.current, body.metrics.api_requests_per_minute.limit], ['1', '600']);
        assert.equal(body.metrics.api_call_count.limit, null);
        assert.deepEqual([(await row(t)).api_call_count, (await row(t)).request_bytes], ['1', '77']);
    });

    test('statuses: a decommissioned tenant keeps its row and is listed as such', async () => {
        const t = tenant('leaver');
        await t.send('Provisioned', {});
        await created(t, 'b1', 10);
        await t.send('Decommissioned', {});
        const { status, entry_count, storage_bytes } = await row(t);
        assert.deepEqual({ status, entry_count, storage_bytes }, { status: 'decommissioned', entry_count: '1', storage_bytes: '10' });
        const listed = async (which) => (await admin().call('GET', `/api/admin/tenants?status=${which}`)).body.tenants.map((one) => one.tenant_id);
        assert.ok((await listed('decommissioned')).includes('leaver'));
        assert.ok(!(await listed('active')).includes('leaver'));
        assert.equal((await tenant('never-seen').health()).body.status, 'unknown');
    });
});

describe('everything.yaml', () => {
    const { tenant, admin } = rulesServer(example('everything.yaml'));
    const at = '2026-01-02T10:20:30Z';

    test('orders: a series by country and channel, with its rollups', async () => {
        const t = tenant('shop');
        const order = (country, channel, kind, occurredAt = at) =>
            t.send('order.placed', { country, channel }, { occurredAt, payload: { customer: { kind } } });
        await order('AT', 'web', 'new');
        await order('AT', 'web', 'old', '2026-01-02T10:59:59Z');
        await order('AT', 'phone', 'old');
        await order('CH', 'web', 'new', '2026-01-01T00:00:00Z');
        const net = async (durationSeconds, dims) => Number((await t.get('orders', { durationSeconds, timestamp: at, ...dim(dims) })).body.net);
        assert.equal(await net(3600, { country: 'AT', channel: 'web' }), 2);
        assert.equal(await net(60, { country: 'AT', channel: 'web' }), 1);
        assert.equal(await net(86400, { country: 'AT' }), 3);
        assert.equal(await net(86400, { country: 'CH' }), 0);
        assert.equal(await net(0, { country: 'CH' }), 1);
        assert.equal(await net(0, { 'payload.customer.kind': 'old' }), 2);
        assert.equal(await net(0, {}), 4);
        expectError(await t.get('orders', { durationSeconds: 0, timestamp: at, ...dim({ channel: 'web' }) }), 400, 'unknown_dimension_set');
    });

    test('revenue: amounts of the payload, of some events only, and below zero if it must be', async () => {
        const t = tenant('shop');
        const pay = (type, cents, more = {}) =>
            t.send(type, { channel: 'web', customerId: 'c', ...more.dimensions }, { payload: { currency: 'EUR', test: false, total: { cents }, ...more.payload } });
        await pay('order.paid', 1999);
        await pay('order.paid', 5000, { payload: { test: true } });
        await pay('order.paid', 700, { dimensions: { channel: 'phone' } });
        await pay('order.paid', undefined);
        await pay('order.paid', 100, { payload: { currency: 'CHF' } });
        await pay('order.refunded', 2999);
        const value = await t.get('revenue_cents', dim({ 'payload.currency': 'EUR' }));
        expectTriple(value, 1999, 2999);
        assert.equal(await t.net('revenue_cents', { 'payload.currency': 'CHF' }), 100);
        assert.equal(await t.net('reputation', { customerId: 'c' }), 5);
    });

    test('reputation: five points a cancelled order, never below zero', async () => {
        const t = tenant('shop');
        for (let i = 0; i < 7; i++) await t.send('order.paid', { customerId: 'k' });
        await t.send('order.cancelled', { customerId: 'k' });
        assert.equal(await t.net('reputation', { customerId: 'k' }), 2);
        await t.send('order.cancelled', { customerId: 'k' });
        expectTriple(await t.get('reputation', dim({ customerId: 'k' })), 7, 7);
    });

    test('visitors: in or out, whatever the doors say; the floor of entry is where they leave', async () => {
        const t = tenant('shop');
        const door = (type, visitorId, floor) => t.send(type, { visitorId, floor });
        await door('visitor.left', 'v0', 'ground');
        await door('visitor.entered', 'v1', 'ground');
        await door('visitor.entered', 'v1', 'first');
        await door('visitor.entered', 'v2', 'first');
        await door('visitor.left', 'v1', 'first');
        await door('visitor.left', 'v1', 'ground');
        const floors = [await t.net('visitors_inside', { floor: 'ground' }), await t.net('visitors_inside', { floor: 'first' }), await t.net('visitors_inside')];
        assert.deepEqual(floors, [0, 1, 1]);
        const { visitors_5m } = await t.windowsByName();
        assert.deepEqual([visitors_5m.currentValue, visitors_5m.trailing, visitors_5m.windowEnd - visitors_5m.windowStart], [3, 3, 300000]);
        assert.equal((await t.windowsByName({ floor: 'first' })).visitors_5m.currentValue, 2);
    });

    test('its limit: health warns from 200 of 250', async () => {
        const t = tenant('full-shop');
        const enter = (from, to) => t.events(Array.from({ length: to - from }, (_, i) => (
            { eventId: newId(), type: 'visitor.entered', dimensions: { visitorId: `v${from + i}`, floor: 'ground' } })));
        const state = async () => (await t.health()).body.metrics.visitors_inside.status;
        await enter(0, 199);
        assert.equal(await state(), 'ok');
        await enter(199, 200);
        assert.equal(await state(), 'warning');
        await enter(200, 250);
        assert.equal(await state(), 'at_limit');
        assert.equal((await t.usage()).body.visitors_inside, '250');
    });

    test('stock: the amount is a dimension', async () => {
        const t = tenant('shop');
        await t.send('stock.received', { sku: 's1', pieces: 120 });
        await t.send('stock.sold', { sku: 's1', pieces: '20' });
        await t.send('stock.sold', { sku: 's1' });
        assert.equal(await t.net('stock', { sku: 's1' }), 100);
        await t.send('stock.sold', { sku: 's1', pieces: 500 });
        expectTriple(await t.get('stock', dim({ sku: 's1' })), 120, 120);
    });

    test('opened and closed; ids are needed; other types are refused', async () => {
        const t = tenant('corner-shop');
        await t.send('shop.opened', {});
        assert.equal((await t.usage()).body.status, 'open');
        await t.send('shop.closed', {});
        const { body } = await admin().call('GET', '/api/admin/tenants?status=closed');
        assert.deepEqual(body.tenants.map((one) => one.tenant_id), ['corner-shop']);
        expectError(await t.events({ type: 'shop.opened' }), 400, 'event_id_required');
        expectError(await t.events({ eventId: 'x', type: 'shop.burnt' }), 400, 'unknown_event_type');
    });
});
