// Two tenants, every call: neither sees nor changes anything of the other.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, NOT_FOUND } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

const RANGE = { durationSeconds: 0, startTime: 0, endTime: 0 };

describe('isolation', () => {
    const server = serverFor({ settings: { 'limits.tenantCells': 50, 'limits.counterGranularities': 4 } });

    test('S3-13, X-04: the same name under two tenants is two counters on every call', async () => {
        const [one, two] = [server.tenant(), server.tenant()];
        for (const [t, base] of [[one, 10], [two, 1000]]) {
            await t.increment('shared', { ...TOTAL, amount: base });
            await t.write('incrementSync', 'shared', { ...TOTAL, amount: base });
            await t.decrement('shared', { ...TOTAL, amount: 1 });
            await t.write('decrementSync', 'shared', { ...TOTAL, amount: 1 });
            await t.batch([{ op: 'increment', name: 'shared', ...TOTAL, amount: base }]);
        }
        for (const [t, base] of [[one, 10], [two, 1000]]) {
            expectTriple(await t.get('shared'), base * 3, 2);
            expectTriple(await t.sumRange('shared', RANGE), base * 3, 2);
            assert.equal((await t.series('shared', RANGE)).body.buckets[0].added, String(base * 3));
            assert.equal((await t.query([{ get: { name: 'shared', ...TOTAL } }])).body.results[0].added, String(base * 3));
            assert.deepEqual((await t.listAll()).map((counter) => counter.name), ['shared']);
        }
        await one.set('shared', { ...TOTAL, targetValue: 0 });
        await one.delete('shared');
        expectExactly(await one.get('shared'), 404, NOT_FOUND);
        expectTriple(await two.get('shared'), 3000, 2);
        expectExactly(await two.delete('shared'), 200, { deleted: true });
    });

    test('S3-11, X-04: with the other\'s token every call is 404 and changes nothing', async () => {
        const [owner, thief] = [server.tenant(), server.tenant()];
        await owner.increment('mine', { ...TOTAL, amount: 5 });
        const base = `/api/counters/${owner.id}`;
        const attempts = [
            ...['increment', 'decrement', 'incrementSync', 'decrementSync'].map((action) => ['POST', `${base}/mine/${action}`, TOTAL]),
            ['PUT', `${base}/mine/set`, { ...TOTAL, targetValue: 1 }],
            ['GET', `${base}/mine/get?durationSeconds=0&timestamp=0`],
            ['GET', `${base}/mine/sumRange?durationSeconds=0&startTime=0&endTime=0`],
            ['GET', `${base}/mine/series?durationSeconds=0&startTime=0&endTime=0`],
            ['GET', base],
            ['POST', `${base}/batch`, { ops: [{ op: 'increment', name: 'mine', ...TOTAL }] }],
            ['POST', `${base}/query`, { queries: [{ get: { name: 'mine', ...TOTAL } }] }],
            ['DELETE', `${base}/mine`],
        ];
        for (const [method, path, body] of attempts) {
            expectExactly(await thief.call(method, path, { body }), 404, NOT_FOUND);
        }
        expectTriple(await owner.get('mine'), 5);
    });

    test('X-04: a batch cannot name another tenant', async () => {
        const [owner, thief] = [server.tenant(), server.tenant()];
        await owner.increment('mine', TOTAL);
        await thief.batch([
            { op: 'increment', name: `../${owner.id}/mine`, ...TOTAL },
            { op: 'increment', name: `${owner.id}/mine`, ...TOTAL },
            { op: 'increment', name: 'mine', tenant: owner.id, tenantId: owner.id, ...TOTAL },
        ]);
        expectTriple(await owner.get('mine'), 1);
    });

    test('X-04: ids that are prefixes of each other stay apart', async () => {
        const [short, long] = [server.tenant('iso'), server.tenant('iso.a')];
        await short.increment('a.b', TOTAL);
        await long.increment('b', { ...TOTAL, amount: 7 });
        assert.deepEqual((await short.listAll()).map((counter) => counter.name), ['a.b']);
        assert.deepEqual((await long.listAll()).map((counter) => counter.name), ['b']);
        expectTriple(await short.get('a.b'), 1);
        await short.delete('a.b');
        expectTriple(await long.get('b'), 7);
    });

    test('SPEC 5: a tenant past limits.tenantCells gets 409 cell_limit for new cells only, and others are not touched', async () => {
        const [full, other] = [server.tenant(), server.tenant()];
        for (let i = 0; i < 50; i++) assert.equal((await full.increment('c', { durationSeconds: 60, timestamp: i * 60 })).status, 200, `${i}`);
        expectError(await full.increment('c', { durationSeconds: 60, timestamp: 3000 }), 409, 'cell_limit');
        expectError(await full.set('d', { ...TOTAL, targetValue: 1 }), 409, 'cell_limit');
        const { body } = await full.batch([{ op: 'increment', name: 'c', durationSeconds: 60, timestamp: 0 }, { op: 'increment', name: 'd', ...TOTAL }]);
        assert.deepEqual(body.results.map((result) => [result.status, result.code]), [[200, undefined], [409, 'cell_limit']]);
        expectTriple(await full.get('c', { durationSeconds: 60, timestamp: 0 }), 2);
        expectTriple(await other.increment('c', TOTAL), 1);
        assert.equal((await full.delete('c')).status, 200);
        const fresh = await eventually('the room of the deleted cells', async () => {
            const reply = await full.increment('d', TOTAL);
            return reply.status === 200 && reply;
        });
        expectTriple(fresh, 1);
    });

    test('SPEC 5: a counter past limits.counterGranularities gets 409 granularity_limit for new ones only', async () => {
        const t = server.tenant();
        for (const durationSeconds of [0, 60, 3600, 86400]) assert.equal((await t.increment('g', { durationSeconds, timestamp: 0 })).status, 200);
        expectError(await t.increment('g', { durationSeconds: 7, timestamp: 0 }), 409, 'granularity_limit');
        expectTriple(await t.increment('g', { durationSeconds: 60, timestamp: 0 }), 2);
        expectTriple(await t.increment('g2', { durationSeconds: 7, timestamp: 0 }), 1);
    });
});
