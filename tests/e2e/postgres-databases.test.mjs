// Several databases: SPEC 11 and 12. Lanes are dealt out over two; one dies, the others' tenants notice nothing.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { expectTriple } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { Database } from './support/postgres.mjs';
import { runTally, Server, TOTAL } from './support/server.mjs';
import { SECRET, tokenFor } from './support/tokens.mjs';

let first;
let second;
let schemas = 0;
before(async () => {
    first = await Database.make();
    second = await Database.make();
});
after(async () => {
    await first?.stop();
    await second?.stop();
});

const ADMIN = tokenFor('operator', { scope: 'admin' });
const CONFIG = (name) => `counters:\n  - counterName: ${name}\n    rules: [{ on: x, op: increment }]\n`;
const listOf = (...dsns) => JSON.stringify(dsns);
const settingsOf = (dsns, schema) => ({
    'store.kind': 'postgres', 'store.postgres.dsn': listOf(...dsns), 'store.postgres.unsafe': true, 'store.postgres.schema': schema, 'store.lanes': 4 });
const newSchema = () => `m${++schemas}`;

async function withNode(use, options = {}) {
    const server = new Server({ ...options, settings: { ...settingsOf([first.dsn, second.dsn], newSchema()), ...options.settings } });
    try {
        await server.start();
        await use(server);
    } finally {
        await server.stop();
    }
}

/** Tenants by the database they lie in, some of each, found by which lane moves. */
async function tenantsOf(server) {
    const lanes = async () => (await server.call('GET', '/api/admin/lanes', { token: ADMIN })).body.lanes;
    const found = { first: [], second: [] };
    for (let i = 0; found.first.length < 3 || found.second.length < 3; i++) {
        const before = await lanes();
        const t = server.tenant(`t${i}`);
        await t.increment('views', TOTAL);
        const moved = (await lanes()).filter((lane, index) => lane.sequence !== before[index].sequence);
        if (moved.length === 1) found[moved[0].lane % 2 ? 'second' : 'first'].push(t);
    }
    return found;
}

async function refusal(dsns, schema, lanes = 4) {
    const sets = Object.entries({ ...settingsOf(dsns, schema), 'auth.jwtSecret': SECRET, 'store.lanes': lanes }).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
    const end = await runTally(['serve', '--data', '/nowhere', '--listen', '127.0.0.1:0', ...sets]);
    assert.equal(end.code, 1, end.stdout);
    assert.ok(!end.stderr.includes(Database.PASSWORD), end.stderr);
    return end.stderr;
}

const lanesIn = async (database, schema) => (await database.sql(`SELECT string_agg(lane::text, ',' ORDER BY lane) FROM ${schema}.lanes`)).trim();
const metaOf = async (database, schema, key) => (await database.sql(`SELECT value FROM ${schema}.meta WHERE key = '${key}'`)).trim();
const exists = async (database, schema) => (await database.sql(`SELECT count(*) FROM pg_namespace WHERE nspname = '${schema}'`)).trim() === '1';

describe('lanes over two databases', () => {
    test('SPEC 12: lanes are dealt out evenly and stay; each database says where a lane lies, without secrets', () =>
        withNode(async (server) => {
            const schema = `m${schemas}`;
            assert.deepEqual([await lanesIn(first, schema), await lanesIn(second, schema)], ['0,2', '1,3']);
            for (const key of ['installation', 'secret', 'lanes']) assert.equal(await metaOf(first, schema, key), await metaOf(second, schema, key));
            const { lanes } = (await server.call('GET', '/api/admin/lanes', { token: ADMIN })).body;
            assert.deepEqual(lanes.map((lane) => lane.database), [0, 1, 2, 3].map((i) => `127.0.0.1:${(i % 2 ? second : first).port}/postgres`));
            const said = await runTally(['lanes', '--url', server.url, '--token', ADMIN]);
            assert.match(said.stdout, new RegExp(`127\\.0\\.0\\.1:${second.port}/postgres`));
            const tenants = await tenantsOf(server);
            await server.restart();
            for (const t of [...tenants.first, ...tenants.second]) expectTriple(await server.tenant(t.id).get('views'), 1);
        }));

    test('SPEC 12: another order, a missing one, a foreign one, one too many and one twice are refused, and nothing is made', async () => {
        const schema = newSchema();
        const third = await Database.make();
        try {
            const server = new Server({ settings: settingsOf([first.dsn, second.dsn], schema) });
            await server.start();
            await server.stop();
            const foreign = new Server({ settings: settingsOf([first.dsn, third.dsn], `${schema}f`) });
            await foreign.start();
            await foreign.stop();
            await third.sql(`ALTER SCHEMA ${schema}f RENAME TO ${schema}`);
            assert.match(await refusal([second.dsn, first.dsn], schema), /database 1 of the list .* is the one of database 2: the order of store\.postgres\.dsn is fixed/);
            assert.match(await refusal([first.dsn, third.dsn], schema), /database 2 of the list .* is of another installation/);
            assert.match(await refusal([first.dsn], schema), /was made for 2 databases and store\.postgres\.dsn names 1/);
            assert.match(await refusal([first.dsn, second.dsn, third.dsn], schema), /was made for 2 databases and store\.postgres\.dsn names 3/);
            assert.match(await refusal([first.dsn, first.dsn.replace('127.0.0.1', 'localhost')], `${schema}n`), /names one database twice, as entries 1 and 2/);
            await third.sql(`DROP SCHEMA ${schema} CASCADE`);
            assert.match(await refusal([first.dsn, third.dsn], schema), /database 2 of the list .*: there is no schema .*, and the other databases say that it was made here/);
            assert.match(await refusal([third.dsn, second.dsn], schema), /database 1 of the list .*: there is no schema/);
            assert.match(await refusal([first.dsn, third.dsn.replace(/:\d+\/postgres/, ':1/postgres')], `${schema}n`), /database 2 of the list: cannot reach the database/);
            for (const database of [first, second, third]) assert.equal(await exists(database, `${schema}n`), false);
            assert.equal(await exists(third, schema), false);
        } finally {
            await third.stop();
        }
    });

    test('SPEC 12: a first start that dies between making the one and the other is completed by the next', async () => {
        const schema = newSchema();
        const dying = new Server({ settings: settingsOf([first.dsn, second.dsn], schema), env: { TALLY_CRASH_POINT: 'postgres.made_one' } });
        await dying.spawn();
        assert.equal((await dying.exited).signal, 'SIGKILL');
        assert.deepEqual([await exists(first, schema), await exists(second, schema)], [true, false]);
        assert.match(await refusal([second.dsn, first.dsn], schema), /database 1 of the list .*: there is no schema/);
        const server = new Server({ settings: settingsOf([first.dsn, second.dsn], schema) });
        await server.start();
        for (let i = 0; i < 8; i++) expectTriple(await server.tenant(`t${i}`).increment('views', TOTAL), 1);
        await server.stop();
        assert.equal(await metaOf(first, schema, 'pending'), '');
        assert.deepEqual([await lanesIn(first, schema), await lanesIn(second, schema)], ['0,2', '1,3']);
    });

    test('SPEC 12: two nodes that start first at the same time make one installation, and reload once for all lanes', async () => {
        const schema = newSchema();
        const nodes = [1, 2].map(() => new Server({ config: CONFIG('a'), settings: settingsOf([first.dsn, second.dsn], schema) }));
        try {
            await Promise.all(nodes.map((node) => node.start()));
            nodes[0].writeConfig(CONFIG('b'));
            assert.equal((await nodes[0].call('POST', '/api/admin/reload', { token: ADMIN })).status, 200);
            for (let i = 0; i < 8; i++) {
                const t = nodes[i % 2].tenant(`t${i}`);
                const sent = await nodes[1].call('POST', `/api/events/t${i}`, { token: t.token, body: { eventId: 'e', type: 'x', occurredAt: '2026-01-01T00:00:00Z' } });
                assert.equal(sent.body.result, 'APPLIED', sent.text);
                expectTriple(await t.get('b'), 1);
            }
        } finally {
            for (const node of nodes) await node.stop();
        }
    });
});

describe('one of two databases dies', () => {
    const refused = async (t) => (await t.increment('views', TOTAL)).status === 503 && (await t.get('views')).status === 503;

    async function others(server, tenants, unreachable) {
        await eventually('its lanes to be refused', () => refused(tenants.second[0]), { ms: 60000 });
        const slow = [];
        for (let i = 0; i < 60; i++) {
            const t = tenants.first[i % 3];
            const began = performance.now();
            assert.equal((await t.increment('views', TOTAL)).status, 200);
            assert.equal((await t.get('views')).status, 200);
            slow.push(performance.now() - began);
            if (unreachable) for (const other of tenants.second) other.increment('views', TOTAL).catch(() => {});
            if (unreachable) for (const other of tenants.second) other.get('views').catch(() => {});
        }
        assert.ok(Math.max(...slow) < 3000, `an answer took ${Math.max(...slow)} ms`);
        const { lanes } = (await server.call('GET', '/api/admin/lanes', { token: ADMIN })).body;
        assert.deepEqual([lanes[0].writable, lanes[2].writable], [true, true]);
        assert.ok(!lanes[1].writable || !lanes[3].writable);
        assert.equal((await server.call('GET', '/api/admin/clock', { token: ADMIN })).status, 200);
    }

    async function works(tenants) {
        for (const t of [...tenants.first, ...tenants.second])
            await eventually('work to go on', async () => (await t.increment('views', TOTAL)).status === 200 && (await t.get('views')).status === 200, { ms: 60000 });
    }

    test('SPEC 12: its lanes are 503 at once, the other\'s tenants notice nothing, and it comes back by itself', () =>
        withNode(async (server) => {
            const tenants = await tenantsOf(server);
            await second.crash();
            try {
                await others(server, tenants, false);
                assert.equal((await server.call('GET', '/readyz')).status, 200, 'a load balancer keeps the node');
            } finally {
                await second.up();
            }
            await works(tenants);
        }));

    test('SPEC 12: one that hangs holds up nobody but its own tenants', () =>
        withNode(async (server) => {
            const tenants = await tenantsOf(server);
            second.halt();
            try {
                await others(server, tenants, true);
            } finally {
                second.wake();
            }
            await works(tenants);
        }, { settings: { 'limits.readers': 2 } }));
});
