// Counters kept by rules refuse direct operations; removed ones are frozen until an admin deletes
// them (SPEC 7).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, NOT_FOUND, sequenceOf } from './support/expect.mjs';
import { dim, newId, rulesServer } from './support/rules.mjs';
import { TOTAL } from './support/server.mjs';

const KEPT = `
  - counterName: kept
    dimensions: [who]
    rules: [{ on: happened, op: increment }]`;
const OTHER = `
  - counterName: other
    rules: [{ on: happened, op: increment }]`;

describe('direct operations on a rule counter', () => {
    const { tenant, admin } = rulesServer(`counters:${KEPT}${OTHER}\n`);

    test('SPEC 7: each single operation is 409 managed_by_rules and changes nothing', async () => {
        const t = tenant();
        await t.send('happened', { who: 'x' });
        for (const action of ['increment', 'decrement', 'incrementSync', 'decrementSync']) {
            expectError(await t.write(action, 'other', { ...TOTAL }), 409, 'managed_by_rules');
        }
        expectError(await t.set('other', { ...TOTAL, targetValue: 5 }), 409, 'managed_by_rules');
        expectError(await t.delete('other'), 409, 'managed_by_rules');
        expectError(await t.call('DELETE', t.path('other'), { token: admin().token }), 409, 'managed_by_rules');
        assert.equal(await t.net('other'), 1);
    });

    test('SPEC 3: validation comes first', async () => {
        const t = tenant();
        expectError(await t.increment('other', { ...TOTAL, amount: 0 }), 400, 'invalid_request');
        expectError(await t.increment('other', {}), 400, 'invalid_request');
    });

    test('SPEC 7: in a batch each such op is its own 409', async () => {
        const t = tenant();
        const op = (name, more = {}) => ({ op: 'increment', name, ...TOTAL, ...more });
        const reply = await t.batch([op('direct'), op('kept'), op('direct', { amount: 0 }), op('direct')]);
        assert.equal(reply.status, 200, reply.text);
        assert.deepEqual(reply.body.results.map((one) => [one.status, one.code ?? one.net]), [
            [200, '1'], [409, 'managed_by_rules'], [400, 'invalid_request'], [200, '2'],
        ]);
        const lines = ['direct', 'other'].map((name) => JSON.stringify(op(name))).join('\n');
        const errors = await t.ndjson(lines, { query: '?results=errors' });
        assert.deepEqual(errors.body.results.map((one) => [one.status, one.code, one.index]), [[409, 'managed_by_rules', 1]]);
    });

    test('SPEC 7: an atomic batch with one fails whole, with its index; a malformed op is told first', async () => {
        const t = tenant();
        const op = (name, more = {}) => ({ op: 'increment', name, ...TOTAL, ...more });
        const reply = await t.batch([op('direct'), op('kept'), op('other')], { atomic: true });
        expectError(reply, 409, 'managed_by_rules');
        assert.equal(reply.body.index, 1);
        const both = await t.batch([op('kept'), op('direct', { amount: 0 })], { atomic: true });
        expectError(both, 400, 'invalid_request');
        assert.equal(both.body.index, 1);
        expectExactly(await t.get('direct'), 404, NOT_FOUND);
    });
});

describe('a counter that leaves the config', () => {
    const { server, tenant, admin } = rulesServer(`counters:${KEPT}${OTHER}\n`);

    async function reload(text) {
        server.writeConfig(text);
        const reply = await admin().call('POST', '/api/admin/reload');
        assert.equal(reply.status, 200, reply.text);
    }

    test('SPEC 7: it stays readable and frozen; an admin deletes its rows of one tenant; a direct one is hidden', async () => {
        const [t, neighbour] = [tenant(), tenant()];
        for (const who of ['x', 'y', 'z']) await t.send('happened', { who });
        await neighbour.send('happened', { who: 'x' });
        await reload(`counters:${OTHER}\n`);
        await t.send('happened', { who: 'x' });
        assert.equal(await t.net('kept', { who: 'x' }), 1, 'nothing changes it');
        assert.equal(await t.net('other'), 4);
        assert.equal((await t.allCells('kept')).length, 3);
        expectError(await t.increment('kept', { ...TOTAL }), 409, 'managed_by_rules');
        expectError(await t.delete('kept'), 409, 'managed_by_rules');

        const asAdmin = (name) => t.call('DELETE', t.path(name), { token: admin().token });
        expectError(await asAdmin('other'), 409, 'managed_by_rules');
        const deleted = await asAdmin('kept');
        expectExactly(deleted, 200, { deleted: true });
        assert.ok(sequenceOf(deleted) > 0n);
        assert.deepEqual(await t.allCells('kept'), []);
        assert.equal(await t.net('kept', { who: 'x' }), 0);
        expectExactly(await asAdmin('kept'), 404, NOT_FOUND);
        assert.equal(await neighbour.net('kept', { who: 'x' }), 1);
    });
});

describe('deleting many rows', () => {
    const { server, tenant, admin } = rulesServer(`counters:${KEPT}${OTHER}\n`, { settings: { 'limits.requestOps': 4 } });

    test('SPEC 7: a call deletes limits.requestOps rows and says if there are more', async () => {
        const t = tenant();
        for (let i = 0; i < 10; i++) await t.send('happened', { who: `w${i}` });
        server.writeConfig(`counters:${OTHER}\n`);
        assert.equal((await admin().call('POST', '/api/admin/reload')).status, 200);
        const replies = [];
        for (let i = 0; i < 4; i++) replies.push(await t.call('DELETE', t.path('kept'), { token: admin().token }));
        assert.deepEqual(replies.map((reply) => [reply.status, reply.body.more ?? false]), [[200, true], [200, true], [200, false], [404, false]]);
    });
});

describe('a rule counter with the name of a direct one', () => {
    const { server, tenant, admin } = rulesServer(`counters:${OTHER}\n`);

    test('SPEC 7: it hides the direct one from reads, writes and the list', async () => {
        const t = tenant();
        await t.increment('kept', { ...TOTAL, amount: 7 });
        expectTriple(await t.get('kept'), 7);
        server.writeConfig(`counters:${KEPT}${OTHER}\n`);
        assert.equal((await admin().call('POST', '/api/admin/reload')).status, 200);
        expectError(await t.get('kept'), 400, 'unknown_dimension_set');
        assert.equal(await t.net('kept', { who: 'x' }), 0);
        expectError(await t.increment('kept', { ...TOTAL }), 409, 'managed_by_rules');
        assert.deepEqual((await t.listAll()).map((one) => one.name), []);
        await t.events({ eventId: newId(), type: 'happened', dimensions: { who: 'x' } });
        expectTriple(await t.get('kept', dim({ who: 'x' })), 1);
        assert.deepEqual((await t.listAll()).map((one) => one.name), ['kept', 'other']);
    });

    test('SPEC 5: a retry with its key still gets the answer of the time before the rules', async () => {
        const t = tenant();
        const op = (more = {}) => ({ op: 'increment', name: 'later', ...TOTAL, ...more });
        const writes = (suffix) => [
            () => t.increment('later', { ...TOTAL, amount: 5 }, { 'Idempotency-Key': `one${suffix}` }),
            () => t.decrement('later', { ...TOTAL, amount: 99 }, { 'Idempotency-Key': `refused${suffix}` }),
            () => t.batch([op(), op({ op: 'decrement', amount: 99 })], { headers: { 'Idempotency-Key': `batch${suffix}` } }),
            () => t.batch([op(), op()], { atomic: true, headers: { 'Idempotency-Key': `atomic${suffix}` } }),
            () => t.batch([op({ idempotencyKey: `op${suffix}` })]),
            () => t.delete('later', { 'Idempotency-Key': `gone${suffix}` }),
        ];
        const firsts = [];
        for (const write of writes('')) firsts.push(await write());
        assert.deepEqual(firsts.map((reply) => reply.status), [200, 409, 200, 200, 200, 200]);
        server.writeConfig(`counters:${KEPT.replace('kept', 'later')}${OTHER}\n`);
        assert.equal((await admin().call('POST', '/api/admin/reload')).status, 200);

        const results = (reply) => reply.body.results?.map(({ replayed, ...result }) => result);
        for (const [i, write] of writes('').entries()) {
            const again = await write();
            assert.equal(again.status, firsts[i].status, again.text);
            assert.deepEqual(results(again) ?? again.body, results(firsts[i]) ?? firsts[i].body);
        }
        const fresh = [];
        for (const write of writes('-new')) fresh.push(await write());
        assert.deepEqual(fresh.map((reply) => [reply.status, reply.body.code ?? reply.body.results[0].code]), [
            [409, 'managed_by_rules'], [409, 'managed_by_rules'], [200, 'managed_by_rules'],
            [409, 'managed_by_rules'], [200, 'managed_by_rules'], [409, 'managed_by_rules'],
        ]);
        assert.equal(fresh[3].body.index, 0);
    });
});
