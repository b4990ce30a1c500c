// Thousands of connections that say nothing, and a few that work.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectTriple } from './support/expect.mjs';
import { eventually, times, together } from './support/pace.mjs';
import { requestText } from './support/raw.mjs';
import { LANES, serverFor, TOTAL } from './support/server.mjs';

describe('many connections', () => {
    const server = serverFor();

    async function openMany(count) {
        const connections = [];
        for (let opened = 0; opened < count; opened += 200) connections.push(...await together(Math.min(200, count - opened), () => server.raw()));
        return connections;
    }

    test('2,000 idle connections do not hold up the others, and all of them still work afterwards', async () => {
        const t = server.tenant();
        const idle = await openMany(times(2000, 400));
        try {
            for (let i = 1; i <= 20; i++) expectTriple(await t.increment('calm', TOTAL), i);
            for (const connection of idle) connection.write(requestText('POST', t.path('woken', 'increment'), { token: t.token, body: TOTAL }));
            const replies = await Promise.all(idle.map((connection) => connection.reply()));
            assert.ok(replies.every((reply) => reply.status === 200));
            expectTriple(await t.get('woken'), idle.length);
        } finally {
            for (const connection of idle) connection.destroy();
        }
    });

    test('silent clients, half-sent requests and clients that do not read hold up nobody', async () => {
        const t = server.tenant();
        const silent = await openMany(50);
        const half = await openMany(50);
        const deaf = await openMany(20);
        try {
            const text = requestText('POST', t.path('half', 'increment'), { token: t.token, body: TOTAL });
            half.forEach((connection, index) => connection.write(text.slice(0, 1 + index * 3)));
            for (const connection of deaf) {
                connection.deafen();
                connection.write(requestText('GET', '/metrics').repeat(100));
            }
            for (let i = 1; i <= 50; i++) expectTriple(await t.increment('busy', TOTAL), i);
        } finally {
            for (const connection of [...silent, ...half, ...deaf]) connection.destroy();
        }
    });

    test('connections that come and go leave nothing behind', async () => {
        const open = async () => Number(/^tally_connections (\d+)$/m.exec((await server.call('GET', '/metrics')).text)[1]);
        for (let i = 0; i < 5; i++) for (const connection of await openMany(100)) connection.destroy();
        await eventually('the count of connections to fall', async () => (await open()) < 50);
    });
});

describe('a limit on connections', () => {
    const server = serverFor({ settings: { 'limits.connections': 16 } });

    test('SPEC 10: connections past limits.connections are answered 503 or closed, and room comes back', async () => {
        const held = await together(12, () => server.raw());
        for (const connection of held) assert.equal((await connection.call('GET', '/healthz')).status, 200);
        const extra = await together(20, () => server.raw());
        let refused = 0;
        for (const connection of extra) {
            connection.write(requestText('GET', '/healthz'));
            const reply = await connection.reply();
            if (!reply || reply.status === 503) refused++;
            else assert.equal(reply.status, 200);
        }
        assert.ok(refused >= 16, `${refused} of 20 refused`);
        assert.equal((await held[0].call('GET', '/healthz')).status, 200, 'those inside are served');
        for (const connection of [...held, ...extra]) connection.destroy();
        await eventually('room for a new connection', async () => {
            const connection = await server.raw();
            connection.write(requestText('GET', '/healthz'));
            const reply = await connection.reply();
            connection.destroy();
            return reply?.status === 200;
        });
    });
});

// The small world's files are so small that there are many of them; and each lane has its own.
const FEW = (process.env.TALLY_VARIANT === 'small' ? 240 : 80) + 40 * (LANES - 1);

describe('fewer file descriptors than the lanes need', () => {
    const server = serverFor({ descriptors: 100, settings: { 'store.lanes': 4 } });

    test('are said at the start, with how many would do', () => {
        assert.match(server.stderr, /too few file descriptors for the store's own files: writes may fail","descriptors":100,"needed":200,"lanes":4/);
    });
});

for (const descriptors of [400, FEW]) describe(`${descriptors} file descriptors`, () => {
    const server = serverFor({ descriptors, settings: { 'journal.segmentBytes': '1MiB' } });

    test('SPEC 10: idle connections leave the store the descriptors that it needs for new files', async () => {
        const t = server.tenant();
        const connection = await server.raw();
        const idle = await together(descriptors + 100, () => server.raw());
        try {
            const ops = Array.from({ length: 1000 }, (_, i) => ({ op: 'increment', name: `n${i}`, ...TOTAL }));
            for (let i = 1; i <= 20; i++) {
                const reply = await connection.call('POST', `/api/counters/${t.id}/batch`, { token: t.token, body: { ops } });
                assert.equal(reply.status, 200, reply.text.slice(0, 200));
                assert.equal(reply.body.results[0].net, String(i));
            }
            assert.match(server.stderr, /limits.connections is lowered/);
            assert.doesNotMatch(server.stderr, /too few file descriptors/);
        } finally {
            for (const one of [...idle, connection]) one.destroy();
        }
    });
});
