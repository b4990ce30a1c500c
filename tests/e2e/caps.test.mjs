// `max` on increments: a rate limiter or a quota in one call, without a race.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, MAX, NOT_FOUND, OVERFLOW, triple } from './support/expect.mjs';
import { times, together } from './support/pace.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

/** 409 with the error, its code and the triple as it stands. */
function expectCapped(reply, added, subbed = 0) {
    expectError(reply, 409, 'limit_exceeded');
    const { error, code, ...rest } = reply.body;
    assert.ok(error && code);
    assert.deepEqual(rest, triple(added, subbed));
}

describe('caps', () => {
    const server = serverFor();

    for (const action of ['increment', 'incrementSync']) {
        test(`S3-95: ${action} reaches max exactly, is refused past it, and consumes nothing`, async () => {
            const t = server.tenant();
            const up = (amount, max) => t.write(action, 'quota', { ...TOTAL, amount, max });
            expectTriple(await up(6, 10), 6);
            expectCapped(await up(5, 10), 6);
            expectTriple(await up(4, '10'), 10);
            expectCapped(await up(1, 10), 10);
            expectCapped(await up(1, 9), 10);
            expectTriple(await t.decrement('quota', { ...TOTAL, amount: 3 }), 10, 3);
            expectCapped(await up(4, 10), 10, 3);
            expectTriple(await up(3, 10), 13, 3);
            expectTriple(await t.get('quota'), 13, 3);
        });
    }

    test('S3-95: a first increment past max creates nothing and shows zeros', async () => {
        const t = server.tenant();
        expectCapped(await t.increment('never', { ...TOTAL, amount: 11, max: 10 }), 0);
        expectExactly(await t.get('never'), 404, NOT_FOUND);
        assert.deepEqual((await t.list()).body.counters, []);
    });

    test('S3-95: a refused increment does not extend the expiry or the counter in any way', async () => {
        const t = server.tenant();
        await t.increment('still', { ...TOTAL, amount: 10 });
        expectCapped(await t.increment('still', { ...TOTAL, max: 10, expiresAt: '2024-01-01T00:00:00Z' }), 10);
        expectTriple(await t.get('still'), 10);
    });

    test('S3-95: max belongs to the call: without it the counter is free', async () => {
        const t = server.tenant();
        await t.increment('free', { ...TOTAL, amount: 10, max: 10 });
        expectTriple(await t.increment('free', TOTAL), 11);
        expectTriple(await t.increment('free', { ...TOTAL, max: String(MAX) }), 12);
    });

    test('SPEC 5: max counts net, while overflow of added is still an overflow', async () => {
        const t = server.tenant();
        await t.set('both', { ...TOTAL, targetValue: String(MAX) });
        await t.set('both', { ...TOTAL, targetValue: 0 });
        expectExactly(await t.increment('both', { ...TOTAL, amount: 1, max: 100 }), 400, OVERFLOW);
    });

    test('S3-62, S3-95: as a rate limiter under 64 callers, exactly max calls pass', async () => {
        const t = server.tenant();
        const max = times(100, 50);
        const minute = { durationSeconds: 60, timestamp: Date.now() };
        for (const action of ['increment', 'incrementSync']) {
            const replies = (await together(64, async () => [
                await t.write(action, action, { ...minute, max }),
                await t.write(action, action, { ...minute, max }),
                await t.write(action, action, { ...minute, max }),
            ])).flat();
            assert.equal(replies.filter((reply) => reply.status === 200).length, max);
            for (const reply of replies.filter((one) => one.status !== 200)) expectCapped(reply, max);
        }
    });

    test('SPEC 5: max works in batches, op by op, with the triple in the result', async () => {
        const t = server.tenant();
        const op = { op: 'increment', name: 'b', ...TOTAL, amount: 2, max: 5 };
        const { body } = await t.batch([op, op, op, { ...op, amount: 1 }]);
        assert.deepEqual(body.results.map((result) => result.status), [200, 200, 409, 200]);
        assert.equal(body.results[2].code, 'limit_exceeded');
        assert.equal(body.results[2].net, '4');
        expectTriple(await t.get('b'), 5);
    });
});
