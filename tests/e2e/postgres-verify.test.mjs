// SPEC 12: `tally verify` on a store in PostgreSQL compares what stands there twice.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Database } from './support/postgres.mjs';
import { RuleTenant } from './support/rules.mjs';
import { runTally, Server, TOTAL } from './support/server.mjs';
import { eventually } from './support/pace.mjs';

let database;
let server;
const settings = () => ({ 'store.kind': 'postgres', 'store.postgres.dsn': database.dsn, 'store.lanes': 4, 'store.postgres.unsafe': true });
before(async () => {
    database = await Database.make();
    server = new Server({ settings: settings(), config: 'counters:\n  - { counterName: seen, dimensions: [d], rules: [{ on: x, op: increment }] }\n' });
    await server.start();
    for (const id of ['acme', 'umbrella', 'stark']) {
        const t = new RuleTenant(server, id);
        for (let i = 0; i < 5; i++) await t.send('x', { d: `${i}` });
        await t.increment('views', TOTAL);
    }
    const t = server.tenant('acme');
    const ops = Array.from({ length: 5000 }, (_, i) => ({ op: 'increment', name: 'minutes', durationSeconds: 60, timestamp: new Date(1.6e12 + i * 60000).toISOString() }));
    for (let at = 0; at < ops.length; at += 1000)
        assert.equal((await t.call('POST', '/api/counters/acme/batch', { body: { ops: ops.slice(at, at + 1000) } })).status, 200);
    await eventually('sums to be made', async () => {
        const query = new URLSearchParams({ durationSeconds: 60, startTime: new Date(1.6e12).toISOString(), endTime: new Date(1.6e12 + 3e8).toISOString() });
        assert.equal((await t.call('GET', `/api/counters/acme/minutes/sumRange?${query}`)).status, 200);
        return Number(await database.sql('SELECT count(*) FROM tally.sums')) > 0;
    }, { ms: 30000 });
});
after(async () => {
    await server?.stop();
    await database?.stop();
});

const verify = (more = {}, args = []) => runTally(['verify', ...Object.entries({ ...settings(), ...more }).flatMap(([key, value]) => ['--set', `${key}=${value}`]), ...args]);

/** Does damage by hand, looks, and undoes it. */
async function damaged(hurt, heal, pattern) {
    await database.sql(hurt);
    try {
        const end = await verify();
        assert.equal(end.code, 1, end.stdout);
        assert.match(end.stdout, pattern);
    } finally {
        await database.sql(heal);
    }
    assert.equal((await verify()).code, 0);
}

describe('tally verify on PostgreSQL', () => {
    test('SPEC 12: finds nothing where all is well, beside a node that serves', async () => {
        const end = await verify();
        assert.equal(end.code, 0, end.stdout + end.stderr);
        for (const what of ['cells', 'series', 'tenants', 'sums', 'ids', 'commits', 'definitions', 'lanes'])
            assert.match(end.stdout, new RegExp(`^good: +${what} +[1-9]\\d*: `, 'm'));
        const json = await verify({}, ['--json']);
        for (const line of json.stdout.trim().split('\n')) assert.equal(JSON.parse(line).verdict, 'good');
    });

    test('SPEC 12: sums against cells', () => damaged(
        'UPDATE tally.sums SET added = added + 1', 'UPDATE tally.sums SET added = added - 1',
        /^DAMAGED: +sums +lane \d+: the sum \d+ of series \d+ is \d+ - 0, and its cells add up to \d+ - 0$/m));

    test('SPEC 12: counts: cells of a series, cells of a tenant', async () => {
        await damaged("UPDATE tally.series SET cells = cells + 1 WHERE tenant_id = 'stark' AND name = 'views'", "UPDATE tally.series SET cells = cells - 1 WHERE tenant_id = 'stark' AND name = 'views'",
            /^DAMAGED: +series +lane \d+: series \d+ of stark says that it has 2 cells, and has 1$/m);
        await damaged("UPDATE tally.tenants SET cells = 99 WHERE tenant_id = 'stark'", "UPDATE tally.tenants SET cells = 6 WHERE tenant_id = 'stark'",
            /^DAMAGED: +tenants +lane \d+: stark says that it has 99 cells, and its series have 6$/m);
        await damaged("CREATE TABLE away AS SELECT * FROM tally.cells WHERE tenant_id = 'stark'; DELETE FROM tally.cells WHERE tenant_id = 'stark'",
            'INSERT INTO tally.cells SELECT * FROM away; DROP TABLE away', /^DAMAGED: +series +lane \d+: .* says that it has 1 cells, and has 0$/m);
    });

    test('SPEC 12: ids against events', () => damaged(
        "CREATE TABLE away AS SELECT * FROM tally.registry WHERE tenant_id = 'stark' AND event; DELETE FROM tally.registry WHERE tenant_id = 'stark' AND event",
        'INSERT INTO tally.registry SELECT * FROM away; DROP TABLE away', /^DAMAGED: +ids +lane \d+: the id of event \d+ of stark is not remembered$/m));

    test('SPEC 12: lanes against tenants', () => damaged(
        "UPDATE tally.tenants SET tenant_id = 'acmf' WHERE tenant_id = 'acme'; UPDATE tally.series SET tenant_id = 'acmf' WHERE tenant_id = 'acme'; UPDATE tally.cells SET tenant_id = 'acmf' WHERE tenant_id = 'acme'",
        "UPDATE tally.tenants SET tenant_id = 'acme' WHERE tenant_id = 'acmf'; UPDATE tally.series SET tenant_id = 'acme' WHERE tenant_id = 'acmf'; UPDATE tally.cells SET tenant_id = 'acme' WHERE tenant_id = 'acmf'",
        /^DAMAGED: +lanes +lane \d+: rows of acmf are here, which belongs to lane \d+$/m));

    test('SPEC 12: a lost commit, and a definition that the views do not have', async () => {
        const lane = (await database.sql("SELECT lane FROM tally.tenants WHERE tenant_id = 'stark'")).trim();
        await damaged(`CREATE TABLE away AS SELECT * FROM tally.definitions; DELETE FROM tally.definitions WHERE lane = ${lane}`,
            `INSERT INTO tally.definitions SELECT * FROM away WHERE lane = ${lane}; DROP TABLE away`, /^DAMAGED: +definitions +lane \d+: that of seen is not in both places$/m);
        await damaged(`UPDATE tally.history SET sequence = sequence + 1000000 WHERE tenant_id = 'stark'; UPDATE tally.registry SET sequence = sequence + 1000000 WHERE tenant_id = 'stark'`,
            `UPDATE tally.history SET sequence = sequence - 1000000 WHERE tenant_id = 'stark'; UPDATE tally.registry SET sequence = sequence - 1000000 WHERE tenant_id = 'stark'`,
            /^DAMAGED: +commits +lane \d+: an event has sequence \d+, and the last commit \d+$/m);
    });

    test('SPEC 12: makes no schema, and says what it could not look at', async () => {
        const end = await verify({ 'store.postgres.schema': 'absent' });
        assert.deepEqual([end.code, end.stdout], [1, '']);
        assert.match(end.stderr, /there is no schema absent/);
        assert.equal((await database.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'absent'")).trim(), '0');
    });
});
