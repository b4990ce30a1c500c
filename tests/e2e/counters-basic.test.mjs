// The seven calls of seed 003 and what they answer, on every kind of store.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, NEGATIVE, NOT_FOUND, sequenceOf } from './support/expect.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

const HOUR = { durationSeconds: 3600, timestamp: '2024-03-15T10:30:00Z' };
const ZEROS = { net: '0', added: '0', subbed: '0' };

for (const kind of ['embedded', 'memory']) {
    describe(`counters on the ${kind} store`, () => {
        const server = serverFor({ settings: { 'store.kind': kind } });

        test('S3-28, A-22: the sample body of the seed is valid although its dates are past, and a second call doubles', async () => {
            const t = server.tenant();
            const sample = { ...HOUR, amount: 5, expiresAt: '2024-04-15T10:30:00Z' };
            expectTriple(await t.increment('sample', sample), 5);
            expectTriple(await t.increment('sample', sample), 10);
        });

        test('S3-03: a reply is exactly net, added and subbed, as strings, in that order', async () => {
            const t = server.tenant();
            const reply = await t.increment('exact', { ...TOTAL, amount: 110 });
            assert.equal(reply.text, '{"net":"110","added":"110","subbed":"0"}');
            assert.match(reply.headers.get('content-type'), /^application\/json/);
            assert.equal((await t.decrement('exact', { ...TOTAL, amount: 5 })).text, '{"net":"105","added":"110","subbed":"5"}');
            assert.equal((await t.get('exact')).text, '{"net":"105","added":"110","subbed":"5"}');
        });

        test('E3-08: every reply, good or bad, carries Cache-Control: no-store', async () => {
            const t = server.tenant();
            const replies = [
                await t.increment('fresh', TOTAL),
                await t.get('fresh'),
                await t.get('nothing'),
                await t.increment('fresh', {}),
                await server.call('GET', '/nowhere'),
                await server.call('GET', t.path('fresh', 'get')),
                await server.call('GET', '/healthz'),
            ];
            for (const reply of replies) assert.equal(reply.headers.get('cache-control'), 'no-store', `${reply.status}`);
        });

        test('SPEC 1: writes answer with a Tally-Sequence that grows', async () => {
            const t = server.tenant();
            let last = 0n;
            for (const action of ['increment', 'incrementSync', 'decrement', 'decrementSync', 'set']) {
                const reply = await t.write(action, 'sequence', { ...TOTAL, ...(action === 'set' && { targetValue: 9 }) });
                assert.equal(reply.status, 200, reply.text);
                const sequence = sequenceOf(reply);
                assert.ok(sequence > last, `${action}: ${sequence} after ${last}`);
                last = sequence;
            }
        });

        test('S3-29, S3-31: amount defaults to 1; the first increment creates, later ones add to added only', async () => {
            const t = server.tenant();
            expectTriple(await t.increment('views', TOTAL), 1);
            expectTriple(await t.increment('views', { ...TOTAL, amount: 41 }), 42);
            expectTriple(await t.increment('views', { ...TOTAL, amount: '8' }), 50);
        });

        test('S3-38, S3-41: a decrement raises subbed only and may reach exactly 0', async () => {
            const t = server.tenant();
            await t.increment('stock', { ...TOTAL, amount: 10 });
            expectTriple(await t.decrement('stock', { ...TOTAL, amount: 4 }), 10, 4);
            expectTriple(await t.decrement('stock', TOTAL), 10, 5);
            expectTriple(await t.decrement('stock', { ...TOTAL, amount: 5 }), 10, 10);
        });

        for (const action of ['decrement', 'decrementSync']) {
            test(`S3-39, S3-40: ${action} below zero is 409 and changes nothing`, async () => {
                const t = server.tenant();
                await t.increment('floor', { ...TOTAL, amount: 3 });
                await t.decrement('floor', { ...TOTAL, amount: 1 });
                expectExactly(await t.write(action, 'floor', { ...TOTAL, amount: 3 }), 409, NEGATIVE);
                expectTriple(await t.get('floor'), 3, 1);
                expectTriple(await t.decrement('floor', { ...TOTAL, amount: 2 }), 3, 3);
            });

            test(`S3-42, A-23: ${action} of an absent bucket is 409 and creates none`, async () => {
                const t = server.tenant();
                expectExactly(await t.write(action, 'absent', TOTAL), 409, NEGATIVE);
                expectExactly(await t.get('absent'), 404, NOT_FOUND);
                assert.deepEqual((await t.list()).body.counters, []);
            });
        }

        test('S3-46, S3-47, S3-48: the sync calls answer like the batched ones and act on the same counters', async () => {
            const t = server.tenant();
            expectTriple(await t.write('incrementSync', 'both', { ...TOTAL, amount: 7 }), 7);
            expectTriple(await t.increment('both', { ...TOTAL, amount: 3 }), 10);
            expectTriple(await t.write('decrementSync', 'both', { ...TOTAL, amount: 2 }), 10, 2);
            expectTriple(await t.decrement('both', { ...TOTAL, amount: 1 }), 10, 3);
            expectTriple(await t.get('both'), 10, 3);
        });

        test('S3-54, S3-55, A-17: set raises added, lowers through subbed, and repeats change nothing', async () => {
            const t = server.tenant();
            await t.increment('level', { ...TOTAL, amount: 10 });
            expectTriple(await t.set('level', { ...TOTAL, targetValue: '4' }), 10, 6);
            expectTriple(await t.set('level', { ...TOTAL, targetValue: 4 }), 10, 6);
            expectTriple(await t.set('level', { ...TOTAL, targetValue: 100 }), 106, 6);
            expectTriple(await t.set('level', { ...TOTAL, targetValue: 0 }), 106, 106);
            expectTriple(await t.get('level'), 106, 106);
        });

        test('S3-51, S3-57: set creates the bucket, also for target 0', async () => {
            const t = server.tenant();
            expectTriple(await t.set('made', { ...HOUR, targetValue: '100' }), 100);
            expectTriple(await t.set('zero', { ...HOUR, targetValue: '0' }), 0);
            expectTriple(await t.get('zero', HOUR), 0);
        });

        test('S3-60, S3-61: get finds the bucket of any instant in it; an absent one is 404', async () => {
            const t = server.tenant();
            await t.increment('visits', { ...HOUR, amount: 2 });
            expectTriple(await t.get('visits', { durationSeconds: 3600, timestamp: '2024-03-15T10:00:00Z' }), 2);
            expectTriple(await t.get('visits', { durationSeconds: 3600, timestamp: '2024-03-15T10:59:59.999Z' }), 2);
            expectExactly(await t.get('visits', { durationSeconds: 3600, timestamp: '2024-03-15T11:00:00Z' }), 404, NOT_FOUND);
            expectExactly(await t.get('never', HOUR), 404, NOT_FOUND);
        });

        test('SPEC 5: a 404 of a counter that is kept in other granularities says in which, and only its own tenant is told', async () => {
            const t = server.tenant();
            const ask = { durationSeconds: 0, timestamp: 0 };
            await t.increment('hello', { durationSeconds: 60, timestamp: 0 });
            const told = (granularities) => ({
                error: `not found: the counter is kept with durationSeconds ${granularities.join(', ')}.`, code: 'not_found', granularities,
            });
            expectExactly(await t.get('hello', ask), 404, told([60]));
            await t.increment('hello', { durationSeconds: 7, timestamp: 0 });
            expectExactly(await t.get('hello', ask), 404, told([7, 60]));
            expectExactly(await t.get('hello', { durationSeconds: 7, timestamp: 70 }), 404, told([7, 60]));
            expectExactly(await t.get('hell', ask), 404, NOT_FOUND);
            expectExactly(await server.tenant().call('GET', `${t.path('hello', 'get')}?durationSeconds=0&timestamp=0`), 404, NOT_FOUND);
            const { body } = await t.query([{ get: { name: 'hello', ...ask } }, { get: { name: 'nobody', ...ask } }]);
            assert.deepEqual(body.results, [{ status: 404, ...told([7, 60]) }, { status: 404, ...NOT_FOUND }]);
            await t.delete('hello');
            expectExactly(await t.get('hello', ask), 404, NOT_FOUND);
        });

        test('S3-01, S3-18: name, duration and time each make another bucket, and case counts', async () => {
            const t = server.tenant();
            await t.increment('key', { durationSeconds: 60, timestamp: 0, amount: 1 });
            await t.increment('key', { durationSeconds: 61, timestamp: 0, amount: 2 });
            await t.increment('key', { durationSeconds: 60, timestamp: 60, amount: 3 });
            await t.increment('Key', { durationSeconds: 60, timestamp: 0, amount: 4 });
            expectTriple(await t.get('key', { durationSeconds: 60, timestamp: 0 }), 1);
            expectTriple(await t.get('key', { durationSeconds: 61, timestamp: 0 }), 2);
            expectTriple(await t.get('key', { durationSeconds: 60, timestamp: 60 }), 3);
            expectTriple(await t.get('Key', { durationSeconds: 60, timestamp: 0 }), 4);
        });

        test('S3-64, S3-65, A-26: sumRange includes the buckets of both ends, aligned or not', async () => {
            const t = server.tenant();
            for (const [hour, amount] of [[9, 1], [10, 10], [11, 100], [12, 1000]]) {
                await t.increment('sums', { durationSeconds: 3600, timestamp: `2024-03-15T${String(hour).padStart(2, '0')}:20:00Z`, amount });
            }
            const sum = (startTime, endTime) => t.sumRange('sums', { durationSeconds: 3600, startTime, endTime });
            expectTriple(await sum('2024-03-15T10:00:00Z', '2024-03-15T11:00:00Z'), 110);
            expectTriple(await sum('2024-03-15T10:59:59.999Z', '2024-03-15T11:00:00Z'), 110);
            expectTriple(await sum('2024-03-15T10:30:00Z', '2024-03-15T10:30:00Z'), 10);
            expectTriple(await sum('2024-03-15T09:00:00Z', '2024-03-15T12:59:59Z'), 1111);
            expectTriple(await sum('0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z'), 1111);
        });

        test('S3-66: sumRange without data is zeros, for an unknown counter too', async () => {
            const t = server.tenant();
            const range = { durationSeconds: 60, startTime: '2024-01-01T00:00:00Z', endTime: '2024-01-02T00:00:00Z' };
            expectExactly(await t.sumRange('nothing', range), 200, ZEROS);
            await t.increment('nothing', { durationSeconds: 60, timestamp: '2024-02-01T00:00:00Z' });
            expectExactly(await t.sumRange('nothing', range), 200, ZEROS);
        });

        test('S3-67: sumRange adds each field, of one name and one duration only', async () => {
            const t = server.tenant();
            for (let minute = 0; minute < 5; minute++) {
                await t.increment('fields', { durationSeconds: 60, timestamp: minute * 60, amount: 10 });
                await t.decrement('fields', { durationSeconds: 60, timestamp: minute * 60, amount: minute + 1 });
            }
            await t.increment('fields', { durationSeconds: 120, timestamp: 0, amount: 999 });
            await t.increment('fields2', { durationSeconds: 60, timestamp: 0, amount: 999 });
            expectTriple(await t.sumRange('fields', { durationSeconds: 60, startTime: 0, endTime: 240 }), 50, 15);
        });

        test('A-26: sumRange of duration 0 is the one perpetual bucket', async () => {
            const t = server.tenant();
            await t.increment('ever', { durationSeconds: 0, timestamp: '2031-05-05T05:05:05Z', amount: 6 });
            expectTriple(await t.sumRange('ever', { durationSeconds: 0, startTime: 5, endTime: 6 }), 6);
        });

        test('A-26: startTime after endTime is 400', async () => {
            const t = server.tenant();
            expectError(await t.sumRange('back', { durationSeconds: 60, startTime: 120, endTime: 0 }), 400);
        });

        test('S3-02, S3-37, A-21: one client after another sees its own exact values, and net = added - subbed', async () => {
            const t = server.tenant();
            let added = 0;
            let subbed = 0;
            for (let i = 1; i <= 40; i++) {
                const lower = i % 3 === 0;
                if (lower) subbed += i;
                else added += i * 2;
                const action = ['increment', 'incrementSync', 'decrement', 'decrementSync'][(lower ? 2 : 0) + (i % 2)];
                expectTriple(await t.write(action, 'walk', { ...TOTAL, amount: lower ? i : i * 2 }), added, subbed);
            }
        });
    });
}
