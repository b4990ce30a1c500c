// Many clients at once: nothing lost, nothing counted twice, no refusal that was not due.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectTriple } from './support/expect.mjs';
import { times, together } from './support/pace.mjs';
import { LARGE_COMMITS, serverFor, TOTAL } from './support/server.mjs';

const CLIENTS = 64;
const GET_TOTAL = '?durationSeconds=0&timestamp=0';

describe('concurrency', () => {
    const server = serverFor({ settings: LARGE_COMMITS });

    /** `work(connection, index)` on `count` connections at once. */
    async function clients(count, work) {
        const connections = await together(count, () => server.raw());
        try {
            return await together(count, (index) => work(connections[index], index));
        } finally {
            for (const connection of connections) connection.destroy();
        }
    }

    function write(connection, t, action, name, body) {
        return connection.call(action === 'set' ? 'PUT' : 'POST', t.path(name, action), { token: t.token, body: { ...TOTAL, ...body } });
    }

    test('S3-36, X-02: 64 clients on one hot key raise added by exactly N * a, each with its own reply', async () => {
        const t = server.tenant();
        const each = times(60);
        const nets = await clients(CLIENTS, async (connection) => {
            const seen = [];
            for (let i = 0; i < each; i++) {
                const reply = await write(connection, t, 'increment', 'hot', { amount: 3 });
                assert.equal(reply.status, 200, reply.text);
                seen.push(Number(reply.body.net));
            }
            return seen;
        });
        for (const seen of nets) assert.deepEqual(seen, [...seen].sort((a, b) => a - b), 'S3-37: values of one client must grow');
        expectTriple(await t.get('hot'), CLIENTS * each * 3);
        assert.equal(new Set(nets.flat()).size, CLIENTS * each, 'SPEC 5: each reply is the value right after its own operation');
    });

    test('S3-36: 64 clients over many keys, in many tenants, give exact totals', async () => {
        const tenants = Array.from({ length: 4 }, () => server.tenant());
        const each = times(60);
        const keys = 97;
        const expected = new Map();
        await clients(CLIENTS, async (connection, client) => {
            for (let i = 0; i < each; i++) {
                const t = tenants[(client + i) % tenants.length];
                const name = `key-${(client * 31 + i * 17) % keys}`;
                const id = `${t.id}/${name}`;
                expected.set(id, (expected.get(id) ?? 0) + i + 1);
                assert.equal((await write(connection, t, 'increment', name, { amount: i + 1 })).status, 200);
            }
        });
        for (const t of tenants) {
            const ids = [...expected.keys()].filter((id) => id.startsWith(`${t.id}/`));
            const reply = await t.query(ids.map((id) => ({ get: { name: id.split('/')[1], ...TOTAL } })));
            assert.deepEqual(reply.body.results.map((r) => Number(r.net)), ids.map((id) => expected.get(id)));
        }
    });

    for (const action of ['decrement', 'decrementSync']) {
        test(`S3-44: with net = K and M > K concurrent ${action}s exactly K succeed`, async () => {
            const t = server.tenant();
            const stock = times(150);
            const attempts = Math.ceil((stock * 2) / CLIENTS);
            await t.set('stock', { ...TOTAL, targetValue: stock });
            const statuses = (await clients(CLIENTS, async (connection) => {
                const list = [];
                for (let i = 0; i < attempts; i++) list.push((await write(connection, t, action, 'stock')).status);
                return list;
            })).flat();
            assert.equal(statuses.filter((status) => status === 200).length, stock);
            assert.equal(statuses.filter((status) => status === 409).length, CLIENTS * attempts - stock);
            expectTriple(await t.get('stock'), stock, stock);
        });
    }

    test('defect 16: concurrent first calls on a fresh key are all counted', async () => {
        const t = server.tenant();
        const rounds = times(20);
        await clients(8, async (connection) => {
            for (let round = 0; round < rounds; round++) {
                assert.equal((await write(connection, t, 'increment', `fresh-${round}`)).status, 200);
            }
        });
        for (let round = 0; round < rounds; round++) expectTriple(await t.get(`fresh-${round}`), 8);
    });

    test('S3-48: batched and sync operations mixed on one key lose nothing', async () => {
        const t = server.tenant();
        const each = times(40);
        const outcome = await clients(CLIENTS, async (connection, client) => {
            let added = 0;
            let subbed = 0;
            for (let i = 0; i < each; i++) {
                const action = ['increment', 'incrementSync', 'decrement', 'decrementSync'][(client + i) % 4];
                const amount = 1 + ((client + i) % 5);
                const reply = await write(connection, t, action, 'mixed', { amount });
                if (reply.status === 200) action.startsWith('inc') ? (added += amount) : (subbed += amount);
                else assert.equal(reply.status, 409, reply.text);
            }
            return { added, subbed };
        });
        const total = (field) => outcome.reduce((sum, one) => sum + one[field], 0);
        expectTriple(await t.get('mixed'), total('added'), total('subbed'));
    });

    test('S3-56: set against increments and decrements equals some serial order', async () => {
        const t = server.tenant();
        const each = times(40);
        let added = 0;
        let subbed = 0;
        await clients(16, async (connection, client) => {
            for (let i = 0; i < each; i++) {
                if (client < 4) {
                    const target = client * 100 + i;
                    const reply = await write(connection, t, 'set', 'contested', { targetValue: target });
                    assert.equal(reply.body.net, String(target), 'S3-51');
                } else {
                    const action = client % 2 ? 'increment' : 'decrement';
                    const reply = await write(connection, t, action, 'contested', { amount: 1 });
                    if (reply.status === 200) action === 'increment' ? added++ : subbed++;
                    else assert.equal(reply.status, 409);
                }
            }
        });
        const { body } = await t.get('contested');
        assert.equal(BigInt(body.added) - BigInt(body.subbed), BigInt(body.net));
        assert.ok(BigInt(body.net) >= 0n);
        assert.ok(BigInt(body.added) >= BigInt(added) && BigInt(body.subbed) >= BigInt(subbed));
    });

    test('E3-03, SPEC 1: readers during writes see added and subbed grow and net never negative', async () => {
        const t = server.tenant();
        await t.increment('watched', TOTAL);
        let done = false;
        const writers = clients(16, async (connection, client) => {
            for (let i = 0; i < times(60); i++) await write(connection, t, client % 2 ? 'increment' : 'decrement', 'watched');
        }).finally(() => (done = true));
        const readers = clients(4, async (connection) => {
            let last = { added: 0n, subbed: 0n };
            do {
                const { body } = await connection.call('GET', t.path('watched', 'get') + GET_TOTAL, { token: t.token });
                const now = { added: BigInt(body.added), subbed: BigInt(body.subbed) };
                assert.ok(now.added >= last.added && now.subbed >= last.subbed);
                assert.equal(now.added - now.subbed, BigInt(body.net));
                assert.ok(BigInt(body.net) >= 0n, 'S3-07');
                last = now;
            } while (!done);
        });
        await Promise.all([writers, readers]);
    });

    test('SPEC 1: a 200 is visible to every later read, on any connection', async () => {
        const t = server.tenant();
        const [writer, reader] = [await server.raw(), await server.raw()];
        for (let i = 1; i <= times(100); i++) {
            await write(writer, t, 'increment', 'visible');
            const { body } = await reader.call('GET', t.path('visible', 'get') + GET_TOTAL, { token: t.token });
            assert.equal(body.net, String(i));
        }
        writer.destroy();
        reader.destroy();
    });

    test('S3-45: refused operations do not disturb their neighbours', async () => {
        const t = server.tenant();
        const each = times(40);
        await clients(32, async (connection, client) => {
            for (let i = 0; i < each; i++) {
                const reply = client % 2
                    ? await write(connection, t, 'decrement', 'always-empty')
                    : await write(connection, t, 'increment', 'always-fine');
                assert.equal(reply.status, client % 2 ? 409 : 200);
            }
        });
        expectTriple(await t.get('always-fine'), 16 * each);
        assert.equal((await t.get('always-empty')).status, 404);
    });

    test('S3-84, defect 13: overlapping batches in opposite orders neither deadlock nor drop anything', async () => {
        const t = server.tenant();
        const names = Array.from({ length: 50 }, (_, i) => `cross-${i}`);
        const rounds = times(10);
        await clients(16, async (connection, client) => {
            const order = client % 2 ? names : [...names].reverse();
            for (let i = 0; i < rounds; i++) {
                const ops = order.map((name) => ({ op: 'increment', name, ...TOTAL }));
                const reply = await connection.call('POST', `/api/counters/${t.id}/batch`, { token: t.token, body: { ops, atomic: i % 2 === 0 } });
                assert.equal(reply.status, 200, reply.text);
            }
        });
        const reply = await t.query(names.map((name) => ({ get: { name, ...TOTAL } })));
        assert.deepEqual(reply.body.results.map((r) => r.net), names.map(() => String(16 * rounds)));
    });
});
