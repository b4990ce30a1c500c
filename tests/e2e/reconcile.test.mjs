// Reconciliation against a real PostgreSQL (seed 002, SPEC 9): marks, passes, drift, a source in trouble.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { finished, Places } from './support/errands.mjs';
import { sequenceOf } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { Database, databaseFor } from './support/postgres.mjs';
import { newId, RuleTenant } from './support/rules.mjs';
import { runTally, Server } from './support/server.mjs';

const SCHEMA = `
    CREATE TABLE opinion (id serial PRIMARY KEY, conversation_id text NOT NULL, current_content_id int);
    CREATE TABLE vote (id serial PRIMARY KEY, conversation_id text NOT NULL, author_id int NOT NULL);
    CREATE TABLE odd (conversation_id text NOT NULL, answer text);
    CREATE TABLE item (owner int NOT NULL, tenant text NOT NULL);
`;

const COUNTERS = `
counters:
  - counterName: opinion_count
    dimensions: [conversationId]
    rules:
      - { on: opinion.created, op: increment }
      - { on: opinion.deleted, op: decrement }
  - counterName: vote_count
    dimensions: [conversationId]
    rollups: [[]]
    rules: [{ on: vote.cast, op: increment }]
  - { counterName: participant_count, dimensions: [conversationId], rules: [] }
  - { counterName: odd_count, dimensions: [conversationId], rules: [] }
  - { counterName: items, dimensions: [owner], rules: [] }
`;

const entry = ({ name = 'conversation', tenants = '[app]', more = '', counters }) => `
  - name: ${name}
    tenants: ${tenants}
    entity: [conversationId]
    source: { postgres: "env:SOURCE_DSN" }
    counters:
${counters}
    scanEvery: 50ms
    minInterval: 100ms
    singleFlight: [{ every: 0s }]
${more}`;

const CONFIG = `${COUNTERS}
reconcile:${entry({
    counters: `
      opinion_count: SELECT count(*) FROM opinion WHERE conversation_id = $1 AND current_content_id IS NOT NULL
      vote_count: SELECT count(*) FROM vote WHERE conversation_id = $1
      participant_count: SELECT count(DISTINCT author_id) FROM vote WHERE conversation_id = $1`,
    more: '    sizeBy: vote_count\n    driftAlert: 50\n',
})}${entry({
    name: 'odd',
    counters: `
      odd_count: SELECT answer FROM odd WHERE conversation_id = $1`,
    more: '    statementTimeout: 500ms\n',
})}
  - name: items
    tenants: all
    entity: [owner]
    source: { postgres: "env:SOURCE_DSN" }
    counters: { items: "SELECT count(*) FROM item WHERE owner = $1 AND tenant = $2" }
    scanEvery: 50ms
    minInterval: 0s
`;

const database = databaseFor(SCHEMA);
const places = new Places();
after(() => places.remove());

class App extends RuleTenant {
    sql(text) {
        return database.current.sql(text);
    }

    reconcile(method, action, body, name = 'conversation') {
        return this.call(method, `/api/reconcile/${this.id}/${name}/${action}`, body === undefined ? {} : { body });
    }

    async request(conversationId, name) {
        const reply = await this.reconcile('POST', 'request', { conversationId }, name);
        assert.equal(reply.status, 200, reply.text);
        assert.ok(sequenceOf(reply) > 0n);
        return reply;
    }

    async run(conversationId, name) {
        const reply = await this.reconcile('POST', 'run', { conversationId }, name);
        assert.equal(reply.status, 200, reply.text);
        return reply.body;
    }

    async counts(conversationId) {
        const nets = await Promise.all(['opinion_count', 'vote_count', 'participant_count']
            .map((name) => this.net(name, { conversationId })));
        return nets.join(' ');
    }

    becomes(conversationId, wanted) {
        return eventually(`the counters of ${conversationId} to be ${wanted}`,
            async () => (await this.counts(conversationId)) === wanted, { ms: 30000, every: 20 });
    }

    async status(name) {
        const reply = await this.reconcile('GET', 'status', undefined, name);
        assert.equal(reply.status, 200, reply.text);
        return reply.body;
    }

    idle(name) {
        return eventually('nothing to be pending', async () => (await this.status(name)).pending === 0,
            { ms: 30000, every: 20 });
    }
}

/** A server of its own, because the database's address is known only once it runs. */
async function withServer(run, { config = CONFIG, settings = {} } = {}) {
    const server = new Server({ config, settings, env: { SOURCE_DSN: database.current.dsn } });
    await server.start();
    try {
        await run(new App(server, 'app'), server);
    } finally {
        await server.stop();
    }
}

const lines = (server, msg) => server.stderr.split('\n').slice(0, -1).filter((line) => line.includes(msg)).map((line) => JSON.parse(line));
/** The log is written beside the replies: it is waited for. */
const logged = (server, msg, count = 1) => eventually(`${count} x "${msg}" in the log`, () => {
    const found = lines(server, msg);
    return found.length >= count && found;
}, { ms: 30000, every: 10 });
const votes = (id, count) => `INSERT INTO vote (conversation_id, author_id) SELECT '${id}', n FROM generate_series(1, ${count}) n;`;

describe('reconciliation', () => {
    test('S2-21 S2-22 S2-24: an event marks its entity, and what changed behind tally is put right', () => withServer(async (app, server) => {
        await app.sql(votes('c1', 3) + `INSERT INTO opinion (conversation_id, current_content_id) VALUES ('c1', 1), ('c1', NULL)`);
        await app.send('vote.cast', { conversationId: 'c1' });
        await app.becomes('c1', '1 3 3');
        await app.idle();

        // S2-39, S2-40: before, after, diff = after - before; nothing without drift.
        const [fix, ...others] = await logged(server, '[Counter Reconciliation]');
        assert.deepEqual(others, []);
        assert.equal(fix.msg, '[Counter Reconciliation] Fixing counters for conversation c1');
        assert.deepEqual(fix.before, { opinion_count: 0, vote_count: 1, participant_count: 0 });
        assert.deepEqual(fix.after, { opinion_count: 1, vote_count: 3, participant_count: 3 });
        assert.deepEqual(fix.diff, { opinion_count: 1, vote_count: 2, participant_count: 3 });
        assert.equal(fix.level, 'info');
        await app.request('c1');
        await app.idle();
        assert.equal(lines(server, '[Counter Reconciliation]').length, 1);

        // S2-36, S2-37.
        assert.equal((await logged(server, '[Scan] Found'))[0].msg, '[Scan] Found 1 conversation(s) needing math updates: [c1]');
        assert.equal((await logged(server, '[Scan] Successfully'))[0].msg, '[Scan] Successfully enqueued 1 conversation(s): [c1]');

        // S2-41: a large difference is a warning.
        await app.sql(`DELETE FROM vote WHERE conversation_id = 'c1'; ${votes('c1', 60)}`);
        await app.request('c1');
        await app.becomes('c1', '1 60 60');
        assert.equal((await logged(server, '[Counter Reconciliation]', 2))[1].level, 'warn');
        const metrics = (await server.call('GET', '/metrics')).text;
        assert.match(metrics, /^tally_reconcile_passes_total\{result="fixed"\} 2$/m);
        assert.match(metrics, /^tally_reconcile_drift_total 120$/m);
        assert.match(metrics, /^tally_reconcile_drift_alerts_total 1$/m);
        assert.match(metrics, /^tally_reconcile_queue_length \d+$/m);
        assert.match(metrics, /^tally_reconcile_oldest_mark_seconds /m);
    }));

    test('S2-44 A-16: drift lists what is wrong and nothing else; run puts one right now', () => withServer(async (app) => {
        await app.sql(votes('d1', 4) + votes('d2', 2));
        for (const id of ['d1', 'd2', 'd3']) await app.request(id);
        await app.becomes('d1', '0 4 4');
        await app.idle();
        await app.sql(`DELETE FROM vote WHERE conversation_id = 'd1' AND author_id > 1`);
        const found = [];
        let after;
        do {
            const reply = await app.reconcile('GET', `drift?limit=1${after ? `&after=${after}` : ''}`);
            assert.equal(reply.status, 200, reply.text);
            found.push(...reply.body.drift);
            after = reply.body.next;
        } while (after);
        assert.deepEqual(found, [{
            entity: { conversationId: 'd1' },
            stored: { opinion_count: '0', vote_count: '4', participant_count: '4' },
            actual: { opinion_count: '0', vote_count: '1', participant_count: '1' },
            drift: { opinion_count: '0', vote_count: '3', participant_count: '3' },
        }]);
        assert.deepEqual(await app.run('d1'), {
            entity: { conversationId: 'd1' },
            before: { opinion_count: '0', vote_count: '4', participant_count: '4' },
            after: { opinion_count: '0', vote_count: '1', participant_count: '1' },
            diff: { opinion_count: '0', vote_count: '-3', participant_count: '-3' },
            cleared: true,
        });
        assert.deepEqual((await app.run('d1')).diff, { opinion_count: '0', vote_count: '0', participant_count: '0' });
        assert.deepEqual((await app.reconcile('GET', 'drift')).body, { drift: [], uncounted: [], next: null });
    }));

    test('a source that answers garbage never changes a counter, and is reported', () => withServer(async (app, server) => {
        await app.sql(`INSERT INTO odd VALUES ('good', '7')`);
        assert.equal((await app.run('good', 'odd')).after.odd_count, '7');
        const cases = { null: 'NULL', negative: `'-1'`, text: `'many'`, fraction: `'1.5'`, big: `'9223372036854775808'` };
        for (const [id, answer] of Object.entries(cases)) await app.sql(`INSERT INTO odd VALUES ('${id}', ${answer})`);
        await app.sql(`INSERT INTO odd VALUES ('two', '1'), ('two', '2')`);
        for (const id of [...Object.keys(cases), 'none', 'two', 'nul\0']) {
            const reply = await app.reconcile('POST', 'run', { conversationId: id }, 'odd');
            assert.equal(reply.status, 503, `${id}: ${reply.text}`);
            assert.deepEqual(reply.body, {
                error: "The source of the truth did not give a count; the server's log says why.", code: 'source_failed',
            });
            assert.equal(await app.net('odd_count', { conversationId: id }), 0);
        }
        const why = (await logged(server, 'could not be counted', 8)).map((line) => line.why);
        assert.deepEqual(why, [
            'counter odd_count: the query gave NULL instead of a count',
            ...['-1', 'many', '1.5', '9223372036854775808'].map((text) => `counter odd_count: the query gave "${text}" instead of a whole number from 0 to 9223372036854775807`),
            'counter odd_count: the query gave 0 rows of 1 columns instead of one count',
            'counter odd_count: the query gave 2 rows of 1 columns instead of one count',
            'the entity has a NUL character, which PostgreSQL does not take',
        ]);
        // A query that fails is told to the operator and not to the tenant.
        await app.request('none', 'odd');
        await eventually('a failing entity', async () => (await app.status('odd')).failing === 1);
        assert.equal(await app.net('odd_count', { conversationId: 'good' }), 7);

        // S2-44: one that cannot be counted does not hide what is wrong with the others.
        await app.sql(`UPDATE odd SET answer = '9' WHERE conversation_id = 'good'`);
        const { drift, uncounted } = (await app.reconcile('GET', 'drift', undefined, 'odd')).body;
        assert.deepEqual(drift.map((row) => [row.entity.conversationId, row.drift.odd_count]), [['good', '-2']]);
        assert.deepEqual(uncounted, [{ conversationId: 'none' }]);
        const shown = await runTally(['reconcile', 'drift', 'odd'], { env: { TALLY_URL: server.url, TALLY_TOKEN: app.token } });
        assert.equal(shown.code, 0, shown.stderr);
        assert.equal(shown.stdout, 'conversationId=good\n  odd_count                      stored 7, actual 9, drift -2\n'
            + "conversationId=none\n  could not be counted; the server's log says why\n");
    }));

    test('a slow source is given up on after statementTimeout', () => withServer(async (app, server) => {
        await app.sql(`CREATE OR REPLACE FUNCTION slow() RETURNS text LANGUAGE sql AS 'SELECT pg_sleep(60)::text'`);
        await app.sql(`ALTER TABLE odd RENAME TO odd_table; CREATE VIEW odd AS SELECT conversation_id,
            CASE WHEN conversation_id = 'slow' THEN slow() ELSE answer END AS answer FROM odd_table`);
        await app.sql(`INSERT INTO odd_table VALUES ('slow', '1')`);
        const reply = await app.reconcile('POST', 'run', { conversationId: 'slow' }, 'odd');
        assert.equal(reply.status, 503, reply.text);
        assert.match((await logged(server, 'could not be counted'))[0].why, /statement timeout \(SQLSTATE 57014\)$/);
        await app.sql(`DROP VIEW odd; ALTER TABLE odd_table RENAME TO odd`);
    }));

    test('a source that stops answering is given up on, and holds up no stop', () => withServer(async (app, server) => {
        await app.sql(`INSERT INTO odd VALUES ('still', '1')`);
        const run = () => app.reconcile('POST', 'run', { conversationId: 'still' }, 'odd');
        const backends = async () => (await app.sql(`SELECT pid FROM pg_stat_activity WHERE application_name = 'tally'`))
            .split('\n').filter(Boolean).map(Number);
        const frozen = new Set();
        const signal = (pid, name) => {
            try {
                process.kill(pid, name);
            } catch (error) {
                assert.equal(error.code, 'ESRCH'); // it has ended meanwhile
            }
        };
        const freeze = async () => {
            const pids = await backends();
            assert.ok(pids.length > 0);
            for (const pid of pids) frozen.add(pid);
            for (const pid of pids) signal(pid, 'SIGSTOP');
        };
        try {
            assert.equal((await run()).status, 200);
            await freeze();
            const reply = await run();
            assert.equal(reply.body.code, 'source_unavailable', reply.text);
            assert.equal((await logged(server, 'could not be counted'))[0].why, 'no answer within 3500 ms');
            assert.equal((await run()).status, 200); // on a new connection
            await freeze();
            await app.request('still', 'odd');
            await logged(server, '[Scan] Successfully enqueued 1 odd(s): [still]');
            await server.stop();
        } finally {
            for (const pid of frozen) signal(pid, 'SIGCONT');
        }
    }));

    test('S2-05 S2-27 S2-32: a source that is down keeps the marks, is reported, and is taken up again by itself', () => withServer(async (app, server) => {
        await app.sql(votes('down', 5));
        await app.request('down');
        await app.becomes('down', '0 5 5');
        await app.idle();
        await database.current.down();
        await app.send('vote.cast', { conversationId: 'down' }); // S2-47: counting goes on, and reads ask nobody
        assert.equal(await app.net('vote_count', { conversationId: 'down' }), 6);
        await eventually('the source to be seen down', async () => (await app.status()).source === 'down');
        assert.equal((await app.status()).pending, 1);
        const refused = await app.reconcile('POST', 'run', { conversationId: 'down' });
        assert.equal(refused.status, 503);
        assert.equal(refused.body.code, 'source_unavailable');
        assert.match((await server.call('GET', '/metrics')).text, /^tally_reconcile_source_failures_total [1-9]/m);
        await server.restart({ hard: true }); // S2-32: the mark outlives a kill
        app.server = server;
        assert.equal((await app.status()).pending, 1);
        await database.current.up();
        await app.becomes('down', '0 5 5');
        await app.idle();
        assert.ok(!server.stderr.includes(Database.PASSWORD));
    }));

    test('connection strings and SQL are never shown', () => withServer(async (app, server) => {
        const file = server.configFile;
        const shown = await runTally(['check-config', file], { env: { SOURCE_DSN: database.current.dsn } });
        assert.equal(shown.code, 0, shown.stderr);
        assert.match(shown.stdout, /postgres: "?env:SOURCE_DSN"?/);
        assert.ok(!(shown.stdout + shown.stderr + server.stderr).includes(Database.PASSWORD));
        const missing = await runTally(['check-config', file], { env: { SOURCE_DSN: '' } });
        assert.equal(missing.code, 1);
        assert.match(missing.stderr, /the environment variable SOURCE_DSN is not set/);
    }));

    test('a tenant that is not listed gets 404; with `all` the tenant is the last parameter', () => withServer(async (app, server) => {
        const other = new App(server, 'other');
        const missing = await other.call('GET', '/api/counters/other/nothing/get?durationSeconds=0&timestamp=0');
        for (const [method, action, body] of [['POST', 'request', { conversationId: 'c' }], ['POST', 'run', { conversationId: 'c' }], ['GET', 'drift'], ['GET', 'status']]) {
            const reply = await other.reconcile(method, action, body);
            assert.equal(reply.status, 404);
            assert.equal(reply.text, missing.text);
            assert.equal((await app.reconcile(method, action, body, 'nosuch')).status, 404);
            const foreign = await app.call(method, `/api/reconcile/other/items/${action}`, body ? { body } : {});
            assert.equal(foreign.status, 404);
        }
        await app.sql(`INSERT INTO item SELECT 1, 'app' FROM generate_series(1, 4); INSERT INTO item VALUES (1, 'other')`);
        for (const [tenant, wanted] of [[app, '4'], [other, '1']]) {
            const reply = await tenant.reconcile('POST', 'run', { owner: 1 }, 'items');
            assert.equal(reply.status, 200, reply.text);
            assert.equal(reply.body.after.items, wanted);
        }
        // The server types the parameter: what is no number is no answer.
        assert.equal((await app.reconcile('POST', 'run', { owner: 'x' }, 'items')).body.code, 'source_failed');
        for (const body of [{}, { owner: null }, { owner: [1] }, []]) {
            assert.equal((await app.reconcile('POST', 'request', body, 'items')).status, 400);
        }
        const reader = new App(server, 'app', { scope: 'read' });
        assert.equal((await reader.reconcile('POST', 'request', { conversationId: 'c' })).status, 403);
        assert.equal((await reader.reconcile('GET', 'status')).status, 200);
    }));

    test('A-14 S2-35, defect 9: a replica is refused as a source', async () => {
        await withServer(async (app, server) => {
            const standby = database.current;
            await standby.down();
            const { writeFileSync, rmSync } = await import('node:fs');
            const signal = `${standby.directory}/data/standby.signal`;
            writeFileSync(signal, '');
            await standby.up();
            try {
                const reply = await app.reconcile('POST', 'run', { conversationId: 'c1' });
                assert.equal(reply.body.code, 'source_unavailable', reply.text);
                assert.match((await logged(server, 'could not be counted'))[0].why, /the source is a replica/);
            } finally {
                await standby.down();
                rmSync(signal);
                await standby.up();
            }
        });
    });

    test('SPEC 9: cells that an import changed are counted anew', () => withServer(async (app, server) => {
        const admin = new RuleTenant(server, 'operator', { scope: 'admin' });
        await app.sql(`DELETE FROM vote; ${votes('i', 2)}`);
        await app.send('vote.cast', { conversationId: 'i' });
        await app.becomes('i', '0 2 2');
        await finished(admin, await admin.call('POST', '/api/admin/exports', { body: { name: 'then.ndjson' } }));
        await app.sql(votes('i', 3));
        await app.request('i');
        await app.becomes('i', '0 5 3');
        await app.idle();
        await finished(admin, await admin.call('POST', '/api/admin/imports', { body: { name: 'then.ndjson' } }));
        await app.becomes('i', '0 5 3');
        await app.idle();
    }, { settings: { 'ops.dir': places.ops } }));

    test('SPEC 7: a counter that was adjusted is not rebuilt from events', () => withServer(async (app, server) => {
        const admin = new RuleTenant(server, 'operator', { scope: 'admin' });
        const rebuild = () => admin.call('POST', '/api/admin/counters/vote_count/rebuild', { body: {} });
        await app.sql(`DELETE FROM vote; ${votes('r', 2)}`);
        // Both in one commit: a pass between them would find, and put right, a difference.
        const event = () => ({ eventId: newId(), type: 'vote.cast', dimensions: { conversationId: 'r' } });
        assert.equal((await app.events([event(), event()])).body.applied, 2);
        await app.idle();
        assert.equal((await rebuild()).status, 202);
        await app.sql(votes('r', 1));
        await eventually('a pass that adjusts', async () => { // 409 while the rebuild swaps generations
            const reply = await app.reconcile('POST', 'run', { conversationId: 'r' });
            return reply.status === 200 && reply.body.after.vote_count === '3';
        });
        await eventually('a refused rebuild', async () => (await rebuild()).status === 409);
        assert.equal((await rebuild()).body.code, 'history_incomplete');
    }));
});

describe('reconciliation from events', () => {
    const EVENTS = `${COUNTERS}
  - counterName: present
    dimensions: [room]
    transition: { entity: [person] }
    floorAtZero: true
    rules: [{ on: enter, op: increment }, { on: leave, op: decrement }]
reconcile:
  - { name: rooms, tenants: all, entity: [room], source: { events: true }, counters: [present], scanEvery: 50ms, minInterval: 0s }
`;
    test('S1-50, X-11: what the retained events say, and never a part of them', async () => {
        const server = new Server({ config: EVENTS });
        await server.start();
        try {
            const app = new App(server, 'app');
            const drift = () => app.reconcile('GET', 'drift', undefined, 'rooms');
            await app.send('enter', { room: 'a', person: 'p1' });
            await app.send('enter', { room: 'a', person: 'p2' });
            await app.send('enter', { room: 'a', person: 'p2' }); // is in already
            await app.send('enter', { room: 'b', person: 'p3' });
            await app.send('leave', { room: 'b', person: 'p1' }); // left where it had entered
            // A pass that an event overtook may have counted it twice until the next one.
            await app.idle('rooms');
            const reply = await app.reconcile('POST', 'run', { room: 'a' }, 'rooms');
            assert.equal(reply.status, 200, reply.text);
            assert.deepEqual(reply.body.before, { present: '1' });
            assert.deepEqual(reply.body.after, { present: '1' });
            assert.deepEqual((await drift()).body.drift, []);
        } finally {
            await server.stop();
        }
    });

    test('S1-50: once retention has dropped events, nothing is repaired from the rest', async () => {
        const server = new Server({ config: EVENTS, settings: { 'clock.settle': '0s', 'events.retention': '1s', 'checkpoint.every': '200ms' } });
        await server.start();
        try {
            const app = new App(server, 'app');
            await app.send('enter', { room: 'a', person: 'p1' });
            await eventually('history to be incomplete', async () => {
                await app.send('enter', { room: 'b', person: newId('p') });
                const reply = await app.reconcile('POST', 'run', { room: 'a' }, 'rooms');
                return reply.status === 409 && reply.body.code === 'history_incomplete';
            }, { ms: 30000, every: 200 });
            assert.equal(await app.net('present', { room: 'a' }), 1);
        } finally {
            await server.stop();
        }
    });
});
