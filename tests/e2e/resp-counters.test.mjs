// resp-counters.test.mjs -- counting over Redis's protocol: values, order, errors, durability.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { times, together } from './support/pace.mjs';
import { many, respServerFor } from './support/resp.mjs';
import { LARGE_COMMITS, TOTAL } from './support/server.mjs';

const MAX = 2n ** 63n - 1n;
const NOT_AN_INTEGER = { error: 'ERR value is not an integer or out of range' };
const NEGATIVE = { error: 'ERR decrement would make the counter negative' };
const OVERFLOW = { error: 'ERR increment or decrement would overflow' };
const SYNTAX = { error: 'ERR syntax error' };

describe('counters over Redis\'s protocol', () => {
    const server = respServerFor({ settings: LARGE_COMMITS });

    test('SPEC 14: INCR, INCRBY, DECR and DECRBY answer with the value after them', async () => {
        const client = await server.connect(server.tenant());
        assert.equal(await client.call('INCR', 'n'), 1);
        assert.equal(await client.call('INCRBY', 'n', 10), 11);
        assert.equal(await client.call('DECR', 'n'), 10);
        assert.equal(await client.call('DECRBY', 'n', 4), 6);
        assert.equal(await client.call('INCRBY', 'n', -2), 4);
        assert.equal(await client.call('DECRBY', 'n', -3), 7);
        assert.equal(await client.call('GET', 'n'), '7');
    });

    test('SPEC 14: a key is the counter of that name without a duration, with colons too', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        await t.increment('page:home', { ...TOTAL, amount: 5 });
        await t.increment('page:home', { ...TOTAL, durationSeconds: 60, amount: 9 });
        assert.equal(await client.call('INCR', 'page:home'), 6);
        assert.equal((await t.get('page:home')).body.net, '6');
        assert.equal(await client.call('DEL', 'page:home'), 1);
        assert.equal(await client.call('EXISTS', 'page:home'), 0);
        assert.equal((await t.get('page:home', { ...TOTAL, durationSeconds: 60 })).body.net, '9');
        const { body } = await t.list();
        assert.deepEqual(body.counters, [{ name: 'page:home', granularities: [60] }]);
    });

    test('SPEC 14: what is not a counter\'s name is an error', async () => {
        const client = await server.connect(server.tenant());
        for (const name of ['', 'a b', 'a/b', 'ä', 'x'.repeat(256), 'a\0b']) {
            for (const args of [['INCR', name], ['GET', name], ['MGET', 'good', name], ['DEL', name], ['MSET', 'good', 1, name, 2]]) {
                assert.deepEqual(await client.call(...args), { error: 'ERR invalid counter name' });
            }
        }
        assert.equal(await client.call('EXISTS', 'good'), 0);
    });

    test('SPEC 14: what is not an integer is an error', async () => {
        const client = await server.connect(server.tenant());
        for (const text of ['', 'x', '1.5', '1e3', ' 1', '1 ', '+1', '01', '-0', '0x1', '9223372036854775808', '99999999999999999999']) {
            for (const args of [['INCRBY', 'n', text], ['DECRBY', 'n', text], ['SET', 'n', text], ['MSET', 'm', 1, 'n', text]]) {
                assert.deepEqual(await client.call(...args), NOT_AN_INTEGER, text);
            }
        }
        assert.deepEqual(await client.call('SET', 'n', -1), NOT_AN_INTEGER);
        assert.equal(await client.call('EXISTS', 'm', 'n'), 0);
    });

    test('SPEC 14: nothing goes below zero', async () => {
        const client = await server.connect(server.tenant());
        assert.deepEqual(await client.call('DECR', 'none'), NEGATIVE);
        assert.equal(await client.call('EXISTS', 'none'), 0);
        await client.call('SET', 'n', 5);
        assert.deepEqual(await client.call('DECRBY', 'n', 6), NEGATIVE);
        assert.deepEqual(await client.call('INCRBY', 'n', -6), NEGATIVE);
        assert.deepEqual(await client.call('INCRBY', 'n', -(2n ** 63n)), NEGATIVE);
        assert.deepEqual(await client.call('DECRBY', 'n', -(2n ** 63n)), { error: 'ERR decrement would overflow' });
        assert.equal(await client.call('DECRBY', 'n', 5), 0);
        assert.equal(await client.call('GET', 'n'), '0');
    });

    test('SPEC 14: overflow, of added too, is Redis\'s sentence', async () => {
        const client = await server.connect(server.tenant());
        assert.equal(await client.call('INCRBY', 'n', MAX), MAX);
        assert.deepEqual(await client.call('INCR', 'n'), OVERFLOW);
        assert.equal(await client.call('DECRBY', 'n', 10), MAX - 10n);
        assert.deepEqual(await client.call('INCR', 'n'), OVERFLOW);
        assert.equal(await client.call('GET', 'n'), String(MAX - 10n));
    });

    test('SPEC 14: INCRBY 0 makes the counter', async () => {
        const client = await server.connect(server.tenant());
        assert.equal(await client.call('INCRBY', 'a', 0), 0);
        assert.equal(await client.call('DECRBY', 'b', 0), 0);
        assert.deepEqual(await client.call('MGET', 'a', 'b', 'c'), ['0', '0', null]);
    });

    test('SPEC 14: SET, with its conditions and with GET', async () => {
        const client = await server.connect(server.tenant());
        assert.equal(await client.call('SET', 'n', 5, 'XX'), null);
        assert.equal(await client.call('GET', 'n'), null);
        assert.equal(await client.call('SET', 'n', 5, 'nx'), 'OK');
        assert.equal(await client.call('SET', 'n', 6, 'NX'), null);
        assert.equal(await client.call('SET', 'n', 3, 'GET'), '5');
        assert.equal(await client.call('SET', 'n', 7, 'NX', 'GET'), '3');
        assert.equal(await client.call('SET', 'n', 7, 'XX', 'GET'), '3');
        assert.equal(await client.call('SET', 'm', 7, 'GET'), null);
        assert.deepEqual(await client.call('MGET', 'n', 'm'), ['7', '7']);
        assert.deepEqual(await client.call('SET', 'n', 1, 'NX', 'XX'), SYNTAX);
        assert.deepEqual(await client.call('SET', 'n', 1, 'NONSENSE'), SYNTAX);
    });

    test('SPEC 14: MSET sets all or none, and DEL removes all', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        assert.equal(await client.call('MSET', 'a', 1, 'b', 2, 'a', 3), 'OK');
        assert.deepEqual(await client.call('MGET', 'a', 'b'), ['3', '2']);
        await client.call('SET', 'full', MAX);
        await client.call('SET', 'full', 0);
        assert.deepEqual(await client.call('MSET', 'a', 9, 'full', 5, 'b', 9), OVERFLOW);
        assert.deepEqual(await client.call('MGET', 'a', 'b', 'full'), ['3', '2', '0']);
        assert.deepEqual(await client.call('MSET', 'a'), { error: "ERR wrong number of arguments for 'mset' command" });
        assert.deepEqual(await client.call('MSET', 'a', 1, 'b'), { error: "ERR wrong number of arguments for 'mset' command" });
        assert.equal(await client.call('EXISTS', 'a', 'a', 'b', 'c'), 3);
        assert.equal(await client.call('DEL', 'a', 'b', 'c', 'a'), 2);
        assert.equal(await client.call('EXISTS', 'a', 'b'), 0);
        assert.deepEqual((await t.list()).body.counters.map(({ name }) => name), ['full']);
    });

    test('SPEC 14: TYPE is string or none', async () => {
        const client = await server.connect(server.tenant());
        await client.call('INCR', 'n');
        assert.equal(await client.call('TYPE', 'n'), 'string');
        assert.equal(await client.call('TYPE', 'm'), 'none');
    });

    test('SPEC 14: commands of one connection take effect in order, and reads see the writes before them', async () => {
        const client = await server.connect(server.tenant());
        const said = await client.pipeline([
            ['INCR', 'n'], ['GET', 'n'], ['PING'], ['SET', 'n', 10], ['GET', 'n'], ['DECRBY', 'n', 20], ['MGET', 'n', 'm'], ['INCR', 'm'],
            ['DEL', 'n'], ['ECHO', 'x'], ['GET', 'n'], ['EXISTS', 'n', 'm'], ['INCR', 'n'], ['NONSENSE'], ['TYPE', 'n'], ['MSET', 'n', 4, 'm', 5], ['INCR', 'm'],
        ]);
        assert.deepEqual(said.map((one) => one?.error?.split(' ')[0] ?? one), [
            1, '1', 'PONG', 'OK', '10', 'ERR', ['10', null], 1, 1, 'x', null, 1, 1, 'ERR', 'string', 'OK', 6,
        ]);
    });

    test('SPEC 14: reads in front of a write see what was before it, whether memory has them or not', async () => {
        const client = await server.connect(server.tenant());
        for (let round = 0; round < 20; round++) {
            const said = await client.pipeline([
                ['GET', 'n'], ['GET', `never seen ${round}`], ['GET', `new:${round}`], ['GET', 'n'], ['INCR', 'n'], ['GET', 'n'], ['GET', `new:${round}`],
                ['INCR', `new:${round}`], ['GET', `new:${round}`], ['GET', 'n'],
            ]);
            const before = round ? String(round) : null, after = String(round + 1);
            said[1] = said[1].error;
            assert.deepEqual(said, [before, 'ERR invalid counter name', null, before, round + 1, after, null, 1, '1', after]);
        }
        const names = many(40, (i) => (i % 2 ? `new:${i % 20}` : `cold:${i}`));
        assert.deepEqual(await client.pipeline(names.map((name) => ['GET', name])), names.map((_, i) => (i % 2 ? '1' : null)));
    });

    test('SPEC 14: a pipeline that only reads may change its tenant between its reads', async () => {
        const [a, b] = [server.tenant(), server.tenant()];
        const client = await server.connect(a);
        await client.pipeline([['SET', 'n', 1234567890123], ['AUTH', b.token], ['SET', 'n', 7]]);
        const said = await client.pipeline([['GET', 'n'], ['AUTH', a.token], ['GET', 'n'], ['HELLO', 3, 'AUTH', 'default', b.token], ['GET', 'n'], ['GET', 'm'],
            ['RESET'], ['GET', 'n']]);
        assert.deepEqual(said.filter((_, i) => i !== 3), ['7', 'OK', '1234567890123', '7', null, 'RESET', { error: 'NOAUTH Authentication required.' }]);
    });

    test('SPEC 14: the same over many reads of the socket, without waiting', async () => {
        const client = await server.connect(server.tenant());
        const count = 3000;
        const said = await client.pipeline(many(count, (i) => (i % 3 === 2 ? ['GET', 'n'] : ['INCR', 'n'])));
        let value = 0;
        said.forEach((reply, i) => assert.equal(reply, i % 3 === 2 ? String(value) : ++value));
    });

    test('SPEC 14: large pipelines and long argument lists', async () => {
        const client = await server.connect(server.tenant());
        const names = many(2000, (i) => `key:${i}`);
        assert.equal(await client.call('MSET', ...names.flatMap((name, i) => [name, i])), 'OK');
        const values = await client.call('MGET', ...names);
        assert.equal(values.length, 2000);
        names.forEach((_, i) => assert.equal(values[i], String(i)));
        assert.equal(await client.call('EXISTS', ...names), names.length);
    });

    test('SPEC 1: what was answered is there after kill -9', async () => {
        const t = server.tenant();
        let client = await server.connect(t);
        await client.pipeline(many(200, () => ['INCR', 'n']));
        await client.pipeline([['SET', 'm', 7], ['INCR', 'gone'], ['DEL', 'gone']]);
        await server.restart({ hard: true });
        client = await server.connect(t);
        assert.deepEqual(await client.call('MGET', 'n', 'm', 'gone'), ['200', '7', null]);
    });
});

describe('keys that rules keep', () => {
    const server = respServerFor({ settings: LARGE_COMMITS, config: 'counters:\n  - counterName: kept\n    rules: [{ on: seen, op: increment }]\n' });

    test('SPEC 14: they are refused', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        const managed = { error: 'ERR managed by rules' };
        await t.increment('free', TOTAL);
        for (const args of [['INCR', 'kept'], ['SET', 'kept', 1], ['DEL', 'kept'], ['GET', 'kept'], ['MSET', 'free', 9, 'kept', 1], ['DEL', 'free', 'kept']]) {
            assert.deepEqual(await client.call(...args), managed, args.join(' '));
        }
        assert.deepEqual(await client.pipeline([['INCR', 'x'], ['GET', 'kept'], ['MGET', 'kept', 'x', 'free'], ['EXISTS', 'kept', 'x'], ['TYPE', 'kept']]),
            [1, managed, [null, '1', '1'], 1, 'none']);
        assert.deepEqual(await client.call('MGET', 'kept', 'x'), [null, '1']);
        assert.equal(await client.call('TYPE', 'kept'), 'none');
    });
});

describe('a full queue', () => {
    const server = respServerFor({ settings: { 'limits.queueOps': 5, 'limits.tenantQueueOps': 5 } });

    test('SPEC 14: it is -BUSY, and nothing of it was applied', async () => {
        const client = await server.connect(server.tenant());
        const said = await client.pipeline(many(40, () => ['INCR', 'n']));
        const good = said.filter((one) => typeof one === 'number');
        for (const one of said) if (typeof one !== 'number') assert.match(one.error, /^BUSY /);
        assert.equal(await client.call('INCRBY', 'n', 0), good.length);
        assert.equal(await client.call('INCR', 'n'), good.length + 1);
    });
});

describe('MULTI', () => {
    const server = respServerFor({ settings: LARGE_COMMITS, config: 'counters:\n  - counterName: kept\n    rules: [{ on: seen, op: increment }]\n' });
    const ABORT = { error: 'EXECABORT Transaction discarded because of previous errors.' };

    test('SPEC 14: EXEC does all at once, in order, and reads inside see earlier writes', async () => {
        const client = await server.connect(server.tenant());
        const said = await client.pipeline([
            ['SET', 'n', 5], ['MULTI'], ['INCR', 'n'], ['GET', 'n'], ['PING'], ['DECRBY', 'n', 2], ['MGET', 'n', 'm'], ['ECHO', 'x'], ['EXEC'], ['PING'], ['GET', 'n'],
        ]);
        assert.deepEqual(said, ['OK', 'OK', 'QUEUED', 'QUEUED', 'QUEUED', 'QUEUED', 'QUEUED', 'QUEUED', [6, '6', 'PONG', 4, ['4', null], 'x'], 'PONG', '4']);
    });

    test('SPEC 14: it may take many reads of the socket, and sees nothing until EXEC', async () => {
        const t = server.tenant();
        const [client, other] = [await server.connect(t), await server.connect(t)];
        assert.equal(await client.call('MULTI'), 'OK');
        for (let i = 0; i < 5; i++) assert.equal(await client.call('INCR', 'n'), 'QUEUED');
        assert.equal(await other.call('GET', 'n'), null);
        assert.deepEqual(await client.call('EXEC'), [1, 2, 3, 4, 5]);
        assert.equal(await other.call('GET', 'n'), '5');
    });

    test('SPEC 14: a command that fails discards all, which Redis would not do', async () => {
        const client = await server.connect(server.tenant());
        await client.call('SET', 'n', 3);
        const said = await client.pipeline([['MULTI'], ['INCR', 'n'], ['DECRBY', 'm', 1], ['INCR', 'x'], ['EXEC'], ['GET', 'n'], ['EXISTS', 'x', 'm']]);
        assert.match(said[4].error, /^EXECABORT Transaction discarded because of: Operation failed due to constraint violation/);
        assert.deepEqual(said.slice(5), ['3', 0]);
        for (const bad of [['INCRBY', 'n', 'x'], ['INCR', 'a b'], ['SET', 'n', 1, 'NONSENSE'], ['INCRBY', 'n', -(2n ** 63n)]]) {
            assert.deepEqual((await client.pipeline([['MULTI'], ['INCR', 'n'], bad, ['PING'], ['EXEC'], ['PING'], ['GET', 'n']])).slice(4), [ABORT, 'PONG', '3']);
        }
        assert.match((await client.pipeline([['MULTI'], ['INCR', 'n'], ['INCR', 'kept'], ['EXEC']]))[3].error, /^EXECABORT .* kept by rules/);
        assert.equal(await client.call('GET', 'n'), '3');
    });

    test('SPEC 14: what is refused while it is collected spoils EXEC', async () => {
        const client = await server.connect(server.tenant());
        for (const bad of [['NONSENSE'], ['INCR'], ['WATCH', 'n'], ['AUTH', 'x'], ['HELLO', 3]]) {
            const said = await client.pipeline([['MULTI'], ['INCR', 'n'], bad, ['INCR', 'n'], ['EXEC'], ['EXISTS', 'n']]);
            assert.ok(said[2].error, bad[0]);
            assert.deepEqual([said[1], said[3], said[4], said[5]], ['QUEUED', 'QUEUED', ABORT, 0]);
        }
    });

    test('SPEC 14: DISCARD and RESET drop it; nesting and EXEC alone are errors', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        assert.deepEqual(await client.call('EXEC'), { error: 'ERR EXEC without MULTI' });
        assert.deepEqual(await client.call('DISCARD'), { error: 'ERR DISCARD without MULTI' });
        assert.deepEqual(await client.pipeline([['MULTI'], ['INCR', 'n'], ['MULTI'], ['DISCARD'], ['GET', 'n'], ['MULTI'], ['EXEC']]),
            ['OK', 'QUEUED', { error: 'ERR MULTI calls can not be nested' }, 'OK', null, 'OK', []]);
        assert.deepEqual(await client.pipeline([['MULTI'], ['INCR', 'n'], ['RESET'], ['AUTH', t.token], ['EXEC'], ['GET', 'n']]),
            ['OK', 'QUEUED', 'RESET', 'OK', { error: 'ERR EXEC without MULTI' }, null]);
    });

    test('SPEC 14: nobody sees half of it', async () => {
        const t = server.tenant();
        const [writer, reader] = [await server.connect(t), await server.connect(t)];
        await writer.call('MSET', 'a', 100, 'b', 0);
        const move = [['MULTI'], ['DECR', 'a'], ['INCR', 'b'], ['EXEC']];
        const writes = (async () => {
            for (let i = 0; i < 50; i++) await writer.pipeline(move);
        })();
        for (let i = 0; i < 50; i++) {
            const [a, b] = (await reader.pipeline([['MULTI'], ['GET', 'a'], ['GET', 'b'], ['EXEC']]))[3];
            assert.equal(Number(a) + Number(b), 100);
        }
        await writes;
        assert.deepEqual(await reader.call('MGET', 'a', 'b'), ['50', '50']);
    });

    test('SPEC 14: a transaction is bounded', async () => {
        const client = await server.connect(server.tenant());
        const most = 5000;
        const fits = await client.pipeline([['MULTI'], ...many(most, () => ['INCR', 'n']), ['EXEC']]);
        assert.equal(fits.at(-1).at(-1), most);
        const over = await client.pipeline([['MULTI'], ...many(most + 1, () => ['INCR', 'n']), ['EXEC'], ['GET', 'n']]);
        assert.deepEqual(over.slice(-3), [{ error: 'ERR there are too many commands in MULTI' }, ABORT, String(most)]);
    });
});

describe('SCAN', () => {
    const server = respServerFor({ settings: LARGE_COMMITS, config: 'counters:\n  - counterName: kept\n    rules: [{ on: seen, op: increment }]\n' });

    async function all(client, ...options) {
        const found = [];
        let cursor = '0';
        let calls = 0;
        do {
            const [next, names] = await client.call('SCAN', cursor, ...options);
            found.push(...names);
            cursor = next;
            assert.ok(++calls < 1000);
        } while (cursor !== '0');
        return found;
    }

    test('SPEC 14: it finds every counter without a duration once, and no other tenant\'s', async () => {
        const [t, other] = [server.tenant(), server.tenant()];
        const client = await server.connect(t);
        const names = many(250, (i) => `page:${String(i).padStart(3, '0')}`);
        await client.pipeline(names.map((name) => ['INCR', name]));
        await t.increment('minutes', { ...TOTAL, durationSeconds: 60 });
        await (await server.connect(other)).call('INCR', 'theirs');
        assert.deepEqual(await all(client), names);
        assert.deepEqual(await all(client, 'COUNT', 1000), names);
        assert.deepEqual(await all(client, 'COUNT', 3, 'MATCH', 'page:0*'), names.slice(0, 100));
        assert.deepEqual(await all(client, 'MATCH', '*:?4[1-3]'), ['page:041', 'page:042', 'page:043', 'page:141', 'page:142', 'page:143', 'page:241', 'page:242', 'page:243']);
        assert.deepEqual(await all(client, 'MATCH', 'pa ge*'), []);
        assert.deepEqual(await all(client, 'TYPE', 'string'), names);
        assert.deepEqual(await all(client, 'TYPE', 'hash'), []);
    });

    test('SPEC 14: it sees the writes before it in a pipeline, and what is behind it waits', async () => {
        const client = await server.connect(server.tenant());
        assert.deepEqual(await client.pipeline([['INCR', 'a'], ['PING'], ['SCAN', 0], ['DEL', 'a'], ['SCAN', 0], ['INCR', 'b'], ['SCAN', 0]]),
            [1, 'PONG', ['0', ['a']], 1, ['0', []], 1, ['0', ['b']]]);
    });

    test('SPEC 14: nothing behind it overtakes it, whoever else is about', async () => {
        await together(4, async () => {
            for (let round = 0; round < times(300, 30); round++) {
                const client = await server.connect(server.tenant());
                assert.deepEqual(await client.pipeline([['INCR', 'a'], ['SCAN', 0], ['DEL', 'a'], ['SCAN', 0], ['INCR', 'b']]), [1, ['0', ['a']], 1, ['0', []], 1]);
                client.destroy();
            }
        });
    });

    test('SPEC 14: a cursor is good for its tenant, on any connection, again and again', async () => {
        const t = server.tenant();
        const [client, second] = [await server.connect(t), await server.connect(t)];
        await client.call('MSET', 'a', 1, 'b', 2, 'c', 3);
        const [cursor, names] = await client.call('SCAN', 0, 'COUNT', 2);
        assert.deepEqual(names, ['a', 'b']);
        for (const one of [client, second, client]) assert.deepEqual(await one.call('SCAN', cursor, 'COUNT', 2), ['0', ['c']]);
        const stranger = await server.connect(server.tenant());
        for (const bad of [cursor, '17', 'x', '-1', '99999999999999999999']) {
            assert.deepEqual(await stranger.call('SCAN', bad), { error: 'ERR invalid cursor' });
        }
        assert.deepEqual(await client.call('SCAN', 0, 'COUNT', 0), { error: 'ERR syntax error' });
        assert.deepEqual(await client.call('SCAN', 0, 'COUNT', 'x'), { error: 'ERR value is not an integer or out of range' });
        assert.deepEqual(await client.call('SCAN', 0, 'MATCH'), { error: 'ERR syntax error' });
        assert.deepEqual((await client.pipeline([['MULTI'], ['SCAN', 0], ['DISCARD']]))[1], { error: 'ERR Command not allowed inside a transaction' });
    });
});

describe('TALLY.*', () => {
    const server = respServerFor({ settings: LARGE_COMMITS, config: 'counters:\n  - counterName: kept\n    rules: [{ on: seen, op: increment }]\n' });
    const SYNTAX_ERROR = { error: 'ERR syntax error' };

    test('SPEC 14: TALLY.INCR and TALLY.DECR count in buckets, as HTTP does', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        assert.equal(await client.call('TALLY.INCR', 'n', 5), 5);
        assert.equal(await client.call('TALLY.INCR', 'n', 7, 'BUCKET', 60, 'AT', 1700000000), 7);
        assert.equal(await client.call('TALLY.INCR', 'n', 1, 'at', '2023-11-14T22:13:59Z', 'bucket', 60), 8);
        assert.equal(await client.call('TALLY.DECR', 'n', 3, 'BUCKET', 60, 'AT', 1700000000), 5);
        assert.deepEqual(await client.call('TALLY.GET', 'n', 'BUCKET', 60, 'AT', 1700000039000), [5, 8, 3]);
        assert.deepEqual(await client.call('TALLY.GET', 'n'), [5, 5, 0]);
        assert.equal(await client.call('TALLY.GET', 'n', 'BUCKET', 60, 'AT', 1), null);
        assert.equal(await client.call('GET', 'n'), '5');
        const { body } = await t.get('n', { durationSeconds: 60, timestamp: 1700000000 });
        assert.deepEqual(body, { net: '5', added: '8', subbed: '3' });
        assert.equal(await client.call('TALLY.INCR', 'now', 1, 'BUCKET', 86400), 1);
        assert.equal((await client.call('TALLY.GET', 'now', 'BUCKET', 86400))?.[0] ?? 1, 1);
        assert.deepEqual(await client.pipeline([['TALLY.INCR', 'p', 4, 'BUCKET', 60, 'AT', 60], ['TALLY.GET', 'p', 'BUCKET', 60, 'AT', 119], ['TALLY.GET', 'p', 'BUCKET', 60, 'AT', 120]]),
            [4, [4, 4, 0], null]);
    });

    test('SPEC 14: MAX is a rate limiter in one command', async () => {
        const client = await server.connect(server.tenant());
        const said = await client.pipeline(many(5, () => ['TALLY.INCR', 'limit', 1, 'MAX', 3]));
        const limit = { error: 'LIMIT the increment would pass MAX; the counter is 3' };
        assert.deepEqual(said, [1, 2, 3, limit, limit]);
    });

    test('SPEC 14: ONCE counts once, whatever is resent, also after kill -9', async () => {
        const t = server.tenant();
        let client = await server.connect(t);
        const once = ['TALLY.INCR', 'n', 5, 'ONCE', 'order-1'];
        assert.deepEqual(await client.pipeline([once, ['INCR', 'n'], once]), [5, 6, 5]);
        assert.match((await client.call('TALLY.INCR', 'n', 6, 'ONCE', 'order-1')).error, /^ERR This Idempotency-Key was first used with a different request/);
        await server.restart({ hard: true });
        client = await server.connect(t);
        assert.equal(await client.call(...once), 5);
        assert.equal(await client.call('GET', 'n'), '6');
    });

    test('SPEC 14: a key is the same through both doors, if the time is said', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        assert.equal(await client.call('TALLY.INCR', 'n', 5, 'AT', 1700000000, 'ONCE', 'k'), 5);
        const op = { op: 'increment', name: 'n', durationSeconds: 0, timestamp: 1700000000, amount: 5, idempotencyKey: 'k' };
        const { body } = await t.batch([op]);
        assert.equal(body.results[0].replayed, true);
        assert.equal(await client.call('GET', 'n'), '5');
    });

    test('SPEC 14: TALLY.SUM adds up buckets, and sees what was written before it', async () => {
        const client = await server.connect(server.tenant());
        const adds = many(20, (i) => ['TALLY.INCR', 'n', i + 1, 'BUCKET', 60, 'AT', 60 * i]);
        const said = await client.pipeline([...adds, ['TALLY.SUM', 'n', 'BUCKET', 60, 'FROM', 0, 'TO', 1199], ['PING'],
            ['TALLY.SUM', 'n', 'from', 60, 'to', 120, 'bucket', 60], ['TALLY.SUM', 'none', 'BUCKET', 60, 'FROM', 0, 'TO', 1]]);
        assert.deepEqual(said.slice(20), [['210', '210', '0'], 'PONG', ['5', '5', '0'], ['0', '0', '0']]);
    });

    test('SPEC 14: sums may pass 64 bits', async () => {
        const client = await server.connect(server.tenant());
        for (const at of [0, 60, 120]) await client.call('TALLY.INCR', 'n', MAX, 'BUCKET', 60, 'AT', at);
        assert.equal((await client.call('TALLY.SUM', 'n', 'BUCKET', 60, 'FROM', 0, 'TO', 120))[0], String(3n * MAX));
    });

    test('SPEC 14, SPEC 15: BUCKET may be of a calendar', async () => {
        const t = server.tenant();
        const client = await server.connect(t);
        const month = ['BUCKET', 'month', 'ZONE', 'Europe/Berlin'];
        assert.equal(await client.call('TALLY.INCR', 'n', 5, ...month, 'AT', '2026-02-28T22:59:59Z'), 5);
        assert.equal(await client.call('TALLY.INCR', 'n', 2, ...month, 'AT', '2026-02-28T23:00:00Z'), 2);
        assert.deepEqual(await client.call('TALLY.GET', 'n', ...month, 'AT', '2026-02-01T00:00:00Z'), [5, 5, 0]);
        assert.deepEqual(await client.call('TALLY.SUM', 'n', ...month, 'FROM', '2026-02-01T00:00:00Z', 'TO', '2026-03-01T00:00:00Z'), ['7', '7', '0']);
        assert.equal((await t.get('n', { bucket: 'month', zone: 'Europe/Berlin', timestamp: '2026-03-15T00:00:00Z' })).body.net, '2');
        assert.match((await client.call('TALLY.INCR', 'n', 1, 'BUCKET', 'month', 'ZONE', 'Nowhere/At_All')).error, /^ERR /);
        assert.match((await client.call('TALLY.INCR', 'n', 1, 'BUCKET', 'fortnight')).error, /^ERR /);
        assert.match((await client.call('TALLY.INCR', 'n', 1, 'BUCKET', 60, 'ZONE', 'Europe/Berlin')).error, /^ERR /);
    });

    test('SPEC 14: what is wrong is said as over HTTP', async () => {
        const client = await server.connect(server.tenant());
        for (const args of [['TALLY.INCR', 'n', 1, 'BUCKET'], ['TALLY.INCR', 'n', 1, 'NONSENSE', 1], ['TALLY.INCR', 'n', 1, 'MAX', 1, 'MAX', 2],
            ['TALLY.DECR', 'n', 1, 'MAX', 1], ['TALLY.GET', 'n', 'ONCE', 'x'], ['TALLY.SUM', 'n', 'BUCKET', 60, 'FROM', 0, 'FROM', 1]]) {
            assert.deepEqual(await client.call(...args), SYNTAX_ERROR, args.join(' '));
        }
        for (const [args, why] of [
            [['TALLY.INCR', 'n', 0], /^ERR amount must be /], [['TALLY.INCR', 'n', 'x'], /^ERR amount must be /],
            [['TALLY.INCR', 'n', 1, 'BUCKET', -1], /^ERR durationSeconds must be /], [['TALLY.INCR', 'n', 1, 'AT', 'x'], /^ERR timestamp must be /],
            [['TALLY.INCR', 'n', 1, 'ONCE', ''], /^ERR ONCE must be /], [['TALLY.GET', 'n', 'AT', '1.5'], /^ERR timestamp must be /],
            [['TALLY.SUM', 'n', 'BUCKET', 60, 'FROM', 2, 'TO', 1], /^ERR startTime must not be after endTime/],
            [['TALLY.SUM', 'kept', 'BUCKET', 0, 'FROM', 0, 'TO', 1], /^ERR /], [['TALLY.INCR', 'kept', 1], /^ERR managed by rules/],
            [['TALLY.GET', 'kept'], /^ERR managed by rules/], [['TALLY.DECR', 'n', 1], /^ERR decrement would make the counter negative/],
            [['TALLY.SUM', 'a b', 'BUCKET', 0, 'FROM', 0, 'TO', 1], /^ERR invalid counter name/],
        ]) assert.match((await client.call(...args)).error, why, args.join(' '));
        assert.equal(await client.call('EXISTS', 'n'), 0);
    });

    test('SPEC 14: they may be part of a transaction', async () => {
        const client = await server.connect(server.tenant());
        const said = await client.pipeline([['MULTI'], ['TALLY.INCR', 'a', 1, 'MAX', 1], ['TALLY.INCR', 'b', 1, 'ONCE', 'x'], ['EXEC'],
            ['MULTI'], ['INCR', 'b'], ['TALLY.INCR', 'a', 1, 'MAX', 1], ['EXEC'], ['MGET', 'a', 'b']]);
        assert.deepEqual(said[3], [1, 1]);
        assert.match(said[7].error, /^EXECABORT .* pass max/);
        assert.deepEqual(said[8], ['1', '1']);
    });
});
