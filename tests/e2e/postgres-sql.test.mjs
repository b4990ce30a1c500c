// SPEC 12 "SQL for people": what the views show, and who sees which rows.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { expectTriple } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { Database } from './support/postgres.mjs';
import { dim, dimensionKey, RuleTenant } from './support/rules.mjs';
import { runTally, Server, TOTAL } from './support/server.mjs';

const RULES = `
counters:
  - counterName: entry_count
    dimensions: [project]
    rollups: [[]]
    group: usage
    limit: 10
    rules: [{ on: entry.created, op: increment }]
  - counterName: storage_bytes
    dimensions: []
    group: usage
    rules: [{ on: entry.created, op: increment, amount: payload.size }]
  - counterName: pulse
    mode: windowed
    window: 1h
    dimensions: []
    rules: [{ on: entry.created, op: increment }]
  - counterName: notes
    dimensions: [note]
    rules: [{ on: noted, op: increment }]
statuses: { Provisioned: active, Decommissioned: decommissioned }
reconcile:
  - name: notes_right
    tenants: [acme]
    entity: [note]
    source: { events: true }
    scanEvery: 1h
    counters: [notes]
`;
const HOUR = { durationSeconds: 3600, timestamp: '2026-01-01T10:20:00Z' };
const ODD = ['\u0000', 'a\u0000b', 'é😀', '"\\', '\u0001\u001f', 'x'.repeat(9000), '\\u0000'];

let database;
let server;
before(async () => {
    database = await Database.make();
    server = new Server({ config: RULES, settings: {
        'store.kind': 'postgres', 'store.postgres.dsn': database.dsn, 'store.lanes': 4, 'store.postgres.unsafe': true } });
    await server.start();
    await database.sql('CREATE ROLE ann LOGIN IN ROLE tally_reader');
});
after(async () => {
    await server?.stop();
    await database?.stop();
});

/** Rows of a query of tally's own role. */
const rows = async (query) => JSON.parse(await database.sql(`SELECT coalesce(json_agg(q), '[]') FROM (${query}) q`));

/** Rows that somebody sees who may read, with a tenant of theirs or none. */
async function seen(query, tenant, { role = 'ann' } = {}) {
    const set = tenant === undefined ? '' : `SET LOCAL app.current_tenant = '${tenant}';`;
    const text = await database.sql(`BEGIN; SET LOCAL ROLE ${role}; ${set} SELECT coalesce(json_agg(q), '[]') FROM (${query}) q; COMMIT`);
    return JSON.parse(text);
}

const VIEWS = ['counters', 'events', 'duplicate_events', 'event_registry', 'tenant_usage_metrics', 'reconcile_queue'];

describe('views of a store in PostgreSQL', () => {
    test('SPEC 12: counters shows each cell with its name, its dimensions and its times', async () => {
        const t = server.tenant('shown');
        expectTriple(await t.increment('views:a', { ...TOTAL, amount: 5 }), 5);
        expectTriple(await t.decrement('views:a', { ...TOTAL, amount: 2 }), 5, 2);
        expectTriple(await t.increment('hourly', { ...HOUR, amount: 7, expiresAt: '2100-01-01T00:00:00Z' }), 7);
        const acme = new RuleTenant(server, 'shown');
        await acme.send('entry.created', { project: 'p1' }, { payload: { size: 40 } });
        const found = await rows("SELECT * FROM tally.counters WHERE tenant_id = 'shown' ORDER BY name, dimensions");
        assert.deepEqual(Object.keys(found[0]), ['tenant_id', 'name', 'dimensions', 'dimension_key', 'duration_seconds', 'bucket', 'zone',
            'time_start', 'net', 'added', 'subbed', 'held', 'expires_at', 'updated_at']);
        const brief = found.map((row) => [row.name, row.dimensions, row.duration_seconds, row.net, row.added, row.subbed]);
        assert.deepEqual(brief, [
            ['entry_count', {}, 0, 1, 1, 0], ['entry_count', { project: 'p1' }, 0, 1, 1, 0], ['hourly', null, 3600, 7, 7, 0],
            ['pulse', {}, 3600, 1, 1, 0], ['storage_bytes', {}, 0, 40, 40, 0], ['views:a', null, 0, 3, 5, 2]]);
        const [all, one, hourly, pulse] = found;
        assert.deepEqual([all.dimension_key, one.dimension_key, hourly.dimension_key], [dimensionKey({}), dimensionKey({ project: 'p1' }), null]);
        assert.deepEqual([hourly.time_start, hourly.expires_at], ['2026-01-01T10:00:00+00:00', '2100-01-01T00:00:00+00:00']);
        assert.ok(Math.abs(Date.parse(pulse.time_start) - Date.now()) < 600000, pulse.time_start);
        assert.ok(Math.abs(Date.parse(one.updated_at) - Date.now()) < 600000, one.updated_at);
        for (const row of found) assert.deepEqual([row.bucket, row.zone, row.held], [null, null, null]);
    });

    test('SPEC 12, 14: a cell that is over is not shown, before the sweep takes it', async () => {
        const t = server.tenant('brief');
        for (const name of ['gone', 'late', 'kept']) expectTriple(await t.increment(name, TOTAL), 1);
        await database.sql(`UPDATE tally.cells c SET exact = s.name = 'gone', expires = (extract(epoch FROM now()) * 1000)::bigint - 5
            FROM tally.series s WHERE s.series = c.series AND s.lane = c.lane AND s.tenant_id = 'brief' AND s.name <> 'kept'`);
        const names = await rows("SELECT name FROM tally.counters WHERE tenant_id = 'brief' ORDER BY name");
        assert.deepEqual(names.map(({ name }) => name), ['kept', 'late']);
    });

    test('SPEC 12, 6: events and duplicate_events show what was sent, and event_registry each id once', async () => {
        const send = () => server.call('POST', '/api/events/acme', { token: server.tenant('acme').token,
            body: { eventId: 'e1', type: 'entry.created', occurredAt: '2026-01-01T00:00:00.250Z', dimensions: { project: 'p' }, payload: { size: 2 } } });
        const first = await send();
        await send();
        const [event] = await rows("SELECT * FROM tally.events WHERE tenant_id = 'acme' AND event_id = 'e1'");
        assert.deepEqual([String(event.id), event.event_type, event.occurred_at, event.dimensions_json, event.payload_json],
            [first.body.id, 'entry.created', '2026-01-01T00:00:00.25+00:00', '{"project":"p"}', '{"size":2}']);
        const [again] = await rows("SELECT * FROM tally.duplicate_events WHERE tenant_id = 'acme'");
        assert.deepEqual(Object.keys(again), ['tenant_id', 'event_id', 'first_seen_at', 'duplicate_seen_at', 'event_type', 'dimensions_json', 'payload_json']);
        assert.deepEqual([again.event_id, again.first_seen_at, again.payload_json], ['e1', event.arrived_at, '{"size":2}']);
        const registered = await rows("SELECT * FROM tally.event_registry WHERE tenant_id = 'acme'");
        assert.deepEqual([registered.length, Object.keys(registered[0])], [1, ['tenant_id', 'print', 'first_seen_at']]);
    });

    test('SPEC 12, S4-06 to S4-11: tenant_usage_metrics has a row a metric, with limit and status', async () => {
        const busy = new RuleTenant(server, 'busy');
        await busy.send('Provisioned', {});
        const metrics = () => rows("SELECT metric, value, limit_value, status FROM tally.tenant_usage_metrics WHERE tenant_id = 'busy' ORDER BY metric");
        assert.deepEqual(await metrics(), [
            { metric: 'entry_count', value: 0, limit_value: 10, status: 'active' },
            { metric: 'storage_bytes', value: 0, limit_value: null, status: 'active' }]);
        await busy.send('entry.created', { project: 'p1' }, { payload: { size: 40 } });
        await busy.send('entry.created', { project: 'p2' }, { payload: { size: 2 } });
        await busy.send('Decommissioned', {});
        assert.deepEqual(await metrics(), [
            { metric: 'entry_count', value: 2, limit_value: 10, status: 'decommissioned' },
            { metric: 'storage_bytes', value: 42, limit_value: null, status: 'decommissioned' }]);
        const [row] = await rows("SELECT max(last_updated_at) AS at FROM tally.tenant_usage_metrics WHERE tenant_id = 'busy'");
        assert.equal(Date.parse(row.at), Date.parse((await busy.usage()).body.last_updated_at));
    });

    test('SPEC 12: limits in the view are those of the rules in force', async () => {
        const changed = new Server({ config: RULES.replace('limit: 10', 'limit: 77'), settings: {
            'store.kind': 'postgres', 'store.postgres.dsn': database.dsn, 'store.postgres.schema': 'limits', 'store.lanes': 2, 'store.postgres.unsafe': true } });
        try {
            await changed.start();
            await new RuleTenant(changed, 'a').send('Provisioned', {});
            assert.equal((await rows("SELECT limit_value FROM limits.tenant_usage_metrics WHERE metric = 'entry_count'"))[0].limit_value, 77);
        } finally {
            await changed.stop();
        }
    });

    test('SPEC 9, 12: reconcile_queue shows what is to be counted anew', async () => {
        const acme = new RuleTenant(server, 'acme');
        await acme.send('noted', { note: 'n1' });
        const [row] = await rows("SELECT * FROM tally.reconcile_queue WHERE entity = '{\"note\":\"n1\"}'");
        assert.deepEqual([row.tenant_id, row.name, row.pending, row.updated_at], ['acme', 'notes_right', true, null]);
        assert.ok(Math.abs(Date.parse(row.marked_at) - Date.now()) < 600000, row.marked_at);
    });

    test('SPEC 12: what text and jsonb do not take is shown another way, and hides no other row', async () => {
        const odd = new RuleTenant(server, 'odd');
        for (const [i, text] of ODD.entries())
            await odd.send('noted', { note: text }, { eventId: `o${i}`, payload: { text: text.slice(0, 20) } });
        const found = await rows("SELECT dimensions, dimension_key FROM tally.counters WHERE tenant_id = 'odd' AND name = 'notes'");
        const keys = new Set(found.map((row) => row.dimension_key));
        for (const text of ODD.filter((each) => !/[\u0000-\u001f]/.test(each))) assert.ok(keys.has(dimensionKey({ note: text })), text);
        assert.equal(keys.size, ODD.length);
        const shown = found.map((row) => row.dimensions?.note).filter((note) => note !== undefined);
        assert.deepEqual(new Set(shown), new Set(['é😀', '"\\', '\u0001\u001f', 'x'.repeat(9000), '\\u0000']));
        const events = await rows("SELECT event_id, payload_json FROM tally.events WHERE tenant_id = 'odd' ORDER BY id");
        assert.equal(events.length, ODD.length);
        assert.equal(JSON.parse(events[0].payload_json).text, '\u0000');
    });

    test('SPEC 12: bytes that tally never wrote fail no query of the others\' rows', async () => {
        await database.sql(`CREATE SCHEMA hurt; CREATE TABLE hurt.keep AS SELECT * FROM tally.history WHERE tenant_id = 'acme'`);
        const bytes = ['\\x00', '\\xff', '\\xeda080', '\\x7b22', '', '\\xc0af', '\\xf4908080'];
        for (const each of bytes) {
            await database.sql(`UPDATE tally.history SET id = '${each}', type = '${each}', dimensions = '${each}', payload = '${each}' WHERE tenant_id = 'acme'`);
            assert.ok((await rows('SELECT * FROM tally.events')).length > 0, each);
            assert.ok((await rows('SELECT * FROM tally.duplicate_events')).length > 0, each);
            await database.sql(`BEGIN; UPDATE tally.series SET key = convert_to(tenant_id, 'UTF8') || '${each}'::bytea WHERE tenant_id = 'acme' AND name = 'notes';
                UPDATE tally.objects SET value = '${each}' WHERE tenant_id = 'busy'; UPDATE tally.objects SET key = '\\x71' || '${each}'::bytea WHERE tenant_id = 'acme';
                SELECT * FROM tally.counters; SELECT * FROM tally.tenant_usage_metrics; SELECT * FROM tally.reconcile_queue; ROLLBACK`);
        }
        await database.sql(`UPDATE tally.history h SET id = k.id, type = k.type, dimensions = k.dimensions, payload = k.payload FROM hurt.keep k
            WHERE h.lane = k.lane AND h.sequence = k.sequence; DROP SCHEMA hurt CASCADE`);
    });
});

describe('row security', () => {
    test('SPEC 12, S4-13: it is enabled and forced on every table, and every row of a tenant says whose it is', async () => {
        const tables = await rows(`SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity FROM pg_class c
            WHERE relnamespace = 'tally'::regnamespace AND relkind IN ('r', 'p')`);
        assert.ok(tables.some(({ relname }) => /^history_\d+$/.test(relname)));
        for (const each of tables) assert.deepEqual([each.relname, each.relrowsecurity, each.relforcerowsecurity], [each.relname, true, true]);
        const policies = await rows("SELECT tablename, roles, qual, cmd FROM pg_policies WHERE schemaname = 'tally' AND policyname = 'tenant_isolation_policy'");
        const named = policies.map(({ tablename }) => tablename);
        for (const each of ['series', 'cells', 'registry', 'objects', 'history', 'tenants']) assert.ok(named.includes(each), each);
        for (const each of policies) {
            assert.deepEqual([each.roles, each.cmd], [['tally_reader'], 'ALL']);
            assert.match(each.qual, /tenant_id = current_setting\('app\.current_tenant'::text, true\)/);
        }
    });

    test('SPEC 12, S4-05, S4-14, S4-15: the tenant that is set sees its own rows, unset or another sees none', async () => {
        for (const view of VIEWS) {
            const query = `SELECT * FROM tally.${view}`;
            const own = await seen(query, 'acme').then((all) => (view === 'tenant_usage_metrics' ? seen(query, 'busy') : all));
            assert.ok(own.length > 0, view);
            const tenant = view === 'tenant_usage_metrics' ? 'busy' : 'acme';
            assert.deepEqual(own, await rows(`${query} WHERE tenant_id = '${tenant}'`), view);
            assert.deepEqual(await seen(query), [], view);
            assert.deepEqual(await seen(query, ''), [], view);
            assert.deepEqual(await seen(query, 'nobody'), [], view);
            assert.deepEqual(await seen(`${query} WHERE tenant_id <> 'acme'`, 'acme'), [], view);
        }
        assert.deepEqual(await seen("SELECT count(*) AS n FROM tally.series WHERE tenant_id = 'odd'", 'acme'), [{ n: 0 }]);
        assert.deepEqual(await seen('SELECT DISTINCT tenant_id FROM tally.cells', 'acme'), [{ tenant_id: 'acme' }]);
    });

    test('S4-14: a tenant that is set for a transaction is gone with it', async () => {
        const text = await database.sql(`SET ROLE ann; BEGIN; SET LOCAL app.current_tenant = 'acme'; COMMIT; SELECT count(*) FROM tally.counters`);
        assert.equal(text.trim(), '0');
    });

    test('SPEC 12: conditions, functions, casts and EXPLAIN of another tenant show nothing of the rows that it may not see', async () => {
        await database.sql(`CREATE SCHEMA IF NOT EXISTS own AUTHORIZATION ann;
            CREATE OR REPLACE FUNCTION own.peep(t text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE WARNING 'saw %', t; RETURN true; END $$`);
        const noisy = async (query) => {
            const end = await database.psql(['-c', `SET ROLE ann; SET app.current_tenant = 'busy'; ${query}`]);
            assert.ok(!/acme|notes_right/.test(end.stdout + end.stderr), end.stdout + end.stderr);
            return end;
        };
        for (const view of VIEWS) {
            await noisy(`SELECT own.peep(tenant_id) FROM tally.${view} WHERE own.peep(tenant_id)`);
            await noisy(`EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM tally.${view} WHERE own.peep(tenant_id)`);
            await noisy(`SELECT * FROM tally.${view} v WHERE CAST(v.tenant_id AS int) = 1`);
        }
        const own = await noisy('SELECT * FROM tally.series WHERE own.peep(encode(key, \'escape\')) AND 1 / (octet_length(tenant_id) - 4) > 0');
        assert.match(own.stderr, /saw busy|division by zero/);
        await noisy("SELECT most_common_vals, histogram_bounds FROM pg_stats WHERE schemaname = 'tally'");
    });

    test('SPEC 12: the secret of the fingerprints, and what is no tenant\'s, cannot be read; nothing can be written', async () => {
        const refused = (query) => assert.rejects(seen(query, 'acme'), /permission denied/, query);
        for (const table of ['meta', 'lanes', 'leases', 'commits', 'graves', 'tenants', 'nodes', 'cells_0', 'registry_0'])
            await refused(`SELECT * FROM tally.${table}`);
        await refused('SELECT outcome FROM tally.registry');
        const ann = (query) => database.sql(`BEGIN; SET LOCAL ROLE ann; SET LOCAL app.current_tenant = 'acme'; ${query}; COMMIT`);
        for (const query of ['UPDATE tally.cells SET added = 0', 'DELETE FROM tally.series', "INSERT INTO tally.objects VALUES (gen_random_uuid(), 0, 'x', 'x')",
            'TRUNCATE tally.history', 'UPDATE tally.counters SET added = 0', 'CREATE TABLE tally.mine (a int)', 'ALTER TABLE tally.cells DISABLE ROW LEVEL SECURITY',
            'CREATE FUNCTION tally.f() RETURNS int LANGUAGE sql RETURN 1'])
            await assert.rejects(ann(query), /permission denied|must be owner|cannot update view/, query);
    });

    test('SPEC 12: an owner without BYPASSRLS sees no row either, and is told so where it says row_security = off', async () => {
        await database.sql('CREATE ROLE keeper; GRANT CREATE ON DATABASE postgres TO keeper; ALTER TABLE tally.series OWNER TO keeper; GRANT USAGE ON SCHEMA tally TO keeper');
        try {
            assert.deepEqual(await seen('SELECT * FROM tally.series', 'acme', { role: 'keeper' }), []);
            await assert.rejects(database.sql('SET ROLE keeper; SET row_security = off; SELECT * FROM tally.series'), /affected by row-level security/);
        } finally {
            await database.sql('ALTER TABLE tally.series OWNER TO postgres');
        }
    });

    test('SPEC 12: a right that is lost while a node serves is a 503, never an empty answer; its return is noticed', async () => {
        await database.sql("CREATE ROLE hand LOGIN BYPASSRLS PASSWORD 'x'; CREATE SCHEMA hand AUTHORIZATION hand");
        for (const pooler of ['none', 'transaction']) {
            const node = new Server({ settings: { 'store.kind': 'postgres', 'store.postgres.dsn': database.dsn.replace('postgres:', 'hand:'),
                'store.postgres.schema': 'hand', 'store.lanes': 2, 'store.postgres.unsafe': true, 'store.postgres.pooler': pooler } });
            try {
                await node.start();
                const t = node.tenant('acme');
                assert.equal((await t.increment('views', TOTAL)).status, 200);
                await database.sql('ALTER ROLE hand NOBYPASSRLS');
                assert.equal((await t.get('views', TOTAL)).status, 503, pooler);
                assert.equal((await t.increment('views', TOTAL)).status, 503, pooler);
                await database.sql('ALTER ROLE hand BYPASSRLS');
                await eventually('reads to be answered', async () => (await t.get('views', TOTAL)).status === 200);
                await eventually('writes to be taken', async () => (await t.increment('views', TOTAL)).status === 200);
            } finally {
                await database.sql('ALTER ROLE hand BYPASSRLS');
                await node.stop();
            }
        }
    });
});

describe('who may make it', () => {
    const migrate = (dsn, schema) => runTally(['migrate', ...Object.entries({ 'store.kind': 'postgres', 'store.postgres.dsn': dsn,
        'store.postgres.schema': schema, 'store.lanes': 2, 'store.postgres.unsafe': true }).flatMap(([key, value]) => ['--set', `${key}=${value}`])]);

    test('SPEC 12: a role without BYPASSRLS is told what it lacks, and nothing is made', async () => {
        await database.sql("CREATE ROLE weak LOGIN; GRANT CREATE ON DATABASE postgres TO weak");
        const end = await migrate(database.dsn.replace('postgres:', 'weak:'), 'weak');
        assert.equal(end.code, 1);
        assert.match(end.stderr, /the role weak does not have BYPASSRLS.*ALTER ROLE weak BYPASSRLS/);
        assert.equal((await database.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'weak'")).trim(), '0');
    });

    test('SPEC 12: a role that may not make roles makes the rest; once tally_reader is there, migrate lets it in', async () => {
        const own = await Database.make();
        try {
            await own.sql("CREATE ROLE plain LOGIN BYPASSRLS; GRANT CREATE ON DATABASE postgres TO plain");
            const dsn = own.dsn.replace('postgres:', 'plain:');
            const first = await migrate(dsn, 'tally');
            assert.equal(first.code, 0, first.stderr);
            assert.match(first.stdout, /is of version \d+, with 2 lanes\.\nNobody can read it with SQL yet: .*CREATE ROLE tally_reader NOLOGIN/);
            assert.equal((await own.sql('SELECT count(*) FROM tally.counters')).trim(), '0');
            await own.sql('CREATE ROLE tally_reader NOLOGIN; CREATE ROLE ann IN ROLE tally_reader');
            await assert.rejects(own.sql('SET ROLE ann; SELECT * FROM tally.counters'), /permission denied/);
            const second = await migrate(dsn, 'tally');
            assert.match(second.stdout, /^the schema tally is of version \d+, with 2 lanes\.\n$/);
            assert.equal((await own.sql('SET ROLE ann; SELECT count(*) FROM tally.counters')).trim(), '0');
        } finally {
            await own.stop();
        }
    });
});
