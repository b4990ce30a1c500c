// resp.test.mjs -- Redis's protocol: connections, tokens, and what is malformed.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';

import { eventually, times, together } from './support/pace.mjs';
import { encode, many, RespClient, respPort, respServerFor } from './support/resp.mjs';
import { TOTAL } from './support/server.mjs';
import { nowSeconds, tokenFor } from './support/tokens.mjs';

const run = promisify(execFile);
const NOAUTH = { error: 'NOAUTH Authentication required.' };
const WRONGPASS = { error: 'WRONGPASS invalid username-password pair or user is disabled.' };

describe('connections of Redis\'s protocol', () => {
    const server = respServerFor();

    test('SPEC 14: without a token there is nothing but AUTH, HELLO, PING, QUIT and RESET', async () => {
        const client = await server.stranger();
        assert.equal(await client.call('PING'), 'PONG');
        assert.equal(await client.call('ping', 'hello there'), 'hello there');
        for (const args of [['GET', 'a'], ['INCR', 'a'], ['COMMAND'], ['INFO'], ['TIME'], ['ECHO', 'x'], ['CLIENT', 'ID'], ['NONSENSE']]) {
            assert.deepEqual(await client.call(...args), NOAUTH, args[0]);
        }
        assert.match((await client.call('HELLO', 3)).error, /^NOAUTH HELLO must be called with the client already authenticated/);
        assert.equal(await client.call('RESET'), 'RESET');
        assert.deepEqual(await client.call('GET'), { error: "ERR wrong number of arguments for 'get' command" });
        assert.equal(await client.call('QUIT'), 'OK');
        assert.equal(await client.reply(), undefined);
    });

    test('SPEC 14: AUTH takes a token, for its own tenant or by name', async () => {
        const t = server.tenant();
        for (const args of [[t.token], ['default', t.token], [t.id, t.token]]) {
            const client = await server.stranger();
            assert.equal(await client.call('AUTH', ...args), 'OK');
            assert.equal(typeof await client.call('INCR', 'n'), 'number');
        }
        assert.equal((await t.get('n')).body.net, '3');
    });

    test('SPEC 14: what is wrong with a token is not said, and changes nothing', async () => {
        const t = server.tenant();
        const other = server.tenant();
        const client = await server.stranger();
        const expired = tokenFor(t.id, { exp: nowSeconds() - 10 });
        for (const args of [['nonsense'], [''], [expired], [other.id, t.token], ['no/tenant', t.token], ['default', 'nonsense'], ['x'.repeat(9000)]]) {
            assert.deepEqual(await client.call('AUTH', ...args), WRONGPASS, args[0].slice(0, 40));
        }
        assert.deepEqual(await client.call('AUTH', 'a', 'b', 'c'), { error: 'ERR syntax error' });
        assert.deepEqual(await client.call('GET', 'n'), NOAUTH);
        assert.equal(await client.call('AUTH', t.token), 'OK');
        assert.deepEqual(await client.call('AUTH', other.id, t.token), WRONGPASS);
        assert.equal(await client.call('INCR', 'n'), 1);
        assert.deepEqual((await other.list()).body.counters, []);
    });

    test('SPEC 14: an admin token names the tenant that it acts for', async () => {
        const t = server.tenant();
        const admin = tokenFor('root', { scope: 'admin' });
        const client = await server.stranger();
        assert.match((await client.call('AUTH', admin)).error, /^ERR an admin token must name a tenant/);
        assert.equal(await client.call('AUTH', t.id, admin), 'OK');
        assert.equal(await client.call('INCR', 'n'), 1);
        assert.equal((await t.get('n')).body.net, '1');
    });

    test('SPEC 4: a scope that is missing is NOPERM', async () => {
        const t = server.tenant();
        const reader = await server.connect({ token: tokenFor(t.id, { scope: 'read' }) });
        const writer = await server.connect({ token: tokenFor(t.id, { scope: 'write' }) });
        assert.match((await reader.call('INCR', 'n')).error, /^NOPERM /);
        assert.equal(await reader.call('GET', 'n'), null);
        assert.equal(await writer.call('INCR', 'n'), 1);
        assert.match((await writer.call('GET', 'n')).error, /^NOPERM /);
    });

    test('SPEC 14: past exp it is NOAUTH again', async () => {
        const t = server.tenant();
        const client = await server.connect({ token: tokenFor(t.id, { exp: nowSeconds() + 2 }) });
        assert.equal(await client.call('INCR', 'n'), 1);
        await eventually('the token to expire', async () => (await client.call('INCR', 'n')).error);
        assert.deepEqual(await client.call('GET', 'n'), NOAUTH);
        assert.equal(await client.call('AUTH', t.token), 'OK');
        assert.ok(await client.call('INCR', 'n') > 1);
    });

    test('SPEC 14: a pipeline may change its tenant, and each command counts for the one before it', async () => {
        const [a, b] = [server.tenant(), server.tenant()];
        const client = await server.stranger();
        const said = await client.pipeline([
            ['AUTH', a.token], ['INCR', 'n'], ['INCR', 'n'], ['AUTH', b.token], ['INCR', 'n'], ['GET', 'n'], ['RESET'], ['INCR', 'n'],
            ['AUTH', a.id, a.token], ['GET', 'n'],
        ]);
        assert.deepEqual(said, ['OK', 1, 2, 'OK', 1, '1', 'RESET', NOAUTH, 'OK', '2']);
    });

    test('SPEC 14: HELLO chooses the version, signs in and names the connection', async () => {
        const t = server.tenant();
        const client = await server.stranger();
        assert.deepEqual(await client.call('HELLO', 4), { error: 'NOPROTO unsupported protocol version' });
        assert.deepEqual(await client.call('HELLO', 'x'), { error: 'ERR Protocol version is not an integer or out of range' });
        const said = await client.call('HELLO', 3, 'AUTH', t.id, t.token, 'SETNAME', 'page-counter');
        assert.equal(said.proto, 3);
        assert.equal(said.mode, 'standalone');
        assert.equal(await client.call('CLIENT', 'GETNAME'), 'page-counter');
        client.write(encode(['GET', 'none']));
        assert.equal(await client.reply(), null);
        assert.deepEqual(await client.call('CONFIG', 'GET', 'appendonly'), { appendonly: 'yes' });
        assert.ok(Array.isArray(await client.call('HELLO', 2)));
        assert.deepEqual(await client.call('CONFIG', 'GET', 'save'), ['save', '']);
        assert.deepEqual(await client.call('HELLO', 2, 'NONSENSE'), { error: 'ERR Syntax error in HELLO option' });
    });

    test('SPEC 14: small talk that clients make is answered as Redis does', async () => {
        const client = await server.connect(server.tenant());
        assert.equal(await client.call('ECHO', 'a\r\nb'), 'a\r\nb');
        assert.equal(await client.call('SELECT', 0), 'OK');
        assert.deepEqual(await client.call('SELECT', 1), { error: 'ERR DB index is out of range' });
        assert.equal(await client.call('CLIENT', 'SETINFO', 'LIB-NAME', 'x'), 'OK');
        assert.equal(await client.call('CLIENT', 'GETNAME'), null);
        assert.match((await client.call('CLIENT', 'SETNAME', 'a b')).error, /^ERR Client names cannot contain spaces/);
        assert.equal(typeof await client.call('CLIENT', 'ID'), 'number');
        assert.match(await client.call('CLIENT', 'INFO'), /^id=\d+ .*user=tenant-/);
        assert.deepEqual(await client.call('CLIENT', 'TRACKING', 'ON'), { error: "ERR unknown subcommand 'TRACKING'. Try CLIENT HELP." });
        assert.match((await client.call('READONLY')).error, /^ERR unknown command 'READONLY'/);
        assert.deepEqual(await client.call('SUBSCRIBE', 'a', 'b'), { error: "ERR unknown command 'SUBSCRIBE', with args beginning with: 'a' 'b' " });
        assert.match(await client.call('INFO'), /^loading:0\r$/m);
        const [seconds] = await client.call('TIME');
        assert.ok(Math.abs(Number(seconds) - nowSeconds()) < 60);
        const count = await client.call('COMMAND', 'COUNT');
        assert.equal((await client.call('COMMAND')).length, count);
        assert.equal((await client.call('COMMAND', 'LIST')).length, count);
        const [incr, none] = await client.call('COMMAND', 'INFO', 'incr', 'nonsense');
        assert.deepEqual(incr.slice(0, 6), ['incr', 2, ['write', 'fast'], 1, 1, 1]);
        assert.equal(none, null);
        assert.equal((await client.call('COMMAND', 'DOCS', 'get'))[0], 'get');
    });

    test('SPEC 14: commands may come as lines, with quotes', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        client.write('\r\nINCR n\r\n\n  incrby "n" \'4\'  \nECHO "\\x41\\n"\r\nget n\r\n');
        for (const expected of [1, 5, 'A\n', '5']) assert.equal(await client.reply(), expected);
    });

    test('SPEC 14: bytes may come one at a time', async () => {
        const client = await server.connect(server.tenant());
        for (const byte of Buffer.concat([encode(['INCR', 'slow']), encode(['GET', 'slow'])])) {
            client.write(Buffer.from([byte]));
            await new Promise((resolve) => setImmediate(resolve));
        }
        assert.equal(await client.reply(), 1);
        assert.equal(await client.reply(), '1');
    });

    const bad = [
        ['*x\r\n', 'invalid multibulk length'],
        ['*1000000000\r\n', 'invalid multibulk length'],
        ['*1\r\n:1\r\n', "expected '$', got ':'"],
        ['*1\r\n$-1\r\n', 'invalid bulk length'],
        ['*1\r\n$4\r\nPINGxx', 'invalid bulk length'],
        ['*2\r\n$4\r\nECHO\r\n$999999999999\r\n', 'invalid bulk length'],
        ['ECHO "a\r\n', 'unbalanced quotes in request'],
        [Buffer.alloc(70000, 'a'), 'too big inline request'],
    ];
    for (const [text, why] of bad) {
        test(`SPEC 14: bad framing is Redis's own error and the end: ${why} (${String(text).slice(0, 20).trim()})`, async () => {
            const client = await server.connect(server.tenant());
            client.write(Buffer.concat([encode(['INCR', 'n']), Buffer.from(text)]));
            assert.equal(await client.reply(), 1);
            assert.equal((await client.reply()).message, `ERR Protocol error: ${why}`);
            assert.equal(await client.reply(), undefined);
        });
    }

    test('SPEC 14: strangers may send little', async () => {
        for (const [text, why] of [['*11\r\n', 'unauthenticated multibulk length'], ['*1\r\n$20000\r\n', 'unauthenticated bulk length']]) {
            const client = await server.stranger();
            client.write(text);
            assert.equal((await client.reply()).message, `ERR Protocol error: ${why}`);
            assert.equal(await client.reply(), undefined);
        }
    });

    test('SPEC 14: HTTP and Redis\'s protocol do not answer each other, and both go on', async () => {
        const client = await server.stranger();
        client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
        assert.ok((await client.reply()).message);
        client.destroy();
        const raw = await server.raw();
        raw.write(encode(['PING']));
        assert.equal((await raw.reply()).status, 400);
    });

    test('SPEC 4: a reload that changes no key leaves who is signed in', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        assert.equal(await client.call('INCR', 'n'), 1);
        await server.call('POST', '/api/admin/reload', { token: tokenFor('root', { scope: 'admin' }) });
        assert.equal(await client.call('INCR', 'n'), 2);
    });

    test('SPEC 14: a thousand connections pipeline a hundred commands, half of them never reading', async () => {
        const t = server.tenant();
        const other = server.tenant();
        const port = await respPort(server);
        const count = times(1000);
        const clients = await together(count, () => RespClient.open(port));
        const commands = [['AUTH', t.token], ...many(100, () => ['INCR', 'busy'])];
        const bytes = Buffer.concat(commands.map(encode));
        clients.forEach((client, i) => {
            if (i % 2) client.deafen();
            client.write(bytes);
        });
        const bystander = await server.connect(other);
        for (let i = 1; i <= 20; i++) assert.equal(await bystander.call('INCR', 'n'), i);
        await Promise.all(clients.filter((_, i) => i % 2 === 0).map(async (client) => {
            assert.equal(await client.reply(), 'OK');
            let last = 0;
            for (let i = 0; i < 100; i++) {
                const value = await client.reply();
                assert.ok(value > last, `${value} after ${last}`);
                last = value;
            }
        }));
        await eventually('all to be counted', async () => (await t.get('busy')).body?.net === String(count * 100));
        clients.forEach((client) => client.destroy());
    });

    test('SPEC 14: redis-cli connects and counts', async () => {
        const t = server.tenant();
        const cli = async (...args) => {
            const { stdout } = await run('redis-cli', ['-p', String(await respPort(server)), '--no-auth-warning', '-a', t.token, ...args]);
            return stdout.trim();
        };
        assert.equal(await cli('incr', 'page:home'), '1');
        assert.equal(await cli('-3', 'incrby', 'page:home', '41'), '42');
        assert.equal(await cli('get', 'page:home'), '42');
        assert.equal((await t.get('page:home', TOTAL)).body.net, '42');
    });

    test('SPEC 10: the dashboard sees what is counted here', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        const busiest = () => t.call('GET', `/api/busiest/${t.id}`);
        assert.equal((await busiest()).status, 200);
        await eventually('the counter to be busy', async () => {
            await client.pipeline(many(20, () => ['INCR', 'page:home']));
            return JSON.stringify((await busiest()).body).includes('page:home');
        });
    });

    test('SPEC 10: commands are counted by name', async () => {
        const client = await server.connect(server.tenant());
        await client.call('INCR', 'n');
        await client.call('NONSENSE');
        const { text } = await server.call('GET', '/metrics');
        assert.match(text, /^tally_resp_commands_total\{command="INCR"\} \d+$/m);
        assert.match(text, /^tally_resp_commands_total\{command="unknown"\} \d+$/m);
    });
});

describe('Redis\'s protocol with API keys', () => {
    const KEY = 'page-counter-0123456789abcdef';
    const hash = createHash('sha256').update(KEY).digest('hex');
    const config = (keys) => `auth: { keys: [${keys}] }\n`;
    const server = respServerFor({ config: config(`{ sha256: ${hash}, tenant: pages, scope: read write }`) });

    test('SPEC 4: a reload that takes the key away ends what it allowed', async () => {
        const client = await server.connect({ token: KEY });
        assert.deepEqual(await client.pipeline([['INCR', 'n'], ['MULTI'], ['INCR', 'n']]), [1, 'OK', 'QUEUED']);
        server.writeConfig(config(''));
        const reload = await server.call('POST', '/api/admin/reload', { token: tokenFor('root', { scope: 'admin' }) });
        assert.equal(reload.status, 200);
        assert.deepEqual(await client.pipeline([['EXEC'], ['GET', 'n']]), [NOAUTH, NOAUTH]);
        assert.deepEqual(await client.call('AUTH', KEY), WRONGPASS);
        const t = server.tenant('pages');
        assert.equal((await t.get('n')).body.net, '1');
        assert.deepEqual(await client.pipeline([['AUTH', t.token], ['INCR', 'n']]), ['OK', 2]);
    });

    test('SPEC 4: neither tokens nor what was shown as one are in the log', async () => {
        const secrets = [KEY, 'a-wrong-password', 'another-wrong-password', tokenFor('pages')];
        const client = await server.stranger();
        await client.call('AUTH', secrets[1]);
        await client.call('HELLO', 3, 'AUTH', 'pages', secrets[2]);
        await client.call('AUTH', secrets[3]);
        client.write(`AUTH "${secrets[1]}\r\n`);
        assert.match((await client.reply()).message, /unbalanced quotes/);
        for (const secret of secrets) assert.ok(!server.stderr.includes(secret) && !server.stdout.includes(secret));
    });
});
