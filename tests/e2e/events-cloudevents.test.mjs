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

describe('CloudEvents where ids are made', () => {
    const server = serverFor({ config: RULES, settings: { 'events.generateIds': true } });

    test('a CloudEvent still needs its id', async () => {
        expectError(await send(server.tenant(), cloud(undefined), ONE), 400, 'event_id_required');
    });
});
