// What was acknowledged is there again, however the server ended.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';

import { expectExactly, expectTriple, NOT_FOUND, sequenceOf } from './support/expect.mjs';
import { times, together } from './support/pace.mjs';
import { removeDirectory, runTally, Server, serverFor, TOTAL } from './support/server.mjs';
import { SECRET } from './support/tokens.mjs';

describe('restart', () => {
    const server = serverFor({ settings: { 'checkpoint.every': '300ms' } });

    for (const hard of [false, true]) {
        const how = hard ? 'kill -9' : 'SIGTERM';

        test(`S3-34, X-08: values, buckets, lists and deletes survive ${how}, twice`, async () => {
            const t = server.tenant();
            await t.increment('total', { ...TOTAL, amount: 10 });
            await t.decrement('total', { ...TOTAL, amount: 3 });
            await t.set('level', { ...TOTAL, targetValue: 0 });
            await t.batch(Array.from({ length: 500 }, (_, i) => ({ op: 'increment', name: 'minutes', durationSeconds: 60, timestamp: (i - 250) * 60, amount: i + 1 })));
            await t.increment('deleted', TOTAL);
            await t.delete('deleted');
            const range = { durationSeconds: 60, startTime: -250 * 60, endTime: 250 * 60 };
            const series = (await t.series('minutes', range)).text;
            for (let round = 0; round < 2; round++) {
                await server.restart({ hard });
                expectTriple(await t.get('total'), 10 + round, 3);
                expectTriple(await t.get('level'), 0);
                expectTriple(await t.sumRange('minutes', range), (500 * 501) / 2);
                assert.equal((await t.series('minutes', range)).text, series);
                expectExactly(await t.get('deleted'), 404, NOT_FOUND);
                assert.deepEqual((await t.listAll()).map((counter) => counter.name).sort(), ['level', 'minutes', 'total']);
                expectTriple(await t.increment('total', TOTAL), 11 + round, 3);
            }
        });
    }

    test('S3-34: a kill -9 under load loses nothing that was acknowledged and invents nothing', async () => {
        const t = server.tenant();
        const sent = [];
        const acknowledged = [];
        const clients = together(16, async (client) => {
            const connection = await server.raw();
            sent[client] = 0;
            acknowledged[client] = 0;
            try {
                for (;;) {
                    sent[client]++;
                    const reply = await connection.call('POST', t.path('load', client % 2 ? 'increment' : 'incrementSync'), { token: t.token, body: TOTAL });
                    if (reply.status !== 200) return;
                    acknowledged[client]++;
                }
            } catch {
                connection.destroy();
            }
        });
        await new Promise((resolve) => setTimeout(resolve, 400));
        await server.kill();
        await clients;
        await server.start();
        const total = (list) => list.reduce((sum, one) => sum + one, 0);
        const stored = Number((await t.get('load')).body.net);
        assert.ok(total(acknowledged) > 0);
        assert.ok(total(acknowledged) <= stored && stored <= total(sent), `${total(acknowledged)} <= ${stored} <= ${total(sent)}`);
    });

    test('SPEC 2: SIGTERM answers what was accepted before it exits with 0', async () => {
        const t = server.tenant();
        const connections = await together(8, () => server.raw());
        const replies = connections.map(async (connection) => {
            let count = 0;
            try {
                for (;;) if ((await connection.call('POST', t.path('calm', 'increment'), { token: t.token, body: TOTAL })).status === 200) count++;
            } catch {
                return count;
            } finally {
                connection.destroy();
            }
        });
        await new Promise((resolve) => setTimeout(resolve, 200));
        await server.restart();
        const acknowledged = (await Promise.all(replies)).reduce((sum, one) => sum + one, 0);
        const stored = Number((await t.get('calm')).body.net);
        assert.ok(stored >= acknowledged && stored <= acknowledged + 8, `${acknowledged} acknowledged, ${stored} stored`);
    });

    test('SPEC 1: Tally-Sequence goes on growing over restarts', async () => {
        const t = server.tenant();
        let last = 0n;
        for (const hard of [true, false, true]) {
            const sequence = sequenceOf(await t.increment('sequence', TOTAL));
            assert.ok(sequence > last, `${sequence} after ${last}`);
            last = sequence;
            await server.restart({ hard });
        }
    });

    test('SIGINT is as polite as SIGTERM', async () => {
        const other = new Server();
        await other.start();
        const t = other.tenant();
        await t.increment('x', TOTAL);
        other.signal('SIGINT');
        await other.stop();
    });

    test('a port in use: refuses and says why', async () => {
        const data = `${server.data}-port`;
        const end = await runTally(['serve', '--data', data, '--listen', `127.0.0.1:${server.port}`, '--set', `auth.jwtSecret=${SECRET}`]);
        removeDirectory(data);
        assert.equal(end.code, 1, end.stderr);
        assert.match(end.stderr, /in use|bind|listen/i);
    });
});

describe('a data directory', () => {
    const server = serverFor({ settings: { 'store.kind': 'embedded' } });

    test('two servers on one data directory: the second refuses and says why, the first goes on', async () => {
        const t = server.tenant();
        const end = await runTally(['serve', '--data', server.data, '--listen', '127.0.0.1:0', '--set', `auth.jwtSecret=${SECRET}`]);
        assert.equal(end.code, 1, end.stderr);
        assert.match(end.stderr, /in use|locked|lock|another|already/i);
        assert.ok(!end.stdout.includes('ready'));
        expectTriple(await t.increment('x', TOTAL), 1);
        await server.restart({ hard: true });
        expectTriple(await t.get('x'), 1);
    });
});

describe('a new store', () => {
    const server = serverFor({ settings: { 'store.kind': 'embedded', 'checkpoint.every': '200ms' } });

    /** Bytes of disk that the store takes, as du counts them. */
    const taken = () => Number(spawnSync('du', ['-sk', server.data], { encoding: 'utf8' }).stdout.split('\t')[0]) * 1024;

    test('a store that somebody tries out takes less than 64 MiB of disk, whatever is restarted', async () => {
        const t = server.tenant();
        for (let round = 1; round <= 4; round++) {
            await t.batch(Array.from({ length: 1000 }, (_, i) => ({ op: 'increment', name: `demo-${i % 10}`, durationSeconds: 60, timestamp: i * 60 })));
            await new Promise((resolve) => setTimeout(resolve, 500)); // spares and checkpoints are made meanwhile
            assert.ok(taken() < 64 * 1024 * 1024, `${taken()} bytes in round ${round}`);
            await server.restart({ hard: round % 2 === 0 });
        }
    });
});

describe('a small cache and small segments', () => {
    const server = serverFor({
        settings: { 'journal.segmentBytes': 1048576, 'checkpoint.every': '200ms', 'checkpoint.journalBytes': 1048576, 'store.cacheBytes': 1048576 },
    });

    test('S3-34: far more cells than the cache holds are exact, before and after kill -9', async () => {
        const t = server.tenant();
        const count = times(20000, 4000);
        const step = 2000;
        for (let round = 1; round <= 2; round++) {
            for (let first = 0; first < count; first += step) {
                const ops = Array.from({ length: step }, (_, i) => ({ op: 'increment', name: `wide-${(first + i) % 50}`, durationSeconds: 60, timestamp: Math.floor((first + i) / 50) * 60, amount: first + i + 1 }));
                assert.deepEqual((await t.batch(ops, { query: '?results=errors' })).body.results, []);
            }
            await server.restart({ hard: true });
            let sum = 0n;
            for (let name = 0; name < 50; name++) {
                sum += BigInt((await t.sumRange(`wide-${name}`, { durationSeconds: 60, startTime: 0, endTime: count * 60 })).body.net);
            }
            assert.equal(sum, (BigInt(count) * BigInt(count + 1)) / 2n * BigInt(round));
            expectTriple(await t.get('wide-7', { durationSeconds: 60, timestamp: 600 }), 508 * round);
        }
    });
});
