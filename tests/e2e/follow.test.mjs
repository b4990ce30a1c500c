// Followers of the embedded store (SPEC 13): they copy, follow, serve reads and hand writes on.

import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { after, afterEach, describe, test } from 'node:test';

import { expectError, expectTriple, sequenceOf } from './support/expect.mjs';
import { eventually, sleep, together, within } from './support/pace.mjs';
import { Relay } from './support/relay.mjs';
import { RespClient, respPort } from './support/resp.mjs';
import { newDirectory, removeDirectory, runTally, Server, TOTAL } from './support/server.mjs';
import { SECRET, tokenFor } from './support/tokens.mjs';

const RULES = `
counters:
  - counterName: visits
    group: usage
    limit: 1000
    dimensions: [page]
    rollups: [[]]
    rules: [{ on: page.viewed, op: increment }]
  - counterName: visits_1h
    mode: windowed
    window: 1h
    trailing: true
    rules: [{ on: page.viewed, op: increment }]
statuses:
  Provisioned: active
`;
const MORE_RULES = RULES.replace('statuses:', `
  - counterName: likes
    rules: [{ on: page.liked, op: increment }]
statuses:`);

const replica = tokenFor('replicas', { scope: 'replica', exp: 4000000000 });
const admin = tokenFor('operator', { scope: 'admin' });
const ONE_LANE = { 'store.lanes': 1, 'store.kind': 'embedded' };
/** Deaths of a primary with acks; a long run is FOLLOW_ROUNDS=200. */
const ROUNDS = Number(process.env.FOLLOW_ROUNDS ?? 4);
const directories = [];
const servers = [];

function directory(label) {
    directories.push(newDirectory(label));
    return directories.at(-1);
}

const serverOf = (settings, rest) => {
    const server = new Server({ data: directory('data'), ...rest, settings: { ...ONE_LANE, 'ops.dir': directory('ops'), ...settings } });
    servers.push(server);
    return server;
};
const followerOf = (url, settings, rest) => serverOf({ 'follow.url': url, 'follow.token': replica, ...settings }, rest);

afterEach(async () => {
    for (const server of servers.splice(0)) await server.stop();
    for (const one of directories.splice(0)) removeDirectory(one);
});

const status = async (server) => (await server.call('GET', '/api/admin/followers', { token: admin })).body;

/** Until everything that the primary has is on the follower. */
async function level(primary, follower) {
    const { sequence } = await status(primary);
    const has = async () => BigInt((await status(follower)).sequence) >= BigInt(sequence);
    await eventually('the follower to have everything', () => has().catch(() => false), { ms: 30000 });
}

const copies = (server) => server.stderr.split('"copying the primary"').length - 1;

/** What a tenant can read, but for what says when it was read. */
async function reading(server, id) {
    const t = server.tenant(id);
    const all = await Promise.all([
        `/api/counters/${id}`, `/api/events/${id}`, `/api/duplicates/${id}`, `/api/usage/${id}`, `/api/windows/${id}`,
        `/api/counters/${id}/total/get?durationSeconds=0&timestamp=0`,
        `/api/counters/${id}/total/series?durationSeconds=60&startTime=0&endTime=6000`,
    ].map((target) => t.call('GET', target)));
    return all.map((reply) => [reply.status, reply.body]);
}

async function expectSame(primary, follower, ids) {
    await level(primary, follower);
    for (const id of ids) assert.deepEqual(await reading(follower, id), await reading(primary, id), id);
}

async function someWork(server, id, count = 20) {
    const t = server.tenant(id);
    for (let i = 0; i < count; i++) {
        expectTriple(await t.increment('total', TOTAL, { 'Idempotency-Key': `${id}-${i}` }), i + 1);
        await t.increment('total', { durationSeconds: 60, timestamp: i * 60 });
        const event = { eventId: `e${i >> 1}`, type: 'page.viewed', dimensions: { page: `/${i % 3}` } };
        assert.equal((await t.call('POST', `/api/events/${id}`, { body: event })).status, 200);
    }
}

describe('following', () => {
    test('SPEC 13: a follower copies its primary, then follows, and serves every read of its own state', async () => {
        const primary = serverOf({}, { config: RULES });
        await primary.start();
        await someWork(primary, 'before');
        const follower = followerOf(primary.url);
        await follower.start();
        await expectSame(primary, follower, ['before']);
        await someWork(primary, 'later');
        await expectSame(primary, follower, ['before', 'later']);
        assert.equal(copies(follower), 1);
        assert.deepEqual((await follower.call('GET', '/readyz')).body, { status: 'ready', role: 'follower' });
        assert.deepEqual((await primary.call('GET', '/readyz')).body, { status: 'ready', role: 'primary' });
        assert.match((await follower.call('GET', '/metrics')).text, /^tally_role\{role="follower"\} 1$/m);
        assert.match((await primary.call('GET', '/metrics')).text, /^tally_replication_followers 1$/m);
        const { followers } = await status(primary);
        assert.equal(followers.length, 1);
        assert.equal(followers[0].behind, '0');
    });

    test('SPEC 13: restarts and cut links on both sides, under load, resume without a new snapshot', async () => {
        const primary = serverOf({ 'journal.keep': 0, 'journal.keepBytes': 0, 'checkpoint.every': '100ms' });
        await primary.start();
        const relay = await new Relay(() => primary.port).start();
        after(() => relay.stop());
        await primary.tenant('t').increment('total', TOTAL);
        const follower = followerOf(relay.url);
        await follower.start();
        let sent = 0, stop = false;
        const load = (async () => {
            for (; !stop; sent++) {
                const body = { ops: Array.from({ length: 50 }, (_, i) => ({ op: 'increment', name: `n${i}`, ...TOTAL })) };
                const headers = { 'Idempotency-Key': `batch-${sent}` };
                const retry = () => primary.tenant('t').call('POST', '/api/counters/t/batch?results=errors', { body, headers }).catch(() => null);
                await eventually('a batch to be taken', async () => (await retry())?.status === 200, { ms: 30000, every: 20 });
            }
        })();
        for (let round = 0; round < 3; round++) {
            await sleep(200);
            relay.lose(3);
            await follower.restart({ hard: round % 2 === 0 });
            await sleep(200);
            await primary.restart({ hard: round % 2 === 1 });
        }
        stop = true;
        await load;
        await expectSame(primary, follower, ['t']);
        for (const name of ['n0', 'n49']) expectTriple(await follower.tenant('t').get(name), sent);
        assert.equal(copies(follower), 0, 'its last life copied nothing');
        assert.ok(sent > 10);
    });

    test('SPEC 13: a follower too far behind takes a snapshot by itself, and serves its old state meanwhile', async () => {
        const primary = serverOf({
            'journal.keep': 0, 'journal.keepBytes': 0, 'journal.segmentBytes': '4MiB', 'replication.keepBytes': '1MiB', 'checkpoint.every': '100ms',
        });
        await primary.start();
        const follower = followerOf(primary.url);
        await primary.tenant('t').increment('total', TOTAL);
        await follower.start();
        await level(primary, follower);
        follower.signal('SIGSTOP');
        const event = (i, j) => ({ eventId: `${i}-${j}`, type: 'x', payload: 'y'.repeat(4000) });
        for (let i = 0; i < 100; i++) {
            const body = Array.from({ length: 100 }, (_, j) => event(i, j));
            assert.equal((await primary.tenant('t').call('POST', '/api/events/t', { body })).status, 200);
        }
        const trimmed = async () => Number(/^tally_journal_bytes(?:\{.*\})? (\d+)/m.exec((await primary.call('GET', '/metrics')).text)[1]) < 24 << 20;
        await eventually('the journal to be let go of', trimmed, { ms: 30000 });
        follower.signal('SIGCONT');
        await level(primary, follower);
        assert.equal(copies(follower), 2);
        await primary.tenant('t').increment('total', TOTAL);
        await expectSame(primary, follower, ['t']);
        await follower.restart();
        await expectSame(primary, follower, ['t']);
    });

    test('SPEC 13: what is not in the primary\'s history is replaced by a snapshot', async () => {
        const primary = serverOf({});
        await primary.start();
        await someWork(primary, 't', 5);
        await primary.stop();
        const old = directory('old');
        cpSync(primary.data, old, { recursive: true });
        await primary.start();
        const follower = followerOf(primary.url);
        await follower.start();
        await someWork(primary, 'lost', 5);
        await level(primary, follower);
        await primary.stop();
        const restored = serverOf({}, { data: old, listen: `127.0.0.1:${primary.port}` });
        await restored.start();
        await someWork(restored, 'instead', 9);
        await eventually('the follower to begin again', () => copies(follower) === 2, { ms: 20000 });
        await eventually('it to serve', async () => (await follower.call('GET', '/readyz').catch(() => null))?.status === 200, { ms: 20000 });
        await expectSame(restored, follower, ['t', 'lost', 'instead']);
        assert.equal((await follower.tenant('lost').get('total')).status, 404);
    });

    test('SPEC 13: rules are the primary\'s, whatever the follower\'s file says', async () => {
        const primary = serverOf({}, { config: RULES });
        await primary.start();
        const follower = followerOf(primary.url, {}, { config: 'counters: [{ counterName: own, rules: [{ on: x, op: increment }] }]' });
        await follower.start();
        const t = primary.tenant('t');
        const send = (eventId, type) => t.call('POST', '/api/events/t', { body: { eventId, type } });
        await send('1', 'page.viewed');
        await expectSame(primary, follower, ['t']);
        primary.writeConfig(MORE_RULES);
        assert.equal((await primary.call('POST', '/api/admin/reload', { token: admin })).status, 200);
        await send('2', 'page.liked');
        await expectSame(primary, follower, ['t']);
        expectTriple(await follower.tenant('t').get('likes', {}), 1);
        assert.equal((await follower.call('POST', '/api/admin/reload', { token: admin })).status, 200, 'it reads its keys again');
        await expectSame(primary, follower, ['t']);
        assert.equal((await follower.tenant('t').get('own')).status, 404);
        await follower.restart();
        expectTriple(await follower.tenant('t').get('likes', {}), 1);
    });

    test('SPEC 13: followers under full load stay level, and every one of them ends equal', async () => {
        const primary = serverOf({});
        await primary.start();
        const followers = [followerOf(primary.url), followerOf(primary.url)];
        for (const follower of followers) await follower.start();
        await together(8, async (index) => {
            const t = primary.tenant(`t${index % 4}`);
            for (let i = 0; i < 30; i++) {
                const ops = Array.from({ length: 500 }, (_, k) => ({ op: 'increment', name: `n${k % 97}`, durationSeconds: 60, timestamp: k * 60 }));
                assert.equal((await t.call('POST', `/api/counters/${t.id}/batch?results=errors`, { body: { ops } })).status, 200);
            }
        });
        for (const follower of followers) {
            await expectSame(primary, follower, ['t0', 't1', 't2', 't3']);
            assert.equal(copies(follower), 1);
        }
    });
});

describe('reads and positions', () => {
    test('SPEC 13: minSequence waits up to follow.wait, then 503 behind', async () => {
        const primary = serverOf({});
        await primary.start();
        const follower = followerOf(primary.url, { 'follow.wait': '500ms' });
        await follower.start();
        const t = primary.tenant('t');
        for (let i = 1; i <= 30; i++) {
            const minSequence = (await t.increment('total', TOTAL)).headers.get('Tally-Sequence');
            const reply = await follower.tenant('t').get('total', { ...TOTAL, minSequence });
            expectTriple(reply, i);
        }
        const last = sequenceOf(await t.get('total'));
        const began = Date.now();
        expectError(await follower.tenant('t').get('total', { ...TOTAL, minSequence: `0-${last + 1n}` }), 503, 'behind');
        assert.ok(Date.now() - began >= 450, 'it waited');
        expectError(await t.get('total', { ...TOTAL, minSequence: `0-${last + 1n}` }), 409, 'position_lost');
        const waiting = follower.tenant('t').get('total', { ...TOTAL, minSequence: `0-${last + 1n}` });
        await sleep(100);
        await t.increment('total', TOTAL);
        expectTriple(await waiting, 31);
    });

    test('SPEC 13: a primary that is gone leaves reads as they are, and says how old they are', async () => {
        const primary = serverOf({});
        await primary.start();
        const follower = followerOf(primary.url);
        await follower.start();
        await primary.tenant('t').increment('total', TOTAL);
        await level(primary, follower);
        await primary.kill();
        expectTriple(await follower.tenant('t').get('total'), 1);
        expectError(await follower.tenant('t').increment('total', TOTAL), 503, 'primary_unavailable');
        await eventually('it to be noticed', async () => !(await status(follower)).following.connected);
        await eventually('the lag to grow', async () => (await status(follower)).following.lagMs > 500);
        assert.equal((await follower.call('GET', '/readyz')).status, 200);
        await follower.restart();
        expectTriple(await follower.tenant('t').get('total'), 1);
        servers.splice(servers.indexOf(primary), 1);
    });
});

describe('writes at a follower', () => {
    test('SPEC 13: are handed on with key, token and answer, and are in what is read next', async () => {
        const primary = serverOf({}, { config: RULES });
        await primary.start();
        const follower = followerOf(primary.url);
        await follower.start();
        const t = follower.tenant('t');
        for (let i = 1; i <= 10; i++) {
            expectTriple(await t.increment('total', TOTAL), i);
            expectTriple(await t.get('total'), i);
        }
        const key = { 'Idempotency-Key': 'once' };
        const first = await t.increment('total', { ...TOTAL, amount: 5 }, key);
        const again = await t.increment('total', { ...TOTAL, amount: 5 }, key);
        expectTriple(first, 15);
        assert.deepEqual(again.body, first.body);
        assert.equal(again.headers.get('Idempotent-Replayed'), 'true');
        expectError(await t.increment('total', { ...TOTAL, amount: 6 }, key), 422, 'idempotency_conflict');
        expectError(await t.increment('total', { ...TOTAL, amout: 6 }), 400, 'unknown_field');
        expectError(await t.decrement('none', TOTAL), 409, 'constraint_violation');
        const event = { headers: { 'Content-Type': 'application/json', 'ce-specversion': '1.0', 'ce-id': 'c1', 'ce-source': '/s', 'ce-type': 'page.viewed' }, body: '{"a":1}' };
        assert.equal((await t.call('POST', '/api/events/t', event)).body.result, 'APPLIED');
        assert.equal((await t.call('POST', '/api/events/t', event)).body.result, 'DROPPED_DUPLICATE');
        assert.deepEqual((await t.call('DELETE', '/api/counters/t/total')).body, { deleted: true });
        assert.equal((await t.get('total')).status, 404);
        assert.equal((await follower.call('POST', '/api/counters/t/total/increment', { token: tokenFor('t', { scope: 'read' }), body: TOTAL })).status, 403);
        assert.equal((await follower.call('POST', '/api/counters/t/total/increment', { token: 'x', body: TOTAL })).status, 401);
        await expectSame(primary, follower, ['t']);
    });

    test('SPEC 13: with large bodies too', async () => {
        const primary = serverOf({});
        await primary.start();
        const follower = followerOf(primary.url);
        await follower.start();
        const t = follower.tenant('t');
        const ops = Array.from({ length: 50000 }, (_, i) => ({ op: 'increment', name: `n${i % 1000}`, ...TOTAL }));
        const reply = await t.call('POST', '/api/counters/t/batch?results=errors', { body: { ops } });
        assert.deepEqual(reply.body, { results: [] });
        expectTriple(await t.get('n7'), 50);
    });

    test('SPEC 13: are never handed on twice, and with follow.forward false not at all: 421 with the primary', async () => {
        const primary = serverOf({});
        await primary.start();
        const follower = followerOf(primary.url);
        await follower.start();
        const refused = async (reply) => {
            expectError(reply, 421, 'not_primary');
            assert.equal(reply.body.primary, primary.url);
        };
        await refused(await follower.tenant('t').increment('total', TOTAL, { 'Tally-Forwarded': '1' }));
        for (const target of ['/api/admin/backups', '/api/admin/exports', '/api/admin/counters/x/rebuild']) {
            await refused(await follower.call('POST', target, { token: admin, body: {} }));
        }
        const mute = followerOf(primary.url, { 'follow.forward': false });
        await mute.start();
        await refused(await mute.tenant('t').increment('total', TOTAL));
        expectTriple(await primary.tenant('t').increment('total', TOTAL), 1);
    });

    test('SPEC 14: over Redis\'s protocol they are -READONLY with the primary\'s address', async () => {
        const primary = serverOf({});
        await primary.start();
        const follower = followerOf(primary.url, { 'resp.listen': '127.0.0.1:0' });
        await follower.start();
        await primary.tenant('t').increment('total', TOTAL);
        await level(primary, follower);
        const client = await RespClient.open(await respPort(follower));
        assert.equal(await client.call('AUTH', tokenFor('t')), 'OK');
        assert.equal(await client.call('GET', 'total'), '1');
        assert.deepEqual(await client.call('INCR', 'total'), { error: `READONLY this is a follower; the primary is ${primary.url}` });
        client.destroy();
    });
});

describe('who may follow', () => {
    test('SPEC 4, 13: the scope replica opens /api/replica/ and nothing else, and nothing else opens those', async () => {
        const primary = serverOf({ 'metrics.public': false });
        await primary.start();
        const calls = (await primary.call('GET', '/openapi.json')).body;
        for (const [path, methods] of Object.entries(calls.paths)) {
            for (const [method, call] of Object.entries(methods)) {
                if (call['x-scope'] === 'none' || path === '/') continue;
                const target = path.replace('{tenantId}', 'replicas').replace(/\{\w+\}/, 'x');
                const expected = path.startsWith('/api/replica/') ? [admin, tokenFor('replicas')] : [replica];
                for (const token of expected) {
                    const reply = await primary.call(method.toUpperCase(), target, { token });
                    assert.equal(reply.status, 403, `${method} ${path}: ${reply.text}`);
                }
            }
        }
        expectError(await primary.call('GET', '/api/replica/journal', { token: replica }), 400, 'invalid_request');
    });

    test('SPEC 13: a wrong token, another installation, another format: refused with a sentence', async () => {
        const primary = serverOf({});
        await primary.start();
        const stranger = followerOf(primary.url, { 'follow.token': tokenFor('t') });
        await stranger.spawn();
        assert.equal((await within(20000, 'it to give up', stranger.exited)).code, 1);
        assert.match(stranger.stderr, /cannot be followed: The token's scope does not allow this/);
        servers.splice(servers.indexOf(stranger), 1);

        const other = serverOf({});
        await other.start();
        const follower = followerOf(other.url);
        await follower.start();
        await other.stop();
        const port = other.port;
        const instead = serverOf({}, { listen: `127.0.0.1:${port}` });
        await instead.start();
        await eventually('the refusal', () => /of another installation: it has never been a copy/.test(follower.stderr));
        assert.equal((await follower.call('GET', '/readyz')).status, 200);

        const ask = (over) => primary.call('GET', `/api/replica/journal?${new URLSearchParams({
            format: 1, installation: '0'.repeat(16), proof: '0'.repeat(16), name: 'x', after: 0, hash: '0'.repeat(16), ...over,
        })}`, { token: replica });
        expectError(await ask({}), 409, 'conflict');
        const format = await ask({ format: 2 });
        expectError(format, 409, 'conflict');
        assert.match(format.body.error, /format 2 .* format 1/);
        expectError(await ask({ hash: 'x'.repeat(16) }), 400, 'invalid_request');
        expectError(await ask({ name: 'a b' }), 400, 'invalid_request');
    });

    test('SPEC 13: only a store of one lane can be followed; a follower cannot be followed', async () => {
        const lanes = serverOf({ 'store.lanes': 4 });
        await lanes.start();
        const follower = followerOf(lanes.url);
        await follower.spawn();
        assert.equal((await within(20000, 'it to give up', follower.exited)).code, 1);
        assert.match(follower.stderr, /Only a store of kind embedded with store.lanes 1 can be followed/);
        servers.splice(servers.indexOf(follower), 1);
        const primary = serverOf({});
        await primary.start();
        const first = followerOf(primary.url);
        await first.start();
        const second = followerOf(first.url);
        await second.spawn();
        assert.equal((await within(20000, 'it to give up', second.exited)).code, 1);
        assert.match(second.stderr, /This server is a follower itself/);
        servers.splice(servers.indexOf(second), 1);
    });

    test('SPEC 13: follow.url needs a token, one lane and, between machines, https', async () => {
        const check = async (...sets) => {
            const args = ['serve', '--data', directory('data'), '--set', `auth.jwtSecret=${SECRET}`, ...sets.flatMap((one) => ['--set', one])];
            return (await runTally(args)).stderr;
        };
        assert.match(await check('follow.url=http://127.0.0.1:1'), /follow.url needs follow.token/);
        assert.match(await check('follow.url=127.0.0.1:1', 'follow.token=x'), /follow.url must be http:\/\/HOST:PORT/);
        assert.match(await check('follow.url=http://10.0.0.1:1', 'follow.token=x'), /between machines it must be https:\/\//);
        assert.match(await check('follow.url=http://127.0.0.1:1', 'follow.token=x', 'store.lanes=2'), /follow.url needs store.lanes 1/);
    });

    test('SPEC 13: follow.url is for an empty data directory: role and primary stand there from then on', async () => {
        const primary = serverOf({});
        await primary.start();
        const alone = serverOf({});
        await alone.start();
        await alone.tenant('t').increment('total', TOTAL);
        await alone.stop();
        const stays = followerOf(primary.url, {}, { data: alone.data });
        await stays.start();
        assert.match(stays.stderr, /follow.url is for an empty one only, and is ignored/);
        expectTriple(await stays.tenant('t').increment('total', TOTAL), 2);
        const follower = followerOf(primary.url);
        await follower.start();
        await follower.stop();
        const again = serverOf({ 'follow.token': replica }, { data: follower.data });
        await again.start();
        assert.equal((await status(again)).role, 'follower');
    });
});

describe('replication.acks: 1', () => {
    const ACKS = { 'replication.acks': 1, 'replication.timeout': '700ms' };
    const ready = (server) => eventually('the primary to be ready', async () => (await server.call('GET', '/readyz')).status === 200, { ms: 20000 });

    test('SPEC 13: nobody reads or writes before a follower has what was recovered', async () => {
        const primary = serverOf({});
        await primary.start();
        expectTriple(await primary.tenant('t').increment('total', TOTAL), 1);
        await primary.stop();
        const again = serverOf(ACKS, { data: primary.data });
        await again.start();
        const t = again.tenant('t');
        expectError(await again.call('GET', '/readyz'), 503, 'not_enough_followers');
        expectError(await t.get('total'), 503, 'not_enough_followers');
        expectError(await t.increment('total', TOTAL), 503, 'not_enough_followers');
        assert.equal((await again.call('GET', '/healthz')).status, 200);
        const follower = followerOf(again.url);
        await follower.start();
        await ready(again);
        expectTriple(await t.get('total'), 1);
        expectTriple(await t.increment('total', TOTAL), 2);
        expectTriple(await follower.tenant('t').get('total'), 2);
        await expectSame(again, follower, ['t']);
    });

    test('SPEC 13: an acknowledged write is on the follower already, one key at a time and many at once', async () => {
        const primary = serverOf(ACKS, { config: RULES });
        await primary.start();
        const follower = followerOf(primary.url);
        await follower.start();
        await ready(primary);
        await together(8, async (index) => {
            const t = primary.tenant(`t${index}`);
            const f = follower.tenant(`t${index}`);
            for (let i = 1; i <= 25; i++) {
                expectTriple(await t.increment('total', TOTAL), i);
                expectTriple(await f.get('total'), i);
            }
        });
    });

    test('SPEC 13: without a follower waiters get 503, then writes are refused undecided, and reads go on; with it all goes on', async () => {
        const primary = serverOf({ ...ACKS, threads: 1, 'resp.listen': '127.0.0.1:0' });
        await primary.start();
        const follower = followerOf(primary.url);
        await follower.start();
        await ready(primary);
        const t = primary.tenant('t');
        expectTriple(await t.increment('total', TOTAL), 1);
        follower.signal('SIGSTOP');
        const keys = Array.from({ length: 10 }, (_, i) => ({ 'Idempotency-Key': `waits-${i}` }));
        const waiting = keys.map((key) => t.increment('total', TOTAL, key));
        await sleep(200);
        const began = Date.now();
        expectTriple(await t.get('total'), 1);
        assert.ok(Date.now() - began < 400, 'no thread that serves connections waits');
        for (const reply of await Promise.all(waiting)) assert.ok(['storage_unavailable', 'not_enough_followers'].includes(reply.body.code), reply.text);
        expectTriple(await t.get('total'), 1);
        expectError(await t.increment('total', TOTAL), 503, 'not_enough_followers');
        expectError(await t.decrement('none', TOTAL), 503, 'not_enough_followers');
        expectError(await t.call('POST', '/api/events/t', { body: { eventId: 'e', type: 'x' } }), 503, 'not_enough_followers');
        const client = await RespClient.open(await respPort(primary));
        await client.call('AUTH', tokenFor('t'));
        assert.deepEqual(await client.call('INCR', 'total'), { error: 'UNAVAILABLE not enough followers, nothing was done' });
        client.destroy();
        follower.signal('SIGCONT');
        await eventually('writes to go on', async () => (await t.increment('after', TOTAL)).status === 200);
        for (const key of keys) assert.equal((await t.increment('total', TOTAL, key)).status, 200);
        expectTriple(await t.get('total'), 11);
        await expectSame(primary, follower, ['t']);
        await primary.restart({ hard: true });
    });

    test('SPEC 13: kill -9 of the primary under load: what it acknowledged is on the follower, once', async () => {
        const data = directory('data');
        for (let round = 0; round < ROUNDS; round++) {
            const primary = serverOf(ACKS, { data });
            await primary.start();
            const follower = followerOf(primary.url);
            await follower.start();
            await ready(primary);
            const acknowledged = new Map();
            const sent = new Map();
            let over = false;
            const load = together(12, async (index) => {
                const t = primary.tenant('t');
                for (let i = 0; !over; i++) {
                    const name = `r${round}-c${index}`;
                    sent.set(name, (sent.get(name) ?? 0) + 1);
                    const reply = await t.increment(name, TOTAL, { 'Idempotency-Key': `${name}-${i}` }).catch(() => null);
                    if (reply?.status === 200) acknowledged.set(name, (acknowledged.get(name) ?? 0) + 1);
                    else return;
                }
            });
            const total = () => [...acknowledged.values()].reduce((a, b) => a + b, 0);
            await eventually('some writes', () => total() > 40 + 25 * (round % 8), { every: 1 });
            await primary.kill();
            over = true;
            await load;
            servers.splice(servers.indexOf(primary), 1);
            for (const [name, count] of acknowledged) {
                const { body } = await follower.tenant('t').get(name);
                assert.ok(Number(body.net) >= count, `${name}: ${body.net} of ${count} acknowledged`);
                assert.ok(Number(body.net) <= sent.get(name), `${name}: ${body.net} of ${sent.get(name)} sent`);
            }
            await follower.stop();
            servers.splice(servers.indexOf(follower), 1);
        }
    });
});
