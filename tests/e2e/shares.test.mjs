// No tenant can starve another: what is held for a request is charged, from the first byte to the last.
//
// Clients here ask and do not read. What the kernel's socket buffers take is not tally's to count, so
// replies are far larger than those.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';

import { expectTriple } from './support/expect.mjs';
import { eventually, sleep, together, within } from './support/pace.mjs';
import { requestText } from './support/raw.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

const MiB = 1 << 20;
const RELEASE = (process.env.TALLY_VARIANT ?? 'release') === 'release'; // sanitizers keep memory of their own

/** Bytes that tally says it holds for requests. */
async function heldBytes(server) {
    return Number(/^tally_held_bytes (\d+)$/m.exec((await server.call('GET', '/metrics')).text)[1]);
}

function residentBytes(server) {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${server.pid}/status`, 'latin1'))[1]) * 1024;
}

async function deafConnections(server, count, text) {
    const connections = await together(count, () => server.raw());
    for (const connection of connections) {
        connection.deafen();
        connection.write(text);
    }
    return connections;
}

/** Waits until memory no longer grows, and returns how much it is. */
async function settledMemory(server) {
    let last = 0;
    return eventually('memory to settle', async () => {
        const now = residentBytes(server);
        const still = Math.abs(now - last) < MiB;
        last = now;
        await sleep(200);
        return still && now;
    });
}

function zeros(count, each = 100000) {
    const series = { name: 'nothing', durationSeconds: 1, startTime: 0, endTime: each - 1, fill: 'zero', limit: 100000 };
    return { queries: Array.from({ length: count }, () => ({ series })) };
}

describe('replies that nobody reads', () => {
    const server = serverFor({ settings: { 'limits.inflightBytes': '64MiB', 'limits.replyBytes': '32MiB', 'limits.readers': 2 } });

    async function othersAreServed() {
        const t = server.tenant();
        for (let i = 1; i <= 5; i++) {
            expectTriple(await t.increment('calm', TOTAL), i);
            expectTriple(await t.sumRange('calm', { durationSeconds: 0, startTime: 0, endTime: 0 }), i);
        }
    }

    async function whileHeld(connections, check) {
        try {
            await check();
        } finally {
            for (const connection of connections) connection.destroy();
        }
        await eventually('everything to be let go of', async () => (await heldBytes(server)) < MiB);
    }

    test('SPEC 10: results of batches stay within limits.inflightBytes, and others are served', async () => {
        const t = server.tenant();
        const body = `{"ops":[${'{},'.repeat(49999)}{}]}`;
        const before = residentBytes(server);
        const text = requestText('POST', `/api/counters/${t.id}/batch`, { token: t.token, body });
        const connections = await deafConnections(server, 30, text);
        await whileHeld(connections, async () => {
            const grown = (await settledMemory(server)) - before;
            assert.ok((await heldBytes(server)) <= 64 * MiB, 'the bound holds');
            if (RELEASE) assert.ok(grown < 200 * MiB, `${grown} bytes more in memory`);
            await othersAreServed();
        });
    });

    test('SPEC 10: a batch that finds no room for its results is 429, and nothing of it is applied', async () => {
        const t = server.tenant();
        const theirs = `{"ops":[${'{},'.repeat(19999)}{}]}`;
        const text = requestText('POST', `/api/counters/${t.id}/batch`, { token: t.token, body: theirs });
        const mine = Array.from({ length: 20000 }, () => ({ op: 'increment', name: 'mine', ...TOTAL }));
        let applied = 0;
        await whileHeld(await deafConnections(server, 8, text.repeat(20)), async () => {
            await eventually('a batch to be refused', async () => {
                const { status } = await t.batch(mine);
                assert.ok(status === 200 || status === 429, `status ${status}`);
                if (status === 200) applied++;
                return status === 429;
            });
            assert.equal(Number((await t.get('mine')).body.net ?? 0), applied * mine.length);
        });
    });

    test('SPEC 10: public documents are served without a copy, to clients without a token that do not read', async () => {
        const before = residentBytes(server);
        const text = requestText('GET', '/openapi.json').repeat(120);
        const connections = await deafConnections(server, 60, text);
        await whileHeld(connections, async () => {
            const grown = (await settledMemory(server)) - before;
            assert.ok((await heldBytes(server)) <= 8 * MiB, 'an eighth at most, and some is left for others without a token');
            if (RELEASE) assert.ok(grown < 100 * MiB, `${grown} bytes more in memory`);
            assert.equal((await server.call('GET', '/healthz')).status, 200);
            await othersAreServed();
        });
    });

    test('SPEC 10: the reply of one tenant to a query that is not read takes no read from another', async () => {
        const t = server.tenant();
        const text = requestText('POST', `/api/counters/${t.id}/query`, { token: t.token, body: zeros(2) });
        const deaf = await deafConnections(server, 4, text);
        await whileHeld(deaf, async () => {
            await settledMemory(server);
            assert.ok((await heldBytes(server)) <= 64 * MiB);
            await othersAreServed();
        });
    });

    test('SPEC 10: a read whose reply is over limits.replyBytes is 400 reply_too_large', async () => {
        const t = server.tenant();
        const reply = await t.query(zeros(6).queries);
        assert.equal(reply.status, 400);
        assert.equal(reply.body.code, 'reply_too_large');
        const smaller = await t.query(zeros(1).queries);
        assert.equal(smaller.body.results[0].buckets.length, 100000);
        assert.equal((await t.query(zeros(1, 3).queries)).status, 200);
    });
});

const MINUTE = 60;

/** Counts one in each of `count` minutes from the epoch on. */
async function fillMinutes(t, name, count) {
    const op = (minute) => ({ op: 'increment', name, durationSeconds: MINUTE, timestamp: minute * MINUTE });
    for (let at = 0; at < count; at += 10000) {
        const ops = Array.from({ length: Math.min(10000, count - at) }, (_, i) => op(at + i));
        assert.equal((await t.batch(ops, { query: '?results=errors' })).status, 200);
    }
}

const minutes = (count) => ({ durationSeconds: MINUTE, startTime: 0, endTime: (count - 1) * MINUTE });

/** Many sums over cells that have to be visited one by one. */
const heavy = (name, count) => ({ queries: Array.from({ length: count }, () => ({ sumRange: { name, ...minutes(4000) } })) });

describe('long reads', () => {
    const server = serverFor({ settings: { 'limits.readers': 2, 'limits.queryCells': 1000000000, 'timeouts.shutdown': '2s' } });

    async function startHeavy(t, count) {
        await fillMinutes(t, 'wide', 4000);
        const connections = await together(count, () => server.raw());
        const text = requestText('POST', `/api/counters/${t.id}/query`, { token: t.token, body: heavy('wide', 10000) });
        const replies = connections.map((connection) => {
            connection.write(text);
            return connection.reply({ ms: 120000 });
        });
        return { connections, replies };
    }

    test('SPEC 10: reads of other tenants, and short ones of its own, go on beside long ones', async () => {
        const greedy = server.tenant();
        const modest = server.tenant();
        await modest.increment('calm', TOTAL);
        const { connections, replies } = await startHeavy(greedy, 6);
        let answered = 0;
        for (const reply of replies) reply.then(() => answered++, () => {});
        await sleep(200);
        for (const t of [modest, greedy]) {
            for (let i = 0; i < 10; i++) assert.equal((await t.sumRange('calm', { durationSeconds: 0, startTime: 0, endTime: 0 })).status, 200);
        }
        assert.equal(answered, 0, 'the long ones are still at it');
        for (const connection of connections) connection.destroy();
        await Promise.allSettled(replies);
    });

    test('SPEC 10: a range of many parts shows every cell once, beside writes to it', async () => {
        const t = server.tenant();
        const count = 20000;
        await fillMinutes(t, 'long', count);
        let acknowledged = count;
        let over = false;
        const writing = (async () => {
            for (; !over; acknowledged++) await t.increment('long', { durationSeconds: MINUTE, timestamp: 0 });
        })();
        for (let i = 0; i < 5; i++) {
            const least = acknowledged;
            const series = await t.series('long', { ...minutes(count), limit: 100000 });
            const starts = series.body.buckets.map((bucket) => Date.parse(bucket.timeStart));
            assert.deepEqual(starts, Array.from({ length: count }, (_, minute) => minute * MINUTE * 1000));
            const sum = Number((await t.sumRange('long', minutes(count))).body.net);
            assert.ok(sum >= least && sum <= acknowledged + 1, `${least} <= ${sum} <= ${acknowledged + 1}`);
        }
        over = true;
        await writing;
    });

    test('SPEC 10: a stop ends reads within timeouts.shutdown, with a 503 and a close', async () => {
        const { connections, replies } = await startHeavy(server.tenant(), 4);
        await sleep(200);
        server.signal('SIGTERM');
        for (const reply of await Promise.all(replies)) assert.equal(reply.status, 503);
        await within(10000, 'tally to stop', server.exited);
        assert.ok(connections.every((connection) => connection.isClosed));
        await server.start();
    });
});

describe('a bound on cells', () => {
    const server = serverFor({ settings: { 'limits.queryCells': 5000 } });

    test('SPEC 10: a read that would visit more than limits.queryCells is 400 too_many_cells', async () => {
        const t = server.tenant();
        await fillMinutes(t, 'wide', 4000);
        assert.equal((await t.query(heavy('wide', 1).queries)).status, 200);
        assert.equal((await t.series('wide', minutes(4000))).body.buckets.length, 4000);
        const refused = await t.query(Array.from({ length: 2 }, () => ({ series: { name: 'wide', ...minutes(4000) } })));
        assert.equal(refused.status, 400);
        assert.equal(refused.body.code, 'too_many_cells');
    });
});
