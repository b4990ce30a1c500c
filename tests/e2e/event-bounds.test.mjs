// event-bounds.test.mjs -- what one tenant asks for must not fill the memory, wait for ever or show
// what is another's; and what was deleted starts afresh. Found by attacking the event API.

import assert from 'node:assert/strict';
import net from 'node:net';
import { describe, test } from 'node:test';

import { expectError } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { serverFor } from './support/server.mjs';

const NDJSON = { 'Content-Type': 'application/x-ndjson' };
const send = (t, event) => t.call('POST', `/api/events/${t.id}`, { body: event });
const lines = (count, event) => Array.from({ length: count }, (_, i) => JSON.stringify({ eventId: `e${i}`, ...event })).join('\n');
const pour = (t, body) => t.call('POST', `/api/events/${t.id}?results=errors`, { body, headers: NDJSON });

describe('events that go to very many sets', () => {
    const MANY = Array.from({ length: 40 }, (_, i) => `
  - { counterName: c${i}, dimensions: [a], rollups: [[a, b]], rules: [{ on: amp, op: increment }] }`).join('');
    const server = serverFor({ config: `counters:${MANY}\n`, settings: { 'limits.inflightBytes': '64MiB', 'journal.segmentBytes': '16MiB' } });

    test('SPEC 10: too much for limits.inflightBytes is a final 413, soon, and other requests go on', async () => {
        const t = server.tenant();
        const event = { type: 'amp', dimensions: { a: 'v'.repeat(15000), b: 'w' } };
        const reply = await pour(t, lines(200, event));
        expectError(reply, 413, 'body_too_large');
        assert.match(reply.body.error, /send fewer at a time/);
        assert.equal((await send(t, { eventId: 'small', type: 'amp', dimensions: { a: 'v', b: 'w' } })).body.counters, 80);
    });

    test('SPEC 5: long dimensions within every limit are accepted', async () => {
        const t = server.tenant();
        const reply = await pour(t, lines(10, { type: 'amp', dimensions: { a: 'v'.repeat(15000) } }));
        assert.equal(reply.body.applied, 10, reply.text);
    });
});

describe('replies that nobody reads', () => {
    const server = serverFor({ settings: { 'limits.inflightBytes': '64MiB' } });

    test('SPEC 10: past their share further reads are 503 until they are taken', async () => {
        const t = server.tenant();
        assert.equal((await pour(t, lines(3000, { type: 'x', payload: 'y'.repeat(1000) }))).body.applied, 3000);
        const { hostname, port } = new URL(server.url);
        const idle = Array.from({ length: 12 }, () => {
            const socket = net.connect({ host: hostname, port });
            socket.pause();
            socket.on('error', () => {});
            /* again and again: the kernel's buffers take the first few megabytes */
            socket.write(`GET /api/events/${t.id}?limit=10000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${t.token}\r\n\r\n`.repeat(10));
            return socket;
        });
        const page = () => t.call('GET', `/api/events/${t.id}?limit=10000`);
        await eventually('a read to be refused', async () => (await page()).status === 503);
        const other = server.tenant();
        assert.equal((await other.call('GET', `/api/events/${other.id}?limit=1`)).status, 200, 'another tenant reads on');
        for (const socket of idle) socket.destroy();
        await eventually('reads to go on', async () => (await page()).status === 200);
    });
});

describe('ids unique over the installation', () => {
    const server = serverFor({ settings: { 'events.idScope': 'installation' } });

    test('SPEC 6: the audit of a foreign duplicate does not say when the first one came', async () => {
        const first = server.tenant();
        const second = server.tenant();
        await send(first, { eventId: 'S', type: 'k' });
        await send(second, { eventId: 'S', type: 'other' });
        await send(first, { eventId: 'S', type: 'k' });
        const audit = async (t) => (await t.call('GET', `/api/duplicates/${t.id}`)).body.duplicates.map((d) => d.first_seen_at);
        assert.deepEqual(await audit(second), [null]);
        assert.match((await audit(first))[0], /^\d{4}-/);
    });
});

describe('a counter that left the config', () => {
    const SWITCH = `
  - counterName: switched
    dimensions: [f]
    rollups: [[]]
    rules: [{ on: 'on', op: increment }, { on: 'off', op: decrement }]
    transition: { entity: [e] }
`;
    const OTHER = '\n  - { counterName: other, rules: [] }\n';
    const server = serverFor({ config: `counters:${SWITCH}${OTHER}` });
    const admin = () => server.tenant('operator', { scope: 'admin' });
    const reload = async (rules) => {
        server.writeConfig(`counters:${rules}`);
        assert.equal((await admin().call('POST', '/api/admin/reload')).status, 200);
    };
    const net0 = async (t) => (await t.get('switched', {})).body.net;

    test('SPEC 7: its deletion by an admin turns its entities off, too', async () => {
        const t = server.tenant();
        await send(t, { eventId: '1', type: 'on', dimensions: { e: 'x', f: 'a' } });
        await reload(OTHER);
        const acting = server.tenant(t.id, { scope: 'admin' });
        assert.equal((await acting.call('DELETE', acting.path('switched'))).status, 200);
        await reload(SWITCH + OTHER);
        assert.equal((await send(t, { eventId: '2', type: 'off', dimensions: { e: 'x', f: 'a' } })).body.counters, 0);
        assert.equal(await net0(t), '0');
        assert.equal((await send(t, { eventId: '3', type: 'on', dimensions: { e: 'x', f: 'a' } })).body.counters, 2);
        assert.equal(await net0(t), '1');
    });

    test('SPEC 7: once an admin has it forgotten, its name is free for anything', async () => {
        const t = server.tenant();
        await send(t, { eventId: '1', type: 'on', dimensions: { e: 'y', f: 'a' } });
        expectError(await admin().call('DELETE', '/api/admin/counters/switched'), 409, 'managed_by_rules');
        await reload(OTHER);
        expectError(await t.increment('switched', { durationSeconds: 0, timestamp: 0 }), 409, 'managed_by_rules');
        expectError(await t.call('DELETE', '/api/admin/counters/switched'), 403, 'forbidden');
        assert.equal((await admin().call('DELETE', '/api/admin/counters/switched')).status, 200);
        expectError(await admin().call('DELETE', '/api/admin/counters/switched'), 404, 'not_found');
        assert.equal((await t.increment('switched', { durationSeconds: 0, timestamp: 0 })).body.net, '1');
        await reload(`${SWITCH.replace('dimensions: [f]', 'mode: windowed\n    window: 1h\n    dimensions: [f]')}${OTHER}`);
        assert.equal((await send(t, { eventId: '2', type: 'on', dimensions: { e: 'y', f: 'a' } })).body.counters, 2);
    });
});

describe('windows of a rollup', () => {
    const server = serverFor({ config: 'counters:\n  - { counterName: w, mode: windowed, window: 1h, dimensions: [org], rollups: [[], [b]], rules: [{ on: ev, op: increment }] }\n' });

    test('SPEC 8: its dimension appears as a field of the top level, and a query that is not UTF-8 is 400', async () => {
        const t = server.tenant();
        await send(t, { eventId: '1', type: 'ev', dimensions: { org: 'o', b: 'B' } });
        const read = async (query) => (await t.call('GET', `/api/windows/${t.id}${query}`));
        const [window] = (await read('?dim.b=B')).body.windows;
        assert.equal(window.b, 'B');
        assert.equal(window.org, null);
        assert.equal(window.currentValue, 1);
        expectError(await read('?dim.org=%ff'), 400, 'invalid_request');
        expectError(await read('?dim.org=%ed%a0%80'), 400, 'invalid_request');
    });
});
