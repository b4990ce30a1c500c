// HTTP/1.1 as bytes: framing that is strict, order that is kept, clients that are slow or strange.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectTriple } from './support/expect.mjs';
import { patience, sleep, times } from './support/pace.mjs';
import { chunked, requestText } from './support/raw.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

const BODY = JSON.stringify(TOTAL);
const HEALTH = requestText('GET', '/healthz');
const GET_QUERY = '?durationSeconds=0&timestamp=0';

describe('HTTP on the wire', () => {
    const server = serverFor({ settings: { 'limits.bodyBytes': 65536 } });

    async function withRaw(work) {
        const connection = await server.raw();
        try {
            return await work(connection);
        } finally {
            connection.destroy();
        }
    }

    const incrementText = (t, name, options = {}) => requestText('POST', t.path(name, 'increment'), { token: t.token, body: BODY, ...options });

    // The server compares the header lines of a connection's next request with those of its last one and reads
    // them only where they differ: whatever differs must count.
    describe('header lines that are almost those of the request before', () => {
        const REPEATS = 3;

        /** The usual request a few times, then `odd`, all in one write; the reply to `odd`. */
        async function afterUsual(c, usual, odd) {
            c.write(usual.repeat(REPEATS) + odd);
            const replies = await c.replies(REPEATS + 1);
            assert.deepEqual(replies.slice(0, REPEATS).map((reply) => reply.status), Array(REPEATS).fill(200));
            return replies[REPEATS];
        }

        test('SPEC 4: another token counts from the request that has it, and so does none', () => withRaw(async (c) => {
            const t = server.tenant();
            const other = server.tenant();
            const end = t.token.at(-9) === 'A' ? 'B' : 'A'; // inside the signature, of the same length
            const forged = t.token.slice(0, -9) + end + t.token.slice(-8);
            const as = (token) => requestText('POST', t.path('mine', 'increment'), { token, body: BODY });
            assert.equal((await afterUsual(c, as(t.token), as(forged))).status, 401);
            assert.equal((await afterUsual(c, as(t.token), as(other.token))).status, 404);
            assert.equal((await afterUsual(c, as(t.token), as(undefined))).status, 401);
            expectTriple(await afterUsual(c, as(t.token), as(t.token)), 4 * REPEATS + 1);
        }));

        test('SPEC 5: another Idempotency-Key is another request, the same one is not', () => withRaw(async (c) => {
            const t = server.tenant();
            const keyed = (key) => incrementText(t, 'keyed', { headers: { 'Idempotency-Key': key } });
            assert.equal((await afterUsual(c, keyed('key-1'), keyed('key-2'))).body.net, '2');
            assert.equal((await afterUsual(c, keyed('key-1'), keyed('key-1'))).body.net, '1');
        }));

        test('another Content-Length is the length of its own body', () => withRaw(async (c) => {
            const t = server.tenant();
            const longer = requestText('POST', t.path('sized', 'increment'), { token: t.token, body: BODY + ' ' });
            assert.equal((await afterUsual(c, incrementText(t, 'sized'), longer)).body.net, String(REPEATS + 1));
            assert.equal((await afterUsual(c, longer, incrementText(t, 'sized'))).body.net, String(2 * REPEATS + 2));
        }));

        test('a chunked request between others of the same lines is read as one', () => withRaw(async (c) => {
            const t = server.tenant();
            const head = requestText('POST', t.path('cut', 'increment'), { token: t.token, headers: { 'Transfer-Encoding': 'chunked' } });
            const cut = head + chunked(BODY).toString();
            assert.equal((await afterUsual(c, cut, incrementText(t, 'cut'))).body.net, String(REPEATS + 1));
            assert.equal((await afterUsual(c, incrementText(t, 'cut'), cut)).body.net, String(2 * REPEATS + 2));
        }));

        for (const [what, line] of [
            ['a second Content-Length', `Content-Length: ${BODY.length}`],
            ['a Content-Length and a Transfer-Encoding', 'Transfer-Encoding: chunked'],
            ['a second Host', 'Host: tally.test'],
            ['a second Authorization', 'Authorization: Bearer x'],
            ['a second Idempotency-Key', 'Idempotency-Key: b'],
            ['a folded line', ' folded'],
        ]) {
            test(`SPEC 3: ${what} behind the usual lines is 400, and nothing behind it is answered`, () => withRaw(async (c) => {
                const t = server.tenant();
                const usual = incrementText(t, 'odd', { headers: { 'Idempotency-Key': 'a' } });
                const odd = usual.replace('\r\n\r\n', `\r\n${line}\r\n\r\n`);
                assert.equal((await afterUsual(c, usual, odd + usual)).status, 400);
                assert.equal(await c.closed(), '');
            }));
        }

        test('the usual lines in HTTP/1.0 mean what they mean there: the connection ends', () => withRaw(async (c) => {
            const t = server.tenant();
            const old = incrementText(t, 'old', { version: 'HTTP/1.0' });
            assert.equal((await afterUsual(c, incrementText(t, 'old'), old + HEALTH)).body.net, String(REPEATS + 1));
            assert.equal(await c.closed(), '');
        }));

        test('the usual request inside a body is a body', () => withRaw(async (c) => {
            const t = server.tenant();
            const usual = incrementText(t, 'inside');
            const outer = requestText('POST', t.path('inside', 'increment'), { token: t.token, body: usual });
            expectError(await afterUsual(c, usual, outer), 400, 'invalid_request');
            assert.equal((await afterUsual(c, usual, usual)).body.net, String(2 * REPEATS + 1));
        }));
    });

    describe('pipelining', () => {
        test('replies come in the order of the requests, however they finish', () => withRaw(async (c) => {
            const t = server.tenant();
            const requests = [];
            const expected = [];
            for (let i = 0; i < 100; i++) {
                const kind = i % 5;
                if (kind === 0) requests.push(incrementText(t, 'order')), expected.push(200);
                if (kind === 1) requests.push(requestText('GET', '/nowhere')), expected.push(404);
                if (kind === 2) requests.push(requestText('POST', t.path('none', 'decrementSync'), { token: t.token, body: BODY })), expected.push(409);
                if (kind === 3) requests.push(HEALTH), expected.push(200);
                if (kind === 4) requests.push(requestText('POST', t.path('order', 'increment'), { token: t.token, body: '{' })), expected.push(400);
            }
            c.write(requests.join(''));
            const replies = await c.replies(100);
            assert.deepEqual(replies.map((reply) => reply.status), expected);
            const nets = replies.filter((_, i) => i % 5 === 0).map((reply) => reply.body.net);
            assert.deepEqual(nets, Array.from({ length: 20 }, (_, i) => String(i + 1)));
        }));

        test('SPEC 3: on one connection a read sees every write sent before it', () => withRaw(async (c) => {
            const t = server.tenant();
            const rounds = times(100);
            const get = requestText('GET', t.path('mixed', 'get') + GET_QUERY, { token: t.token });
            const sum = requestText('GET', t.path('mixed', 'sumRange') + '?durationSeconds=0&startTime=0&endTime=0', { token: t.token });
            const list = requestText('GET', `/api/counters/${t.id}`, { token: t.token });
            const sync = requestText('POST', t.path('mixed', 'incrementSync'), { token: t.token, body: BODY });
            c.write((incrementText(t, 'mixed') + get + sync + sum + list).repeat(rounds));
            for (let i = 0; i < rounds; i++) {
                const [first, got, second, summed, listed] = await c.replies(5);
                assert.equal(first.status, 200);
                assert.equal(second.status, 200);
                assert.ok(Number(got.body.net) >= 2 * i + 1, `read ${got.body.net} after ${2 * i + 1}`);
                assert.ok(Number(summed.body.net) >= 2 * i + 2, `sum ${summed.body.net} after ${2 * i + 2}`);
                assert.equal(listed.body.counters.length, 1);
            }
            expectTriple(await t.get('mixed'), rounds * 2);
        }));

        test('SPEC 3: a read after a pipelined delete and re-creation sees them', () => withRaw(async (c) => {
            const t = server.tenant();
            const get = requestText('GET', t.path('phoenix', 'get') + GET_QUERY, { token: t.token });
            const remove = requestText('DELETE', t.path('phoenix'), { token: t.token });
            c.write(incrementText(t, 'phoenix') + remove + get + incrementText(t, 'phoenix') + get);
            assert.deepEqual((await c.replies(5)).map((reply) => reply.status), [200, 200, 404, 200, 200]);
        }));

        test('thousands of pipelined increments in one write are all counted, once each', () => withRaw(async (c) => {
            const t = server.tenant();
            const count = times(3000);
            c.write(incrementText(t, 'flood').repeat(count));
            const replies = await c.replies(count);
            assert.ok(replies.every((reply) => reply.status === 200));
            assert.deepEqual(replies.map((reply) => Number(reply.body.net)), Array.from({ length: count }, (_, i) => i + 1));
        }));

        test('a client that never reads its replies does not stop the others', async () => {
            const t = server.tenant();
            const deaf = await server.raw();
            deaf.deafen();
            deaf.write(requestText('GET', '/metrics').repeat(500));
            await withRaw(async (c) => assert.equal((await c.call('POST', t.path('x', 'increment'), { token: t.token, body: BODY })).status, 200));
            deaf.destroy();
        });
    });

    describe('bodies', () => {
        test('a chunked body is read whole, whatever the chunk size', () => withRaw(async (c) => {
            const t = server.tenant();
            const sizes = [1, 2, 7, 16, 4096];
            for (const [index, size] of sizes.entries()) {
                c.write(requestText('POST', t.path('chunks', 'increment'), { token: t.token, headers: { 'Transfer-Encoding': 'chunked', 'Content-Type': 'application/json' } }));
                c.write(chunked(BODY, size));
                expectTriple(await c.reply(), index + 1);
            }
        }));

        test('chunk extensions, trailers, upper and lower case sizes and leading zeros are understood', () => withRaw(async (c) => {
            const t = server.tenant();
            const head = requestText('POST', t.path('chunks', 'increment'), { token: t.token, headers: { 'Transfer-Encoding': 'Chunked', 'Content-Type': 'application/json' } });
            const hex = BODY.length.toString(16);
            const bodies = [
                `${hex};name=value\r\n${BODY}\r\n0\r\n\r\n`,
                `${hex.toUpperCase()}\r\n${BODY}\r\n0\r\n\r\n`,
                `000${hex}\r\n${BODY}\r\n000\r\n\r\n`,
                `${hex}\r\n${BODY}\r\n0\r\nX-Trailer: yes\r\n\r\n`,
            ];
            c.write(bodies.map((body) => head + body).join(''));
            for (const [index, reply] of (await c.replies(bodies.length)).entries()) expectTriple(reply, index + 1);
        }));

        test('a request split at any byte is the same request', () => withRaw(async (c) => {
            const t = server.tenant();
            const text = incrementText(t, 'split');
            const step = Math.ceil(text.length / times(150, 30));
            let count = 0;
            for (let at = 1; at < text.length; at += step) {
                c.write(text.slice(0, at));
                await new Promise(setImmediate);
                c.write(text.slice(at));
                expectTriple(await c.reply(), ++count);
            }
        }));

        test('a chunked request split at any byte is the same request', () => withRaw(async (c) => {
            const t = server.tenant();
            const text = requestText('POST', t.path('split', 'increment'), { token: t.token, headers: { 'Transfer-Encoding': 'chunked', 'Content-Type': 'application/json' } })
                + chunked(BODY, 11).toString();
            const start = text.indexOf('\r\n\r\n');
            let count = 0;
            for (let at = start; at < text.length; at += 2) {
                c.write(text.slice(0, at));
                await new Promise(setImmediate);
                c.write(text.slice(at));
                expectTriple(await c.reply(), ++count);
            }
        }));

        test('one byte at a time arrives too', () => withRaw(async (c) => {
            const t = server.tenant();
            for (const byte of incrementText(t, 'drops')) {
                c.write(byte);
                await new Promise(setImmediate);
            }
            expectTriple(await c.reply(), 1);
        }));

        test('two requests cut in the middle of the second are two requests', () => withRaw(async (c) => {
            const t = server.tenant();
            const one = incrementText(t, 'pair');
            c.write(one + one.slice(0, 40));
            expectTriple(await c.reply(), 1);
            c.write(one.slice(40) + one);
            for (const expected of [2, 3]) expectTriple(await c.reply(), expected);
        }));

        test('Expect: 100-continue is answered before the body, and the final reply follows', () => withRaw(async (c) => {
            const t = server.tenant();
            c.write(requestText('POST', t.path('expect', 'increment'), {
                token: t.token, headers: { Expect: '100-continue', 'Content-Length': BODY.length, 'Content-Type': 'application/json' },
            }));
            assert.equal((await c.reply()).status, 100);
            c.write(BODY);
            expectTriple(await c.reply(), 1);
        }));

        test('Expect: 100-continue that would be refused is refused without a 100', () => withRaw(async (c) => {
            const t = server.tenant();
            c.write(requestText('POST', t.path('expect', 'increment'), { headers: { Expect: '100-continue', 'Content-Length': BODY.length } }));
            assert.equal((await c.reply()).status, 401);
        }));

        test('SPEC 3: a body announced over the limit is 413 at once', () => withRaw(async (c) => {
            const t = server.tenant();
            c.write(requestText('POST', t.path('big', 'increment'), { token: t.token, headers: { 'Content-Length': 65537 } }));
            expectError(await c.reply(), 413, 'body_too_large');
        }));

        test('SPEC 3: a chunked body that grows over the limit is 413', () => withRaw(async (c) => {
            const t = server.tenant();
            c.write(requestText('POST', t.path('big', 'increment'), { token: t.token, headers: { 'Transfer-Encoding': 'chunked' } }));
            c.write(chunked('x'.repeat(70000), 8000));
            expectError(await c.reply(), 413, 'body_too_large');
        }));

        test('a body on a GET is swallowed', () => withRaw(async (c) => {
            c.write(requestText('GET', '/healthz', { body: 'ignored' }) + HEALTH);
            assert.deepEqual((await c.replies(2)).map((reply) => reply.status), [200, 200]);
        }));
    });

    describe('strict framing', () => {
        const post = (lines, rest = '') => `POST /api/counters/t/x/increment HTTP/1.1\r\nHost: a\r\n${lines}\r\n${rest}`;
        const REFUSED = {
            'two different lengths': post('Content-Length: 5\r\nContent-Length: 6\r\n', 'aaaaaa'),
            'the same length twice': post('Content-Length: 5\r\nContent-Length: 5\r\n', 'aaaaa'),
            'a list of lengths': post('Content-Length: 5, 5\r\n', 'aaaaa'),
            'Transfer-Encoding with Content-Length': post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
            'Content-Length with Transfer-Encoding': post('Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', '0\r\n\r\n'),
            'a negative length': post('Content-Length: -1\r\n'),
            'a length with a plus': post('Content-Length: +5\r\n', 'aaaaa'),
            'a hex length': post('Content-Length: 0x5\r\n', 'aaaaa'),
            'a length with text': post('Content-Length: 5x\r\n', 'aaaaa'),
            'an empty length': post('Content-Length: \r\n'),
            'a length past 64 bits': post('Content-Length: 99999999999999999999\r\n'),
            'chunked twice': post('Transfer-Encoding: chunked, chunked\r\n', '0\r\n\r\n'),
            'two Transfer-Encoding lines': post('Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n', '0\r\n\r\n'),
            'chunked not last': post('Transfer-Encoding: chunked, gzip\r\n', '0\r\n\r\n'),
            'a name that only looks like chunked': post('Transfer-Encoding: xchunked\r\n', '0\r\n\r\n'),
            'no Host': 'GET /healthz HTTP/1.1\r\n\r\n',
            'two Hosts': 'GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
            'a header without a colon': 'GET /healthz HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n',
            'a space before the colon': 'GET /healthz HTTP/1.1\r\nHost: a\r\nX-A : b\r\n\r\n',
            'Content-Length with a space before the colon': post('Content-Length : 5\r\n', 'aaaaa'),
            'an empty header name': 'GET /healthz HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n',
            'a folded header': 'GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n',
            'a header that starts with a space': 'GET /healthz HTTP/1.1\r\n Host: a\r\n\r\n',
            'a NUL in a header': 'GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n',
            'a bare CR in a header': 'GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: b\rc\r\n\r\n',
            'a NUL in the path': 'GET /health\0z HTTP/1.1\r\nHost: a\r\n\r\n',
            'no version': 'GET /healthz\r\nHost: a\r\n\r\n',
            'a junk version': 'GET /healthz HTTP/x\r\nHost: a\r\n\r\n',
            'two spaces': 'GET  /healthz HTTP/1.1\r\nHost: a\r\n\r\n',
            'a space in the path': 'GET /heal thz HTTP/1.1\r\nHost: a\r\n\r\n',
            'no path': 'GET HTTP/1.1\r\nHost: a\r\n\r\n',
            'a bad method character': 'G(T /healthz HTTP/1.1\r\nHost: a\r\n\r\n',
            'a TLS hello': Buffer.from('1603010200010001fc0303aabbccdd0d0a0d0a', 'hex'),
        };

        for (const [what, bytes] of Object.entries(REFUSED)) {
            test(`SPEC 3: ${what} is 400 and the connection ends`, () => withRaw(async (c) => {
                c.write(bytes);
                c.write(HEALTH);
                const reply = await c.reply();
                assert.ok(reply, 'closed without a reply');
                assert.equal(reply.status, 400);
                assert.equal(typeof reply.body?.error, 'string');
                assert.equal(await c.closed(), '', 'something was answered after the bad request');
            }));
        }

        const BAD_CHUNKS = {
            'a size that is no number': 'zz\r\nabc\r\n0\r\n\r\n',
            'an empty size': '\r\nabc\r\n0\r\n\r\n',
            'a negative size': '-1\r\nabc\r\n0\r\n\r\n',
            'a size with 0x': '0x3\r\nabc\r\n0\r\n\r\n',
            'a size with a plus': '+3\r\nabc\r\n0\r\n\r\n',
            'a size past 64 bits': 'FFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n',
            'a size that wraps round': '10000000000000003\r\nabc\r\n0\r\n\r\n',
            'data longer than its size': '2\r\nabc\r\n0\r\n\r\n',
            'no line end after the data': '3\r\nabc0\r\n\r\n',
            'a space before the size': ' 3\r\nabc\r\n0\r\n\r\n',
        };

        for (const [what, bytes] of Object.entries(BAD_CHUNKS)) {
            test(`SPEC 3: a chunk with ${what} is 400 and the connection ends`, () => withRaw(async (c) => {
                const t = server.tenant();
                c.write(requestText('POST', t.path('x', 'increment'), { token: t.token, headers: { 'Transfer-Encoding': 'chunked' } }) + bytes);
                const reply = await c.reply();
                assert.ok(reply, 'closed without a reply');
                assert.ok(reply.status === 400 || (reply.status === 413 && /64 bits|wraps/.test(what)), `${reply.status}`);
                assert.equal(await c.closed(), '');
            }));
        }

        test('unsupported versions are refused', () => withRaw(async (c) => {
            c.write('GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n');
            assert.ok([400, 505].includes((await c.reply()).status));
            await c.closed();
        }));

        test('SPEC 3: a header block over 16 KiB is 431 and the connection ends', () => withRaw(async (c) => {
            c.write(requestText('GET', '/healthz', { headers: { 'X-Big': 'x'.repeat(17000) } }));
            expectError(await c.reply(), 431);
            await c.closed();
        }));

        test('SPEC 3: a header block that never ends is 431, not memory', () => withRaw(async (c) => {
            c.write('GET /healthz HTTP/1.1\r\nHost: a\r\n');
            for (let i = 0; i < 400 && !c.isClosed; i++) c.write(`X-${i}: ${'y'.repeat(50)}\r\n`);
            const reply = await c.reply();
            assert.equal(reply.status, 431);
            await c.closed();
        }));

        test('a request line over 16 KiB is 431 or 414', () => withRaw(async (c) => {
            c.write(`GET /${'x'.repeat(17000)} HTTP/1.1\r\nHost: a\r\n\r\n`);
            assert.ok([414, 431].includes((await c.reply()).status));
        }));

        test('a header block just below 16 KiB is fine', () => withRaw(async (c) => {
            assert.equal((await c.call('GET', '/healthz', { headers: { 'X-Big': 'x'.repeat(15000) } })).status, 200);
        }));

        test('header names are not case-sensitive and values are trimmed', () => withRaw(async (c) => {
            const t = server.tenant();
            const reply = await c.call('POST', t.path('case', 'increment'), {
                headers: [['hOsT', 'a'], ['AUTHORIZATION', `  Bearer ${t.token}  `], ['content-LENGTH', ` ${BODY.length} `], ['content-type', 'application/json']],
                body: BODY,
            });
            expectTriple(reply, 1);
        }));

        test('an empty line before a request is tolerated', () => withRaw(async (c) => {
            c.write('\r\n' + HEALTH);
            assert.equal((await c.reply()).status, 200);
        }));
    });

    describe('connections', () => {
        test('a connection is kept alive over many requests', () => withRaw(async (c) => {
            for (let i = 0; i < 50; i++) assert.equal((await c.call('GET', '/healthz')).status, 200);
            assert.ok(!c.isClosed);
        }));

        test('Connection: close ends it after the reply', () => withRaw(async (c) => {
            assert.equal((await c.call('GET', '/healthz', { headers: { Connection: 'close' } })).status, 200);
            assert.equal(await c.closed(), '');
        }));

        test('requests pipelined behind Connection: close are not answered', () => withRaw(async (c) => {
            c.write(requestText('GET', '/healthz', { headers: { Connection: 'close' } }) + HEALTH);
            assert.equal((await c.reply()).status, 200);
            assert.equal(await c.closed(), '');
        }));

        test('HTTP/1.0 is answered and closed', () => withRaw(async (c) => {
            assert.equal((await c.call('GET', '/healthz', { version: 'HTTP/1.0' })).status, 200);
            await c.closed();
        }));

        test('HTTP/1.0 needs no Host', () => withRaw(async (c) => {
            c.write('GET /healthz HTTP/1.0\r\n\r\n');
            assert.equal((await c.reply()).status, 200);
        }));

        test('a client that half-closes after its requests gets every reply', () => withRaw(async (c) => {
            const t = server.tenant();
            c.write(incrementText(t, 'half').repeat(10));
            c.finish();
            for (const [index, reply] of (await c.replies(10)).entries()) expectTriple(reply, index + 1);
            await c.closed();
        }));

        test('a client that vanishes in the middle of a body changes nothing', async () => {
            const t = server.tenant();
            await withRaw(async (c) => {
                c.write(incrementText(t, 'gone').slice(0, -5));
                await sleep(20);
            });
            assert.equal((await t.get('gone')).status, 404);
        });

        test('clients that vanish before their replies do no harm', async () => {
            const t = server.tenant();
            for (let i = 0; i < times(30); i++) {
                await withRaw(async (c) => {
                    c.write(incrementText(t, 'rude').repeat(20));
                    if (i % 2) await new Promise(setImmediate);
                });
            }
            assert.equal((await server.call('GET', '/healthz')).status, 200);
        });

        test('HEAD has the headers and no body, and the connection stays in step', () => withRaw(async (c) => {
            const reply = await c.call('HEAD', '/healthz');
            assert.equal(reply.status, 200);
            assert.equal((await c.call('GET', '/healthz')).status, 200);
        }));

        test('HEAD of a counter that exists and of one that does not', () => withRaw(async (c) => {
            const t = server.tenant();
            await t.increment('there', TOTAL);
            const there = await c.call('HEAD', t.path('there', 'get') + GET_QUERY, { token: t.token });
            const absent = await c.call('HEAD', t.path('absent', 'get') + GET_QUERY, { token: t.token });
            assert.deepEqual([there.status, absent.status], [200, 404]);
            assert.equal((await c.call('GET', t.path('there', 'get') + GET_QUERY, { token: t.token })).status, 200);
        }));
    });
});

describe('slow clients', { concurrency: true }, () => {
    const idleMs = patience(2000);
    const server = serverFor({ settings: { 'timeouts.request': '1s', 'timeouts.idle': `${idleMs}ms`, 'timeouts.write': '1s' } });

    test('SPEC 3: a header that never ends is cut off', async () => {
        const c = await server.raw();
        c.write('GET /healthz HTTP/1.1\r\nHost: a\r\n');
        const feed = setInterval(() => c.write('X-A: b\r\n'), 200);
        try {
            const text = await c.closed();
            assert.ok(text === '' || /^HTTP\/1\.1 408 /.test(text), text);
        } finally {
            clearInterval(feed);
            c.destroy();
        }
    });

    test('SPEC 3: a body that never ends is cut off, and changes nothing', async () => {
        const t = server.tenant();
        const c = await server.raw();
        c.write(requestText('POST', t.path('slow', 'increment'), { token: t.token, headers: { 'Content-Length': 1000 } }));
        const feed = setInterval(() => c.write(' '), 200);
        try {
            const text = await c.closed();
            assert.ok(text === '' || /^HTTP\/1\.1 408 /.test(text), text);
        } finally {
            clearInterval(feed);
            c.destroy();
        }
        assert.equal((await t.get('slow')).status, 404);
    });

    test('SPEC 3: a client that takes no byte of its replies is cut off', async () => {
        const c = await server.raw();
        c.deafen();
        const asked = 3000;
        c.write(requestText('GET', '/metrics').repeat(asked));
        await sleep(3000);
        c.listen();
        const text = await c.closed();
        const answered = text.split('HTTP/1.1 200').length - 1;
        assert.ok(answered < asked, `all ${answered} replies were kept for a client that did not read`);
        c.destroy();
    });

    test('SPEC 3: an idle connection is closed in silence', async () => {
        const c = await server.raw();
        assert.equal((await c.call('GET', '/healthz')).status, 200);
        assert.equal(await c.closed(), '');
        c.destroy();
    });

    test('a connection that is in use is not idle', async () => {
        const c = await server.raw();
        for (let i = 0; i < 6; i++) {
            assert.equal((await c.call('GET', '/healthz')).status, 200);
            await sleep(idleMs / 4);
        }
        c.destroy();
    });
});
