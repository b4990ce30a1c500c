// Poolers: SPEC 12, store.postgres.pooler. A real PgBouncer in each of its modes, between two nodes and the database.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { expectTriple } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { PgBouncer } from './support/pgbouncer.mjs';
import { Database } from './support/postgres.mjs';
import { runTally, Server, TOTAL } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

let database;
before(async () => (database = await Database.make()));
after(() => database?.stop());

const ADMIN = tokenFor('operator', { scope: 'admin' });
const CONFIG = 'counters:\n  - counterName: kept\n    mode: series\n    granularities: [60]\n    rules: [{ on: x, op: increment }]\n';

/** Counting, events, reads of every kind, a rebuild by the node that leads: what nodes do, through `pooler`. */
function works(mode, poolerSetting, more) {
    describe(`PgBouncer with pool_mode = ${mode}, store.postgres.pooler: ${poolerSetting}`, () => {
        const schema = `p_${mode}_${poolerSetting}`;
        let pooler;
        const nodes = [];
        const settings = () => ({
            'store.kind': 'postgres', 'store.postgres.dsn': pooler.dsn, 'store.postgres.unsafe': true, 'store.postgres.schema': schema,
            'store.postgres.pooler': poolerSetting, 'store.lanes': 2, 'store.postgres.connections': 2, 'store.postgres.readConnections': 2 });
        before(async () => {
            pooler = await PgBouncer.make(database, mode, more);
            const made = await runTally(['migrate', ...Object.entries(settings()).flatMap(([name, value]) => ['--set', `${name}=${value}`])]);
            assert.equal(made.code, 0, made.stderr);
            for (let i = 0; i < 2; i++) {
                nodes.push(new Server({ config: CONFIG, settings: settings() }));
                await nodes[i].start();
            }
        });
        after(async () => {
            for (const node of nodes) await node.stop();
            await pooler?.stop();
        });

        test('SPEC 12: two nodes count together, and each reads what the other acknowledged', async () => {
            const totals = await Promise.all([0, 1, 2, 3].map(async (worker) => {
                for (let i = 0; i < 25; i++) {
                    const t = nodes[(worker + i) % 2].tenant(`t${worker}`);
                    expectTriple(await t.increment('views', TOTAL), i + 1);
                    expectTriple(await nodes[(worker + i + 1) % 2].tenant(`t${worker}`).get('views'), i + 1);
                }
                return (await nodes[0].tenant(`t${worker}`).get('views')).body.net;
            }));
            assert.deepEqual(totals, ['25', '25', '25', '25']);
        });

        test('SPEC 12: events count once, and series, sums, cells, lists and history are read', async () => {
            const t = nodes[0].tenant('events');
            const send = (node, eventId) => node.call('POST', '/api/events/events', { token: t.token, body: { eventId, type: 'x', occurredAt: '2026-01-01T00:00:30Z', payload: { i: eventId } } });
            for (let i = 0; i < 10; i++) {
                const [a, b] = await Promise.all(nodes.map((node) => send(node, `e${i}`)));
                assert.deepEqual([a.body.result, b.body.result].sort(), ['APPLIED', 'DROPPED_DUPLICATE']);
            }
            const range = 'durationSeconds=60&startTime=2026-01-01T00:00:00Z&endTime=2026-01-01T01:00:00Z';
            const read = async (path) => (await nodes[1].call('GET', `/api/${path}`, { token: t.token })).body;
            assert.equal((await read(`counters/events/kept/sumRange?${range}`)).net, '10');
            assert.equal((await read(`counters/events/kept/series?${range}`)).buckets.length, 1);
            assert.equal((await read('events/events?limit=100')).events.length, 10);
            assert.equal((await read('duplicates/events?limit=100')).duplicates.length, 10);
            assert.equal((await read('counters/events')).counters.length, 1);
        });

        test('SPEC 12: a lane is led by one node, and its caretaking goes on at the other when that one is dead', async () => {
            const held = async () => Number((await database.sql(`SELECT count(*) FROM ${schema}.leases WHERE until > clock_timestamp()`)).trim());
            await eventually('both lanes to be led', async () => (await held()) === 2, { ms: 20000 });
            await nodes[0].kill();
            const { job } = (await nodes[1].call('POST', '/api/admin/counters/kept/rebuild', { token: ADMIN, body: {} })).body;
            await eventually('the rebuild to end', async () =>
                (await nodes[1].call('GET', `/api/admin/jobs/${job}`, { token: ADMIN })).body.state === 'done', { ms: 40000 });
            await nodes[0].start();
            expectTriple(await nodes[0].tenant('t0').increment('views', TOTAL), 26);
        });
    });
}

works('session', 'session');
/* Fewer connections than the nodes have: they are dealt out for each transaction. */
works('transaction', 'transaction', { default_pool_size: 6 });

describe('no pooler', () => {
    test('SPEC 12: what is for transactions works without a pooler, too', async () => {
        const server = new Server({ settings: { 'store.kind': 'postgres', 'store.postgres.dsn': database.dsn, 'store.postgres.unsafe': true,
            'store.postgres.schema': 'p_none', 'store.postgres.pooler': 'transaction' } });
        await server.start();
        try {
            expectTriple(await server.tenant('acme').increment('views', TOTAL), 1);
            expectTriple(await server.tenant('acme').get('views'), 1);
        } finally {
            await server.stop();
        }
    });
});
