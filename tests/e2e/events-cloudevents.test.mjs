// CloudEvents 1.0 in structured JSON, one and many.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { applied, dropped, event, eventById, RULES, send, value } from './support/events.mjs';
import { expectError } from './support/expect.mjs';
import { serverFor } from './support/server.mjs';

const ONE = { type: 'application/cloudevents+json' };
const BATCH = { type: 'application/cloudevents-batch+json; charset=UTF-8' };
const M1 = { masterAccountId: 'm1' };

const cloud = (id, more = {}) => ({
    specversion: '1.0', id, source: '/accounts', type: 'account.connected', data: { dimensions: M1 }, ...more,
});

describe('CloudEvents', () => {
    const server = serverFor({ config: RULES });

    test('SPEC 6: source and id are the event id, data the payload, data.dimensions the dimensions', async () => {
        const t = server.tenant();
        const reply = await applied(t, cloud('A-1', { time: '2026-01-01T00:00:00+01:00', subject: 's', datacontenttype: 'application/json' }), ONE);
        assert.equal(reply.eventId, '/accounts A-1');
        assert.equal(await value(t, 'connects_total', M1), 1);
        const { body } = await eventById(t, '/accounts A-1');
        assert.equal(body.type, 'account.connected');
        assert.equal(body.occurredAt, '2025-12-31T23:00:00.000Z');
        assert.deepEqual(body.dimensions, M1);
        assert.deepEqual(body.payload, { dimensions: M1 });
    });

    test('S1-10: an id counts once for each source', async () => {
        const t = server.tenant();
        await applied(t, cloud('A-1'), ONE);
        await dropped(t, cloud('A-1'), ONE);
        assert.equal((await dropped(t, cloud('A-1', { type: 'other' }), ONE)).conflict, true);
        await applied(t, cloud('A-1', { source: '/others' }), ONE);
        await dropped(t, event('/accounts A-1', 'account.connected', { dimensions: M1, payload: { dimensions: M1 } }));
        assert.equal(await value(t, 'connects_total', M1), 2);
    });

    test('SPEC 6: without dimensions in the data the extension attributes are the dimensions', async () => {
        const t = server.tenant();
        const data = { size: 5 };
        await applied(t, cloud('x', { data, masterAccountId: 'm1', shard: 7, test: false, none: null, subject: 'no', dataschema: 'urn:x' }), ONE);
        const { body } = await eventById(t, '/accounts x');
        assert.deepEqual(body.dimensions, { masterAccountId: 'm1', shard: '7', test: 'false' });
        assert.equal(await value(t, 'connects_total', M1), 1);
        await applied(t, cloud('y', { data: undefined, masterAccountId: 'm1' }), ONE);
        assert.equal((await eventById(t, '/accounts y')).body.payload, null);
    });

    test('what is no CloudEvent 1.0 is 400', async () => {
        const t = server.tenant();
        const bad = [
            { specversion: undefined }, { specversion: '0.3' }, { specversion: 1 }, { source: undefined }, { source: '' }, { source: 5 }, { source: 'a b' },
            { type: undefined }, { type: '' }, { time: 'noon' }, { data_base64: 'AAAA', data: undefined }, { id: 7 }, { ext: {}, data: 1 },
        ];
        for (const fields of bad) expectError(await send(t, cloud('b', fields), ONE), 400, 'invalid_request');
        for (const id of [undefined, null, '', 'x'.repeat(246)]) expectError(await send(t, cloud(id), ONE), 400, 'event_id_required');
        await applied(t, cloud('x'.repeat(245)), ONE);
        expectError(await send(t, [cloud('b')], ONE), 400, 'invalid_request');
        expectError(await send(t, cloud('b'), BATCH), 400, 'invalid_request');
        expectError(await send(t, event('b'), ONE), 400, 'invalid_request');
        expectError(await send(t, '', ONE), 400, 'invalid_request');
    });

    test('SPEC 6: a batch has one result each', async () => {
        const t = server.tenant();
        const { status, body } = await send(t, [cloud('1'), { specversion: '2.0' }, cloud('1'), cloud('2')], BATCH);
        assert.equal(status, 200);
        assert.deepEqual([body.applied, body.duplicates, body.rejected], [2, 1, 1]);
        assert.deepEqual(body.results.map((one) => one.eventId ?? one.index), ['/accounts 1', 1, '/accounts 1', '/accounts 2']);
        assert.deepEqual((await send(t, [], BATCH)).body, { applied: 0, duplicates: 0, rejected: 0, results: [] });
    });
});

/** Headers of a CloudEvent in binary mode. */
const attributes = (id, more = {}) => ({ 'ce-specversion': '1.0', 'ce-id': id, 'ce-source': '/accounts', 'ce-type': 'account.connected', ...more });

describe('CloudEvents in binary mode', () => {
    const server = serverFor({ config: RULES });
    const binary = (t, headers, body, type) => send(t, body, { type, headers });

    test('SPEC 6: attributes come from ce- headers, and nothing inside the body is looked at', async () => {
        const t = server.tenant();
        const body = { eventId: 'inner', id: 'inner', type: 'account.disconnected', source: '/inner', specversion: '0.3', dimensions: M1 };
        for (const id of ['B-1', 'B-2']) {
            const reply = await applied(t, body, { headers: attributes(id, { 'ce-time': '2026-01-01T00:00:00+01:00', 'ce-subject': 's' }) });
            assert.equal(reply.eventId, `/accounts ${id}`);
        }
        assert.equal(await value(t, 'connects_total', M1), 2);
        const read = (await eventById(t, '/accounts B-1')).body;
        assert.equal(read.type, 'account.connected');
        assert.equal(read.occurredAt, '2025-12-31T23:00:00.000Z');
        assert.deepEqual(read.dimensions, M1);
        assert.deepEqual(read.payload, body);
        assert.equal((await eventById(t, 'inner')).status, 404);
    });

    test('SPEC 6: the same event in another mode is a duplicate without a conflict', async () => {
        const t = server.tenant();
        await applied(t, { dimensions: M1 }, { headers: attributes('C-1') });
        assert.equal((await dropped(t, cloud('C-1'), ONE)).conflict, undefined);
        assert.equal((await dropped(t, { dimensions: M1 }, { headers: attributes('C-1') })).conflict, undefined);
        assert.equal((await dropped(t, { dimensions: M1, size: 1 }, { headers: attributes('C-1') })).conflict, true);
    });

    test('SPEC 6: extension attributes are the dimensions where the data has none, and the data may be left out', async () => {
        const t = server.tenant();
        const headers = attributes('D-1', { 'CE-MasterAccountId': 'm1', 'ce-shard': '7', 'ce-dataschema': 'urn:x', 'ce-datacontenttype': 'application/json', 'x-ce-more': 'no' });
        await applied(t, undefined, { headers });
        const { body } = await eventById(t, '/accounts D-1');
        assert.deepEqual(body.dimensions, { masteraccountid: 'm1', shard: '7' });
        assert.equal(body.payload, null);
        await applied(t, { dimensions: M1 }, { headers: attributes('D-2', { 'ce-shard': '7' }) });
        assert.deepEqual((await eventById(t, '/accounts D-2')).body.dimensions, M1);
    });

    test('SPEC 6: values are percent-decoded once and may be quoted', async () => {
        const t = server.tenant();
        const reply = await applied(t, {}, { headers: attributes('%E2%82%AC%2520', { 'ce-note': '"a \\"b\\" %C3%A4"' }) });
        assert.equal(reply.eventId, '/accounts €%20');
        assert.deepEqual((await eventById(t, '/accounts €%20')).body.dimensions, { note: 'a "b" ä' });
    });

    test('attributes that are missing, malformed or there twice are 400 and count nothing', async () => {
        const t = server.tenant();
        const bad = [{ 'ce-specversion': '0.3' }, { 'ce-specversion': '' }, { 'ce-source': '' }, { 'ce-source': 'a%20b' }, { 'ce-type': '' }, { 'ce-time': 'noon' },
            { 'ce-note': '%zz' }, { 'ce-note': '%ff' }, { 'ce-note': '"open' }, { 'ce-note': '"a" b' }, { 'ce-no_te': 'x' }, { 'ce-': 'x' }, { 'ce-data': '1' }];
        for (const headers of bad) expectError(await binary(t, attributes('b', headers), {}), 400, 'invalid_request');
        for (const name of ['ce-source', 'ce-type']) {
            const { [name]: _, ...rest } = attributes('b');
            expectError(await binary(t, rest, {}), 400, 'invalid_request');
        }
        for (const id of ['', 'x'.repeat(246)]) expectError(await binary(t, attributes(id), {}), 400, 'event_id_required');
        const raw = await server.raw();
        const twice = [...Object.entries(attributes('b')), ['ce-note', 'x'], ['CE-Note', 'x']];
        expectError(await raw.call('POST', `/api/events/${t.id}`, { token: t.token, headers: twice, body: {} }), 400, 'invalid_request');
        raw.destroy();
        assert.equal((await eventById(t, '/accounts b')).status, 404);
    });

    test('data that is not JSON is 400, said or not', async () => {
        const t = server.tenant();
        for (const type of ['text/plain', 'application/octet-stream', 'application/xml', 'application/x-ndjson']) {
            expectError(await binary(t, attributes('b'), '{}', type), 400, 'invalid_request');
        }
        expectError(await binary(t, attributes('b'), '{', 'application/json'), 400, 'invalid_request');
        for (const [index, type] of ['application/json; charset=utf-8', 'application/vnd.acme+json', 'application/x-www-form-urlencoded'].entries()) {
            await applied(t, '[1]', { headers: attributes(`j${index}`), type });
        }
    });

    test('a structured event may repeat its attributes in headers', async () => {
        const t = server.tenant();
        const reply = await applied(t, cloud('E-1'), { ...ONE, headers: attributes('other') });
        assert.equal(reply.eventId, '/accounts E-1');
    });
});

describe('CloudEvents where ids are made', () => {
    const server = serverFor({ config: RULES, settings: { 'events.generateIds': true } });

    test('a CloudEvent still needs its id', async () => {
        expectError(await send(server.tenant(), cloud(undefined), ONE), 400, 'event_id_required');
    });
});
