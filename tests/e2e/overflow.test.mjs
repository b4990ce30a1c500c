// 64 bits, exactly: the last value that fits, the first that does not, and sums beyond.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectExactly, expectTriple, MAX, NEGATIVE, NOT_FOUND, OVERFLOW } from './support/expect.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

const MAX_TEXT = String(MAX);
const minute = (index) => ({ durationSeconds: 60, timestamp: index * 60 });

describe('overflow and precision', () => {
    const server = serverFor();

    for (const suffix of ['', 'Sync']) {
        test(`S3-74: increment${suffix} reaches 9223372036854775807 and one more is the overflow, changing nothing`, async () => {
            const t = server.tenant();
            expectTriple(await t.write(`increment${suffix}`, 'top', { ...TOTAL, amount: String(MAX - 1n) }), MAX - 1n);
            expectTriple(await t.write(`increment${suffix}`, 'top', TOTAL), MAX);
            expectExactly(await t.write(`increment${suffix}`, 'top', TOTAL), 400, OVERFLOW);
            expectExactly(await t.write(`increment${suffix}`, 'top', { ...TOTAL, amount: MAX_TEXT }), 400, OVERFLOW);
            expectTriple(await t.get('top'), MAX);
            expectTriple(await t.write(`decrement${suffix}`, 'top', { ...TOTAL, amount: MAX_TEXT }), MAX, MAX);
        });
    }

    test('S3-04, A-18, defect 18: values above 2^53 are exact, sent as numbers or as strings', async () => {
        const t = server.tenant();
        const values = ['9007199254740993', '4611686018427387905', '1152921504606846977'];
        for (const [index, value] of values.entries()) {
            const body = `{"durationSeconds":0,"timestamp":0,"amount":${value}}`;
            assert.equal((await t.increment(`number-${index}`, body)).body.net, value);
            assert.equal((await t.increment(`string-${index}`, { ...TOTAL, amount: value })).body.net, value);
            assert.equal((await t.set(`set-${index}`, `{"durationSeconds":0,"timestamp":0,"targetValue":${value}}`)).body.net, value);
        }
        assert.equal((await t.increment('max', `{"durationSeconds":0,"timestamp":0,"amount":${MAX_TEXT}}`)).body.net, MAX_TEXT);
        assert.equal((await t.set('set-max', { ...TOTAL, targetValue: MAX_TEXT })).body.net, MAX_TEXT);
    });

    test('A-27, defect 17: added may overflow while net is small', async () => {
        const t = server.tenant();
        await t.increment('churn', { ...TOTAL, amount: MAX_TEXT });
        expectTriple(await t.decrement('churn', { ...TOTAL, amount: String(MAX - 5n) }), MAX, MAX - 5n);
        expectExactly(await t.increment('churn', TOTAL), 400, OVERFLOW);
        expectExactly(await t.set('churn', { ...TOTAL, targetValue: 6 }), 400, OVERFLOW);
        expectTriple(await t.set('churn', { ...TOTAL, targetValue: 5 }), MAX, MAX - 5n);
        expectTriple(await t.set('churn', { ...TOTAL, targetValue: 4 }), MAX, MAX - 4n);
        expectTriple(await t.get('churn'), MAX, MAX - 4n);
    });

    test('A-27: a decrement that is both negative and overflowing is the 409', async () => {
        const t = server.tenant();
        await t.increment('both', { ...TOTAL, amount: 10 });
        await t.decrement('both', { ...TOTAL, amount: 5 });
        expectExactly(await t.decrement('both', { ...TOTAL, amount: MAX_TEXT }), 409, NEGATIVE);
        expectTriple(await t.get('both'), 10, 5);
    });

    test('S3-72: an overflow creates no cell', async () => {
        const t = server.tenant();
        await t.increment('a', { ...minute(0), amount: MAX_TEXT });
        expectExactly(await t.increment('a', minute(0)), 400, OVERFLOW);
        expectExactly(await t.get('a', minute(1)), 404, NOT_FOUND);
    });

    test('A-27, X-05: a sum past 64 bits is returned exactly', async () => {
        const t = server.tenant();
        for (let i = 0; i < 5; i++) await t.increment('wide', { ...minute(i), amount: MAX_TEXT });
        await t.decrement('wide', { ...minute(2), amount: MAX_TEXT });
        await t.decrement('wide', { ...minute(3), amount: MAX_TEXT });
        await t.decrement('wide', { ...minute(4), amount: MAX_TEXT });
        const range = { durationSeconds: 60, startTime: 0, endTime: 240 };
        expectTriple(await t.sumRange('wide', range), MAX * 5n, MAX * 3n);
        const { body } = await t.query([{ sumRange: { name: 'wide', ...range } }]);
        assert.equal(body.results[0].added, String(MAX * 5n));
    });

    test('X-05: sums past 64 bits over hundreds of buckets are exact, after a restart too', async () => {
        const t = server.tenant();
        const ops = Array.from({ length: 700 }, (_, i) => ({ op: 'increment', name: 'wide', ...minute(i), amount: String(MAX - BigInt(i)) }));
        assert.deepEqual((await t.batch(ops, { query: '?results=errors' })).body.results, []);
        const expected = ops.reduce((sum, op) => sum + BigInt(op.amount), 0n);
        const range = { durationSeconds: 60, startTime: 0, endTime: 700 * 60 };
        expectTriple(await t.sumRange('wide', range), expected);
        await server.restart({ hard: true });
        expectTriple(await t.sumRange('wide', range), expected);
    });

    test('S3-73: overflow is 400, below zero is 409, and the two are never mixed up', async () => {
        const t = server.tenant();
        await t.increment('o', { ...TOTAL, amount: MAX_TEXT });
        assert.equal((await t.increment('o', TOTAL)).body.code, 'overflow');
        await t.decrement('o', { ...TOTAL, amount: MAX_TEXT });
        assert.equal((await t.decrement('o', TOTAL)).body.code, 'constraint_violation');
        assert.equal((await t.increment('o', TOTAL)).body.code, 'overflow');
    });
});
