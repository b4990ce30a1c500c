// Which complaint comes first, and what a path may look like.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, NOT_FOUND, UNAUTHORIZED } from './support/expect.mjs';
import { requestText } from './support/raw.mjs';
import { serverFor, TOTAL } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

const GET_QUERY = '?durationSeconds=0&timestamp=0';
const RANGE_QUERY = '?durationSeconds=60&startTime=0&endTime=60';
const BODY_MAX = 65536;

/** Every call of the contract on one counter: [method, path below the tenant, body]. */
const CALLS = [
    ['POST', '/x/increment', TOTAL],
    ['POST', '/x/decrement', TOTAL],
    ['POST', '/x/incrementSync', TOTAL],
    ['POST', '/x/decrementSync', TOTAL],
    ['PUT', '/x/set', { ...TOTAL, targetValue: 1 }],
    ['GET', `/x/get${GET_QUERY}`],
    ['GET', `/x/sumRange${RANGE_QUERY}`],
    ['GET', `/x/series${RANGE_QUERY}`],
    ['GET', ''],
    ['POST', '/batch', { ops: [{ op: 'increment', name: 'x', ...TOTAL }] }],
    ['POST', '/query', { queries: [{ get: { name: 'x', ...TOTAL } }] }],
    ['DELETE', '/x'],
];

const label = ([method, path]) => `${method} ${path || '(list)'}`;

describe('paths and the order of checks', () => {
    const server = serverFor({ settings: { 'limits.bodyBytes': BODY_MAX } });
    const rawCall = async (method, path, options) => {
        const connection = await server.raw();
        try {
            return await connection.call(method, path, options);
        } finally {
            connection.destroy();
        }
    };

    test('S3-76: an unknown path is a JSON 404, before any token is looked at', async () => {
        const paths = [
            '/nowhere', '/api', '/api/', '/api/counters', '/api/counters/t/x/unknown', '/api/counters/t/x/Increment',
            '/api/counters/t/x/increment/', '/api/counters/t/x/increment/more', '/API/counters/t/x/increment', '/api/other/t/x',
            '//api/counters/t/x/increment', '/api//counters/t/x/increment', '/healthz/', '/Healthz',
        ];
        for (const path of paths) {
            for (const options of [{}, { token: 'junk' }, { token: tokenFor('t') }]) {
                const reply = await server.call('GET', path, options);
                assert.equal(reply.status, 404, `${path}: ${reply.status}`);
                expectError(reply, 404, 'not_found');
            }
        }
    });

    const METHODS = [
        ['/api/counters/t/x/increment', 'POST', ['GET', 'PUT', 'DELETE', 'PATCH']],
        ['/api/counters/t/x/decrement', 'POST', ['GET', 'PUT']],
        ['/api/counters/t/x/incrementSync', 'POST', ['GET', 'PUT']],
        ['/api/counters/t/x/decrementSync', 'POST', ['GET', 'PUT']],
        ['/api/counters/t/x/set', 'PUT', ['GET', 'POST', 'DELETE']],
        ['/api/counters/t/x/get', 'GET', ['POST', 'PUT', 'DELETE']],
        ['/api/counters/t/x/sumRange', 'GET', ['POST', 'PUT']],
        ['/api/counters/t/x/series', 'GET', ['POST', 'PUT']],
        ['/api/counters/t/batch', 'POST', ['PUT', 'PATCH']],
        ['/api/counters/t/query', 'POST', ['PUT', 'PATCH']],
        ['/api/counters/t/x', 'DELETE', ['PUT', 'POST']],
        ['/api/counters/t', 'GET', ['POST', 'PUT', 'DELETE']],
        ['/healthz', 'GET', ['POST', 'DELETE']],
        ['/metrics', 'GET', ['POST']],
    ];

    test('S3-76, S3-58: a wrong method is a JSON 405 with Allow, before any token is looked at', async () => {
        for (const [path, allowed, wrong] of METHODS) {
            for (const method of wrong) {
                for (const token of [undefined, tokenFor('t')]) {
                    const reply = await server.call(method, path, { token });
                    assert.equal(reply.status, 405, `${method} ${path}: ${reply.status}`);
                    expectError(reply, 405, 'method_not_allowed');
                    const allow = (reply.headers.get('allow') ?? '').split(/, */);
                    assert.ok(allow.includes(allowed), `${method} ${path}: Allow: ${allow}`);
                    assert.ok(!allow.includes(method), `${method} ${path}: Allow: ${allow}`);
                }
            }
        }
    });

    test('S3-58: POST on set performs no set', async () => {
        const t = server.tenant();
        await t.call('POST', t.path('posted', 'set'), { body: { ...TOTAL, targetValue: 5 } });
        expectExactly(await t.get('posted'), 404, NOT_FOUND);
    });

    test('S3-08, S3-69: every call without a token is exactly the 401, whatever else is wrong', async () => {
        for (const [method, path, body] of CALLS) {
            expectExactly(await server.call(method, `/api/counters/t${path}`, { body }), 401, UNAUTHORIZED);
            if (!body) continue;
            expectExactly(await server.call(method, `/api/counters/t${path}`, { body: '{' }), 401, UNAUTHORIZED);
            expectExactly(await server.call(method, `/api/counters/bad%20tenant${path}`, { body: '{' }), 401, UNAUTHORIZED);
        }
    });

    test('A-25: the 401 does not wait for the body', async () => {
        const connection = await server.raw();
        connection.write('POST /api/counters/t/x/increment HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n');
        assert.equal((await connection.reply()).status, 401);
        connection.destroy();
    });

    test('S3-11: a foreign tenant is 404 on every call, whatever else is wrong', async () => {
        const t = server.tenant();
        const other = server.tenant();
        await other.increment('x', TOTAL);
        for (const call of CALLS) {
            const [method, path, body] = call;
            const options = [{ body }];
            if (body) options.push({ body: '{' }, { body: 'x'.repeat(BODY_MAX + 1) }, { body, headers: { 'Idempotency-Key': 'k'.repeat(300) } });
            for (const option of options) {
                const reply = await t.call(method, `/api/counters/${other.id}${path}`, option);
                assert.equal(reply.status, 404, `${label(call)}: ${reply.status}`);
                assert.equal(reply.text, '{"error":"not found","code":"not_found"}');
            }
        }
        expectTriple(await other.get('x'), 1);
    });

    test('S3-12: the 404 of a foreign tenant equals the 404 of a missing counter in status, headers and bytes', async () => {
        const t = server.tenant();
        const other = server.tenant();
        await other.increment('x', TOTAL);
        const raw = (tenant) => rawCall('GET', `/api/counters/${tenant}/x/get${GET_QUERY}`, { token: t.token });
        const shape = (reply) => ({
            status: reply.status,
            reason: reply.reason,
            text: reply.text,
            headers: [...reply.headers].filter(([name]) => name !== 'date'),
        });
        const missing = shape(await raw(t.id));
        assert.deepEqual(shape(await raw(other.id)), missing);
        assert.deepEqual(shape(await raw('nobody')), missing);
        assert.deepEqual(shape(await raw('bad%20tenant')), missing);
        assert.equal(missing.text, '{"error":"not found","code":"not_found"}');
    });

    test('SPEC 3: a malformed tenant id is a foreign one', async () => {
        const t = server.tenant();
        for (const id of ['a%20b', 'a%2Fb', '%F0%9F%94%A5', '%00', 'x'.repeat(256), `${t.id}%20`, `%20${t.id}`, `${t.id}%00`]) {
            expectExactly(await t.call('GET', `/api/counters/${id}/x/get${GET_QUERY}`), 404, NOT_FOUND);
            expectExactly(await t.call('POST', `/api/counters/${id}/x/increment`, { body: TOTAL }), 404, NOT_FOUND);
        }
    });

    test('S3-18, A-27f: tenant ids are compared whole and with their case', async () => {
        const token = tokenFor('Case');
        expectTriple(await server.call('POST', '/api/counters/Case/x/increment', { token, body: TOTAL }), 1);
        for (const id of ['case', 'CASE', 'Cas', 'Case2']) {
            expectExactly(await server.call('POST', `/api/counters/${id}/x/increment`, { token, body: TOTAL }), 404, NOT_FOUND);
        }
    });

    test('SPEC 3: a missing scope is 403 before the body is judged, and after the tenant is', async () => {
        const reader = server.tenant('reader', { scope: 'read' });
        const writer = server.tenant('writer', { scope: 'write' });
        for (const call of CALLS) {
            const [method, path, body] = call;
            const reads = method === 'GET' || path === '/query';
            const poor = reads ? writer : reader;
            for (const text of body ? [body, '{', 'x'.repeat(BODY_MAX + 1)] : [undefined]) {
                const reply = await poor.call(method, `/api/counters/${poor.id}${path}`, { body: text });
                assert.equal(reply.status, 403, `${label(call)}: ${reply.status} ${reply.text}`);
                expectError(reply, 403, 'forbidden');
            }
            expectExactly(await poor.call(method, `/api/counters/elsewhere${path}`, { body }), 404, NOT_FOUND);
        }
    });

    test('SPEC 3: a body over limits.bodyBytes is 413', async () => {
        const t = server.tenant();
        const padded = (length) => {
            const text = JSON.stringify({ ...TOTAL, 'x-note': '' });
            return text.replace('"x-note":""', `"x-note":"${'x'.repeat(length - text.length)}"`);
        };
        expectTriple(await t.increment('big', padded(BODY_MAX)), 1);
        expectError(await t.increment('big', padded(BODY_MAX + 1)), 413, 'body_too_large');
        expectTriple(await t.get('big'), 1);
    });

    test('S3-14: a name of 255 characters is accepted, one of 256 is 400', async () => {
        const t = server.tenant();
        expectTriple(await t.increment('n'.repeat(255), TOTAL), 1);
        expectTriple(await t.get('n'.repeat(255)), 1);
        expectError(await t.increment('n'.repeat(256), TOTAL), 400);
        expectError(await t.get('n'.repeat(256)), 400);
    });

    test('A-27f: a tenant id of 255 characters is accepted', async () => {
        const t = server.tenant('T'.repeat(255));
        expectTriple(await t.increment('x', TOTAL), 1);
    });

    test('S3-16, S3-17, A-24: every URL-safe character is accepted, and one is enough', async () => {
        const t = server.tenant();
        for (const name of ['user_logins', 'api_calls_v2', 'payment_success', 'cache_hits', 'a', '_', '~', '-', '0', 'A.b-c_d~e', 'x..y', '...', 'user:42', ':']) {
            expectTriple(await t.increment(name, TOTAL), 1);
            expectTriple(await t.get(name), 1);
        }
    });

    test('SPEC 14: a counter may have colons in its name, a tenant may not', async () => {
        const t = server.tenant();
        expectTriple(await t.increment('page%3Ahits', TOTAL), 1);
        assert.deepEqual((await t.list()).body.counters.map(({ name }) => name), ['page:hits']);
        const other = await rawCall('GET', '/api/counters/a:b', { token: t.token });
        expectError(other, 404);
    });

    test('S3-15, A-24, defect 20: names outside the alphabet are 400 when they arrive percent-encoded', async () => {
        const t = server.tenant();
        const names = [
            'user%20logins', 'api%2Fcalls', 'api%2fcalls', '%2F', '%F0%9F%94%A5', 'a%00', '%0A', 'a%0D%0Ab', 'caf%C3%A9', 'a+b', 'a%2Bb', 'a@b',
            'a!b', 'a*b', "a'b", 'a(b)', 'a,b', 'a;b', 'a=b', 'a&b', 'a%25b', 'a%5Cb', 'a%3Fb', 'a%23b', '%FF', '%C0%AF', '%e2%80%8b',
        ];
        for (const name of names) {
            for (const reply of [await rawCall('POST', t.path(name, 'increment'), { token: t.token, body: TOTAL }),
                await rawCall('GET', t.path(name, 'get') + GET_QUERY, { token: t.token }),
                await rawCall('DELETE', t.path(name), { token: t.token })]) {
                assert.equal(reply.status, 400, `${name}: ${reply.status} ${reply.text}`);
                expectError(reply, 400);
            }
        }
        assert.deepEqual((await t.list()).body.counters, []);
    });

    test('A-24: a bad percent escape is 400', async () => {
        const t = server.tenant();
        for (const name of ['%', '%2', '%zz', '%2G', 'a%', 'a%%20', '%u0041']) {
            const reply = await rawCall('POST', t.path(name, 'increment'), { token: t.token, body: TOTAL });
            assert.equal(reply.status, 400, `${name}: ${reply.status}`);
        }
    });

    test('A-24: percent-decoding happens once', async () => {
        const t = server.tenant();
        await t.increment('abc', TOTAL);
        expectTriple(await rawCall('GET', t.path('%61b%63', 'get') + GET_QUERY, { token: t.token }), 1);
        for (const name of ['%2561bc', '%252F', '%25']) {
            const reply = await rawCall('GET', t.path(name, 'get') + GET_QUERY, { token: t.token });
            assert.equal(reply.status, 400, `${name}: ${reply.status}`);
        }
    });

    test('A-24: "." and ".." are names or 400, never steps in the path', async () => {
        const t = server.tenant();
        const other = server.tenant();
        await other.increment('x', { ...TOTAL, amount: 77 });
        for (const name of ['.', '..', '%2e', '%2e%2e', '.%2E']) {
            const reply = await rawCall('POST', t.path(name, 'increment'), { token: t.token, body: TOTAL });
            assert.ok(reply.status === 200 || reply.status === 400, `${name}: ${reply.status}`);
        }
        const climbing = [`/api/counters/${t.id}/../${other.id}/x/get`, `/api/counters/${t.id}/%2e%2e/${other.id}/x/get`, '/api/../healthz', '/./healthz', '/x/../healthz'];
        for (const path of climbing) {
            const reply = await rawCall('GET', path + GET_QUERY, { token: t.token });
            assert.equal(reply.status, 404, `${path}: ${reply.status}`);
        }
    });

    test('defect 20: %2F never separates segments', async () => {
        const t = server.tenant();
        for (const path of [`/api/counters/${t.id}%2Fx/increment`, `/api/counters%2F${t.id}/x/increment`, `/api/counters/${t.id}/x%2Fincrement`]) {
            const reply = await rawCall('POST', path, { token: t.token, body: TOTAL });
            assert.ok([400, 404, 405].includes(reply.status), `${path}: ${reply.status}`);
        }
        assert.deepEqual((await t.list()).body.counters, []);
    });

    test('A-24: an empty name is no name', async () => {
        const t = server.tenant();
        const reply = await rawCall('POST', t.path('', 'increment').replace('//', '/'), { token: t.token, body: TOTAL });
        assert.ok([400, 404, 405].includes(reply.status), `${reply.status}`);
        const double = await rawCall('POST', `/api/counters/${t.id}//increment`, { token: t.token, body: TOTAL });
        assert.ok([400, 404].includes(double.status), `${double.status}`);
    });

    test('counters may bear the names of calls', async () => {
        const t = server.tenant();
        for (const name of ['get', 'set', 'increment', 'batch', 'query', 'series', 'api', 'counters']) {
            expectTriple(await t.increment(name, TOTAL), 1);
            expectTriple(await t.get(name), 1);
            assert.equal((await t.delete(name)).status, 200, name);
        }
    });

    test('query strings: percent and plus decoding, unknown parameters, odd but harmless ampersands', async () => {
        const t = server.tenant();
        await t.increment('q', { durationSeconds: 60, timestamp: '2024-03-15T10:30:00Z' });
        const queries = [
            '?durationSeconds=60&timestamp=2024-03-15T10%3A30%3A00Z',
            '?durationSeconds=60&timestamp=2024-03-15T12:30:00%2B02:00',
            '?timestamp=1710498600&durationSeconds=60&_unknown=1',
            '?&durationSeconds=60&&timestamp=1710498600&',
            '?duration%53econds=60&timestamp=1710498600',
        ];
        for (const query of queries) {
            const reply = await rawCall('GET', t.path('q', 'get') + query, { token: t.token });
            assert.equal(reply.status, 200, `${query}: ${reply.status} ${reply.text}`);
        }
    });

    test('a refusal on the headers leaves the connection usable and swallows the body', async () => {
        const t = server.tenant();
        const connection = await server.raw();
        const body = JSON.stringify(TOTAL);
        connection.write(requestText('POST', '/nowhere', { body })
            + requestText('PUT', t.path('x', 'increment'), { body })
            + requestText('POST', t.path('x', 'increment'), { body })
            + requestText('POST', '/api/counters/foreign/x/increment', { token: t.token, body })
            + requestText('POST', t.path('x', 'increment'), { token: t.token, body }));
        const statuses = (await connection.replies(5)).map((reply) => reply.status);
        assert.deepEqual(statuses, [404, 405, 401, 404, 200]);
        connection.destroy();
    });
});
