// SPEC 12: a store in PostgreSQL: nodes over one database, answers that are lost, a database that is away.

import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';

import { expectError, expectTriple, sequenceOf } from './support/expect.mjs';
import { eventually, times, together } from './support/pace.mjs';
import { Database } from './support/postgres.mjs';
import { Relay } from './support/relay.mjs';
import { runTally, Server, TOTAL } from './support/server.mjs';
import { WallClock } from './support/shift.mjs';
import { SECRET, tokenFor } from './support/tokens.mjs';

let database;
let schemas = 0;
before(async () => {
    database = await Database.make({ durable: true });
});
after(() => database?.stop());

const newSchema = () => `t${++schemas}`;

function node(schema, settings = {}, options = {}) {
    return new Server({
        ...options,
        settings: { 'store.kind': 'postgres', 'store.postgres.dsn': database.dsn, 'store.postgres.schema': schema, 'store.lanes': 4, ...settings },
    });
}

const ONE_LANE = { 'store.lanes': 1 };

/** Some nodes over one schema, stopped at the end whatever happens. */
async function withNodes(count, use, settings, options) {
    const schema = newSchema();
    const nodes = Array.from({ length: count }, () => node(schema, settings, options));
    try {
        for (const each of nodes) await each.start();
        await use(nodes, schema);
    } finally {
        for (const each of nodes) await each.stop();
    }
}

/** Sends until it is answered with something else than 503, at whichever node comes next. */
async function insist(nodes, first, send) {
    for (let tries = 0; tries < 60; tries++) {
        const reply = await send(nodes[(first + tries) % nodes.length]).catch(() => null);
        if (reply && reply.status !== 503) return reply;
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error('no answer but 503');
}

const post = (server, tenant, path, body, headers = {}) =>
    server.call('POST', `/api/${path}`, { token: tokenFor(tenant), body, headers });

const keyed = (server, tenant, name, key, amount = 1) =>
    post(server, tenant, `counters/${tenant}/${name}/increment`, { ...TOTAL, amount }, { 'Idempotency-Key': key });

const event = (server, tenant, eventId) =>
    post(server, tenant, `events/${tenant}`, { eventId, type: 'x', occurredAt: '2026-01-01T00:00:00Z', payload: { eventId } });

describe('a store in PostgreSQL', () => {
    test('SPEC 12: tally migrate makes the schema, and again changes nothing', async () => {
        const schema = newSchema();
        const args = ['migrate', '--set', 'store.kind=postgres', '--set', `store.postgres.dsn=${database.dsn}`, '--set', `store.postgres.schema=${schema}`];
        for (let round = 0; round < 2; round++) {
            const end = await runTally(args);
            assert.equal(end.code, 0, end.stderr);
            assert.equal(end.stdout, `the schema ${schema} is of version 2, with 16 lanes.\n`);
        }
        assert.equal((await database.sql(`SELECT count(*) FROM ${schema}.lanes`)).trim(), '16');
    });

    test('SPEC 12: backups are the database\'s own: backup and restore say so, and nothing is made', () =>
        withNodes(1, async ([server], schema) => {
            const admin = server.tenant('operator', { scope: 'admin' });
            expectError(await admin.call('POST', '/api/admin/backups', { body: { name: 'nightly' } }), 409, 'use_database_backup');
            assert.deepEqual((await admin.call('GET', '/api/admin/backups')).body.backups, []);
            const sets = ['store.kind=postgres', `store.postgres.dsn=${database.dsn}`, `store.postgres.schema=${schema}`].flatMap((each) => ['--set', each]);
            const end = await runTally(['restore', 'nightly', ...sets, '--data', '/nowhere/at/all']);
            assert.equal(end.code, 1);
            assert.match(end.stderr, /own backups are the ones to take/);
        }));

    test('SPEC 12: a newer schema refuses to start, and makes a running node answer 503 until it is gone', () =>
        withNodes(2, async ([running, idle], schema) => {
            const version = (number) => database.sql(`UPDATE ${schema}.meta SET value = '\\x000000000000000${number}' WHERE key = 'schema'`);
            const t = running.tenant('acme');
            expectTriple(await t.increment('views', TOTAL), 1);
            await version(3);
            expectError(await t.increment('views', TOTAL), 503, 'schema_newer');
            expectError(await t.get('views'), 503, 'schema_newer');
            assert.equal((await running.call('GET', '/readyz')).status, 503);
            await eventually('a node that only reads to know it', async () => (await idle.tenant('acme').get('views')).body.code === 'schema_newer');
            await assert.rejects(node(schema).start(), /of version 3, made by a newer tally; this one knows 2/);
            await version(2);
            await eventually('the nodes to go on', async () => (await idle.tenant('acme').get('views')).status === 200);
            expectTriple(await insist([running], 0, (at) => at.tenant('acme').increment('views', TOTAL)), 2);
        }));

    test('X-08: a write that meets a row which tally did not write is refused, and nothing is acknowledged', () =>
        withNodes(2, async ([before, server], schema) => {
            expectTriple(await before.tenant('acme').increment('views', TOTAL), 1); // it remembers the row, and would not ask
            const t = server.tenant('acme');
            const damage = (sign) => database.sql(`UPDATE ${schema}.series SET series = ${sign} abs(series); UPDATE ${schema}.cells SET series = ${sign} abs(series)`);
            await damage('-');
            expectError(await t.increment('views', TOTAL), 500, 'corrupt');
            expectError(await t.call('POST', '/api/counters/acme/batch', { body: { ops: [{ op: 'increment', name: 'views', ...TOTAL }], atomic: true } }), 500, 'corrupt');
            await damage('+');
            expectTriple(await t.increment('views', TOTAL), 2);
        }));

    test('SPEC 12: an operation that the database refuses is found among others, and refused alone', () =>
        withNodes(1, async ([server], schema) => {
            await database.sql(`ALTER TABLE ${schema}.cells ADD CHECK (added <> 13)`);
            const count = times(60, 20);
            const send = (i, amount) => insist([server], 0, (at) => keyed(at, 'acme', `c${i}`, `k${i}`, amount));
            const replies = await together(count, (i) => send(i, i === 7 ? 13 : 12));
            for (const [i, reply] of replies.entries()) {
                if (i === 7) expectError(reply, 500, 'internal');
                else expectTriple(reply, 12);
            }
            const ops = Array.from({ length: count }, (_, i) => ({ op: 'increment', name: `b${i}`, ...TOTAL, amount: i === 9 ? 13 : 1 }));
            const { body } = await insist([server], 0, (at) => post(at, 'acme', 'counters/acme/batch', { ops }));
            assert.deepEqual(body.results.map((result) => result.status), ops.map((_, i) => (i === 9 ? 500 : 200)));
            expectTriple(await post(server, 'acme', 'counters/acme/c7/increment', { ...TOTAL, amount: 1 }), 1);
        }, ONE_LANE));

    test('limits.tenantCells is each tenant\'s own, though a node remembers how many cells each has', () =>
        withNodes(1, async ([one], schema) => {
            const cells = (t, count) => t.batch(Array.from({ length: count }, (_, i) => ({ op: 'increment', name: `c${i}`, ...TOTAL })));
            for (const [id, count] of [['first', 5], ['second', 2], ['third', 1]]) {
                const { body } = await cells(one.tenant(id), count);
                assert.ok(body.results.every((result) => !result.code), JSON.stringify(body));
            }
            assert.equal((await one.tenant('first').increment('more', TOTAL)).body.code, 'cell_limit');
            assert.equal((await one.tenant('second').increment('more', TOTAL)).status, 200);
            assert.equal((await database.sql(`SELECT string_agg(tenant_id || ' ' || cells, ', ' ORDER BY tenant_id) FROM "${schema}".tenants`)).trim(), 'first 5, second 3, third 1');
        }, { ...ONE_LANE, 'limits.tenantCells': 5 }));

    test('SPEC 12: of several hosts in the dsn one that accepts connections and is silent is passed over', async () => {
        const sockets = new Set();
        const silent = net.createServer((socket) => sockets.add(socket.on('error', () => {})));
        await new Promise((resolve) => silent.listen(0, '127.0.0.1', resolve));
        const dsn = database.dsn.replace('@127.0.0.1:', `@127.0.0.1:${silent.address().port},127.0.0.1:`);
        const server = node(newSchema(), { ...ONE_LANE, 'store.postgres.dsn': dsn });
        try {
            await server.start();
            expectTriple(await insist([server], 0, (at) => at.tenant('acme').increment('views', TOTAL)), 1);
            assert.ok(sockets.size > 0, 'it was asked first');
        } finally {
            await server.stop();
            for (const socket of sockets) socket.destroy();
            await new Promise((resolve) => silent.close(resolve));
        }
    });

    test('SPEC 12: settings of files are named at the start, and ignored', () =>
        withNodes(1, async ([server]) => {
            assert.match(server.stderr, /no meaning for a store in PostgreSQL","ignored":"journal.segmentBytes, checkpoint.every"/);
            expectTriple(await server.tenant('acme').increment('views', TOTAL), 1);
        }, { 'journal.segmentBytes': 65537, 'checkpoint.every': '1s' }));

    test('SPEC 12: what cannot work refuses to start with a sentence, and never shows the password', async () => {
        const refusal = async (...settings) => {
            const sets = ['store.kind=postgres', `auth.jwtSecret=${SECRET}`, ...settings].flatMap((each) => ['--set', each]);
            const end = await runTally(['serve', '--listen', '127.0.0.1:0', ...sets]);
            assert.equal(end.code, 1, end.stdout);
            assert.ok(!end.stderr.includes(Database.PASSWORD), end.stderr);
            return end.stderr;
        };
        const dsn = (change) => `store.postgres.dsn=${change(database.dsn)}`;
        assert.match(await refusal(), /needs store\.postgres\.dsn/);
        assert.match(await refusal(dsn((text) => text.replace(/:\d+\/postgres/, ':1/postgres'))), /cannot reach the database: .*refused/);
        assert.match(await refusal(dsn((text) => text.replace(/postgres$/, 'nowhere'))), /database "nowhere" does not exist/);
        await database.sql('CREATE ROLE guest LOGIN BYPASSRLS');
        assert.match(await refusal(dsn((text) => text.replace('postgres:', 'guest:'))), /cannot make the schema: permission denied/);
        await database.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
        assert.match(await refusal(dsn((text) => text.replace(/postgres$/, 'latin'))), /encoding is LATIN1; tally needs UTF8/);
    });

    test('SPEC 12: a read on any node sees what any node acknowledged before it began', () =>
        withNodes(2, async (nodes) => {
            for (let i = 1; i <= times(40); i++) {
                const writer = nodes[i % 2];
                const reader = nodes[(i + 1) % 2];
                expectTriple(await post(writer, 'acme', 'counters/acme/views/increment', TOTAL), i);
                expectTriple(await reader.tenant('acme').get('views'), i);
            }
        }));

    test('SPEC 12: reads that wait together each see what was acknowledged before they began, whosever they are', () =>
        withNodes(2, async (nodes) => {
            const acknowledged = { ash: 0, birch: 0, cedar: 0, date: 0 };
            const tenants = Object.keys(acknowledged);
            let writing = true;
            const write = async (tenant, turn) => {
                const reply = await post(nodes[turn % 2], tenant, `counters/${tenant}/views/increment`, TOTAL);
                assert.equal(reply.status, 200, reply.text);
                acknowledged[tenant] = turn;
            };
            const reads = [
                async (of) => Number((await of.get('views')).body.net),
                async (of) => Number((await of.query([{ get: { name: 'views', ...TOTAL } }, { get: { name: 'absent', ...TOTAL } }])).body.results[0].net),
            ];
            let seen = 0;
            const read = async (tenant, i) => {
                while (writing) {
                    const least = acknowledged[tenant];
                    const found = await reads[i % reads.length](nodes[(i >> 3) % 2].tenant(tenant));
                    assert.ok(found >= least, `${tenant}: ${found} where ${least} was acknowledged`);
                    seen++;
                }
            };
            await Promise.all(tenants.map((tenant) => write(tenant, 1)));
            const readers = Array.from({ length: 32 }, (_, i) => read(tenants[(i >> 1) % tenants.length], i));
            for (let turn = 2; turn <= times(30); turn++) await Promise.all(tenants.map((tenant) => write(tenant, turn)));
            writing = false;
            await Promise.all(readers);
            assert.ok(seen > 32, `${seen} reads`);
        }));

    test('SPEC 12, 13: a position that one node gave out is reached on the other; one that nobody did is lost', () =>
        withNodes(2, async ([a, b]) => {
            const read = (server, minSequence) => server.tenant('acme').get('views', { ...TOTAL, minSequence });
            for (let i = 1; i <= 5; i++) {
                const position = (await post(a, 'acme', 'counters/acme/views/increment', TOTAL)).headers.get('Tally-Sequence');
                const reply = await read(b, position);
                expectTriple(reply, i);
                assert.ok(sequenceOf(reply) >= BigInt(position.slice(2)), 'it says how far it is');
                const beyond = `0-${sequenceOf(reply) + 1n}`;
                expectError(await read(b, beyond), 409, 'position_lost');
                for (const path of ['busiest/acme', 'stream/acme', 'usage/acme']) {
                    const ask = (minSequence) => fetch(`${b.url}/api/${path}?minSequence=${minSequence}`, { headers: { Authorization: `Bearer ${tokenFor('acme')}` } });
                    await post(a, 'acme', 'counters/acme/views/decrement', { ...TOTAL, amount: 0 });
                    const [reached, lost] = [await ask(position), await ask('0-999999')];
                    assert.deepEqual([path, reached.status, lost.status], [path, 200, 409]);
                    assert.ok(sequenceOf(reached) >= BigInt(position.slice(2)), path);
                    await reached.body.cancel();
                    await lost.body.cancel();
                }
            }
        }));

    test('SPEC 12: ids and keys that are sent to two nodes at once count once and get one answer', () =>
        withNodes(2, async (nodes) => {
            const count = times(40);
            await together(count, async (i) => {
                const tenant = `t${i % 5}`;
                const [a, b] = await Promise.all(nodes.map((each) => insist([each], 0, (at) => keyed(at, tenant, 'n', `k${i}`))));
                assert.equal(a.text, b.text);
                const events = await Promise.all(nodes.map((each) => insist([each], 0, (at) => event(at, tenant, `e${i}`))));
                assert.deepEqual(events.map((reply) => reply.body.result).sort(), ['APPLIED', 'DROPPED_DUPLICATE']);
                assert.equal(events[0].body.id, events[1].body.id);
            });
            for (let i = 0; i < 5; i++)
                expectTriple(await nodes[0].tenant(`t${i}`).get('n'), Array.from({ length: count }, (_, n) => n).filter((n) => n % 5 === i).length);
            assert.equal((await database.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'")).trim(), '0');
        }));

    test('SPEC 12: a node is killed under load; the other goes on, and nothing is lost or doubled', () =>
        withNodes(2, async (nodes) => {
            const count = times(200, 40);
            const work = together(8, async (worker) => {
                for (let i = worker; i < count; i += 8)
                    assert.equal((await insist(nodes, i, (at) => keyed(at, `t${i % 3}`, 'n', `k${i}`))).status, 200);
            });
            await nodes[0].restart({ hard: true });
            await nodes[1].restart({ hard: true });
            await work;
            const sums = await together(3, async (i) => Number((await nodes[0].tenant(`t${i}`).get('n')).body.net));
            assert.equal(sums.reduce((a, b) => a + b), count);
        }));

    /* The transaction ends 5 s after the node fell silent; the other one waits for the lane 2 s a time. */
    test('SPEC 12: a node that hangs in a commit holds its lane for seconds, and its answer is no lie', () =>
        withNodes(1, async ([healthy], schema) => {
            const hanging = node(schema, ONE_LANE, { env: { TALLY_PAUSE_POINT: 'postgres.before_commit:3000' } });
            await post(healthy, 'acme', 'counters/acme/views/increment', TOTAL);
            try {
                await hanging.start();
                const late = post(hanging, 'acme', 'counters/acme/views/increment', { ...TOTAL, amount: 10 });
                await eventually('the lane to be held', async () =>
                    Number(await database.sql("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'")) > 0, { every: 10 });
                hanging.signal('SIGSTOP');
                expectTriple(await insist([healthy], 0, (at) => post(at, 'acme', 'counters/acme/views/increment', { ...TOTAL, amount: 100 })), 101);
                hanging.signal('SIGCONT');
                assert.equal((await late).status, 503);
                expectTriple(await healthy.tenant('acme').get('views'), 101);
            } finally {
                hanging.signal('SIGCONT');
                await hanging.stop();
            }
        }, ONE_LANE));
});

describe('the time of several nodes', () => {
    test('SPEC 12: time is the database\'s: a node whose own clock is wrong harms nobody', async () => {
        const wall = new WallClock();
        wall.by(40 * 24 * 3600 * 1000);
        const schema = newSchema();
        const wrong = node(schema, ONE_LANE, { env: wall.env });
        const right = node(schema, ONE_LANE);
        const bearer = { token: tokenFor('acme', { exp: Math.floor(wall.now() / 1000) + 3600 }) };
        const send = (server, eventId) =>
            server.call('POST', '/api/events/acme', { ...bearer, body: { eventId, type: 'x', occurredAt: '2026-01-01T00:00:00Z' } });
        try {
            await wrong.start();
            await right.start();
            assert.equal((await send(wrong, 'E1')).body.result, 'APPLIED');
            for (const server of [right, wrong]) {
                const { body } = await send(server, 'E1');
                assert.equal(body.result, 'DROPPED_DUPLICATE');
                assert.ok(Math.abs(Date.parse(body.firstSeenAt) - Date.now()) < 3600 * 1000, body.firstSeenAt);
            }
        } finally {
            await wrong.stop();
            await right.stop();
            wall.remove();
        }
    });
});

describe('rules of several nodes', () => {
    const counter = (name, on) => `
  - counterName: ${name}
    rules: [{ on: ${on}, op: increment }]`;
    const config = (...counters) => `counters:${counters.join('')}\n`;
    const ADMIN = tokenFor('operator', { scope: 'admin' });
    const send = (server, type, id) =>
        post(server, 'acme', 'events/acme', { eventId: id, type, occurredAt: '2026-01-01T00:00:00Z' });
    const net = async (server, name) =>
        (await server.call('GET', `/api/counters/acme/${name}/get`, { token: tokenFor('acme') })).body?.net;
    const reload = (server) => server.call('POST', '/api/admin/reload', { token: ADMIN });

    test('SPEC 12: rules that one node reloads are what the others decide by, from their next batch on', () =>
        withNodes(2, async ([a, b]) => {
            await send(a, 'x', 'e1');
            await send(b, 'x', 'e2');
            a.writeConfig(config(counter('first', 'x'), counter('second', 'x')));
            assert.equal((await reload(a)).status, 200);
            await send(b, 'x', 'e3');
            assert.deepEqual([await net(a, 'first'), await net(a, 'second')], ['3', '1']);
            assert.deepEqual([await net(b, 'first'), await net(b, 'second')], ['3', '1']);
        }, ONE_LANE, { config: config(counter('first', 'x')) }));

    test('SPEC 12: a node that comes back with an old file changes nothing, until it is reloaded', () =>
        withNodes(2, async ([a, b]) => {
            a.writeConfig(config(counter('second', 'x')));
            assert.equal((await reload(a)).status, 200);
            await b.restart();
            assert.match(b.stderr, /were in force here before/);
            await send(b, 'x', 'e1');
            await send(a, 'x', 'e2');
            assert.deepEqual([await net(b, 'first'), await net(b, 'second')], ['0', '2']);
            assert.equal((await reload(b)).status, 200);
            await send(a, 'x', 'e3');
            assert.deepEqual([await net(b, 'first'), await net(b, 'second')], ['1', '2']);
        }, {}, { config: config(counter('first', 'x')) }));

    test('SPEC 12: what a rebuild on one node swapped in is what the others count in', () =>
        withNodes(2, async ([a, b]) => {
            for (let i = 0; i < 5; i++) await send(i % 2 ? a : b, 'x', `e${i}`);
            const { job } = (await a.call('POST', '/api/admin/counters/first/rebuild', { token: ADMIN, body: {} })).body;
            await eventually('the rebuild to end', async () =>
                (await a.call('GET', `/api/admin/jobs/${job}`, { token: ADMIN })).body.state === 'done');
            await send(b, 'x', 'later');
            assert.deepEqual([await net(a, 'first'), await net(b, 'first')], ['6', '6']);
        }, ONE_LANE, { config: config(counter('first', 'x')) }));

    test('SPEC 12: a rebuild is done by the node that leads the lane, and by another when that one is dead', () =>
        withNodes(2, async ([a, b]) => {
            for (let i = 0; i < 6; i++) await send(i % 2 ? a : b, 'x', `e${i}`);
            await a.kill();
            const { job } = (await b.call('POST', '/api/admin/counters/first/rebuild', { token: ADMIN, body: {} })).body;
            await eventually('the rebuild to end', async () =>
                (await b.call('GET', `/api/admin/jobs/${job}`, { token: ADMIN })).body.state === 'done', { ms: 30000 });
            assert.equal(await net(b, 'first'), '6');
            await a.start();
            await send(a, 'x', 'later');
            assert.deepEqual([await net(a, 'first'), await net(b, 'first')], ['7', '7']);
        }, {}, { config: config(counter('first', 'x')) }));

    test('SPEC 12: nodes that start at the same time with new rules both start', async () => {
        const schema = newSchema();
        const nodes = [1, 2, 3].map(() => node(schema, {}, { config: config(counter('first', 'x'), counter('second', 'y')) }));
        try {
            await Promise.all(nodes.map((each) => each.start()));
            await together(3, (i) => insist([nodes[i]], 0, (at) => send(at, 'x', `e${i}`)));
            assert.deepEqual(await together(3, (i) => net(nodes[i], 'first')), ['3', '3', '3']);
            const generations = (await database.sql(`SELECT count(DISTINCT value) = count(*) FROM ${schema}.objects WHERE lane = 0 AND substring(key, 1, 1) = 'c'`)).trim();
            assert.equal(generations, 't');
        } finally {
            for (const each of nodes) await each.stop();
        }
    });
});

describe('answers of the database that are lost', () => {
    let relay;
    let server;
    before(async () => {
        relay = await new Relay(() => database.port).start();
        const dsn = database.dsn.replace(/:\d+\/postgres/, `:${relay.port}/postgres`);
        /* Without prepared statements the relay sees their texts. */
        server = node(newSchema(), { 'store.postgres.dsn': dsn, 'store.postgres.pooler': 'transaction', 'store.lanes': 1 });
        await server.start();
    });
    after(async () => {
        await server?.stop();
        await relay?.stop();
    });

    test('SPEC 12: the answer to COMMIT is lost: the outcome is found by the stamp, and is success', async () => {
        for (let i = 1; i <= times(10); i++) {
            const before = relay.lost;
            relay.loseAfter((data) => data.includes('.commits (lane'));
            expectTriple(await post(server, 'acme', 'counters/acme/found/increment', TOTAL), i);
            assert.equal(relay.lost, before + 1);
        }
    });

    test('SPEC 12: whichever answer is lost, an id counts once and nothing that was acknowledged goes', async () => {
        const texts = ['FOR UPDATE', '.registry', '.series', '.cells', 'INSERT INTO', 'COMMIT'];
        let count = 0;
        for (const text of texts) {
            for (let i = 0; i < times(4); i++) {
                relay.loseAfter((data) => data.includes(text));
                const reply = await insist([server], 0, (at) => keyed(at, 'acme', 'n', `${text}-${i}`));
                assert.equal(reply.status, 200, reply.text);
                count++;
                const again = await insist([server], 0, (at) => event(at, 'acme', `${text}-${i}`));
                assert.equal(again.status, 200);
                assert.equal((await insist([server], 0, (at) => event(at, 'acme', `${text}-${i}`))).body.result, 'DROPPED_DUPLICATE');
            }
        }
        expectTriple(await insist([server], 0, (at) => at.tenant('acme').get('n')), count);
    });
});

describe('a database that is away', () => {
    test('SPEC 12: writes and reads are 503 at once, and work goes on by itself when it is back', () =>
        withNodes(1, async ([server]) => {
            const t = server.tenant('acme');
            expectTriple(await t.increment('views', TOTAL), 1);
            await database.down();
            await eventually('the first refusal', async () => (await t.increment('views', { ...TOTAL, amount: 10 })).status === 503);
            for (let i = 0; i < 10; i++) {
                assert.equal((await t.increment('views', { ...TOTAL, amount: 10 })).status, 503);
                assert.equal((await t.get('views')).status, 503);
            }
            await database.up();
            await eventually('a write', async () => (await t.increment('likes', TOTAL)).status === 200);
            expectTriple(await insist([server], 0, (at) => at.tenant('acme').get('views')), 1);
        }));
});
