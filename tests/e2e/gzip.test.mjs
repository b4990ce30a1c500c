// Bodies that are sent gzipped, and replies that are sent that way.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import http from 'node:http';
import { before, describe, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';

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

describe('gzipped replies', () => {
    const server = serverFor({ config: RULES });
    let t;
    before(async () => {
        t = server.tenant();
        const ops = Array.from({ length: 400 }, (_, index) => ({ op: 'increment', name: `counter-${index}`, ...TOTAL }));
        assert.equal((await t.batch(ops)).status, 200);
    });

    /** The reply as it came: nothing is unpacked. */
    function ask(path, accept, { method = 'GET', body, token = t.token } = {}) {
        const headers = { Authorization: `Bearer ${token}`, ...(accept !== undefined && { 'Accept-Encoding': accept }) };
        return new Promise((resolve, reject) => {
            const request = http.request({ port: server.port, path, method, headers }, (reply) => {
                const parts = [];
                reply.on('data', (part) => parts.push(part));
                reply.on('end', () => resolve({ status: reply.statusCode, headers: reply.headers, body: Buffer.concat(parts) }));
            });
            request.on('error', reject);
            request.end(body);
        });
    }
    const isPacked = (reply) => reply.headers['content-encoding'] === 'gzip';
    const list = () => `/api/counters/${t.id}?limit=400`;

    test('SPEC 3: a reply above 1 KiB is gzipped where Accept-Encoding asks for it', async () => {
        const plain = await ask(list());
        assert.equal(isPacked(plain), false);
        for (const accept of ['gzip', 'GZIP', 'x-gzip', 'deflate, gzip', 'gzip;q=0.5', 'br;q=1.0, gzip; q=0.8, *;q=0.1', '*', 'gzip, identity', 'identity;q=0.5, gzip;q=0.5', ' , gzip,']) {
            const reply = await ask(list(), accept);
            assert.equal(isPacked(reply), true, accept);
            assert.equal(reply.headers.vary, 'Accept-Encoding');
            assert.equal(Number(reply.headers['content-length']), reply.body.length);
            assert.ok(reply.body.length < plain.body.length / 3);
            assert.deepEqual(gunzipSync(reply.body), plain.body);
        }
        for (const accept of ['', 'identity', 'br', 'gzip;q=0', 'gzip;q=0.000', '*;q=0', 'gzip;q=0.3, identity;q=0.7', 'gzip;q=0.5, *', 'gzip;q=2', 'gzip;q=x', 'gzip;level=1', 'gzipped', 'identity, *;q=0']) {
            const reply = await ask(list(), accept);
            assert.equal(isPacked(reply), false, accept);
            assert.equal(reply.headers.vary, 'Accept-Encoding');
            assert.deepEqual(reply.body, plain.body);
        }
    });

    test('SPEC 3: a small reply and a refusal are not', async () => {
        for (const path of [`${t.path('counter-1', 'get')}?${new URLSearchParams(TOTAL)}`, '/healthz', '/nowhere', t.path('none', 'get')]) {
            const reply = await ask(path, 'gzip');
            assert.equal(isPacked(reply), false, path);
            assert.equal(reply.headers.vary, undefined, path);
        }
    });

    test('what a write answers is gzipped too, however large, in its place among the replies', async () => {
        for (const count of [40, 300, 3000]) {
            const ops = Array.from({ length: count }, () => ({ op: 'increment', name: `w${count}`, ...TOTAL }));
            const reply = await ask(`/api/counters/${t.id}/batch`, 'gzip', { method: 'POST', body: JSON.stringify({ ops }) });
            assert.equal(reply.status, 200);
            assert.equal(isPacked(reply), true);
            const { results } = JSON.parse(gunzipSync(reply.body));
            assert.deepEqual(results.map((one) => Number(one.added)), ops.map((_, index) => index + 1));
        }
        const raw = await server.raw();
        const ops = Array.from({ length: 2000 }, () => ({ op: 'increment', name: 'p', ...TOTAL }));
        const headers = { 'Accept-Encoding': 'gzip' };
        for (let turn = 0; turn < 3; turn++) {
            raw.write(requestText('POST', `/api/counters/${t.id}/batch`, { token: t.token, headers, body: { ops } }));
            raw.write(requestText('POST', t.path('p', 'increment'), { token: t.token, headers, body: TOTAL }));
            raw.write(requestText('GET', `${t.path('p', 'get')}?${new URLSearchParams(TOTAL)}`, { token: t.token, headers }));
        }
        for (let turn = 1; turn <= 3; turn++) {
            assert.equal((await raw.reply()).headers.get('content-encoding'), 'gzip');
            expectTriple(await raw.reply(), 2001 * turn);
            expectTriple(await raw.reply(), 2001 * turn);
        }
        raw.destroy();
    });

    test('the page, its parts, metrics and this API\'s description come packed or plain, and are the same', async () => {
        const page = await ask('/');
        const assets = [...page.body.toString().matchAll(/\/?assets\/[^"']+/g)].map(([path]) => (path.startsWith('/') ? path : `/${path}`));
        assert.ok(assets.length >= 2);
        for (const path of ['/', '/openapi.json', ...assets]) {
            const plain = await ask(path, 'identity');
            const first = await ask(path, 'gzip');
            assert.equal(plain.status, 200, path);
            assert.equal(isPacked(plain), false, path);
            if (plain.body.length <= 1024) continue;
            assert.equal(isPacked(first), true, path);
            assert.deepEqual(gunzipSync(first.body), plain.body, path);
            assert.deepEqual((await ask(path, 'gzip')).body, first.body);
            assert.deepEqual([plain.headers.vary, first.headers.vary], ['Accept-Encoding', 'Accept-Encoding']);
        }
        const metrics = await ask('/metrics', 'gzip');
        assert.match(gunzipSync(metrics.body).toString(), /^# HELP /m);
    });

    test('HEAD says what GET would, packed or plain', async () => {
        for (const path of [list(), '/', '/openapi.json']) {
            for (const accept of ['gzip', 'identity']) {
                const [get, head] = [await ask(path, accept), await ask(path, accept, { method: 'HEAD' })];
                const { date: _, ...of } = get.headers;
                const { date: __, ...same } = head.headers;
                assert.deepEqual(same, of, path);
                assert.equal(head.body.length, 0);
            }
        }
    });

    test('a stream is never gzipped', async () => {
        const reply = await fetch(`${server.url}/api/stream/${t.id}`, { headers: { Authorization: `Bearer ${t.token}`, 'Accept-Encoding': 'gzip' } });
        assert.equal(reply.headers.get('content-encoding'), null);
        await reply.body.cancel();
    });
});
