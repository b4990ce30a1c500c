// Reads apart from writes: SPEC 12, requirements S2-33 to S2-35. Real standbys, made by pg_basebackup.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { Tally, TallyError } from '../../clients/js/tally.js';
import { expectError, expectTriple } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { Database } from './support/postgres.mjs';
import { Relay } from './support/relay.mjs';
import { Server, TALLY_BIN, TOTAL } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

let primary;
let standby;
let schemas = 0;
before(async () => {
    primary = await Database.make({ durable: true });
    standby = await primary.standby();
});
after(async () => {
    await standby?.stop();
    await primary?.stop();
});

const settingsOf = (more = {}) => ({
    'store.kind': 'postgres', 'store.postgres.dsn': primary.dsn, 'store.postgres.readDsn': standby.dsn, 'store.postgres.unsafe': true,
    'store.postgres.schema': `s${schemas}`, 'store.lanes': 2, ...more });

async function withNodes(count, use, more = {}, options = {}) {
    schemas++;
    const nodes = Array.from({ length: count }, () => new Server({ ...options, settings: settingsOf(more) }));
    try {
        for (const each of nodes) await each.start();
        await standby.caughtUp(primary);
        await use(nodes);
    } finally {
        for (const each of nodes) await each.stop();
    }
}

const sequenceOf = (reply) => Number(reply.headers.get('Tally-Sequence').slice(2));

async function figures(server) {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    return (line) => Number(new RegExp(`^${line.replace(/[{}"]/g, '\\$&')} (\\S+)$`, 'm').exec(text)?.[1] ?? NaN);
}
const FROM_STANDBY = 'tally_database_reads_total{from="standby"}';
const FROM_PRIMARY = 'tally_database_reads_total{from="primary"}';
const TOO_LATE = 'tally_standby_passed_total{why="behind"}';

/** How many statements of readers each server answered during `use`. */
async function readsOf(server, use) {
    const before = await figures(server);
    await use();
    const now = await figures(server);
    return { standby: now(FROM_STANDBY) - before(FROM_STANDBY), primary: now(FROM_PRIMARY) - before(FROM_PRIMARY) };
}

describe('a standby that keeps up', () => {
    test('S2-33: get, sumRange, series, cells, lists, windows, usage and events are read from the standby', () =>
        withNodes(1, async ([server]) => {
            const t = server.tenant('acme');
            await t.increment('views', { ...TOTAL, durationSeconds: 60 });
            await server.call('POST', '/api/events/acme', { token: t.token, body: { eventId: 'e1', type: 'x', occurredAt: '2026-01-01T00:00:00Z' } });
            await standby.caughtUp(primary);
            const range = 'durationSeconds=60&startTime=1969-01-01T00:00:00Z&endTime=2100-01-01T00:00:00Z';
            for (const path of ['counters/acme/kept/get?durationSeconds=0&timestamp=0', `counters/acme/views/sumRange?${range}`,
                `counters/acme/views/series?${range}`, 'counters/acme/kept/cells', 'counters/acme', 'windows/acme', 'usage/acme',
                'usage/acme/health', 'events/acme', 'events/acme/e1', 'duplicates/acme']) {
                let status;
                const reads = await readsOf(server, async () => {
                    ({ status } = await server.call('GET', `/api/${path}`, { token: t.token }));
                });
                assert.equal(status, 200, path);
                assert.equal(reads.primary, 0, path);
                if (path !== 'windows/acme') assert.ok(reads.standby > 0, path);
            }
            const query = await readsOf(server, () => server.call('POST', '/api/counters/acme/query',
                { token: t.token, body: { queries: [{ op: 'get', counterName: 'kept', durationSeconds: 0, timestamp: 0 }] } }));
            assert.deepEqual(query.primary, 0);
        }, {}, { config: 'counters:\n  - counterName: kept\n    rules: [{ on: x, op: increment }]\n' }));

    test('S2-33: a read sees what its node acknowledged before it, though it asks the standby', () =>
        withNodes(1, async ([server]) => {
            const t = server.tenant('acme');
            const reads = await readsOf(server, async () => {
                for (let i = 1; i <= 30; i++) {
                    const written = await t.increment('views', TOTAL);
                    const read = await t.get('views');
                    expectTriple(read, i);
                    assert.ok(sequenceOf(read) >= sequenceOf(written));
                }
            });
            assert.ok(reads.standby > 0, JSON.stringify(reads));
        }));

    test('SPEC 12: consistency=primary asks no standby, and another word is refused', () =>
        withNodes(1, async ([server]) => {
            const t = server.tenant('acme');
            await t.increment('views', TOTAL);
            const reads = await readsOf(server, async () => expectTriple(await t.get('views', { ...TOTAL, consistency: 'primary' }), 1));
            assert.deepEqual(reads, { standby: 0, primary: 1 });
            expectError(await t.get('views', { ...TOTAL, consistency: 'eventual' }), 400, 'invalid_request', /consistency must be one of session, any, primary/);
        }));
});

describe('a standby that lags', () => {
    test('SPEC 12: it is passed over for the primary, once for all that wait for the same', () =>
        withNodes(1, async ([server]) => {
            const t = server.tenant('acme');
            await t.increment('views', TOTAL);
            await standby.caughtUp(primary);
            await standby.pauseReplay();
            try {
                const written = await t.increment('views', TOTAL);
                const reads = await readsOf(server, async () => {
                    for (let i = 0; i < 20; i++) {
                        const read = await t.get('views');
                        expectTriple(read, 2);
                        assert.ok(sequenceOf(read) >= sequenceOf(written));
                    }
                });
                assert.deepEqual(reads, { standby: 0, primary: 20 });
                assert.ok((await figures(server))(TOO_LATE) >= 20);
            } finally {
                await standby.resumeReplay();
            }
            await eventually('the standby to be asked again', async () => (await readsOf(server, () => t.get('views'))).standby === 1);
        }));

    test('SPEC 12: consistency=any takes it as it is, and Tally-Sequence says how far that is', () =>
        withNodes(1, async ([server]) => {
            const t = server.tenant('acme');
            const first = sequenceOf(await t.increment('views', TOTAL));
            await standby.caughtUp(primary);
            await standby.pauseReplay();
            try {
                const second = sequenceOf(await t.increment('views', TOTAL));
                const old = await t.get('views', { ...TOTAL, consistency: 'any' });
                expectTriple(old, 1);
                assert.ok(sequenceOf(old) >= first && sequenceOf(old) < second, `${first} ${sequenceOf(old)} ${second}`);
                const known = await t.get('views', { ...TOTAL, minSequence: `0-${first}` });
                expectTriple(known, 1);
                assert.ok(sequenceOf(known) < second);
                expectTriple(await t.get('views', { ...TOTAL, minSequence: `0-${second}` }), 2);
                expectTriple(await t.get('views', { ...TOTAL, minSequence: `0-${second}`, consistency: 'any' }), 2);
                expectError(await t.get('views', { ...TOTAL, minSequence: `0-${second + 1000}` }), 409, 'position_lost');
                await eventually('the lag to be shown', async () => {
                    const figure = await figures(server);
                    return [0, 1].some((lane) => figure(`tally_standby_lag_sequences{lane="${lane}"}`) >= 1 && figure(`tally_standby_lag_seconds{lane="${lane}"}`) >= 1);
                });
                const { lanes } = (await server.call('GET', '/api/admin/lanes', { token: tokenFor('operator', { scope: 'admin' }) })).body;
                const lagging = lanes.find((lane) => lane.standbyLagMs > 0);
                assert.equal(lagging.standbySequence, String(sequenceOf(old)));
                assert.equal(lagging.database, `127.0.0.1:${primary.port}/postgres`);
            } finally {
                await standby.resumeReplay();
            }
        }));

    test('SPEC 12: what another node wrote is found on the standby, without the primary', () =>
        withNodes(2, async ([a, b]) => {
            const t = a.tenant('acme');
            const written = await t.increment('views', TOTAL);
            await standby.caughtUp(primary);
            const reads = await readsOf(b, async () => expectTriple(await b.tenant('acme').get('views', { ...TOTAL, minSequence: written.headers.get('Tally-Sequence') }), 1));
            assert.equal(reads.primary, 0);
        }));
});

describe('clients of a standby that lags', () => {
    async function stopped(use) {
        await withNodes(2, async ([a, b]) => {
            const t = a.tenant('acme');
            await t.increment('views', TOTAL);
            await standby.caughtUp(primary);
            await standby.pauseReplay();
            try {
                await use(a, b, t);
            } finally {
                await standby.resumeReplay();
            }
        });
    }

    test('SPEC 12: the JavaScript client reads its own writes at any node; "any" and "primary" are as they say', () =>
        stopped(async (a, b, t) => {
            const client = (url, consistency) => new Tally({ url, token: t.token, ...(consistency && { consistency }) });
            const own = client(a.url);
            assert.equal((await own.increment('views')).net, 2n);
            assert.equal((await own.get('views')).net, 2n);
            assert.equal((await own.sum('views', { startTime: '1970-01-01T00:00:00Z' })).net, 2n);
            assert.equal((await client(a.url, 'any').get('views')).net, 1n);
            assert.equal((await client(b.url, 'primary').get('views')).net, 2n);
            assert.throws(() => client(a.url, 'eventual'), /consistency must be one of session, any, primary/);
            /* Node b has not heard of the write, so it would ask the standby for less. */
            let last = null;
            const elsewhere = new Tally({ url: a.url, token: t.token, fetch: (url, init) => {
                last = String(url).replace(a.url, init.method === 'GET' ? b.url : a.url);
                return fetch(last, init);
            } });
            assert.equal((await elsewhere.increment('views')).net, 3n);
            assert.equal((await elsewhere.get('views')).net, 3n);
            assert.match(last, new RegExp(`^${b.url}.*minSequence=0-\\d+`));
        }));

    test('SPEC 12, 13: a position that was lost is told to the client once', () =>
        stopped(async (a, b, t) => {
            let answers = 0;
            const client = new Tally({ url: a.url, token: t.token, fetch: async (url, init) => {
                const reply = await fetch(url, init);
                return answers++ ? reply : new Response(await reply.text(), { status: reply.status, headers: { 'Tally-Sequence': '0-999999999' } });
            } });
            await client.increment('views');
            await assert.rejects(client.get('views'), (error) => error instanceof TallyError && error.code === 'position_lost');
            assert.equal(typeof (await client.get('views')).net, 'bigint');
        }));

    test('SPEC 12: the C client does the same', () =>
        stopped(async (a, b, t) => {
            const program = path.join(path.dirname(TALLY_BIN), 'tests/libtally');
            const { stdout } = await promisify(execFile)(program, ['consistency', a.url, t.token]).catch((error) => error);
            assert.equal(stdout, 'all holds\n');
        }));
});

describe('a standby that fails', () => {
    test('SPEC 12: a read that the standby ends for its replay is asked again on the primary', () =>
        withNodes(1, async ([server]) => {
            const t = server.tenant('acme');
            for (let i = 0; i < 300; i++) await t.increment('views', { ...TOTAL, durationSeconds: 1, timestamp: i * 1000 });
            await standby.caughtUp(primary);
            const schema = `s${schemas}`;
            await standby.sql('ALTER SYSTEM SET max_standby_streaming_delay = 0');
            await standby.sql('SELECT pg_reload_conf()');
            /* Whoever reads the cells while this lock is replayed is ended, or waits for it: not for long. */
            const locking = (async () => {
                for (let i = 0; i < 10; i++) {
                    await primary.sql(`BEGIN; LOCK TABLE ${schema}.cells IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(0.05); COMMIT`);
                }
            })();
            let over = false;
            locking.finally(() => (over = true));
            while (!over) {
                const sum = await server.call('GET', '/api/counters/acme/views/sumRange?durationSeconds=1&startTime=0&endTime=1000000', { token: t.token });
                expectTriple(sum, 300);
            }
            await locking;
        }));

    test('S2-34, SPEC 12: with its standby down, or frozen, a node reads the primary, and the standby when it is back', () =>
        withNodes(1, async ([server]) => {
            const t = server.tenant('acme');
            await t.increment('views', TOTAL);
            await standby.caughtUp(primary);
            standby.halt();
            try {
                for (let i = 0; i < 20; i++) expectTriple(await t.get('views'), 1);
            } finally {
                standby.wake();
            }
            await standby.crash();
            const down = await readsOf(server, async () => {
                for (let i = 0; i < 10; i++) expectTriple(await t.get('views'), 1);
            });
            assert.deepEqual(down, { standby: 0, primary: 10 });
            await standby.up();
            await eventually('the standby to be asked again', async () => (await readsOf(server, () => t.get('views'))).standby === 1);
        }));

    test('S2-34: a node starts without its standby, and one of another installation answers nothing', async () => {
        const other = await Database.make();
        const relay = await new Relay(() => 1).start();
        try {
            const foreign = new Server({ settings: { ...settingsOf(), 'store.postgres.dsn': other.dsn, 'store.postgres.readDsn': '' } });
            await foreign.start();
            await foreign.tenant('acme').increment('views', { ...TOTAL, amount: 1000 });
            await foreign.stop();
            for (const readDsn of [other.dsn, other.dsn.replace(/:\d+\/postgres/, `:${relay.port}/postgres`)]) {
                await withNodes(1, async ([server]) => {
                    const t = server.tenant('acme');
                    await t.increment('views', TOTAL);
                    for (const consistency of ['session', 'any']) expectTriple(await t.get('views', { ...TOTAL, consistency }), 1);
                }, { 'store.postgres.readDsn': readDsn, 'store.postgres.schema': `s${schemas + 1}` });
            }
        } finally {
            await relay.stop();
            await other.stop();
        }
    });
});
