// Retry safety: one key, one effect, one answer.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, MAX, NEGATIVE, OVERFLOW } from './support/expect.mjs';
import { eventually, times, together } from './support/pace.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

const keyed = (key) => ({ 'Idempotency-Key': key });

function expectReplay(reply, first) {
    assert.equal(reply.status, first.status, reply.text);
    assert.equal(reply.text, first.text);
    assert.equal(reply.headers.get('idempotent-replayed'), 'true');
    assert.equal(first.headers.get('idempotent-replayed'), null);
}

describe('idempotency keys', () => {
    const server = serverFor({ settings: { 'limits.batchOps': 50, 'limits.atomicOps': 50, 'journal.segmentBytes': '1MiB' } });

    for (const action of ['increment', 'incrementSync', 'decrement', 'decrementSync', 'set']) {
        test(`S3-98: a repeated ${action} with its key gets the first answer and has no second effect`, async () => {
            const t = server.tenant();
            await t.set('once', { ...TOTAL, targetValue: 100 });
            const body = { ...TOTAL, ...(action === 'set' ? { targetValue: 42 } : { amount: 5 }) };
            const first = await t.write(action, 'once', body, keyed('k1'));
            assert.equal(first.status, 200);
            await t.increment('once', { ...TOTAL, amount: 1000 });
            const between = (await t.get('once')).text;
            expectReplay(await t.write(action, 'once', body, keyed('k1')), first);
            expectReplay(await t.write(action, 'once', body, keyed('k1')), first);
            assert.equal((await t.get('once')).text, between);
        });
    }

    test('S3-98: without a key, or with another, it is another operation', async () => {
        const t = server.tenant();
        expectTriple(await t.increment('many', TOTAL, keyed('a')), 1);
        expectTriple(await t.increment('many', TOTAL, keyed('b')), 2);
        expectTriple(await t.increment('many', TOTAL, keyed('A')), 3);
        expectTriple(await t.increment('many', TOTAL), 4);
        expectTriple(await t.increment('many', TOTAL), 5);
    });

    test('SPEC 5: a key used with another body, path, query or method is 422 and changes nothing', async () => {
        const t = server.tenant();
        const first = await t.increment('mine', { ...TOTAL, amount: 5 }, keyed('k'));
        const others = [
            t.increment('mine', { ...TOTAL, amount: 6 }, keyed('k')),
            t.increment('mine', { ...TOTAL, amount: 5, max: 1000 }, keyed('k')),
            t.increment('other', { ...TOTAL, amount: 5 }, keyed('k')),
            t.write('incrementSync', 'mine', { ...TOTAL, amount: 5 }, keyed('k')),
            t.decrement('mine', { ...TOTAL, amount: 5 }, keyed('k')),
            t.set('mine', { ...TOTAL, targetValue: 5 }, keyed('k')),
            t.delete('mine', keyed('k')),
            t.batch([{ op: 'increment', name: 'mine', ...TOTAL, amount: 5 }], { headers: keyed('k') }),
            t.call('POST', `${t.path('mine', 'increment')}?_x=1`, { body: { ...TOTAL, amount: 5 }, headers: keyed('k') }),
        ];
        for (const reply of await Promise.all(others)) expectError(reply, 422, 'idempotency_conflict');
        expectReplay(await t.increment('mine', { ...TOTAL, amount: 5 }, keyed('k')), first);
        expectTriple(await t.get('mine'), 5);
        assert.equal((await t.get('other')).status, 404);
    });

    test('SPEC 5: a stored 409 stays a 409 when the counter has risen meanwhile', async () => {
        const t = server.tenant();
        const first = await t.decrement('low', TOTAL, keyed('k'));
        expectExactly(first, 409, NEGATIVE);
        await t.increment('low', { ...TOTAL, amount: 10 });
        expectReplay(await t.decrement('low', TOTAL, keyed('k')), first);
        expectTriple(await t.get('low'), 10);
    });

    test('SPEC 5: a stored limit_exceeded comes back with the triple it had', async () => {
        const t = server.tenant();
        await t.increment('cap', { ...TOTAL, amount: 7 });
        const first = await t.increment('cap', { ...TOTAL, amount: 5, max: 10 }, keyed('k'));
        expectError(first, 409, 'limit_exceeded');
        assert.equal(first.body.net, '7');
        await t.decrement('cap', { ...TOTAL, amount: 6 });
        expectReplay(await t.increment('cap', { ...TOTAL, amount: 5, max: 10 }, keyed('k')), first);
        expectTriple(await t.get('cap'), 7, 6);
    });

    test('SPEC 5: a stored overflow stays an overflow', async () => {
        const t = server.tenant();
        await t.increment('full', { ...TOTAL, amount: String(MAX) });
        const first = await t.increment('full', TOTAL, keyed('k'));
        expectExactly(first, 400, OVERFLOW);
        await t.delete('full');
        expectReplay(await t.increment('full', TOTAL, keyed('k')), first);
        assert.equal((await t.get('full')).status, 404);
    });

    test('SPEC 5: nothing else is stored: after a 400, a 401, a 403, a 404 or a 422 the key is still free', async () => {
        const t = server.tenant();
        const reader = server.tenant(t.id, { scope: 'read' });
        const stranger = server.tenant();
        assert.equal((await t.increment('free', { ...TOTAL, amount: 0 }, keyed('k'))).status, 400);
        assert.equal((await t.increment('free', '{', keyed('k'))).status, 400);
        assert.equal((await server.call('POST', t.path('free', 'increment'), { body: TOTAL, headers: keyed('k') })).status, 401);
        assert.equal((await reader.increment('free', TOTAL, keyed('k'))).status, 403);
        assert.equal((await stranger.call('POST', t.path('free', 'increment'), { body: TOTAL, headers: keyed('k') })).status, 404);
        assert.equal((await t.delete('free', keyed('k'))).status, 404);
        const first = await t.increment('free', TOTAL, keyed('k'));
        expectTriple(first, 1);
        assert.equal((await t.increment('free', { ...TOTAL, amount: 2 }, keyed('k'))).status, 422);
        expectReplay(await t.increment('free', TOTAL, keyed('k')), first);
    });

    test('SPEC 5: every tenant has its own keys', async () => {
        const one = server.tenant();
        const two = server.tenant();
        expectTriple(await one.increment('same', { ...TOTAL, amount: 5 }, keyed('shared')), 5);
        const other = await two.increment('same', { ...TOTAL, amount: 7 }, keyed('shared'));
        expectTriple(other, 7);
        assert.equal(other.headers.get('idempotent-replayed'), null);
    });

    test('SPEC 5: 1 to 255 printable ASCII characters make a key, anything else is 400', async () => {
        const t = server.tenant();
        for (const key of ['k', 'k'.repeat(255), '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~', 'two words', '2f1c9a5e-9d0b-4c57-8f3e-7c1f0c1d2e3f']) {
            assert.equal((await t.increment('forms', TOTAL, keyed(key))).status, 200, key);
        }
        const connection = await server.raw();
        for (const key of ['', 'k'.repeat(256), 'caf\u00e9', 'tab\tinside', '\u{1f525}']) {
            const reply = await connection.call('POST', t.path('forms', 'increment'), { token: t.token, body: TOTAL, headers: keyed(key) });
            assert.equal(reply.status, 400, `${JSON.stringify(key)}: ${reply.status}`);
        }
        connection.destroy();
        expectTriple(await t.get('forms'), 5);
    });

    test('SPEC 5: two Idempotency-Key headers are 400', async () => {
        const t = server.tenant();
        const connection = await server.raw();
        const reply = await connection.call('POST', t.path('two', 'increment'), {
            token: t.token, body: TOTAL, headers: [['Idempotency-Key', 'a'], ['Idempotency-Key', 'b']],
        });
        assert.equal(reply.status, 400);
        connection.destroy();
    });

    test('S3-98: concurrent requests with one key apply once and all get the same answer', async () => {
        for (const action of ['increment', 'incrementSync']) {
            const t = server.tenant();
            for (let round = 0; round < times(10); round++) {
                const replies = await together(16, () => t.write(action, 'race', { ...TOTAL, amount: 3 }, keyed(`round-${round}`)));
                for (const reply of replies) expectTriple(reply, 3 * (round + 1));
                assert.equal(replies.filter((reply) => reply.headers.get('idempotent-replayed') === null).length, 1);
            }
        }
    });

    test('S3-98: concurrent conflicting requests with one key: one wins, the others are 422', async () => {
        const t = server.tenant();
        const replies = await together(16, (i) => t.increment('conflict', { ...TOTAL, amount: i + 1 }, keyed('k')));
        const won = replies.filter((reply) => reply.status === 200);
        assert.equal(won.length, 1);
        assert.equal(replies.filter((reply) => reply.status === 422).length, 15);
        assert.equal((await t.get('conflict')).body.net, won[0].body.net);
    });

    test('SPEC 5: a repeated DELETE with its key answers again and does not delete what came since', async () => {
        const t = server.tenant();
        await t.increment('gone', TOTAL);
        const first = await t.delete('gone', keyed('k'));
        expectExactly(first, 200, { deleted: true });
        await t.increment('gone', { ...TOTAL, amount: 9 });
        expectReplay(await t.delete('gone', keyed('k')), first);
        expectTriple(await t.get('gone'), 9);
    });

    describe('in batches', () => {
        const op = (fields) => ({ op: 'increment', name: 'b', ...TOTAL, ...fields });

        test('SPEC 5: a header key makes the whole batch repeatable', async () => {
            const t = server.tenant();
            const ops = [op({ amount: 2 }), op({ op: 'decrement', name: 'absent' }), op({ amount: 3 })];
            const first = await t.batch(ops, { headers: keyed('k') });
            assert.deepEqual(first.body.results.map((result) => result.status), [200, 409, 200]);
            expectReplay(await t.batch(ops, { headers: keyed('k') }), first);
            expectTriple(await t.get('b'), 5);
            expectError(await t.batch([op({ amount: 4 })], { headers: keyed('k') }), 422, 'idempotency_conflict');
            expectTriple(await t.get('b'), 5);
        });

        test('SPEC 5: a header key on NDJSON too', async () => {
            const t = server.tenant();
            const text = [op({ amount: 2 }), op({ amount: 3 })].map((one) => JSON.stringify(one)).join('\n');
            const first = await t.ndjson(text, { headers: keyed('k') });
            assert.equal(first.status, 200);
            expectReplay(await t.ndjson(text, { headers: keyed('k') }), first);
            expectTriple(await t.get('b'), 5);
        });

        test('SPEC 5: a header key on an atomic batch stores its success and its decided refusal', async () => {
            const t = server.tenant();
            const good = await t.batch([op(), op()], { atomic: true, headers: keyed('good') });
            assert.equal(good.status, 200);
            expectReplay(await t.batch([op(), op()], { atomic: true, headers: keyed('good') }), good);
            const refused = await t.batch([op(), op({ op: 'decrement', name: 'absent' })], { atomic: true, headers: keyed('bad') });
            assert.equal(refused.status, 409);
            await t.increment('absent', TOTAL);
            expectReplay(await t.batch([op(), op({ op: 'decrement', name: 'absent' })], { atomic: true, headers: keyed('bad') }), refused);
            expectTriple(await t.get('b'), 2);
        });

        test('SPEC 5: a header key takes at most limits.batchOps ops, more is 400 too_many_ops', async () => {
            const t = server.tenant();
            const ops = (count) => Array.from({ length: count }, () => op());
            assert.equal((await t.batch(ops(50), { headers: keyed('fits') })).status, 200);
            expectError(await t.batch(ops(51), { headers: keyed('over') }), 400, 'too_many_ops');
            expectTriple(await t.get('b'), 50);
            assert.equal((await t.batch(ops(51))).status, 200);
            expectTriple(await t.get('b'), 101);
        });

        test('SPEC 5: each op may carry its own idempotencyKey', async () => {
            const t = server.tenant();
            const ops = [op({ amount: 2, idempotencyKey: 'op-1' }), op({ amount: 3 }), op({ op: 'decrement', name: 'absent', idempotencyKey: 'op-3' })];
            const first = await t.batch(ops);
            assert.deepEqual(first.body.results.map((result) => result.status), [200, 200, 409]);
            await t.increment('absent', TOTAL);
            const second = await t.batch(ops);
            assert.equal(second.body.results[0].net, '2');
            assert.equal(second.body.results[1].net, '8');
            assert.equal(second.body.results[2].status, 409);
            expectTriple(await t.get('b'), 8);
            expectTriple(await t.get('absent'), 1);
        });

        test('SPEC 5: the same op with the same key twice in one batch applies once', async () => {
            const t = server.tenant();
            const { body } = await t.batch([op({ idempotencyKey: 'k' }), op({ idempotencyKey: 'k' }), op({ amount: 2, idempotencyKey: 'k' })]);
            assert.deepEqual(body.results.map((result) => result.status), [200, 200, 422]);
            assert.equal(body.results[1].net, '1');
            assert.equal(body.results[2].code, 'idempotency_conflict');
            expectTriple(await t.get('b'), 1);
        });

        test('SPEC 5: whatever an op says belongs to its key: another timestamp of the same bucket is 422', async () => {
            const t = server.tenant();
            const first = { op: 'increment', name: 'b', durationSeconds: 3600, timestamp: '2026-01-01T00:00:00Z', amount: 2, idempotencyKey: 'k' };
            const others = [
                { timestamp: '2026-01-01T00:00:01Z' }, { timestamp: '2026-01-01T00:00:00.001Z' }, { durationSeconds: 1800 }, { amount: 3 },
                { expiresAt: '2027-01-01T00:00:00Z' }, { max: 10 }, { op: 'decrement' }, { name: 'c' }, { op: 'set', amount: null, targetValue: 2 },
            ];
            const { body } = await t.batch([first, ...others.map((other) => ({ ...first, ...other })), { ...first, timestamp: 1767225600 }]);
            assert.deepEqual(body.results.map((result) => result.status), [200, ...others.map(() => 422), 200]);
            assert.equal(body.results.at(-1).replayed, true, 'the same moment, written otherwise');
        });

        test('SPEC 5: a malformed idempotencyKey is that op\'s own 400', async () => {
            const t = server.tenant();
            const { body } = await t.batch([op({ idempotencyKey: '' }), op({ idempotencyKey: 7 }), op({ idempotencyKey: 'x'.repeat(256) }), op({ idempotencyKey: null })]);
            assert.deepEqual(body.results.map((result) => result.status), [400, 400, 400, 200]);
        });
    });

    test('X-08: keys survive kill -9 and SIGTERM', async () => {
        const t = server.tenant();
        const first = await t.increment('kept', { ...TOTAL, amount: 5 }, keyed('k'));
        const refused = await t.decrement('none', TOTAL, keyed('refused'));
        const batch = await t.batch([{ op: 'increment', name: 'kept', ...TOTAL }], { headers: keyed('batch') });
        const capped = await t.increment('kept', { ...TOTAL, amount: 5, max: 6 }, keyed('capped'));
        for (const hard of [true, false]) {
            await server.restart({ hard });
            expectReplay(await t.increment('kept', { ...TOTAL, amount: 5 }, keyed('k')), first);
            expectReplay(await t.decrement('none', TOTAL, keyed('refused')), refused);
            expectReplay(await t.batch([{ op: 'increment', name: 'kept', ...TOTAL }], { headers: keyed('batch') }), batch);
            expectReplay(await t.increment('kept', { ...TOTAL, amount: 5, max: 6 }, keyed('capped')), capped);
            assert.equal((await t.increment('kept', TOTAL, keyed('k'))).status, 422);
            expectTriple(await t.get('kept'), 6);
        }
    });
});

describe('keys kept for one second', { concurrency: true }, () => {
    const server = serverFor({ settings: { 'idempotency.keep': '1s', 'expiry.sweepEvery': '1s' } });

    test('SPEC 5: after idempotency.keep the key is free again', async () => {
        const t = server.tenant();
        expectTriple(await t.increment('brief', TOTAL, keyed('k')), 1);
        const again = await eventually('the key to be forgotten', async () => {
            const reply = await t.increment('brief', TOTAL, keyed('k'));
            assert.equal(reply.status, 200);
            return reply.headers.get('idempotent-replayed') === null && reply;
        }, { every: 200 });
        expectTriple(again, 2);
    });

    test('SPEC 5: a forgotten key may be used for something else', async () => {
        const t = server.tenant();
        await t.increment('brief', TOTAL, keyed('k'));
        await eventually('the key to be free', async () => (await t.increment('other', { ...TOTAL, amount: 2 }, keyed('k'))).status === 200, { every: 200 });
        expectTriple(await t.get('other'), 2);
    });
});
