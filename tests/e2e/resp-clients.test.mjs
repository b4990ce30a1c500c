// resp-clients.test.mjs -- the Redis clients that people have, against a server that is none: node-redis,
// ioredis, redis-cli and redis-benchmark, unchanged.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import Redis from 'ioredis';
import { createClient } from 'redis';

import { startRedis } from './support/redis.mjs';
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

/** The same program, unchanged, against Redis and against tally: tests/e2e/counting. */
describe('programs that count in Redis', () => {
    const server = respServerFor({ settings: LARGE_COMMITS });
    const folder = fileURLToPath(new URL('./counting/', import.meta.url));
    const built = mkdtempSync(join(tmpdir(), 'tally-counting-'));
    let redis;
    before(async () => (redis = await startRedis()));
    after(async () => {
        await redis.stop();
        rmSync(built, { recursive: true, force: true });
    });

    const programs = {
        'redis-cli': async () => ['sh', [join(folder, 'redis-cli.sh')]],
        'node-redis': async () => [process.execPath, [join(folder, 'node-redis.mjs')]],
        ioredis: async () => [process.execPath, [join(folder, 'ioredis.mjs')]],
        'python3-redis': async () => ['/usr/bin/python3', [join(folder, 'python3-redis.py')]],
        hiredis: async () => {
            const program = join(built, 'hiredis');
            await run('cc', ['-std=gnu17', '-O1', '-Wall', '-Wextra', '-Werror', '-o', program, join(folder, 'hiredis.c'), '-lhiredis']);
            return [program, []];
        },
    };
    const SAID = ['auth OK', 'page 3', 'allowed 3 of 5, for a minute', 'ids 1 to 100', 'piped 50', 'multi 1 5 1', 'auth OK', 'again 3'];

    for (const [name, make] of Object.entries(programs)) {
        test(`SPEC 14: ${name} counts pages, limits a rate and gives out ids, here as there`, async () => {
            const t = server.tenant();
            const theirs = await redis.connect();
            await theirs.call('FLUSHALL');
            assert.equal(await theirs.call('ACL', 'SETUSER', t.id, 'on', `>${t.token}`, '~*', '+@all'), 'OK');
            theirs.destroy();
            const [program, args] = await make();
            for (const port of [redis.port, await respPort(server)]) {
                const env = { ...process.env, REDIS_HOST: '127.0.0.1', REDIS_PORT: String(port), REDIS_USER: t.id, REDIS_PASS: t.token };
                const { stdout } = await run(program, args, { env, timeout: 60000 });
                assert.deepEqual(stdout.trim().split('\n'), SAID);
            }
            assert.equal((await t.get('piped')).body.net, '50');
        });
    }
});
