// GET /api/stream/{tenantId}: state as server-sent events (SPEC 10), and the page that reads it.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';

import { expectError } from './support/expect.mjs';
import { eventually, together } from './support/pace.mjs';
import { requestText } from './support/raw.mjs';
import { newId, rulesServer } from './support/rules.mjs';
import { Server, serverFor, TOTAL } from './support/server.mjs';
import { EventStream } from './support/sse.mjs';
import { jwt, nowSeconds, tokenFor } from './support/tokens.mjs';

const RULES = `counters:
  - counterName: orders_1h
    mode: windowed
    window: 1h
    trailing: true
    dimensions: [shop]
    rollups: [[]]
    rules: [{ on: ordered, op: increment }]
`;
const RECONCILED = `counters:
  - { counterName: orders, dimensions: [shop], rules: [{ on: ordered, op: increment }] }
reconcile:
  - { name: by_shop, tenants: [healed], entity: [shop], source: { events: true }, counters: [orders] }
`;
const openFor = (t, query) => EventStream.open(t.server, t.id, t.token, query);
const metric = async (server, name) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec((await server.call('GET', '/metrics')).text)[1]);

describe('stream', () => {
    const { server, tenant, admin } = rulesServer(RULES);

    test('SPEC 10: it says what the rules keep, then the state, then the state whenever it changed', async () => {
        const t = tenant();
        const stream = await openFor(t);
        assert.equal(stream.reply.status, 200);
        assert.equal(stream.reply.headers.get('content-type'), 'text/event-stream; charset=utf-8');
        assert.match(stream.reply.headers.get('cache-control'), /no-store/);
        const first = await stream.state('the first state');
        assert.equal(first.tenant, t.id);
        assert.equal(first.admin, false);
        assert.equal(first.storage, 'ok');
        assert.deepEqual(first.windows.map(({ counterType, currentValue, trailing }) => [counterType, currentValue, trailing]), [['orders_1h', 0, 0]]);
        assert.deepEqual(stream.rules.counters, [{ name: 'orders_1h', mode: 'windowed', frozen: false, granularities: [], sets: [['shop'], []], windowSeconds: 3600 }]);
        assert.deepEqual(stream.rules.reconciles, []);
        await t.send('ordered', { shop: 's1' });
        const after = await stream.state('the event', ({ windows }) => windows[0].currentValue === 1);
        assert.equal(after.windows[0].trailing, 1);
        await stream.close();
    });

    test('SPEC 10: applied, duplicates, refused: each operation and event once, by what became of it', async () => {
        const t = tenant();
        const stream = await openFor(t);
        await stream.state('the first state');
        const event = { eventId: newId(), type: 'ordered', dimensions: { shop: 's1' } };
        await t.events(event);
        await t.events([event, event, { type: 'no id' }]);
        await t.increment('direct', TOTAL, { 'Idempotency-Key': 'once' });
        await t.increment('direct', TOTAL, { 'Idempotency-Key': 'once' });
        await t.decrement('nothing', TOTAL);
        await t.increment('direct', { durationSeconds: -1 });
        await t.batch([{ op: 'increment', name: 'a', ...TOTAL }, { op: 'decrement', name: 'b', ...TOTAL }, { op: 'sideways' }]);
        const { activity } = await stream.state('all of it', (state) => state.activity.refused === '5');
        assert.deepEqual([activity.applied, activity.duplicates, activity.throttled], ['3', '3', '0']);
        assert.equal(activity.writeSeconds.reduce((sum, count) => sum + Number(count), 0), 7, 'one for each request');
        await stream.close();
    });

    test('SPEC 10: of a request that is refused as a whole nothing is said to have been applied', async () => {
        const t = tenant();
        const stream = await openFor(t);
        await stream.state('the first state');
        const good = { op: 'increment', name: 'a', ...TOTAL };
        const url = `/api/counters/${t.id}/batch`;
        expectError(await t.call('POST', url, { body: { atomic: true, ops: [good, good, { op: 'sideways' }] } }), 400, 'invalid_request');
        expectError(await t.call('POST', url, { body: { atomic: true, ops: [good, { ...good, name: 'orders_1h' }] } }), 409, 'managed_by_rules');
        expectError(await t.call('POST', url, { body: { atomic: true, ops: [good, { ...good, op: 'decrement', name: 'b' }] } }), 409, 'constraint_violation');
        const many = { ops: Array.from({ length: 6000 }, () => good) };
        expectError(await t.call('POST', url, { body: many, headers: { 'Idempotency-Key': 'many' } }), 400, 'too_many_ops');
        await t.increment('a', TOTAL);
        const { activity } = await stream.state('all of it', (state) => state.activity.applied !== '0');
        assert.deepEqual([activity.applied, activity.duplicates, activity.refused], ['1', '0', '6007']);
        assert.equal((await t.get('a', TOTAL)).body.net, '1');
        await stream.close();
    });

    test('SPEC 10: another tenant moves nothing in it, and reads are no activity', async () => {
        const [t, other] = [tenant(), tenant()];
        const stream = await openFor(t);
        await stream.state('the first state');
        for (let i = 0; i < 5; i++) await other.send('ordered', { shop: 's1' });
        await t.list();
        await t.send('ordered', { shop: 's1' });
        const { activity, windows } = await stream.state('the own event', (state) => state.activity.applied !== '0');
        assert.equal(activity.applied, '1');
        assert.equal(windows[0].currentValue, 1);
        assert.ok(!JSON.stringify(stream.events).includes(other.id), 'no word of the other tenant');
        await stream.close();
    });

    test('SPEC 8, 10: dim. parameters choose whose windows are shown', async () => {
        const t = tenant();
        const stream = await openFor(t, '?dim.shop=s%201');
        await t.send('ordered', { shop: 's 1' });
        await t.send('ordered', { shop: 's2' });
        const state = await stream.state('the set', ({ windows, activity }) => windows[0]?.currentValue === 1 && activity.applied === '2');
        assert.deepEqual(state.windows[0].dimensions, { shop: 's 1' });
        await stream.close();
        const unknown = await openFor(t, '?dim.nothing=x');
        assert.deepEqual((await unknown.state('a state')).windows, [], 'a set nobody keeps has no windows');
        await unknown.close();
    });

    test('SPEC 3: order of checks: 401, 404 of a foreign tenant, 403 scope, 405', async () => {
        const t = tenant();
        const open = (id, token) => EventStream.open(server, id, token);
        assert.equal((await open(t.id)).reply.status, 401);
        assert.deepEqual((await open('somebody-else', t.token)).body, { error: 'not found', code: 'not_found' });
        assert.equal((await open(t.id, tokenFor(t.id, { scope: 'write' }))).reply.status, 403);
        const reply = await t.call('POST', `/api/stream/${t.id}`);
        expectError(reply, 405, 'method_not_allowed');
        assert.equal(reply.headers.get('allow'), 'GET, HEAD');
    });

    test('SPEC 4: an admin may watch any tenant', async () => {
        const t = tenant();
        const stream = await EventStream.open(server, t.id, admin().token);
        await t.send('ordered', { shop: 's1' });
        const state = await stream.state('the event', ({ activity }) => activity.applied === '1');
        assert.equal(state.admin, true);
        await stream.close();
    });

    test('SPEC 10: it is closed at exp, saying so', async () => {
        const t = tenant();
        const stream = await EventStream.open(server, t.id, jwt({ sub: t.id, exp: nowSeconds() + 5 }));
        await stream.end();
        assert.deepEqual(stream.events.at(-1), { event: 'end', data: { reason: 'expired' } });
        assert.ok(Date.now() >= new Date(stream.states[0].expiresAt).getTime(), 'not before');
    });

    test('SPEC 4: a reload of keys and rules ends it, so that the caller is judged again', async () => {
        const t = tenant();
        const stream = await openFor(t);
        await stream.state('the first state');
        server.signal('SIGHUP');
        await stream.end();
        assert.deepEqual(stream.events.at(-1), { event: 'end', data: { reason: 'reloaded' } });
    });

    test('HEAD has the head, no state, and opens nothing', async () => {
        const t = tenant();
        await eventually('earlier streams to be gone', async () => (await metric(server, 'tally_streams')) === 0);
        const reply = await fetch(`${server.url}/api/stream/${t.id}`, { method: 'HEAD', headers: { Authorization: `Bearer ${t.token}` } });
        assert.equal(reply.status, 200);
        assert.equal(reply.headers.get('content-type'), 'text/event-stream; charset=utf-8');
        assert.equal(await metric(server, 'tally_streams'), 0);
    });

    test('SPEC 10: a reader that does not read holds up nobody, and nothing piles up for it', async () => {
        const t = tenant();
        const deaf = await server.raw();
        deaf.write(requestText('GET', `/api/stream/${t.id}`, { token: t.token }));
        deaf.deafen();
        const stream = await openFor(t);
        for (let i = 0; i < 50; i++) await t.send('ordered', { shop: 's1' });
        await stream.state('all of it', ({ activity }) => activity.applied === '50');
        await stream.close();
        deaf.destroy();
        await eventually('both to be gone', async () => (await metric(server, 'tally_streams')) === 0);
    });
});

describe('reconcile entries', () => {
    const { tenant } = rulesServer(RECONCILED);

    test('SPEC 9: a tenant is told those that are about it, and no others', async () => {
        for (const [id, names] of [['healed', ['by_shop']], ['somebody', []]]) {
            const stream = await openFor(tenant(id));
            await stream.state('a state');
            assert.deepEqual(stream.rules.reconciles, names);
            await stream.close();
        }
    });
});

describe('limits of streams', () => {
    const server = serverFor({ settings: { 'limits.tenantStreams': 3 } });

    test('SPEC 10: a stream counts for its own tenant, whoever used the connection before', async () => {
        const [t, other] = [server.tenant(), server.tenant()];
        const connections = await together(4, async () => {
            const raw = await server.raw();
            assert.equal((await raw.call('GET', `/api/counters/${other.id}`, { token: other.token })).status, 200);
            return raw;
        });
        const streams = await together(3, () => openFor(t));
        assert.equal((await connections[0].call('GET', `/api/stream/${t.id}`, { token: t.token })).status, 503);
        for (const stream of streams) await stream.close();
        for (const raw of connections) raw.destroy();
    });

    test('SPEC 10: a tenant has limits.tenantStreams at most; room comes back, and others have their own', async () => {
        const [t, other] = [server.tenant(), server.tenant()];
        const streams = await together(3, () => openFor(t));
        const refused = await openFor(t);
        assert.equal(refused.reply.status, 503);
        assert.equal(refused.body.code, 'overloaded');
        assert.equal(refused.reply.headers.get('retry-after'), '1');
        await (await openFor(other)).close();
        await streams[0].close();
        streams[0] = await eventually('room', async () => {
            const again = await openFor(t);
            return again.reply.status === 200 && again;
        });
        for (const stream of streams) await stream.close();
    });
});

describe('figures of the whole server', () => {
    const server = serverFor({ settings: { 'metrics.public': false } });

    test('SPEC 10: without public metrics only an admin sees them', async () => {
        const t = server.tenant();
        const [own, asAdmin] = [await openFor(t), await EventStream.open(server, t.id, tokenFor('root', { scope: 'admin' }))];
        assert.equal((await own.state('a state')).server, null);
        const figures = (await asAdmin.state('a state')).server;
        assert.equal(figures.queueLimit, '500000');
        assert.match(figures.durableSequence, /^\d+$/);
        await own.close();
        await asAdmin.close();
    });
});

describe('the end of the server', () => {
    for (const shutdown of ['30s', '0s']) {
        test(`SPEC 2: SIGTERM ends streams at once, and the server ends well (timeouts.shutdown=${shutdown})`, async () => {
            const server = await new Server({ settings: { 'timeouts.shutdown': shutdown } }).start();
            const t = server.tenant();
            const streams = await together(8, () => openFor(t));
            for (const stream of streams) await stream.state('a state');
            await server.stop();
            for (const stream of streams) await stream.end();
        });
    }
});

describe('the page', () => {
    const server = serverFor();
    const head = async (target, method = 'GET') => server.call(method, target);

    test('SPEC 3: / is public, plain HTML under a strict policy', async () => {
        const page = await head('/');
        assert.equal(page.status, 200);
        assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8');
        assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
        assert.equal(page.headers.get('cache-control'), 'no-store');
        const policy = page.headers.get('content-security-policy');
        assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
        assert.ok(!/unsafe|https?:|\*/.test(policy), policy);
        assert.ok(!/\son[a-z]+=|<script(?![^>]*\ssrc=)|style=/i.test(page.text), 'nothing inline');
        assert.ok(!/https?:\/\//.test(page.text), 'nothing from elsewhere');
    });

    test('the page and its parts are below 150 KB; parts never change and are kept', async () => {
        const page = await head('/');
        const named = new Set([...page.text.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map((match) => match[1]));
        const parts = [...named].filter((part) => part !== '/assets/icon.svg');
        assert.equal(parts.length, 2, page.text);
        let total = page.text.length + (await head('/assets/icon.svg')).text.length;
        for (const part of parts) {
            const reply = await fetch(server.url + part);
            assert.equal(reply.status, 200, part);
            assert.equal(reply.headers.get('content-encoding'), 'gzip');
            assert.equal(reply.headers.get('cache-control'), 'public, max-age=31536000, immutable');
            assert.equal(reply.headers.get('x-content-type-options'), 'nosniff');
            total += Number(reply.headers.get('content-length'));
            const hash = createHash('sha256').update(Buffer.from(await reply.arrayBuffer())).digest('hex').slice(0, 12);
            assert.ok(part.includes(hash), `${part} is named by its content, ${hash}`);
        }
        assert.ok(total < 150 * 1024, `${total} bytes`);
    });

    test('SPEC 3: HEAD, 404 and 405', async () => {
        const reply = await head('/', 'HEAD');
        assert.equal(reply.status, 200);
        assert.equal(reply.text, '');
        expectError(await head('/', 'POST'), 405, 'method_not_allowed');
        assert.equal((await head('/', 'POST')).headers.get('allow'), 'GET, HEAD');
        for (const name of ['nothing.js', 'index.html', '..%2fetc%2fpasswd', '%zz', '']) expectError(await head(`/assets/${name}`), 404, 'not_found');
        expectError(await head('/assets'), 404, 'not_found');
    });
});
