// A typo must never count (SPEC 3): a field or parameter that a call does not know is 400 `unknown_field`.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectTriple } from './support/expect.mjs';
import { serverFor, TOTAL } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

const RULES = `
counters:
  - { counterName: views, dimensions: [page], rules: [{ on: viewed, op: increment }] }
reconcile:
  - { name: by_page, tenants: all, entity: [page], source: { events: true }, counters: [views] }
`;
const NDJSON = { 'Content-Type': 'application/x-ndjson' };
const admin = tokenFor('operator', { scope: 'admin' });
const EXPIRY = { expiresAt: '2099-01-01T00:00:00Z' };

/** Refused, and the sentence has the name and what was meant. */
function expectUnknown(reply, name, meant) {
    expectError(reply, 400, 'unknown_field');
    assert.ok(reply.body.error.includes(`"${name}"`), reply.text);
    if (meant) assert.ok(reply.body.error.includes(`did you mean "${meant}"`), reply.text);
}

describe('a name that the call does not know', () => {
    const server = serverFor({ config: RULES });

    test('is refused in a change, with what was probably meant, and nothing counts', async () => {
        const t = server.tenant();
        expectUnknown(await t.increment('hits', { ...TOTAL, amout: 5 }), 'amout', 'amount');
        expectUnknown(await t.increment('hits', { durationSeconds: 0, time: 0 }), 'time', 'timestamp');
        expectUnknown(await t.increment('hits', { ...TOTAL, targetValue: 5 }), 'targetValue');
        expectUnknown(await t.set('hits', { ...TOTAL, target: 5 }), 'target', 'targetValue');
        expectUnknown(await t.set('hits', { ...TOTAL, targetValue: 5, amount: 1 }), 'amount');
        expectUnknown(await t.decrement('hits', { ...TOTAL, max: 5 }), 'max');
        expectUnknown(await t.call('POST', `${t.path('hits', 'incrementSync')}?amount=5`, { body: TOTAL }), 'amount');
        expectUnknown(await t.call('DELETE', `${t.path('hits')}?force=true`), 'force');
        assert.equal((await t.get('hits')).status, 404);
    });

    test('is let pass where the contract says so', async () => {
        const t = server.tenant();
        expectTriple(await t.increment('hits', { ...TOTAL, amount: 5, 'x-trace': { amount: 7 }, minSequence: '1' }), 5);
        expectTriple(await t.decrement('hits', { ...TOTAL, ...EXPIRY }), 5, 1);
        expectTriple(await t.get('hits', { ...TOTAL, _cache: 'no', minSequence: '0-1' }), 5, 1);
        expectTriple(await t.set('hits', { ...TOTAL, targetValue: 9, amount: null, max: null }), 10, 1);
    });

    test('is an operation\'s own refusal in a batch, NDJSON too, and of an atomic one the whole', async () => {
        const t = server.tenant();
        const ops = [
            { op: 'increment', name: 'a', ...TOTAL },
            { op: 'increment', name: 'b', ...TOTAL, amout: 5 },
            { op: 'decrement', name: 'a', ...TOTAL, ...EXPIRY, max: null },
            { op: 'set', name: 'b', ...TOTAL, targetValue: 1, amount: 2 },
            { opp: 'increment', name: 'b', ...TOTAL },
        ];
        const lines = ops.map((op) => `${JSON.stringify(op)}\n`).join('');
        const atomic = await t.batch(ops.slice(0, 2), { atomic: true });
        expectUnknown(atomic, 'amout', 'amount');
        assert.equal(atomic.body.index, 1);
        for (const reply of [await t.batch(ops), await t.ndjson(lines)]) {
            assert.equal(reply.status, 200, reply.text);
            assert.deepEqual(reply.body.results.map(({ status, code }) => code ?? status),
                [200, 'unknown_field', 200, 'unknown_field', 'unknown_field']);
            assert.match(reply.body.results[4].error, /"opp": did you mean "op"/);
        }
        expectUnknown(await t.batch([], { atomc: true }), 'atomc', 'atomic');
        expectUnknown(await t.batch([], { query: '?result=errors' }), 'result', 'results');
        assert.equal((await t.get('b')).status, 404);
    });

    test('is an operation\'s own refusal in a batch with a key, and again when that is repeated', async () => {
        const t = server.tenant();
        const ops = [{ op: 'increment', name: 'a', ...TOTAL }, { op: 'increment', name: 'a', ...TOTAL, amout: 5 }];
        const send = () => t.batch(ops, { headers: { 'Idempotency-Key': 'once' } });
        const first = await send();
        const second = await send();
        assert.equal(first.status, 200, first.text);
        assert.equal(first.body.results[1].code, 'unknown_field');
        assert.equal(second.text, first.text);
        assert.equal(second.headers.get('idempotent-replayed'), 'true');
        expectTriple(await t.get('a'), 1);
    });

    test('is an event\'s own refusal; payload, dimensions and CloudEvents are free', async () => {
        const t = server.tenant();
        const path = `/api/events/${t.id}`;
        const typo = { eventId: 'E1', type: 'viewed', occuredAt: 0 };
        const free = { eventId: 'E2', type: 'viewed', dimensions: { page: '/', amout: 1 }, payload: { amout: 1 }, 'x-id': 7 };
        expectUnknown(await t.call('POST', path, { body: typo }), 'occuredAt', 'occurredAt');
        for (const options of [{ body: [typo, free] }, { body: `${JSON.stringify(typo)}\n${JSON.stringify(free)}`, headers: NDJSON }]) {
            const { body } = await t.call('POST', path, options);
            assert.equal(body.rejected, 1, JSON.stringify(body));
            assert.equal(body.results[0].code, 'unknown_field');
        }
        const cloud = { specversion: '1.0', id: 'c', source: '/s', type: 'viewed', anything: 'goes', page: '/' };
        const reply = await t.call('POST', path, { body: cloud, headers: { 'Content-Type': 'application/cloudevents+json' } });
        assert.equal(reply.body.result, 'APPLIED', reply.text);
    });

    test('is a query\'s own refusal', async () => {
        const t = server.tenant();
        const { body } = await t.query([
            { get: { name: 'views', timestmp: 0 } },
            { got: { name: 'views' } },
            { get: { name: 'views', dimensions: { page: '/' }, 'x-note': 1 } },
            { sumRange: { name: 'a', durationSeconds: 60, startTime: 0, endTime: 1, limit: 1 } },
        ]);
        assert.deepEqual(body.results.map(({ status, code }) => code ?? status), ['unknown_field', 'unknown_field', 200, 'unknown_field']);
        assert.match(body.results[0].error, /"timestmp": did you mean "timestamp"/);
        expectUnknown(await t.call('POST', `/api/counters/${t.id}/query`, { body: { queries: [], querys: [] } }), 'querys', 'queries');
    });

    test('is refused in the query of every read', async () => {
        const t = server.tenant();
        const range = { durationSeconds: 60, startTime: 0, endTime: 60 };
        expectUnknown(await t.get('a', { ...TOTAL, time: 0 }), 'time', 'timestamp');
        expectUnknown(await t.sumRange('a', { ...range, end: 1 }), 'end', 'endTime');
        expectUnknown(await t.series('a', { ...range, fil: 'zero' }), 'fil', 'fill');
        expectUnknown(await t.list({ limt: 1 }), 'limt', 'limit');
        expectUnknown(await t.list({ 'dim.page': '/' }), 'dim.page');
        expectUnknown(await t.call('GET', `/api/events/${t.id}?form=2024-01-01`), 'form', 'from');
        expectUnknown(await server.call('GET', '/healthz?deep=1'), 'deep');
        assert.equal((await server.call('GET', '/?utm=1')).status, 200);
    });

    test('is refused in the body of a call that takes none', async () => {
        const t = server.tenant();
        await t.increment('hits', TOTAL);
        expectUnknown(await server.call('POST', '/api/admin/reload', { token: admin, body: { dryRun: true } }), 'dryRun');
        expectUnknown(await t.call('DELETE', t.path('hits'), { body: { bucket: 0 } }), 'bucket');
        assert.equal((await server.call('POST', '/api/admin/reload', { token: admin, body: {} })).status, 200);
        assert.equal((await t.call('DELETE', t.path('hits'), { body: 'not JSON' })).status, 200);
    });

    test('is refused in what operators ask', async () => {
        const ask = (method, path, body) => server.call(method, path, { token: admin, body });
        expectUnknown(await ask('POST', '/api/admin/backups', { nam: 'x' }), 'nam', 'name');
        expectUnknown(await ask('POST', '/api/admin/backups', { ids: true }), 'ids');
        expectUnknown(await ask('POST', '/api/admin/counters/views/rebuild', { forced: true }), 'forced', 'force');
        expectUnknown(await ask('GET', '/api/admin/tenants?stat=active'), 'stat', 'status');
        expectUnknown(await ask('POST', '/api/reconcile/t/by_page/request', { page: '/', pages: 1 }), 'pages', 'page');
    });
});

describe('api.unknownFields: warn', () => {
    const server = serverFor({ config: RULES, settings: { 'api.unknownFields': 'warn' } });

    test('tells in a header and a metric instead, and goes on as if it were not there', async () => {
        const t = server.tenant();
        const reply = await t.increment('hits', { ...TOTAL, amout: 5 });
        expectTriple(reply, 1);
        assert.equal(reply.headers.get('tally-warning'), 'Unknown field "amout": did you mean "amount"?');
        const many = await t.batch([{ op: 'increment', name: 'hits', ...TOTAL, 'ä': 1 }, { op: 'decrement', name: 'hits', ...TOTAL, max: 1 }]);
        assert.deepEqual(many.body.results.map(({ status }) => status), [200, 200]);
        assert.match(many.headers.get('tally-warning'), /^Unknown field /);
        const event = await t.call('POST', `/api/events/${t.id}`, { body: { eventId: 'E1', type: 'viewed', dimension: {} } });
        assert.equal(event.body.result, 'APPLIED', event.text);
        assert.match(event.headers.get('tally-warning'), /did you mean "dimensions"/);
        const read = await t.get('hits', { ...TOTAL, time: 0 });
        expectTriple(read, 2, 1);
        assert.match(read.headers.get('tally-warning'), /query parameter "time"/);
        assert.equal((await t.get('hits')).headers.get('tally-warning'), null);
        const { text } = await server.call('GET', '/metrics');
        assert.match(text, /^tally_unknown_fields_total 5$/m);
    });
});
