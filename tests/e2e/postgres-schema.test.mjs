// SPEC 12: the tables of a store in PostgreSQL: made, and brought up to date by `tally migrate`.

import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { expectError, expectTriple } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { Database } from './support/postgres.mjs';
import { dim, RuleTenant } from './support/rules.mjs';
import { runTally, Server, TOTAL } from './support/server.mjs';

/* A schema as the version before the present one made it and filled it: two lanes, two tenants, a counter kept
 * by rules, an event that came twice. pg_dump wrote it. */
const EARLIER = fileURLToPath(new URL('support/postgres-schema-1.sql', import.meta.url));
const NEWEST = 2;

let database;
let databases = 0;
before(async () => {
    database = await Database.create();
    await database.start();
});
after(() => database?.stop());

/** A database of its own, with the earlier schema `tally` in it if that is asked for. */
async function newDatabase({ earlier = false } = {}) {
    const name = `d${++databases}`;
    await database.sql(`CREATE DATABASE ${name}`);
    const dsn = database.dsn.replace(/postgres$/, name);
    if (earlier) await database.file(EARLIER, name);
    return { dsn, sql: (text) => database.sql(text, 60, name) };
}

const settingsOf = ({ dsn }, more = {}) => ({
    'store.kind': 'postgres', 'store.postgres.dsn': dsn, 'store.lanes': 2, 'store.postgres.unsafe': true, ...more });

const migrate = (at, more, words = []) =>
    runTally(['migrate', ...words, ...Object.entries(settingsOf(at, more)).flatMap(([key, value]) => ['--set', `${key}=${value}`])]);

/* What a schema is made of, by name: a column that was added later is the last one of its table. */
const SHAPE = {
    columns: `SELECT c.relname, a.attname, a.atttypid::regtype, a.attnotnull, a.attcollation, a.attgenerated, pg_get_expr(d.adbin, d.adrelid)
              FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
              LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
              WHERE c.relnamespace = 'tally'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND c.relname !~ '^history_[0-9]'`,
    tables: `SELECT relname, relkind, reloptions, relrowsecurity, relforcerowsecurity, relacl::text
             FROM pg_class WHERE relnamespace = 'tally'::regnamespace AND relkind IN ('r', 'p', 'v', 'S') AND relname !~ '^history_[0-9]'`,
    indexes: `SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'tally' AND tablename !~ '^history_[0-9]'`,
    constraints: `SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
                  WHERE connamespace = 'tally'::regnamespace AND conrelid::regclass::text !~ 'history_[0-9]'`,
    policies: 'SELECT * FROM pg_policies WHERE schemaname = \'tally\'',
    views: 'SELECT viewname, definition FROM pg_views WHERE schemaname = \'tally\'',
    functions: 'SELECT pg_get_functiondef(oid), proacl::text FROM pg_proc WHERE pronamespace = \'tally\'::regnamespace',
    triggers: 'SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal',
};

async function shapeOf(at) {
    const rows = async (query) => JSON.parse(await at.sql(`SELECT coalesce(json_agg(q), '[]') FROM (${query} ORDER BY 1, 2) q`));
    return Object.fromEntries(await Promise.all(Object.entries(SHAPE).map(async ([what, query]) => [what, await rows(query)])));
}

describe('tally migrate', () => {
    test('SPEC 12: --citus without Citus is refused with a sentence, nothing half made, and so is a schema that is laid out otherwise', async () => {
        const at = await newDatabase();
        const end = await migrate(at, {}, ['--citus']);
        assert.equal(end.code, 1);
        assert.match(end.stderr, /^tally: cannot make the schema: the database has no extension citus \(CREATE EXTENSION citus makes it\)/);
        assert.equal((await migrate(at)).code, 0);
        assert.match((await migrate(at, {}, ['--citus'])).stderr, /the schema tally is there and not laid out for Citus; make another one/);
    });

    test('SPEC 12: a schema of an earlier version that is upgraded equals one that is made anew', async () => {
        const [old, fresh] = [await newDatabase({ earlier: true }), await newDatabase()];
        const end = await migrate(old);
        assert.equal(end.code, 0, end.stderr);
        assert.match(end.stdout, new RegExp(`^the schema tally was of version 1 and is of version ${NEWEST} now, with 2 lanes\\.`));
        assert.equal((await migrate(fresh)).code, 0);
        const [upgraded, made] = [await shapeOf(old), await shapeOf(fresh)];
        for (const what of Object.keys(SHAPE)) assert.deepEqual(upgraded[what], made[what], what);
        assert.match((await migrate(old)).stdout, new RegExp(`^the schema tally is of version ${NEWEST}, with 2 lanes\\.`));
    });

    test('SPEC 12: an upgrade keeps what was counted, the ids and the events', async () => {
        const at = await newDatabase({ earlier: true });
        assert.equal((await migrate(at)).code, 0);
        const server = new Server({ settings: settingsOf(at) });
        try {
            await server.start();
            expectTriple(await server.tenant('acme').increment('views', TOTAL), 6);
            expectTriple(await server.tenant('umbrella').get('views', TOTAL), 7);
            const acme = new RuleTenant(server, 'acme');
            expectTriple(await acme.get('entry_count', dim({ project: 'p1' })), 1);
            assert.equal((await acme.call('GET', '/api/events/acme')).body.events.length, 2);
            assert.equal((await acme.call('GET', '/api/duplicates/acme')).body.duplicates.length, 1);
        } finally {
            await server.stop();
        }
    });

    test('SPEC 12: serve upgrades nothing: an earlier schema refuses to start, and says what to run', async () => {
        const at = await newDatabase({ earlier: true });
        const before = await shapeOf(at);
        await assert.rejects(new Server({ settings: settingsOf(at) }).start(), /is of version 1 and this tally needs 2: run `tally migrate`/);
        assert.deepEqual(await shapeOf(at), before);
    });

    test('SPEC 12: an upgrade is whole or not at all', async () => {
        const at = await newDatabase({ earlier: true });
        await at.sql('CREATE TABLE tally.nodes (in_the_way int)');
        const before = await shapeOf(at);
        const end = await migrate(at);
        assert.equal(end.code, 1);
        assert.match(end.stderr, /^tally: cannot upgrade the schema: relation "nodes" already exists/);
        assert.deepEqual(await shapeOf(at), before);
        await at.sql('DROP TABLE tally.nodes');
        assert.equal((await migrate(at)).code, 0);
    });

    test('SPEC 12: two that upgrade at once both find it done', async () => {
        const at = await newDatabase({ earlier: true });
        const ends = await Promise.all([migrate(at), migrate(at), migrate(at)]);
        for (const end of ends) assert.equal(end.code, 0, end.stderr);
    });

    test('SPEC 12: an upgrade waits for a commit that is under way, and for readers', async () => {
        const at = await newDatabase({ earlier: true });
        const holding = at.sql('BEGIN; SELECT FROM tally.lanes WHERE lane = 1 FOR UPDATE; SELECT FROM tally.cells; SELECT pg_sleep(2); SELECT FROM tally.objects; COMMIT');
        await eventually('the lane to be held', async () => (await at.sql("SELECT count(*) FROM pg_locks WHERE relation = 'tally.cells'::regclass")).trim() !== '0', { every: 20 });
        const end = await migrate(at);
        assert.equal(end.code, 0, end.stderr);
        await holding;
        assert.equal((await at.sql('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()')).trim(), '0');
    });

    test('SPEC 12: a node that serves while another program upgrades answers 503 schema_newer from then on', async () => {
        const at = await newDatabase();
        const server = new Server({ settings: settingsOf(at) });
        try {
            await server.start();
            expectTriple(await server.tenant('acme').increment('views', TOTAL), 1);
            await at.sql(`BEGIN; LOCK TABLE tally.lanes; UPDATE tally.meta SET value = '\\x00000000000000ff' WHERE key = 'schema'; COMMIT`);
            expectError(await server.tenant('acme').increment('views', TOTAL), 503, 'schema_newer');
        } finally {
            await server.stop();
        }
    });
});
