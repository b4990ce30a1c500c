// Who may do what: tokens, keys, scopes, and the ways to forge them.

import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, NOT_FOUND, UNAUTHORIZED } from './support/expect.mjs';
import { eventually, patience, sleep, within } from './support/pace.mjs';
import { newDirectory, removeDirectory, runTally, Server, serverFor, spawnTally, TOTAL } from './support/server.mjs';
import { base64url, jws, jwt, nowSeconds, SECRET, tokenFor } from './support/tokens.mjs';

const URL_INCREMENT = '/api/counters/acme/x/increment';
const HOUR_AHEAD = () => nowSeconds() + 3600;

function increments(server, token, headers = {}) {
    return server.call('POST', URL_INCREMENT, { token, headers, body: TOTAL });
}

async function expectRefused(server, tokens) {
    for (const [what, token] of Object.entries(tokens)) {
        const reply = await increments(server, token);
        assert.equal(reply.status, 401, `${what}: ${reply.status} ${reply.text}`);
        assert.deepEqual(reply.body, UNAUTHORIZED, what);
    }
}

describe('HS256 tokens', () => {
    const server = serverFor();

    test('S3-09: a signed token whose sub is the tenant is accepted', async () => {
        assert.equal((await increments(server, tokenFor('acme'))).status, 200);
        assert.equal((await increments(server, tokenFor('acme', { iat: nowSeconds(), jti: 'x', custom: { a: [1] } }))).status, 200);
    });

    test('S3-10: a malformed Authorization header is 401', async () => {
        const good = tokenFor('acme');
        const values = ['', 'Bearer', 'Bearer ', `Basic ${good}`, good, `Bearer${good}`, `Token ${good}`, `Bearer ${good} x`, `Bearer ${good},`,
            'Bearer x', 'Bearer a.b', 'Bearer a.b.c', 'Bearer ...', 'Bearer ..', `Bearer .${good}`, `Bearer ${good}.`, `Bearer ${good}.x`];
        for (const value of values) {
            const reply = await server.call('POST', URL_INCREMENT, { headers: { Authorization: value }, body: TOTAL });
            assert.equal(reply.status, 401, `${value}: ${reply.status}`);
        }
    });

    test('S3-10: forged, altered and outdated tokens are 401', async () => {
        const claims = { sub: 'acme', exp: HOUR_AHEAD() };
        const good = jwt(claims);
        const [head, body, signature] = good.split('.');
        const flipped = (signature[0] === 'A' ? 'B' : 'A') + signature.slice(1);
        await expectRefused(server, {
            'alg none, no signature': jwt(claims, { alg: 'none' }),
            'alg None': jwt(claims, { alg: 'None' }),
            'alg none, a signature': `${base64url('{"alg":"none"}')}.${body}.${signature}`,
            'alg HS384': jwt(claims, { alg: 'HS384' }),
            'alg HS512': jwt(claims, { alg: 'HS512' }),
            'alg lower case': jwt(claims, { header: { alg: 'hs256' } }),
            'alg a number': jwt(claims, { header: { alg: 256 } }),
            'alg an array': jwt(claims, { header: { alg: ['HS256'] } }),
            'alg missing': jwt(claims, { header: { alg: undefined } }),
            'alg RS256 over an HMAC': jwt(claims, { header: { alg: 'RS256' } }),
            'another secret': jwt(claims, { key: 'another-secret-0123456789abcdef0123456789' }),
            'the secret with a byte more': jwt(claims, { key: `${SECRET}x` }),
            'the empty secret': jwt(claims, { key: '' }),
            'a flipped signature': `${head}.${body}.${flipped}`,
            'a cut signature': `${head}.${body}.${signature.slice(0, -4)}`,
            'a longer signature': `${head}.${body}.${signature}AAAA`,
            'no signature': `${head}.${body}.`,
            'another body': `${head}.${base64url(JSON.stringify({ ...claims, scope: 'admin' }))}.${signature}`,
            'a body that is no JSON': jws('{'),
            'a body that is an array': jws('[]'),
            'a body that is null': jws('null'),
            'expired an hour ago': tokenFor('acme', { exp: nowSeconds() - 3600 }),
            'expired now': tokenFor('acme', { exp: nowSeconds() }),
            'exp 0': tokenFor('acme', { exp: 0 }),
            'exp negative': tokenFor('acme', { exp: -1 }),
            'exp missing': jwt({ sub: 'acme' }),
            'exp null': tokenFor('acme', { exp: null }),
            'exp a string': tokenFor('acme', { exp: String(HOUR_AHEAD()) }),
            'exp an object': tokenFor('acme', { exp: {} }),
            'exp true': tokenFor('acme', { exp: true }),
            'not before an hour': tokenFor('acme', { nbf: HOUR_AHEAD() }),
            'nbf a string': tokenFor('acme', { nbf: '0' }),
            'sub missing': jwt({ exp: HOUR_AHEAD() }),
            'sub null': tokenFor(null),
            'sub a number': tokenFor(5),
            'sub an array': tokenFor(['acme']),
            'scope a number': tokenFor('acme', { scope: 7 }),
            'scope an array': tokenFor('acme', { scope: ['read', 'write'] }),
            'crit': jwt(claims, { header: { crit: ['exp'], exp: HOUR_AHEAD() } }),
            'crit with b64': jwt(claims, { header: { crit: ['b64'], b64: true } }),
        });
        assert.equal((await increments(server, good)).status, 200);
    });

    test('S3-10: a token that nbf allows works', async () => {
        assert.equal((await increments(server, tokenFor('acme', { nbf: nowSeconds() - 5 }))).status, 200);
    });

    test('SPEC 4: a token accepted before is not accepted past its exp', async () => {
        const token = tokenFor('acme', { exp: nowSeconds() + 2 });
        assert.equal((await increments(server, token)).status, 200);
        await eventually('the token to expire', async () => (await increments(server, token)).status === 401, { every: 200 });
    });

    test('S3-11: a token of one tenant is 404 elsewhere', async () => {
        expectExactly(await increments(server, tokenFor('other')), 404, NOT_FOUND);
    });

    test('SPEC 4: scope decides; absent means read and write', async () => {
        const read = (token) => server.call('GET', '/api/counters/acme/x/get?durationSeconds=0&timestamp=0', { token });
        await increments(server, tokenFor('acme'));
        const table = [
            [undefined, 200, 200],
            ['read write', 200, 200],
            ['write read', 200, 200],
            ['read', 200, 403],
            ['write', 403, 200],
            ['admin', 200, 200],
            ['other read', 200, 403],
            ['', 403, 403],
            ['reader writer', 403, 403],
            ['READ', 403, 403],
            ['readwrite', 403, 403],
        ];
        for (const [scope, reading, writing] of table) {
            const token = tokenFor('acme', scope === undefined ? {} : { scope });
            assert.equal((await read(token)).status, reading, `read with ${scope}`);
            const written = await increments(server, token);
            assert.equal(written.status, writing, `write with ${scope}`);
            if (writing === 403) expectError(written, 403, 'forbidden');
        }
    });

    test('SPEC 4: admin acts for any tenant, others do not', async () => {
        const admin = tokenFor('operator', { scope: 'admin' });
        expectTriple(await server.call('POST', '/api/counters/anyone/y/increment', { token: admin, body: { ...TOTAL, amount: 4 } }), 4);
        expectTriple(await server.tenant('anyone').get('y'), 4);
        expectExactly(await server.tenant('operator').get('y'), 404, NOT_FOUND);
        const reply = await server.call('POST', '/api/counters/bad%20one/y/increment', { token: admin, body: TOTAL });
        assert.ok(reply.status === 400 || reply.status === 404, `${reply.status}`);
    });

    test('SPEC 4: a sub that is no tenant id opens nothing', async () => {
        for (const sub of ['a/b', 'a b', '..%2f', 'x'.repeat(256)]) {
            const reply = await server.call('POST', `/api/counters/${encodeURIComponent(sub)}/x/increment`, { token: tokenFor(sub), body: TOTAL });
            assert.ok([400, 401, 404].includes(reply.status), `${sub}: ${reply.status}`);
        }
    });

    test('a repeated Authorization header is refused', async () => {
        const connection = await server.raw();
        const reply = await connection.call('POST', URL_INCREMENT, {
            headers: [['Authorization', `Bearer ${tokenFor('other')}`], ['Authorization', `Bearer ${tokenFor('acme')}`]], body: TOTAL,
        });
        assert.ok(reply.status === 400 || reply.status === 401, `${reply.status}`);
        connection.destroy();
    });
});

describe('what is wrong with a token', () => {
    const server = serverFor({ settings: { 'auth.issuer': 'https://issuer.test', 'auth.audience': 'tally' } });
    const good = { iss: 'https://issuer.test', aud: 'tally' };
    const flaws = {
        missing: [undefined, ''],
        malformed: ['Bearer', `Basic ${base64url('user:password')}`, 'Bearer x', 'Bearer a.b.c', `Bearer ${jws('{')}`, `Bearer ${jwt({ sub: 'acme', ...good })}`,
            `Bearer ${tokenFor('acme', { ...good, exp: 'soon' })}`, `Bearer ${tokenFor('', good)}`, `Bearer ${tokenFor('acme', { ...good, scope: 5 })}`, `Bearer ${tokenFor('acme', good, { alg: 'none' })}`],
        signature: [`Bearer ${tokenFor('acme', good, { key: 'another-secret-0123456789abcdef0123456789' })}`,
            `Bearer ${tokenFor('acme', { exp: 1 }, { alg: 'HS512' })}`, `Bearer ${tokenFor('acme', { exp: 1 }, { key: `${SECRET}x` })}`],
        expired: [`Bearer ${tokenFor('acme', { ...good, exp: nowSeconds() - 1 })}`],
        'not yet valid': [`Bearer ${tokenFor('acme', { ...good, nbf: nowSeconds() + 600 })}`],
        'wrong issuer': [`Bearer ${tokenFor('acme', { aud: 'tally' })}`],
        'wrong audience': [`Bearer ${tokenFor('acme', { iss: good.iss, aud: 'others' })}`, `Bearer ${tokenFor('acme', { iss: good.iss })}`],
    };

    test('SPEC 3: WWW-Authenticate of a 401 says it; the body is the same for all', async () => {
        for (const [flaw, values] of Object.entries(flaws)) {
            for (const value of values) {
                const reply = await server.call('POST', URL_INCREMENT, { headers: value === undefined ? {} : { Authorization: value }, body: TOTAL });
                expectExactly(reply, 401, UNAUTHORIZED);
                assert.equal(reply.headers.get('WWW-Authenticate'), `Bearer error="invalid_token", error_description="${flaw}"`, value);
            }
        }
    });

    test('SPEC 3: no other reply carries WWW-Authenticate', async () => {
        const token = tokenFor('acme', good);
        for (const reply of [await increments(server, token), await server.call('GET', '/api/counters/other/x/get', { token }), await server.call('GET', '/healthz')]) {
            assert.equal(reply.headers.get('WWW-Authenticate'), null);
        }
    });
});

describe('issuer and audience', () => {
    const server = serverFor({ settings: { 'auth.issuer': 'https://issuer.test', 'auth.audience': 'tally' } });

    test('SPEC 4: auth.issuer and auth.audience are checked when set', async () => {
        const good = { iss: 'https://issuer.test', aud: 'tally' };
        assert.equal((await increments(server, tokenFor('acme', good))).status, 200);
        await expectRefused(server, {
            'neither': tokenFor('acme'),
            'no audience': tokenFor('acme', { iss: good.iss }),
            'no issuer': tokenFor('acme', { aud: good.aud }),
            'another issuer': tokenFor('acme', { ...good, iss: 'https://issuer.test.evil' }),
            'another audience': tokenFor('acme', { ...good, aud: 'tally2' }),
            'issuer a number': tokenFor('acme', { ...good, iss: 5 }),
        });
    });
});

const PAIRS = {
    RS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
    ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
};

for (const [alg, makePair] of Object.entries(PAIRS)) {
    describe(`${alg} tokens`, () => {
        const { publicKey, privateKey } = makePair();
        const pem = publicKey.export({ type: 'spki', format: 'pem' });
        const directory = newDirectory('keys');
        const keyFile = path.join(directory, 'public.pem');
        writeFileSync(keyFile, pem);
        const server = serverFor({ secret: null, settings: { 'auth.jwtPublicKeyFile': keyFile } });
        after(() => removeDirectory(directory));

        test(`SPEC 4: ${alg} tokens of the configured key are accepted, others are 401`, async () => {
            assert.equal((await increments(server, tokenFor('acme', {}, { alg, key: privateKey }))).status, 200);
            const stranger = PAIRS[alg]().privateKey;
            const otherAlg = alg === 'RS256' ? 'ES256' : 'RS256';
            await expectRefused(server, {
                'a stranger\'s key': tokenFor('acme', {}, { alg, key: stranger }),
                'the other algorithm': tokenFor('acme', {}, { alg: otherAlg, key: PAIRS[otherAlg]().privateKey }),
                'HS256 signed with the public key file': tokenFor('acme', {}, { alg: 'HS256', key: pem }),
                'HS256 signed with the public key file, trimmed': tokenFor('acme', {}, { alg: 'HS256', key: pem.trim() }),
                'HS256 signed with the DER of the public key': tokenFor('acme', {}, { alg: 'HS256', key: publicKey.export({ type: 'spki', format: 'der' }) }),
                'HS256 signed with nothing': tokenFor('acme', {}, { alg: 'HS256', key: '' }),
                'alg none': tokenFor('acme', {}, { alg: 'none' }),
                'expired': tokenFor('acme', { exp: nowSeconds() - 10 }, { alg, key: privateKey }),
                'no exp': jwt({ sub: 'acme' }, { alg, key: privateKey }),
            });
        });

        test(`SPEC 4: admin from ${alg} tokens does not count unless auth.jwtAdmin says so`, async () => {
            const token = tokenFor('operator', { scope: 'admin' }, { alg, key: privateKey });
            expectExactly(await server.call('POST', '/api/counters/anyone/y/increment', { token, body: TOTAL }), 404, NOT_FOUND);
        });
    });
}

describe('admin from public-key tokens, allowed', () => {
    const { publicKey, privateKey } = PAIRS.ES256();
    const directory = newDirectory('keys');
    writeFileSync(path.join(directory, 'public.pem'), publicKey.export({ type: 'spki', format: 'pem' }));
    const server = serverFor({ secret: null, settings: { 'auth.jwtPublicKeyFile': path.join(directory, 'public.pem'), 'auth.jwtAdmin': 'true' } });
    after(() => removeDirectory(directory));

    test('SPEC 4: auth.jwtAdmin lets an ES256 admin act for any tenant', async () => {
        const token = tokenFor('operator', { scope: 'admin' }, { alg: 'ES256', key: privateKey });
        expectTriple(await server.call('POST', '/api/counters/anyone/y/increment', { token, body: TOTAL }), 1);
    });
});

describe('API keys', () => {
    const sha256 = (text) => createHash('sha256').update(text).digest('hex');
    const config = (keys) => `auth:\n  keys:\n${keys.map((key) => `    - { sha256: ${sha256(key.key)}, tenant: ${key.tenant}, scope: "${key.scope}" }\n`).join('')}`;
    const FIRST = { key: 'key-one-abcdefghijklmnop', tenant: 'acme', scope: 'read write' };
    const READER = { key: 'key-two-abcdefghijklmnop', tenant: 'acme', scope: 'read' };
    const LATER = { key: 'key-three-abcdefghijklm', tenant: 'acme', scope: 'read write' };
    const server = serverFor({ secret: null, config: config([FIRST, READER]) });

    test('SPEC 4: a key listed by its SHA-256 opens its tenant with its scope', async () => {
        expectTriple(await increments(server, FIRST.key), 1);
        expectError(await increments(server, READER.key), 403, 'forbidden');
        expectTriple(await server.call('GET', '/api/counters/acme/x/get?durationSeconds=0&timestamp=0', { token: READER.key }), 1);
        expectExactly(await server.call('POST', '/api/counters/other/x/increment', { token: FIRST.key, body: TOTAL }), 404, NOT_FOUND);
        await expectRefused(server, {
            'an unlisted key': LATER.key,
            'the hash itself': sha256(FIRST.key),
            'a key with a byte more': `${FIRST.key}x`,
            'a JWT while no secret is set': tokenFor('acme'),
            'a JWT signed with a key': tokenFor('acme', {}, { key: FIRST.key }),
        });
    });

    test('SPEC 4: SIGHUP reloads the keys: new ones open, removed ones are 401', async () => {
        server.writeConfig(config([LATER]));
        server.signal('SIGHUP');
        await eventually('the new key to work', async () => (await increments(server, LATER.key)).status === 200);
        await eventually('the old key to stop', async () => (await increments(server, FIRST.key)).status === 401);
    });

    test('SPEC 4: a reload that cannot be read keeps what was there', async () => {
        server.writeConfig('auth: [this is not\n  a config');
        server.signal('SIGHUP');
        await sleep(patience(200));
        assert.equal((await increments(server, LATER.key)).status, 200);
    });
});

describe('starting without safe secrets', () => {
    const directory = newDirectory('refuse');
    after(() => removeDirectory(directory));
    const serve = (...more) => runTally(['serve', '--data', path.join(directory, 'd'), '--listen', '127.0.0.1:0', ...more]);

    test('SPEC 4: an HS256 secret below 32 bytes refuses to start and says why', async () => {
        for (const secret of ['x', 'x'.repeat(31)]) {
            const end = await serve('--set', `auth.jwtSecret=${secret}`);
            assert.equal(end.code, 1, end.stderr);
            assert.match(end.stderr, /jwtSecret|32/);
            assert.ok(!end.stdout.includes('ready'));
        }
    });

    test('SPEC 4: no secret and no key refuses to start and says why', async () => {
        const end = await serve();
        assert.equal(end.code, 1, end.stderr);
        assert.match(end.stderr, /auth|secret|key/i);
    });

    test('SPEC 4: a public key file that is missing or no key refuses to start', async () => {
        const junk = path.join(directory, 'junk.pem');
        writeFileSync(junk, 'not a key');
        for (const file of [junk, path.join(directory, 'absent.pem')]) {
            const end = await serve('--set', `auth.jwtPublicKeyFile=${file}`);
            assert.equal(end.code, 1, `${file}: ${end.stderr}`);
            assert.notEqual(end.stderr, '');
        }
    });

    test('SPEC 2: unknown settings, flags and commands are wrong usage, said on stderr', async () => {
        const cases = [['serve', '--set', 'no.such.setting=1'], ['serve', '--set', 'limits.queueOps=many'], ['serve', '--nonsense'], ['nonsense']];
        for (const args of cases) {
            const end = await runTally([...args, ...(args[0] === 'serve' ? ['--data', path.join(directory, 'd'), '--set', `auth.jwtSecret=${SECRET}`] : [])]);
            assert.equal(end.code, 2, `${args.join(' ')}: ${end.stderr}`);
            assert.notEqual(end.stderr, '', args.join(' '));
        }
    });

    test('SPEC 2: the secret may come from the environment', async () => {
        const server = new Server({ secret: null, env: { TALLY_AUTH_JWTSECRET: SECRET } });
        await server.start();
        assert.equal((await increments(server, tokenFor('acme'))).status, 200);
        await server.stop();
    });
});

describe('--dev', () => {
    const directory = newDirectory('dev');
    let run;
    let port;

    before(async () => {
        run = spawnTally(['serve', '--dev', '--data', path.join(directory, 'd'), '--listen', '127.0.0.1:0']);
        const ready = await eventually('tally --dev to be ready', () => /tally ready on http:\/\/127\.0\.0\.1:(\d+)/.exec(run.stdout));
        port = Number(ready[1]);
    });
    after(async () => {
        run.child.kill('SIGTERM');
        assert.deepEqual(await within(20000, 'tally to stop', run.exited), { code: 0, signal: null });
        removeDirectory(directory);
    });

    test('SPEC 4: --dev prints a ready-to-use token for tenant demo', async () => {
        const token = await eventually('the token', () => /[\w-]+\.[\w-]+\.[\w-]{20,}/.exec(run.stdout + run.stderr)?.[0]);
        const reply = await fetch(`http://127.0.0.1:${port}/api/counters/demo/x/increment`, {
            method: 'POST', headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }, body: JSON.stringify(TOTAL),
        });
        assert.equal(reply.status, 200, await reply.text());
    });

    test('SPEC 4: --dev has a random secret, so the test secret opens nothing', async () => {
        const reply = await fetch(`http://127.0.0.1:${port}/api/counters/demo`, { headers: { Authorization: `Bearer ${tokenFor('demo')}` } });
        assert.equal(reply.status, 401);
    });

    test('SPEC 4: --dev never listens beyond the loopback', async () => {
        const wide = spawnTally(['serve', '--dev', '--data', path.join(directory, 'wide'), '--listen', '0.0.0.0:0']);
        let ended = null;
        wide.exited.then(() => (ended = 'refused'));
        const answer = await eventually('an answer', () => ended ?? /tally ready on http:\/\/(\S+):\d+/.exec(wide.stdout)?.[1]);
        wide.child.kill('SIGKILL');
        await within(10000, 'tally to die', wide.exited);
        assert.match(answer, /^(refused|127\.0\.0\.1)$/);
    });
});
