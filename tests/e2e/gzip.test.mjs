// Bodies that are sent gzipped, and replies that are sent that way.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { RULES, value } from './support/events.mjs';
import { expectError, expectTriple } from './support/expect.mjs';
import { chunked, requestText } from './support/raw.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

const GZIP = { 'Content-Encoding': 'gzip' };
const LINES = { 'Content-Type': 'application/x-ndjson' };
const packed = (body) => gzipSync(typeof body === 'string' ? body : JSON.stringify(body));
const increments = (count) => Array.from({ length: count }, (_, index) =>
    JSON.stringify({ op: 'increment', name: `n${index % 50}`, ...TOTAL }) + '\n').join('');

describe('gzipped requests', () => {
    const server = serverFor({ config: RULES });
    const send = (t, body, headers = GZIP, path = t.path('n', 'increment')) => t.call('POST', path, { body, headers });
    const batch = (t) => `/api/counters/${t.id}/batch?results=errors`;

    test('SPEC 3: a change, a batch, NDJSON and events may be gzipped', async () => {
        const t = server.tenant();
        expectTriple(await send(t, packed({ ...TOTAL, amount: 7 })), 7);
        expectTriple(await send(t, packed({ ...TOTAL, amount: 7 }), { 'Content-Encoding': 'X-GZip' }), 14);
        const ops = [{ op: 'increment', name: 'b', ...TOTAL }];
        assert.equal((await send(t, packed({ ops }), GZIP, batch(t))).status, 200);
        assert.equal((await send(t, packed(increments(2000)), { ...GZIP, ...LINES }, batch(t))).status, 200);
        expectTriple(await t.get('n49'), 40);
        const events = [1, 2].map((id) => ({ eventId: `e${id}`, type: 'account.connected', dimensions: { masterAccountId: 'm1' } }));
        assert.equal((await send(t, packed(events), GZIP, `/api/events/${t.id}`)).body.applied, 2);
        const attributes = { 'ce-specversion': '1.0', 'ce-id': '3', 'ce-source': '/s', 'ce-type': 'account.connected' };
        await send(t, packed({ dimensions: { masterAccountId: 'm1' } }), { ...GZIP, ...attributes }, `/api/events/${t.id}`);
        assert.equal(await value(t, 'connects_total', { masterAccountId: 'm1' }), 3);
    });

    test('SPEC 3: in chunks, after 100 Continue, and with requests right behind it', async () => {
        const t = server.tenant();
        const body = packed(increments(3000));
        const all = { ...GZIP, ...LINES };
        const raw = await server.raw();
        const get = requestText('GET', `${t.path('n0', 'get')}?${new URLSearchParams(TOTAL)}`, { token: t.token });
        raw.write(requestText('POST', batch(t), { token: t.token, headers: { ...all, 'Transfer-Encoding': 'chunked' } }));
        for (const piece of [chunked(body, 1000).subarray(0, 777), chunked(body, 1000).subarray(777)]) raw.write(piece);
        raw.write(get);
        assert.equal((await raw.reply()).status, 200);
        expectTriple(await raw.reply(), 60);
        raw.write(requestText('POST', batch(t), { token: t.token, headers: { ...all, 'Content-Length': body.length, Expect: '100-continue' } }));
        assert.equal((await raw.reply()).status, 100);
        raw.write(Buffer.concat([body, Buffer.from(get)]));
        assert.equal((await raw.reply()).status, 200);
        expectTriple(await raw.reply(), 120);
        for (let turn = 0; turn < 20; turn++) {
            const one = packed({ ...TOTAL });
            raw.write(Buffer.concat([Buffer.from(requestText('POST', t.path('p', 'increment'), { token: t.token, headers: { ...GZIP, 'Content-Length': one.length } })), one]));
        }
        (await raw.replies(20)).forEach((reply, index) => expectTriple(reply, index + 1));
        raw.destroy();
    });

    test('SPEC 5: a retry is the same request whether it is gzipped or not', async () => {
        const t = server.tenant();
        const body = JSON.stringify({ ...TOTAL, amount: 3 });
        const key = { 'Idempotency-Key': 'k' };
        expectTriple(await send(t, body, key), 3);
        for (const level of [1, 9]) {
            const again = await send(t, gzipSync(body, { level }), { ...GZIP, ...key });
            expectTriple(again, 3);
            assert.equal(again.headers.get('Idempotent-Replayed'), 'true');
        }
        expectError(await send(t, packed({ ...TOTAL, amount: 4 }), { ...GZIP, ...key }), 422, 'idempotency_conflict');
    });

    test('SPEC 3: any other coding is 415, which names the one that is taken; identity is none', async () => {
        const t = server.tenant();
        const raw = await server.raw();
        for (const coding of ['br', 'deflate', 'zstd', 'gzip, gzip', 'gzip, br', 'x']) {
            const reply = await raw.call('POST', t.path('n', 'increment'), { token: t.token, headers: { 'Content-Encoding': coding }, body: TOTAL });
            expectError(reply, 415, 'unsupported_coding');
            assert.equal(reply.headers.get('accept-encoding'), 'gzip');
        }
        expectError(await raw.call('POST', t.path('n', 'increment'), { headers: { 'Content-Encoding': 'br' }, body: TOTAL }), 401);
        expectError(await raw.call('POST', '/api/counters/foreign/n/increment', { token: t.token, headers: { 'Content-Encoding': 'br' }, body: TOTAL }), 404);
        expectTriple(await raw.call('POST', t.path('n', 'increment'), { token: t.token, headers: { 'Content-Encoding': 'identity' }, body: TOTAL }), 1);
        expectTriple(await raw.call('GET', `${t.path('n', 'get')}?${new URLSearchParams(TOTAL)}`, { token: t.token, headers: { 'Content-Encoding': 'br' } }), 1);
        raw.destroy();
    });

    test('what is not one whole gzip member is 400, and the connection goes on', async () => {
        const t = server.tenant();
        const good = packed(TOTAL);
        const flipped = Buffer.from(good);
        flipped[flipped.length - 6] ^= 1;
        const shorter = Buffer.from(good);
        shorter.writeUInt32LE(5, good.length - 4);
        const bad = {
            'no gzip': Buffer.from(JSON.stringify(TOTAL)), 'one byte': Buffer.from([0x1f]), 'a wrong checksum': flipped, 'a size that is not so': shorter,
            'two members': Buffer.concat([good, good]), garbage: Buffer.concat([good, Buffer.from('garbage!')]), zeros: Buffer.concat([good, Buffer.alloc(512)]),
        };
        for (let cut = 1; cut < good.length; cut++) bad[`cut at ${cut}`] = good.subarray(0, cut);
        const raw = await server.raw();
        for (const [what, body] of Object.entries(bad)) {
            raw.write(Buffer.concat([Buffer.from(requestText('POST', t.path('n', 'increment'), { token: t.token, headers: { ...GZIP, 'Content-Length': body.length } })), body]));
            const reply = await raw.reply();
            assert.equal(`${what} ${reply.status} ${reply.body.code}`, `${what} 400 invalid_request`);
        }
        raw.destroy();
        assert.equal((await t.get('n')).status, 404);
        expectError(await send(t, packed('')), 400, 'invalid_request');
        expectError(await send(t, packed('{')), 400, 'invalid_request');
    });
});

describe('the bound of a gzipped request', () => {
    const server = serverFor({ settings: { 'limits.bodyBytes': '1MiB' } });
    const call = (t, body) => t.call('POST', `/api/counters/${t.id}/batch`, { body, headers: { ...GZIP, ...LINES } });
    const spaces = (size) => gzipSync(Buffer.alloc(size, ' '));

    test('SPEC 3: limits.bodyBytes holds for what is unpacked', async () => {
        const t = server.tenant();
        assert.equal((await call(t, spaces(1 << 20))).status, 200);
        expectError(await call(t, spaces((1 << 20) + 1)), 413, 'body_too_large');
        expectError(await call(t, gzipSync(randomBytes(1 << 20))), 413, 'body_too_large');
    });

    test('a bomb costs what it weighs, whatever it says of its size', async () => {
        const t = server.tenant();
        const bomb = spaces(200 << 20);
        const lying = Buffer.from(bomb);
        lying.writeUInt32LE(1000, bomb.length - 4);
        for (let turn = 0; turn < 20; turn++) {
            expectError(await call(t, bomb), 413, 'body_too_large');
            expectError(await call(t, lying), 400, 'invalid_request');
        }
    });
});
