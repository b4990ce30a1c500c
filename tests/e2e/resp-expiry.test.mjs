// resp-expiry.test.mjs -- exact expiries (SPEC 14): past them a key is gone at every door, at once, and starts afresh.
// Nothing here waits for the sweep, which comes once an hour.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { eventually, sleep } from './support/pace.mjs';
import { respServerFor } from './support/resp.mjs';
import { LARGE_COMMITS, TOTAL } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

const SETTINGS = { ...LARGE_COMMITS, 'expiry.sweepEvery': '1h' };
const absent = (client, key) => eventually(`${key} to be over`, async () => (await client.call('EXISTS', key)) === 0, { every: 20 });

describe('exact expiries', { concurrency: true }, () => {
    const server = respServerFor({ settings: SETTINGS });

    test('SPEC 14: past it a key is absent for every read of both doors, and starts afresh', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        await client.call('SET', 'lasting', 1);
        await client.call('SET', 'n', 5, 'PX', 700);
        assert.equal((await t.get('n')).body.net, '5');
        await absent(client, 'n');
        assert.deepEqual(await client.pipeline([['GET', 'n'], ['TTL', 'n'], ['TYPE', 'n'], ['SCAN', 0], ['TALLY.GET', 'n'], ['TALLY.SUM', 'n', 'BUCKET', 0, 'FROM', 0, 'TO', 0]]),
            [null, -2, 'none', ['0', ['lasting']], null, ['0', '0', '0']]);
        assert.equal((await t.get('n')).status, 404);
        assert.equal((await t.sumRange('n', { durationSeconds: 0, startTime: 0, endTime: 0 })).body.net, '0');
        assert.deepEqual((await t.series('n', { durationSeconds: 0, startTime: 0, endTime: 0 })).body.buckets, []);
        assert.deepEqual((await t.list()).body.counters.map(({ name }) => name), ['lasting']);
        const query = await t.call('POST', `/api/counters/${t.id}/query`, { body: { queries: [{ get: { name: 'n', ...TOTAL } }] } });
        assert.equal(query.body.results[0].status, 404, query.text);
        assert.equal((await t.decrement('n', { ...TOTAL })).status, 409);
        assert.deepEqual((await t.increment('n', { ...TOTAL, amount: 2 })).body, { net: '2', added: '2', subbed: '0' });
        assert.equal(await client.call('TTL', 'n'), -1);
    });

    test('SPEC 14: HTTP\'s expiresAt never shortens it, and one that is later lasts until the sweep', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        const at = (ms) => new Date(Date.now() + ms).toISOString();
        await client.call('SET', 'short', 1, 'EX', 1000);
        await t.increment('short', { ...TOTAL, expiresAt: at(10) });
        assert.ok((await client.call('TTL', 'short')) > 900);
        await client.call('SET', 'long', 1, 'PX', 300);
        await t.increment('long', { ...TOTAL, expiresAt: at(900) });
        await client.call('SET', 'mark', 1, 'PX', 1500);
        await absent(client, 'mark');
        assert.deepEqual(await client.call('MGET', 'short', 'long'), ['2', '2']);
        assert.equal(await client.call('PTTL', 'long'), 0);
        assert.equal(await client.call('PERSIST', 'long'), 1);
        assert.equal(await client.call('TTL', 'long'), -1);
    });

    test('SPEC 14: RESP replaces what HTTP has set, and SET clears it', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        const far = new Date(Date.now() + 1e9).toISOString();
        await t.increment('n', { ...TOTAL, expiresAt: far });
        assert.ok((await client.call('TTL', 'n')) > 900000);
        assert.equal(await client.call('EXPIRE', 'n', 100), 1);
        assert.equal(await client.call('TTL', 'n'), 100);
        await t.increment('m', { ...TOTAL, expiresAt: far });
        await client.call('SET', 'm', 5, 'KEEPTTL');
        assert.ok((await client.call('TTL', 'm')) > 900000);
        await client.call('SET', 'm', 5);
        assert.equal(await client.call('TTL', 'm'), -1);
    });

    test('SPEC 14: TALLY.INCR\'s EXPIREAT is exact too, in buckets', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        const minute = (timestamp) => ({ durationSeconds: 60, timestamp });
        await client.call('TALLY.INCR', 'n', 3, 'BUCKET', 60, 'AT', 60, 'EXPIREAT', Date.now() + 700);
        await t.increment('n', { ...minute(120), amount: 4 });
        assert.deepEqual(await client.call('TALLY.SUM', 'n', 'BUCKET', 60, 'FROM', 0, 'TO', 600), ['7', '7', '0']);
        await eventually('the bucket to be over', async () => (await t.get('n', minute(60))).status === 404, { every: 20 });
        assert.deepEqual(await client.call('TALLY.SUM', 'n', 'BUCKET', 60, 'FROM', 0, 'TO', 600), ['4', '4', '0']);
        assert.equal((await t.sumRange('n', { durationSeconds: 60, startTime: 0, endTime: 600 })).body.net, '4');
        assert.equal((await t.series('n', { durationSeconds: 60, startTime: 0, endTime: 600 })).body.buckets.length, 1);
    });

    test('SPEC 14: times in MULTI are the batch\'s, and all or nothing', async () => {
        const client = await server.connect(server.tenant());
        assert.deepEqual((await client.pipeline([['MULTI'], ['INCR', 'n'], ['EXPIRE', 'n', 50], ['TTL', 'n'], ['EXEC']])).at(-1), [1, 1, 50]);
        const refused = (await client.pipeline([['MULTI'], ['PERSIST', 'n'], ['DECRBY', 'n', 9], ['EXEC']])).at(-1);
        assert.match(refused.error, /^EXECABORT /);
        assert.equal(await client.call('TTL', 'n'), 50);
    });

    test('SPEC 14: INCREX moves within bounds, and says what it did', async () => {
        const client = await server.connect(server.tenant());
        const increx = (...args) => client.call('INCREX', ...args);
        assert.deepEqual(await increx('n'), [1, 1]);
        assert.deepEqual(await increx('n', 'BYINT', 10, 'UBOUND', 15), [11, 10]);
        assert.deepEqual(await increx('n', 'BYINT', 10, 'UBOUND', 15), [11, 0]);
        assert.deepEqual(await increx('n', 'BYINT', 10, 'UBOUND', 15, 'SATURATE'), [15, 4]);
        assert.deepEqual(await increx('n', 'BYINT', -20), [15, 0]); // nothing goes below zero
        assert.deepEqual(await increx('n', 'byint', -20, 'saturate'), [0, -15]);
        assert.deepEqual(await increx('n', 'BYINT', 5, 'LBOUND', 10), [0, 0]);
        assert.deepEqual(await increx('n', 'BYINT', 50), [50, 50]);
        assert.deepEqual(await increx('n', 'BYINT', 5, 'UBOUND', 30, 'SATURATE'), [30, -20]);
        assert.deepEqual(await increx('new', 'BYINT', 15, 'UBOUND', 10), [0, 0]);
        assert.equal(await client.call('EXISTS', 'new'), 0);
        assert.deepEqual(await increx('big', 'BYINT', 2n ** 63n - 1n), [2n ** 63n - 1n, 2n ** 63n - 1n]);
        assert.deepEqual(await increx('big'), [2n ** 63n - 1n, 0]);
    });

    test('SPEC 14: INCREX sets an expiry with the change or not at all', async () => {
        const client = await server.connect(server.tenant());
        const increx = (...args) => client.call('INCREX', ...args);
        assert.deepEqual(await increx('n', 'BYINT', 99, 'UBOUND', 10, 'EX', 100), [0, 0]);
        assert.deepEqual(await increx('n', 'EX', 100, 'ENX'), [1, 1]);
        assert.deepEqual(await increx('n', 'EX', 900, 'ENX'), [2, 1]);
        assert.equal(await client.call('TTL', 'n'), 100);
        assert.deepEqual(await increx('n', 'BYINT', 99, 'UBOUND', 10, 'EX', 900), [2, 0]);
        assert.deepEqual(await increx('n'), [3, 1]);
        assert.equal(await client.call('TTL', 'n'), 100);
        assert.deepEqual(await increx('n', 'PX', 900000), [4, 1]);
        assert.equal(await client.call('TTL', 'n'), 900);
        assert.deepEqual(await increx('n', 'PERSIST'), [5, 1]);
        assert.equal(await client.call('TTL', 'n'), -1);
        assert.deepEqual(await increx('n', 'EXAT', 1000), [6, 1]);
        assert.equal(await client.call('EXISTS', 'n'), 0);
    });

    test('SPEC 14: INCREX\'s refusals are Redis\'s', async () => {
        const client = await server.connect(server.tenant());
        for (const [line, error] of [
            ['INCREX', "ERR wrong number of arguments for 'increx' command"],
            ...['FOO', 'BYINT 1 FOO', 'BYINT', 'BYINT 1 BYINT 2', 'LBOUND 0 LBOUND 1', 'UBOUND 9 UBOUND 8', 'SATURATE SATURATE', 'ENX ENX EX 10', 'PERSIST PERSIST',
                'EX 10 EX 20', 'EX 10 PX 5000', 'EX 10 PERSIST', 'PERSIST ENX', 'EX'].map((args) => [`INCREX n ${args}`, 'ERR syntax error']),
            ['INCREX n ENX', 'ERR ENX flag requires an expiration'],
            ['INCREX n BYINT abc', 'ERR Increment is not an integer or out of range'],
            ['INCREX n LBOUND abc', 'ERR LBOUND is not an integer or out of range'],
            ['INCREX n UBOUND 1.5', 'ERR UBOUND is not an integer or out of range'],
            ['INCREX n LBOUND 10 UBOUND 5', "ERR LBOUND can't be greater than UBOUND"],
            ['INCREX n EX 0', "ERR invalid expire time in 'increx' command"],
            ['INCREX n PX -1', "ERR invalid expire time in 'increx' command"],
            ['INCREX n EX x', 'ERR value is not an integer or out of range'],
            ['INCREX n BYFLOAT 1.5', 'ERR BYFLOAT is not supported: counters are integers'],
        ]) {
            assert.deepEqual(await client.call(...line.split(' ')), { error }, line);
        }
        assert.equal(await client.call('EXISTS', 'n'), 0);
    });

    test('SPEC 14: keys that rules keep have no time left to tell', async () => {
        const client = await server.connect(server.tenant());
        assert.equal(await client.call('TTL', 'none'), -2);
        assert.equal(await client.call('EXPIRE', 'none', 5), 0);
        assert.deepEqual(await client.call('EXPIRE', 'a b', 5), { error: 'ERR invalid counter name' });
    });
});

describe('exact expiries over a restart', () => {
    const server = respServerFor({ settings: SETTINGS });

    test('SPEC 14: they survive a kill, and what came due meanwhile is absent at once', async () => {
        const t = server.tenant();
        let client = await server.connect(t);
        await client.pipeline([['SET', 'stays', 1, 'EX', 1000], ['SET', 'goes', 1, 'PX', 400], ['SET', 'cleared', 1, 'PX', 400], ['PERSIST', 'cleared']]);
        await server.restart({ hard: true });
        await sleep(400);
        client = await server.connect(t);
        assert.deepEqual(await client.call('MGET', 'stays', 'goes', 'cleared'), ['1', null, '1']);
        const left = await client.call('TTL', 'stays');
        assert.ok(left > 900 && left <= 1000);
        assert.equal(await client.call('INCR', 'goes'), 1);
    });
});

describe('events over Redis\'s protocol', () => {
    const server = respServerFor({ settings: LARGE_COMMITS, config: `
counters:
  - counterName: kept
    dimensions: [room]
    rollups: [[]]
    rules: [{ on: seen, op: increment, amount: payload.size }]
` });

    test('SPEC 14: TALLY.EVENT counts by the rules, once for each id', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        const [result, id, counters] = await client.call('TALLY.EVENT', 'e1', 'seen', 'DIM', 'room', 'r1', 'PAYLOAD', '{"size": 5}');
        assert.deepEqual([result, counters], ['APPLIED', 2]);
        assert.match(id, /^[1-9]\d*$/);
        assert.deepEqual(await client.call('TALLY.EVENT', 'e1', 'seen', 'DIM', 'room', 'r1', 'PAYLOAD', '{"size": 5}'), ['DROPPED_DUPLICATE', id, 0]);
        const twice = await client.pipeline([['TALLY.EVENT', 'e2', 'seen', 'DIM', 'room', 'r1', 'PAYLOAD', '{"size":2}'], ['INCR', 'n'], ['TALLY.EVENT', 'e2', 'other'], ['TALLY.EVENT', 'e3', 'other']]);
        assert.deepEqual(twice.map((one) => (Array.isArray(one) ? one[0] : one)), ['APPLIED', 1, 'DROPPED_DUPLICATE', 'APPLIED']);
        assert.equal((await t.get('kept', { 'dim.room': 'r1' })).body.net, '7');
        const stored = (await t.call('GET', `/api/events/${t.id}/e1`)).body;
        assert.deepEqual([stored.type, stored.dimensions, stored.payload], ['seen', { room: 'r1' }, { size: 5 }]);
    });

    test('SPEC 14: what is no event is refused, and MULTI takes none', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        for (const args of [['e', 'seen', 'DIM', 'a'], ['e', 'seen', 'PAYLOAD'], ['e', 'seen', 'NONSENSE', 1], ['e', 'seen', 'PAYLOAD', '{}', 'DIM', 'a', 'b']]) {
            assert.deepEqual(await client.call('TALLY.EVENT', ...args), { error: 'ERR syntax error' }, args.join(' '));
        }
        for (const payload of ['x', '{}}', '1},"eventId":"other","payload":{', '', '{"a":1},"type":"b"']) {
            assert.deepEqual(await client.call('TALLY.EVENT', 'e', 'seen', 'PAYLOAD', payload), { error: 'ERR PAYLOAD is not JSON' }, payload);
        }
        assert.match((await client.call('TALLY.EVENT', '', 'seen')).error, /^ERR /);
        assert.match((await client.call('TALLY.EVENT', 'e', '')).error, /^ERR /);
        assert.deepEqual((await client.pipeline([['MULTI'], ['TALLY.EVENT', 'e', 'seen'], ['EXEC']])).slice(1),
            [{ error: 'ERR Command not allowed inside a transaction' }, { error: 'EXECABORT Transaction discarded because of previous errors.' }]);
        assert.deepEqual((await t.call('GET', `/api/events/${t.id}`)).body.events, []);
        assert.match((await (await server.connect({ token: tokenFor(t.id, { scope: 'read' }) })).call('TALLY.EVENT', 'e', 'seen')).error, /^NOPERM /);
    });
});
