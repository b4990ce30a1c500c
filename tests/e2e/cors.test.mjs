// Pages of other sites: which may read a reply, and what a browser asks before it sends a request.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { expectError, expectTriple } from './support/expect.mjs';
import { runTally, serverFor, TOTAL } from './support/server.mjs';

const APP = 'https://app.example';
const lines = (reply) => [...reply.headers].filter(([name]) => name.startsWith('access-control-'));
const preflight = (raw, path, { origin = APP, method = 'POST', headers = 'authorization,content-type' } = {}) =>
    raw.call('OPTIONS', path, { headers: { Origin: origin, 'Access-Control-Request-Method': method, 'Access-Control-Request-Headers': headers } });

describe('cors.origins: a list', () => {
    const server = serverFor({ settings: { 'cors.origins': `[${APP}, "http://localhost:3000"]`, 'limits.bodyBytes': '1MiB' } });

    test('SPEC 3: a preflight by a listed origin is 204 and names what the path takes', async () => {
        const t = server.tenant();
        const raw = await server.raw();
        for (const origin of [APP, 'http://localhost:3000']) {
            const reply = await preflight(raw, t.path('n', 'increment'), { origin });
            assert.equal(reply.status, 204, reply.text);
            assert.equal(reply.headers.get('access-control-allow-origin'), origin);
            assert.equal(reply.headers.get('access-control-allow-methods'), 'POST');
            const allowed = reply.headers.get('access-control-allow-headers').toLowerCase().split(', ');
            for (const name of ['authorization', 'idempotency-key', 'content-type']) assert.ok(allowed.includes(name), name);
            assert.match(reply.headers.get('access-control-max-age'), /^\d+$/);
            assert.equal(reply.headers.get('vary'), 'Origin');
            assert.equal(reply.headers.get('access-control-allow-credentials'), undefined);
        }
        assert.equal((await preflight(raw, t.path('n'), { method: 'DELETE' })).headers.get('access-control-allow-methods'), 'DELETE');
        assert.equal((await preflight(raw, `/api/events/${t.id}`)).headers.get('access-control-allow-methods'), 'POST, GET, HEAD');
        assert.equal((await preflight(raw, '/nowhere')).status, 404);
        expectTriple(await raw.call('POST', t.path('n', 'increment'), { token: t.token, headers: { Origin: APP }, body: TOTAL }), 1);
        raw.destroy();
    });

    test('SPEC 3: every reply to a listed origin may be read, refusals too', async () => {
        const t = server.tenant();
        const raw = await server.raw();
        const call = (method, path, options = {}) =>
            raw.call(method, path, { token: t.token, ...options, headers: { Origin: APP, ...options.headers } });
        const replies = {
            200: await call('POST', t.path('n', 'increment'), { body: TOTAL }),
            400: await call('POST', t.path('n', 'increment'), { body: {} }),
            401: await call('POST', t.path('n', 'increment'), { token: 'x', body: TOTAL }),
            404: await call('GET', `${t.path('none', 'get')}?durationSeconds=0&timestamp=0`),
            405: await call('PATCH', t.path('n', 'increment')),
            409: await call('POST', t.path('n', 'decrement'), { body: { ...TOTAL, amount: 9 } }),
            415: await call('POST', t.path('n', 'increment'), { headers: { 'Content-Encoding': 'br' }, body: TOTAL }),
            413: await call('POST', t.path('n', 'increment'), { body: ' '.repeat((1 << 20) + 1) }),
        };
        for (const [status, reply] of Object.entries(replies)) {
            assert.equal(String(reply.status), status, reply.text);
            assert.equal(reply.headers.get('access-control-allow-origin'), APP, status);
            assert.equal(reply.headers.get('vary'), 'Origin', status);
            const exposed = reply.headers.get('access-control-expose-headers').split(', ');
            for (const name of ['Tally-Sequence', 'Retry-After', 'Idempotent-Replayed']) assert.ok(exposed.includes(name), name);
            assert.equal(reply.headers.get('access-control-allow-credentials'), undefined);
        }
        raw.destroy();
    });

    test('SPEC 3: exactly those: another origin is answered as if there were none', async () => {
        const t = server.tenant();
        const raw = await server.raw();
        for (const origin of ['https://evil.example', `${APP}.evil.example`, 'http://app.example', `${APP}:443`, 'HTTPS://APP.EXAMPLE', 'null', '*', '']) {
            const reply = await raw.call('POST', t.path('n', 'increment'), { token: t.token, headers: { Origin: origin }, body: TOTAL });
            assert.equal(reply.status, 200);
            assert.deepEqual(lines(reply), [], origin);
            assert.equal(reply.headers.get('vary'), 'Origin');
            const asked = await preflight(raw, t.path('n', 'increment'), { origin });
            expectError(asked, 405, 'method_not_allowed');
            assert.equal(asked.headers.get('allow'), 'POST');
            assert.deepEqual(lines(asked), []);
        }
        const none = await raw.call('GET', '/healthz');
        assert.equal(none.headers.get('vary'), 'Origin');
        assert.deepEqual(lines(none), []);
        raw.destroy();
    });

    test('OPTIONS that is no preflight stays 405 with Allow', async () => {
        const raw = await server.raw();
        const reply = await raw.call('OPTIONS', '/healthz', { headers: { Origin: APP } });
        expectError(reply, 405, 'method_not_allowed');
        assert.equal(reply.headers.get('allow'), 'GET, HEAD');
        assert.equal(reply.headers.get('access-control-allow-origin'), APP);
        raw.destroy();
    });

    test('a stream may be read too', async () => {
        const t = server.tenant();
        const reply = await fetch(`${server.url}/api/stream/${t.id}`, { headers: { Authorization: `Bearer ${t.token}`, Origin: APP } });
        assert.equal(reply.status, 200);
        assert.equal(reply.headers.get('access-control-allow-origin'), APP);
        await reply.body.cancel();
    });

    test('a gzipped request of a page is allowed by its preflight', async () => {
        const t = server.tenant();
        const raw = await server.raw();
        const allowed = (await preflight(raw, t.path('n', 'increment'))).headers.get('access-control-allow-headers');
        assert.match(allowed, /\bContent-Encoding\b/);
        raw.destroy();
        const reply = await t.increment('n', gzipSync(JSON.stringify(TOTAL)), { 'Content-Encoding': 'gzip', Origin: APP });
        expectTriple(reply, 1);
    });
});

describe('cors.origins: any', () => {
    const server = serverFor({ settings: { 'cors.origins': '*' } });

    test('SPEC 3: every origin may read, and the reply is the same for all', async () => {
        const t = server.tenant();
        const raw = await server.raw();
        for (const origin of [APP, 'null']) {
            const reply = await raw.call('POST', t.path('n', 'increment'), { headers: { Origin: origin }, body: TOTAL });
            assert.equal(reply.status, 401);
            assert.equal(reply.headers.get('access-control-allow-origin'), '*');
            assert.equal(reply.headers.get('vary'), undefined);
            assert.equal((await preflight(raw, t.path('n', 'increment'), { origin })).status, 204);
        }
        assert.deepEqual(lines(await raw.call('GET', '/healthz')), []);
        raw.destroy();
    });
});

describe('cors.origins: none', () => {
    const server = serverFor();

    test('SPEC 3: by default no reply has a word of CORS', async () => {
        const t = server.tenant();
        const raw = await server.raw();
        const replies = [
            await preflight(raw, t.path('n', 'increment')),
            await raw.call('POST', t.path('n', 'increment'), { token: t.token, headers: { Origin: APP }, body: TOTAL }),
        ];
        assert.deepEqual(replies.map((one) => one.status), [405, 200]);
        for (const reply of replies) assert.deepEqual([...lines(reply), reply.headers.get('vary')], [undefined]);
        raw.destroy();
    });

    test('an origin that no browser sends refuses to start and says why', async () => {
        const { code, stderr } = await runTally(['serve', '--dev', '--set', 'cors.origins=[https://app.example/]']);
        assert.equal(code, 2);
        assert.match(stderr, /cors\.origins: "https:\/\/app\.example\/" is not an origin as browsers send it/);
    });
});
