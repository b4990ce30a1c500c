// import-redis.test.mjs -- `tally import-redis` from a real redis-server: exact, resumable, and plain about what it
// leaves out.

import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { eventually } from './support/pace.mjs';
import { startRedis } from './support/redis.mjs';
import { many, respPort, respServerFor } from './support/resp.mjs';
import { LARGE_COMMITS, TALLY_BIN } from './support/server.mjs';

const run = promisify(execFile);
const KEYS = 100_000;

/** Sends many commands and waits for all replies, which must be no errors. */
async function fill(client, commands) {
    for (let at = 0; at < commands.length; at += 5000) {
        const replies = await client.pipeline(commands.slice(at, at + 5000));
        for (const reply of replies) if (reply?.error) throw new Error(reply.error);
    }
}

describe('tally import-redis', () => {
    const server = respServerFor({ settings: { ...LARGE_COMMITS, 'resp.listen': '127.0.0.1:0' } });
    const folder = mkdtempSync(join(tmpdir(), 'tally-import-redis-'));
    let redis;
    before(async () => (redis = await startRedis()));
    after(async () => {
        await redis.stop();
        rmSync(folder, { recursive: true, force: true });
    });

    /** How the command is called for tenant `t`. */
    async function call(t, url, ...args) {
        const options = { cwd: folder, env: { ...process.env, TALLY_TOKEN: t.token, XDG_STATE_HOME: join(folder, 'state') } };
        return { args: ['import-redis', url, '--resp', `127.0.0.1:${await respPort(server)}`, ...args], options };
    }
    async function imported(t, url, ...args) {
        const { args: all, options } = await call(t, url, ...args);
        return run(TALLY_BIN, all, options);
    }

    test(`SPEC 14: ${KEYS} keys, killed in the middle and resumed, are there exactly`, async () => {
        const t = server.tenant();
        const theirs = await redis.connect();
        await theirs.call('FLUSHALL');
        const value = (i) => (i * 7919) % 1000003;
        await fill(theirs, many(KEYS, (i) => ['SET', `page:${i}`, value(i)]));
        const url = `redis://127.0.0.1:${redis.port}`;
        const { args, options } = await call(t, url, '--page', '500');
        const ours = await server.connect(t);
        const child = spawn(TALLY_BIN, args, { ...options, stdio: 'ignore' });
        await eventually('some pages to be there', async () => existsSync(join(folder, 'state')) && (await ours.call('SCAN', 0, 'COUNT', 10000))[1].length > 2000, { every: 10 });
        child.kill('SIGKILL');
        await new Promise((resolve) => child.once('exit', resolve));
        const notes = join(folder, 'state', 'tally');
        const [note] = readdirSync(notes).filter((name) => !name.endsWith('.new'));
        const [, cursor, , sofar] = readFileSync(join(notes, note), 'utf8').split(' ').map(Number);
        assert.ok(cursor > 0 && sofar > 0 && sofar < KEYS, 'the note says how far it got');
        const { stdout } = await run(TALLY_BIN, args, options);
        assert.match(stdout, /counters imported, 0 keys left out\n$/);
        assert.deepEqual(readdirSync(notes).filter((name) => !name.endsWith('.new')), []);
        for (let at = 0; at < KEYS; at += 10000) {
            const names = many(10000, (i) => `page:${at + i}`);
            assert.deepEqual(await ours.call('MGET', ...names), many(10000, (i) => String(value(at + i))));
        }
        const again = JSON.parse((await imported(t, url, '--json')).stdout);
        assert.deepEqual(again, { imported: KEYS, kept: 0, leftOut: 0 });
        assert.deepEqual((await t.get('page:5')).body, { net: String(value(5)), added: String(value(5)), subbed: '0' });
        theirs.destroy();
        ours.destroy();
    });

    test('SPEC 14: times are carried, and what is no counter is counted and named', async () => {
        const t = server.tenant();
        const theirs = await redis.connect();
        await theirs.call('FLUSHALL');
        await fill(theirs, [['SET', 'n', 5], ['SET', 'short', 6, 'EX', 1000], ['SET', 'zero', 0], ['SET', 'most', '9223372036854775807'],
            ['SET', 'text', 'hello'], ['SET', 'float', '1.5'], ['SET', 'negative', -3], ['SET', 'padded', '007'], ['SET', 'large', '9223372036854775808'],
            ['SET', 'empty', ''], ['SET', 'a b', 1], ['SET', 'line\n"', 2], ['RPUSH', 'list', 1], ['HSET', 'hash', 'f', 1]]);
        const { stdout } = await imported(t, `redis://127.0.0.1:${redis.port}`, '--report', 'left.txt', '--json');
        assert.deepEqual(JSON.parse(stdout), { imported: 4, kept: 0, leftOut: 10 });
        assert.deepEqual(readFileSync(join(folder, 'left.txt'), 'utf8').trim().split('\n').sort(), [
            'below zero\t"negative"', 'no counter\'s name\t"a b"', 'no counter\'s name\t"line\\n\\""', 'no integer\t"empty"', 'no integer\t"float"',
            'no integer\t"large"', 'no integer\t"padded"', 'no integer\t"text"', 'no string\t"hash"', 'no string\t"list"']);
        const ours = await server.connect(t);
        assert.deepEqual(await ours.call('MGET', 'n', 'short', 'zero', 'most', 'text'), ['5', '6', '0', '9223372036854775807', null]);
        const left = await ours.call('TTL', 'short');
        assert.ok(left > 900 && left <= 1000, String(left));
        assert.equal(await ours.call('TTL', 'n'), -1);
        await ours.call('INCR', 'n');
        assert.deepEqual(JSON.parse((await imported(t, `redis://127.0.0.1:${redis.port}`, '--new', '--json')).stdout), { imported: 0, kept: 4, leftOut: 10 });
        assert.equal(await ours.call('GET', 'n'), '6');
        await imported(t, `redis://127.0.0.1:${redis.port}`);
        assert.equal(await ours.call('GET', 'n'), '5'); // the source wins
        theirs.destroy();
        ours.destroy();
    });

    test('SPEC 14: a password, a user and a database of the URL; nothing of them in the list of processes or a message', async () => {
        const t = server.tenant();
        const locked = await startRedis('--requirepass', 'hidden word');
        try {
            const theirs = await locked.connect();
            await fill(theirs, [['AUTH', 'hidden word'], ['ACL', 'SETUSER', 'reader', 'on', '>p@ss/1', '~*', '+@read', '+@connection', '+info', '+select'],
                ['SELECT', 3], ['SET', 'deep', 12]]);
            await imported(t, `redis://:hidden%20word@127.0.0.1:${locked.port}/3`);
            assert.equal((await t.get('deep')).body.net, '12');
            const u = server.tenant();
            await imported(u, `redis://reader:p%40ss%2F1@localhost:${locked.port}/3`);
            assert.equal((await u.get('deep')).body.net, '12');
            const wrong = await imported(t, `redis://:guess@127.0.0.1:${locked.port}/3`).catch((error) => error);
            assert.equal(wrong.code, 1);
            assert.match(wrong.stderr, /^tally import-redis: Redis: WRONGPASS /);
            assert.doesNotMatch(wrong.stderr, /guess/);
            theirs.destroy();
        } finally {
            await locked.stop();
        }
    });

    test('SPEC 14: over TLS, and only to whom the certificate is of', async () => {
        const t = server.tenant();
        const cert = join(folder, 'cert.pem');
        const key = join(folder, 'key.pem');
        execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=localhost',
            '-addext', 'subjectAltName=DNS:localhost'], { stdio: 'ignore' });
        const secure = await startRedis('--tls-port', '0', '--tls-cert-file', cert, '--tls-key-file', key, '--tls-auth-clients', 'no');
        try {
            const theirs = await secure.connect();
            await theirs.call('CONFIG', 'SET', 'tls-port', secure.port + 1);
            await theirs.call('SET', 'n', 9);
            await imported(t, `rediss://localhost:${secure.port + 1}`, '--ca', cert);
            assert.equal((await t.get('n')).body.net, '9');
            for (const [host, ...args] of [['localhost'], ['127.0.0.1', '--ca', cert]]) {
                const refused = await imported(t, `rediss://${host}:${secure.port + 1}`, ...args).catch((error) => error);
                assert.match(refused.stderr, /certificate verify failed/);
            }
            theirs.destroy();
        } finally {
            await secure.stop();
        }
    });

    test('SPEC 14: what is wrong is said, and nothing is there that is not', async () => {
        const t = server.tenant();
        for (const [url, ...args] of [['http://127.0.0.1:1'], ['redis://127.0.0.1:99999'], ['redis://127.0.0.1/x'], [`redis://127.0.0.1:${redis.port}`, '--page', '0']]) {
            const wrong = await imported(t, url, ...args).catch((error) => error);
            assert.equal(wrong.code, 2, wrong.stderr);
        }
        const away = await imported(t, 'redis://127.0.0.1:1').catch((error) => error);
        assert.match(away.stderr, /^tally import-redis: Redis: it cannot be reached/);
        const stranger = await imported({ token: 'none' }, `redis://127.0.0.1:${redis.port}`).catch((error) => error);
        assert.match(stranger.stderr, /^tally import-redis: tally: WRONGPASS /);
    });
});
