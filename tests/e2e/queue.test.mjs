// A full queue: refused early, visibly and wholly, and only for those who fill it.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectTriple, QUEUE_FULL } from './support/expect.mjs';
import { eventually, times } from './support/pace.mjs';
import { requestText } from './support/raw.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

describe('a small queue', () => {
    const server = serverFor({
        settings: { 'limits.queueOps': 64, 'limits.tenantQueueOps': 32, 'limits.syncOps': 16, 'limits.pipeline': 1024, 'limits.batchOps': 6, 'journal.segmentBytes': '1MiB' },
    });

    /** Pipelines `count` increments in one write and returns all replies. */
    async function flood(t, name, count, { action = 'increment', headers = {} } = {}) {
        const connection = await server.raw();
        try {
            connection.write(requestText('POST', t.path(name, action), { token: t.token, body: TOTAL, headers }).repeat(count));
            return await connection.replies(count);
        } finally {
            connection.destroy();
        }
    }

    /** Takes nearly the whole share of the tenant, again and again, so that a slow build is refused too. */
    async function hog(t) {
        const connection = await server.raw();
        const ops = Array.from({ length: 31 }, () => ({ op: 'increment', name: 'hog', ...TOTAL }));
        try {
            connection.write(requestText('POST', `/api/counters/${t.id}/batch?results=errors`, { token: t.token, body: { ops } }).repeat(100));
            await connection.replies(100);
        } finally {
            connection.destroy();
        }
    }

    /** Floods until at least one operation was refused, and returns how often each status came. */
    async function floodUntilRefused(t, name) {
        let applied = 0;
        const refused = [];
        await eventually('a 429', async () => {
            const floods = Array.from({ length: 3 }, () => flood(t, name, times(1000)));
            const [replies] = await Promise.all([Promise.all(floods), hog(t)]);
            for (const reply of replies.flat()) {
                if (reply.status === 200) applied++;
                else refused.push(reply);
            }
            return refused.length > 0;
        });
        return { applied, refused };
    }

    test('S3-71, S3-75, S3-81, A-27d: a full queue is exactly the 429 with Retry-After, nothing of it applied, and it recovers', async () => {
        const t = server.tenant();
        const { applied, refused } = await floodUntilRefused(t, 'flooded');
        for (const reply of refused) {
            assert.equal(reply.status, 429);
            assert.deepEqual(reply.body, QUEUE_FULL);
            assert.match(reply.headers.get('retry-after') ?? 'absent', /^[1-9]\d*$/);
        }
        assert.ok(applied > 0);
        expectTriple(await t.get('flooded'), applied);
        expectTriple(await t.increment('flooded', TOTAL), applied + 1);
    });

    test('A-25: invalid requests are 400 while the queue is full, not 429', async () => {
        const t = server.tenant();
        let done = false;
        const flooding = floodUntilRefused(t, 'noise').finally(() => (done = true));
        do assert.equal((await t.increment('noise', { ...TOTAL, amount: 0 })).status, 400);
        while (!done);
        await flooding;
    });

    test('S3-49: sync operations are not refused while batched ones are', async () => {
        const t = server.tenant();
        const connection = await server.raw();
        let done = false;
        const flooding = floodUntilRefused(t, 'batched').finally(() => (done = true));
        let count = 0;
        do {
            const reply = await connection.call('POST', t.path('synced', 'incrementSync'), { token: t.token, body: TOTAL });
            expectTriple(reply, ++count);
            assert.equal((await connection.call('PUT', t.path('put', 'set'), { token: t.token, body: { ...TOTAL, targetValue: count } })).status, 200);
        } while (!done);
        await flooding;
        connection.destroy();
    });

    test('SPEC 5: more sync operations than limits.syncOps are held back, never refused', async () => {
        const t = server.tenant();
        const count = times(1000);
        const replies = (await Promise.all(Array.from({ length: 3 }, () => flood(t, 'held', count, { action: 'incrementSync' })))).flat();
        assert.ok(replies.every((reply) => reply.status === 200));
        expectTriple(await t.get('held'), count * 3);
    });

    test('SPEC 5: one tenant\'s flood does not take the share of another', async () => {
        const greedy = server.tenant();
        const modest = server.tenant();
        const connection = await server.raw();
        let done = false;
        const flooding = floodUntilRefused(greedy, 'flooded').finally(() => (done = true));
        let count = 0;
        do expectTriple(await connection.call('POST', modest.path('calm', 'increment'), { token: modest.token, body: TOTAL }), ++count);
        while (!done);
        await flooding;
        connection.destroy();
    });

    test('SPEC 5: a 429 is not stored under an Idempotency-Key: the retry applies', async () => {
        const t = server.tenant();
        const connection = await server.raw();
        const undecided = await eventually('a refused keyed increment', async () => {
            const keys = Array.from({ length: 1000 }, (_, i) => `key-${Date.now()}-${i}`);
            connection.write(keys.map((key) => requestText('POST', t.path('keyed', 'increment'), { token: t.token, body: TOTAL, headers: { 'Idempotency-Key': key } })).join(''));
            const [replies] = await Promise.all([connection.replies(keys.length), hog(t)]);
            const key = keys[replies.findIndex((reply) => reply.status === 429)];
            return key && { key };
        });
        const before = Number((await t.get('keyed')).body.net);
        const retry = await t.increment('keyed', TOTAL, { 'Idempotency-Key': undecided.key });
        expectTriple(retry, before + 1);
        assert.equal(retry.headers.get('idempotent-replayed'), null);
        connection.destroy();
    });

    test('X-12: a batch that finds no room is refused whole, and what was acknowledged is what is there', async () => {
        const t = server.tenant();
        const connection = await server.raw();
        const ops = Array.from({ length: 30 }, () => ({ op: 'increment', name: 'bulk', ...TOTAL }));
        let applied = 0;
        await eventually('a refused batch', async () => {
            connection.write(requestText('POST', `/api/counters/${t.id}/batch`, { token: t.token, body: { ops } }).repeat(100));
            let refused = 0;
            for (const reply of await connection.replies(100)) {
                if (reply.status === 429) {
                    assert.deepEqual(reply.body, QUEUE_FULL);
                    refused++;
                } else {
                    assert.equal(reply.status, 200, reply.text);
                    applied += reply.body.results.filter((result) => result.status === 200).length;
                }
            }
            return refused > 0;
        });
        expectTriple(await t.get('bulk'), applied);
        connection.destroy();
    });
});
