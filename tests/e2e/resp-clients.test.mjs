// resp-clients.test.mjs -- the Redis clients that people have, against a server that is none: node-redis,
// ioredis, redis-cli and redis-benchmark, unchanged.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';

import Redis from 'ioredis';
import { createClient } from 'redis';

import { many, respPort, respServerFor } from './support/resp.mjs';
import { LARGE_COMMITS } from './support/server.mjs';

const run = promisify(execFile);

describe('Redis clients', () => {
    const server = respServerFor({ settings: LARGE_COMMITS });

    for (const RESP of [2, 3]) {
        test(`SPEC 14: node-redis counts pages, makes ids and does transactions (RESP ${RESP})`, async () => {
            const t = server.tenant();
            const client = createClient({ url: `redis://127.0.0.1:${await respPort(server)}`, username: t.id, password: t.token, RESP });
            client.on('error', () => {});
            await client.connect();
            try {
                assert.equal(await client.ping(), 'PONG');
                const counts = await Promise.all(many(50, () => client.incr('page:home')));
                assert.deepEqual(counts, many(50, (i) => i + 1));
                assert.equal(await client.incrBy('ids', 1000), 1000);
                assert.deepEqual(await client.multi().incr('a').incrBy('b', 5).get('a').exec(), [1, 5, '1']);
                assert.equal(await client.set('n', 7), 'OK');
                assert.deepEqual(await client.mGet(['n', 'none']), ['7', null]);
                const found = [];
                for await (const keys of client.scanIterator({ MATCH: '*', COUNT: 2 })) found.push(...keys);
                assert.deepEqual(found.sort(), ['a', 'b', 'ids', 'n', 'page:home']);
                await assert.rejects(client.decrBy('n', 8), /decrement would make the counter negative/);
                assert.equal(await client.del(['n', 'a']), 2);
            } finally {
                await client.close();
            }
        });
    }

    test('SPEC 14: ioredis pipelines, does transactions, and comes back after a restart', async () => {
        const t = server.tenant();
        const client = new Redis({ port: await respPort(server), host: '127.0.0.1', username: t.id, password: t.token, retryStrategy: null, maxRetriesPerRequest: 0 });
        client.on('error', () => {});
        const piped = await client.pipeline(many(20, () => ['incr', 'page:home'])).exec();
        assert.deepEqual(piped, many(20, (i) => [null, i + 1]));
        assert.deepEqual(await client.multi().incr('a').decr('a').exec(), [[null, 1], [null, 0]]);
        await assert.rejects(client.multi().incr('a').decrby('a', 9).exec(), /EXECABORT/);
        assert.equal(await client.get('a'), '0');
        assert.equal(await client.call('TALLY.INCR', 'n', 3, 'ONCE', 'k'), 3);
        assert.equal(await client.call('TALLY.INCR', 'n', 3, 'ONCE', 'k'), 3);
        client.disconnect();
        await server.restart();
        const again = new Redis({ port: await respPort(server), host: '127.0.0.1', username: t.id, password: t.token });
        again.on('error', () => {});
        assert.deepEqual(await again.mget('page:home', 'n'), ['20', '3']);
        again.disconnect();
    });

    test('SPEC 14: redis-benchmark runs', async () => {
        const t = server.tenant();
        const args = ['-p', String(await respPort(server)), '-a', t.token, '-q', '-n', '2000', '-P', '16', '-t', 'incr,get', '--csv'];
        const { stdout } = await run('redis-benchmark', args, { timeout: 60000 });
        for (const name of ['INCR', 'GET']) assert.match(stdout, new RegExp(`^"${name}"`, 'm'));
        const { body } = await t.list();
        assert.deepEqual(body.counters.map(({ name }) => name), ['counter:__rand_int__']);
    });

    test('SPEC 14: redis-cli reads commands from a pipe', async () => {
        const t = server.tenant();
        const child = spawn('redis-cli', ['-p', String(await respPort(server)), '--user', t.id, '--pass', t.token, '--no-auth-warning']);
        child.stdin.end('incr page:home\nmulti\nincr page:home\nget page:home\nexec\nscan 0\n');
        let said = '';
        for await (const chunk of child.stdout) said += chunk;
        assert.deepEqual(said.trim().split('\n'), ['1', 'OK', 'QUEUED', 'QUEUED', '2', '2', '0', 'page:home']);
    });
});
