// resp-redis.test.mjs -- the same commands to tally and to a real redis-server: the same answers, type by type and
// word by word, wherever docs/redis.md does not say otherwise.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { startRedis } from './support/redis.mjs';
import { respServerFor } from './support/resp.mjs';

const MAX = '9223372036854775807';
const MIN = '-9223372036854775808';
const AHEAD = Math.floor(Date.now() / 1000) + 5000;

/** Commands in order, on keys that begin with nothing: what each command is to be asked. */
const SAME = {
    'INCR, INCRBY, DECR, DECRBY': ['INCR n', 'INCR', 'INCR n m', 'INCRBY n 5', 'INCRBY n', 'INCRBY n x', 'INCRBY n 1.5', `INCRBY n ${MAX}0`,
        'DECR n', 'DECRBY n 2', 'DECRBY n x', `DECRBY n ${MIN}`, 'INCRBY n -3', 'DECRBY n -3', 'GET n', 'INCRBY zero 0', 'GET zero'],
    'overflow': [`SET n ${MAX}`, 'INCR n', 'INCRBY n 1', 'GET n', 'DECRBY n -1'],
    'GET, MGET, EXISTS, TYPE': ['GET n', 'GET', 'SET n 5', 'GET n', 'MGET n m n', 'MGET', 'EXISTS n m n', 'EXISTS', 'TYPE n', 'TYPE m', 'TYPE'],
    'SET': ['SET n', 'SET', 'SET n 1', 'SET n 2 NX', 'SET m 2 NX', 'SET n 3 XX', 'SET o 3 XX', 'SET n 4 NX XX', 'SET n 4 GET', 'SET p 4 GET',
        'SET n 5 NX GET', 'SET n 5 BOGUS', 'SET n 5 EX', 'SET n 5 EX x', 'SET n 5 EX 0', 'SET n 5 EX -1', 'SET n 5 PX 0', 'SET n 5 EXAT 0',
        `SET n 5 EX ${MAX}`, `SET n 5 EX 9223372036854775`, `SET n 5 PX ${MAX}`, 'SET n 5 EX 10 PX 10', 'SET n 5 EX 10 KEEPTTL', 'SET n 5 KEEPTTL EX 10',
        'SET n 5 EX 10 EX 10', 'SET n 6 EX 100', 'TTL n', 'SET n 7 KEEPTTL', 'TTL n', 'SET n 8', 'TTL n', 'set n 9 ex 100 xx get', 'TTL n',
        `SET n 9 EXAT ${AHEAD}`, `SET n 9 PXAT ${AHEAD}000`, 'GET n', 'SET n 9 EXAT 1000', 'GET n', 'EXISTS n', 'SET n 9 PX 86400000 NX', 'TTL n'],
    'MSET, DEL': ['MSET a 1 b 2', 'MGET a b', 'MSET a', 'MSET a 1 b', 'SET a 1 EX 100', 'MSET a 4', 'TTL a', 'DEL a b c', 'DEL', 'EXISTS a b'],
    'EXPIRE and its kin': ['EXPIRE n 10', 'EXPIRE n', 'SET n 1', 'TTL n', 'PTTL n', 'TTL none', 'PTTL none', 'EXPIRE n x', 'EXPIRE n 1.5', 'EXPIRE n 100',
        'TTL n', 'EXPIRE n 200 NX', 'EXPIRE n 200 XX', 'TTL n', 'EXPIRE n 100 GT', 'EXPIRE n 300 GT', 'TTL n', 'EXPIRE n 400 LT', 'EXPIRE n 50 LT', 'TTL n',
        'EXPIRE n 60 XX GT', 'TTL n', 'EXPIRE n 60 NX XX', 'EXPIRE n 60 NX GT', 'EXPIRE n 60 GT LT', 'EXPIRE n 60 BOGUS', 'EXPIRE n 60 nx bogus', `EXPIRE n ${MAX}`,
        `EXPIRE n ${MIN}`, `PEXPIRE n ${MAX}`, 'PERSIST n', 'PERSIST n', 'PERSIST none', 'PERSIST', 'TTL n', 'EXPIRE n 10 GT', 'EXPIRE n 10 LT', 'TTL n',
        `EXPIREAT n ${AHEAD}`, `PEXPIREAT n ${AHEAD}000`, 'EXPIREAT n', 'PEXPIREAT n', 'PEXPIRE n', 'PEXPIRE n 100000', 'TTL n', 'INCR n', 'TTL n',
        'EXPIRE n 0', 'GET n', 'INCR n', 'EXPIRE n -5', 'EXISTS n', 'INCR n', 'EXPIREAT n 5', 'EXISTS n', 'INCR n', 'PEXPIREAT n -1', 'TTL n', 'TTL', 'PTTL', 'TTL n n'],
    'MULTI': ['EXEC', 'DISCARD', 'MULTI', 'MULTI', 'INCR n', 'EXPIRE n 100', 'GET n', 'TTL n', 'EXEC', 'MULTI', 'INCR n', 'DISCARD', 'GET n', 'MULTI', 'INCR',
        'INCR n', 'EXEC', 'MULTI', 'EXEC'],
    'the connection': ['PING', 'PING x', 'PING x y', 'ECHO x', 'ECHO', 'SELECT 0', 'SELECT x', 'CLIENT GETNAME', 'CLIENT SETNAME me', 'CLIENT GETNAME', 'CLIENT SETNAME',
        'CLIENT SETNAME a\nb'],
    'odd words': ['nonsense', 'nonsense a b', 'CONFIG GET save', 'COMMAND COUNT x'].slice(0, 2),
};

const words = (line) => line.split(' ');

/** What may differ by a second between two servers that are asked one after the other. */
const nearly = (line, reply) => (/^P?TTL /i.test(line) && reply > 0 ? Math.round(reply / (line[0] === 'P' ? 10000 : 10)) : reply);

describe('tally and Redis answer alike', () => {
    const server = respServerFor();
    let redis;
    before(async () => (redis = await startRedis()));
    after(() => redis.stop());

    for (const [name, lines] of Object.entries(SAME)) {
        test(`SPEC 14: ${name}`, async () => {
            const theirs = await redis.connect();
            const ours = await server.connect(server.tenant());
            await theirs.call('FLUSHALL');
            for (const line of lines) {
                const expected = await theirs.call(...words(line));
                assert.deepEqual(nearly(line, await ours.call(...words(line))), nearly(line, expected), `${line} in Redis: ${JSON.stringify(expected)}`);
            }
            theirs.destroy();
            ours.destroy();
        });
    }

    test('SPEC 14: the arity of every command that Redis has too is Redis\'s', async () => {
        const theirs = await redis.connect();
        const ours = await server.connect(server.tenant());
        const arities = async (client) => new Map((await client.call('COMMAND')).map(([name, arity]) => [name, arity]));
        const known = await arities(theirs);
        for (const [name, arity] of await arities(ours)) {
            if (known.has(name)) assert.equal(arity, known.get(name), name);
        }
        theirs.destroy();
        ours.destroy();
    });
});
