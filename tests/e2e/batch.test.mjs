// Many operations in one call, as JSON and as NDJSON.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, MAX, NEGATIVE, OVERFLOW, sequenceOf, triple } from './support/expect.mjs';
import { times } from './support/pace.mjs';
import { LARGE_COMMITS, serverFor, TOTAL } from './support/server.mjs';

const up = (name, amount = 1, more = {}) => ({ op: 'increment', name, ...TOTAL, amount, ...more });
const down = (name, amount = 1, more = {}) => ({ op: 'decrement', name, ...TOTAL, amount, ...more });
const put = (name, targetValue, more = {}) => ({ op: 'set', name, ...TOTAL, targetValue, ...more });
const ok = (added, subbed = 0) => ({ status: 200, ...triple(added, subbed) });

describe('batch', () => {
    const server = serverFor({ settings: { ...LARGE_COMMITS, 'limits.requestOps': 6000 } });

    test('S3-97, A-27c: one result per op, in order, each judged on the value left by the one before', async () => {
        const t = server.tenant();
        const reply = await t.batch([up('a', 5), down('a', 6), down('a', 2), put('b', '7'), up('a', 1), down('absent'), put('b', 3)]);
        assert.equal(reply.status, 200, reply.text);
        assert.deepEqual(reply.body, {
            results: [ok(5), { status: 409, ...NEGATIVE }, ok(5, 2), ok(7), ok(6, 2), { status: 409, ...NEGATIVE }, ok(7, 4)],
        });
        assert.ok(sequenceOf(reply) > 0n);
        expectTriple(await t.get('a'), 6, 2);
        assert.equal((await t.get('absent')).status, 404);
    });

    test('A-27c, S3-83: an increment later in the batch does not rescue a decrement before it', async () => {
        const t = server.tenant();
        const { body } = await t.batch([down('late'), up('late', 5), down('late', 5), down('late')]);
        assert.deepEqual(body.results.map((result) => result.status), [409, 200, 200, 409]);
        expectTriple(await t.get('late'), 5, 5);
    });

    test('S3-45: refused and malformed ops leave their neighbours alone', async () => {
        const t = server.tenant();
        const bad = [
            7, 'increment', null, [], true, {}, { op: 'increment' }, { op: 'increment', name: 'x' }, { op: 'incrementSync', name: 'x', ...TOTAL },
            { op: 'increment', name: 'no spaces', ...TOTAL }, { op: 'increment', name: '', ...TOTAL }, { op: 'increment', name: 'n'.repeat(256), ...TOTAL },
            { op: 'increment', name: 5, ...TOTAL }, { op: null, name: 'x', ...TOTAL }, { name: 'x', ...TOTAL }, up('x', 0), up('x', -1), up('x', '1.5'),
            put('x', -1), { op: 'set', name: 'x', ...TOTAL }, up('x', 1, { timestamp: 'junk' }), up('x', 1, { durationSeconds: -1 }),
            up('x', 1, { expiresAt: 'junk' }), up('x', 1, { max: 'junk' }), { op: 'delete', name: 'x', ...TOTAL }, { op: 'Increment', name: 'x', ...TOTAL },
        ];
        const ops = bad.flatMap((op) => [up('good'), op]);
        const { status, body } = await t.batch(ops);
        assert.equal(status, 200);
        assert.equal(body.results.length, ops.length);
        for (const [index, result] of body.results.entries()) {
            if (index % 2 === 0) {
                assert.deepEqual(result, ok(index / 2 + 1));
                continue;
            }
            assert.equal(result.status, 400, `${JSON.stringify(ops[index])}: ${JSON.stringify(result)}`);
            assert.equal(typeof result.error, 'string');
            assert.equal(typeof result.code, 'string');
        }
        assert.equal((await t.get('x')).status, 404);
    });

    test('S3-73: overflow and constraint violations are told apart per op', async () => {
        const t = server.tenant();
        const { body } = await t.batch([up('o', String(MAX)), up('o'), down('o', String(MAX)), down('o')]);
        assert.deepEqual(body.results, [ok(MAX), { status: 400, ...OVERFLOW }, ok(MAX, MAX), { status: 409, ...NEGATIVE }]);
    });

    test('SPEC 5: ?results=errors leaves out the successes and gives each result its index', async () => {
        const t = server.tenant();
        const ops = [up('a'), down('none'), up('a'), up('a', 0), up('a')];
        const { status, body } = await t.batch(ops, { query: '?results=errors' });
        assert.equal(status, 200);
        assert.deepEqual(body.results.map((result) => [result.index, result.status]), [[1, 409], [3, 400]]);
        assert.equal(body.results[0].code, 'constraint_violation');
        assert.deepEqual((await t.batch([up('a')], { query: '?results=errors' })).body.results, []);
        expectTriple(await t.get('a'), 4);
    });

    test('SPEC 5: an empty batch has no results', async () => {
        const t = server.tenant();
        const before = await t.increment('a', TOTAL);
        for (const empty of [await t.batch([]), await t.batch([], { atomic: true }), await t.call('POST', `/api/events/${t.id}`, { body: '[]' })]) {
            assert.equal(empty.status, 200, empty.text);
            assert.deepEqual(empty.body.results, []);
            assert.ok(sequenceOf(empty) >= sequenceOf(before), 'SPEC 1: of what came before it');
        }
    });

    test('S3-33: a body that is no batch is 400', async () => {
        const t = server.tenant();
        for (const body of ['', '{', '[]', 'null', '{}', '{"ops":null}', '{"ops":{}}', '{"ops":5}', '{"ops":"x"}', '{"ops":[}', '{"ops":[]}x', '{"ops":[],"atomic":"yes"}']) {
            expectError(await t.call('POST', `/api/counters/${t.id}/batch`, { body }), 400);
        }
    });

    test('SPEC 3: of duplicate keys the last wins at every depth', async () => {
        const t = server.tenant();
        const inner = '{"op":"set","op":"increment","name":"y","name":"x","durationSeconds":0,"timestamp":0,"amount":1,"amount":4}';
        const { body } = await t.call('POST', `/api/counters/${t.id}/batch`, { body: `{"ops":[${inner},${inner}],"ops":[${inner}]}` });
        assert.deepEqual(body, { results: [ok(4)] });
        assert.equal((await t.get('y')).status, 404);
    });

    test('SPEC 3: fields may come in any order, the ops before or after the rest', async () => {
        const t = server.tenant();
        const op = JSON.stringify(up('x'));
        for (const text of [`{"atomic":true,"x-a":[{}],"ops":[${op}]}`, `{"ops":[${op}],"atomic":true}`, `{"ops":[${op}],"atomic":null,"x-b":{"ops":[]}}`]) {
            assert.equal((await t.call('POST', `/api/counters/${t.id}/batch`, { body: text })).body.results.length, 1);
        }
        expectTriple(await t.get('x'), 3);
    });

    test('SPEC 5: more than limits.requestOps ops is 400 too_many_ops and applies nothing', async () => {
        const t = server.tenant();
        const line = JSON.stringify(up('big'));
        expectError(await t.ndjson(Array(6001).fill(line).join('\n')), 400, 'too_many_ops');
        expectError(await t.call('POST', `/api/counters/${t.id}/batch`, { body: `{"ops":[${Array(6001).fill(line).join(',')}]}` }), 400, 'too_many_ops');
        assert.equal((await t.get('big')).status, 404);
    });

    test('S3-82, S3-97: a batch larger than one commit is counted whole, in order', async () => {
        const t = server.tenant();
        const { status, body } = await t.ndjson(Array(6000).fill(JSON.stringify(up('big'))).join('\n'));
        assert.equal(status, 200);
        assert.deepEqual(body.results.map((result) => Number(result.net)), Array.from({ length: 6000 }, (_, i) => i + 1));
    });

    test('SPEC 5: a batch over thousands of keys, in one call', async () => {
        const t = server.tenant();
        const count = times(5000);
        const { body } = await t.batch(Array.from({ length: count }, (_, i) => up(`key-${i}`, i + 1)), { query: '?results=errors' });
        assert.deepEqual(body.results, []);
        expectTriple(await t.get(`key-${count - 1}`), count);
        assert.equal((await t.listAll({ limit: 1000 })).length, count);
    });

    describe('NDJSON', () => {
        const lines = (...ops) => ops.map((op) => (typeof op === 'string' ? op : JSON.stringify(op)));

        test('SPEC 5: one op a line, with or without a last line end, with CRLF and with blank lines', async () => {
            const t = server.tenant();
            const two = lines(up('n'), up('n'));
            const texts = [two.join('\n'), two.join('\n') + '\n', two.join('\r\n') + '\r\n', '\n\n' + two.join('\n\n\r\n') + '\n\n', two.join(' \n\t')];
            for (const [index, text] of texts.entries()) {
                const { status, body } = await t.ndjson(text);
                assert.equal(status, 200);
                assert.deepEqual(body.results, [ok(index * 2 + 1), ok(index * 2 + 2)], JSON.stringify(text));
            }
        });

        test('SPEC 5: a malformed line is its own 400, and the lines after it count', async () => {
            const t = server.tenant();
            const { status, body } = await t.ndjson(lines(up('n'), '{', up('n'), 'junk', up('n'), '{"op":"increment"', `${JSON.stringify(up('n'))}x`, '[]', up('n')).join('\n'));
            assert.equal(status, 200);
            assert.deepEqual(body.results.map((result) => result.status), [200, 400, 200, 400, 200, 400, 400, 400, 200]);
            expectTriple(await t.get('n'), 4);
        });

        test('SPEC 5: two objects on one line are no op', async () => {
            const t = server.tenant();
            const { body } = await t.ndjson(`${JSON.stringify(up('n'))}${JSON.stringify(up('n'))}\n${JSON.stringify(up('n'))}`);
            assert.deepEqual(body.results.map((result) => result.status), [400, 200]);
        });

        test('SPEC 5: ?results=errors counts ops, not blank lines', async () => {
            const t = server.tenant();
            const { body } = await t.ndjson(`\n${lines(up('n'), down('none'), up('n')).join('\n\n')}\n{\n`, { query: '?results=errors' });
            assert.deepEqual(body.results.map((result) => [result.index, result.status]), [[1, 409], [3, 400]]);
        });

        test('SPEC 5: an empty body is an empty batch', async () => {
            const t = server.tenant();
            for (const text of ['\n', '\r\n\n']) expectExactly(await t.ndjson(text), 200, { results: [] });
        });

        test('SPEC 5: the content type may carry parameters and capitals', async () => {
            const t = server.tenant();
            const reply = await t.ndjson(lines(up('n'), up('n')).join('\n'), { headers: { 'Content-Type': 'Application/X-NDJSON; charset=utf-8' } });
            assert.equal(reply.body.results.length, 2, reply.text);
        });

        test('bytes that are no UTF-8 spoil their own line only', async () => {
            const t = server.tenant();
            const good = Buffer.from(JSON.stringify(up('n')) + '\n');
            const bad = Buffer.concat([Buffer.from('{"op":"increment","note":"'), Buffer.from([0xff]), Buffer.from('"}\n')]);
            const { body } = await t.ndjson(Buffer.concat([good, bad, good]));
            assert.deepEqual(body.results.map((result) => result.status), [200, 400, 200]);
        });
    });

    describe('atomic', () => {
        test('SPEC 5: all succeed together, with one result each', async () => {
            const t = server.tenant();
            const reply = await t.batch([up('a', 5), down('a', 2), put('b', 9)], { atomic: true });
            assert.equal(reply.status, 200, reply.text);
            assert.deepEqual(reply.body.results, [ok(5), ok(5, 2), ok(9)]);
        });

        const FAILURES = [
            ['a constraint', [up('a', 5), put('b', 3), down('a', 6), up('c')], 2, 409, 'constraint_violation'],
            ['an overflow', [up('a'), up('b', String(MAX)), up('b')], 2, 400, 'overflow'],
            ['a cap', [up('a', 5), up('a', 5, { max: 9 })], 1, 409, 'limit_exceeded'],
            ['a malformed op', [up('a'), up('b', 0)], 1, 400, undefined],
            ['the first op', [down('a'), up('a')], 0, 409, 'constraint_violation'],
            ['the first of two failures', [up('a'), down('b'), up('c', String(MAX)), up('c')], 1, 409, 'constraint_violation'],
        ];

        for (const [what, ops, index, status, code] of FAILURES) {
            test(`SPEC 5: ${what} fails the whole with the first failing op's status and index`, async () => {
                const t = server.tenant();
                const reply = await t.batch(ops, { atomic: true });
                expectError(reply, status, code);
                assert.equal(reply.body.index, index);
                for (const name of ['a', 'b', 'c']) assert.equal((await t.get(name)).status, 404, name);
                assert.deepEqual((await t.list()).body.counters, []);
            });
        }

        test('SPEC 5: a failed atomic batch leaves existing values and the ops around it alone', async () => {
            const t = server.tenant();
            await t.increment('a', { ...TOTAL, amount: 10 });
            expectError(await t.batch([down('a', 4), put('b', 5), down('a', 7)], { atomic: true }), 409);
            expectTriple(await t.get('a'), 10);
            expectTriple(await t.decrement('a', { ...TOTAL, amount: 10 }), 10, 10);
        });

        test('SPEC 5: up to 5000 ops, more is 400', async () => {
            const t = server.tenant();
            const ops = (count) => Array.from({ length: count }, () => up('many'));
            expectError(await t.batch(ops(5001), { atomic: true }), 400, 'too_many_ops');
            assert.equal((await t.get('many')).status, 404);
            assert.equal((await t.batch(ops(5000), { atomic: true })).status, 200);
            expectTriple(await t.get('many'), 5000);
        });

        test('X-01: transfers between accounts by many clients keep their sum', async () => {
            const t = server.tenant();
            const accounts = ['one', 'two', 'three', 'four'];
            for (const name of accounts) await t.set(name, { ...TOTAL, targetValue: 20 });
            await Promise.all(Array.from({ length: 16 }, async (_, client) => {
                for (let i = 0; i < times(20); i++) {
                    const from = accounts[(client + i) % 4];
                    const to = accounts[(client + 3 * i + 1) % 4];
                    const { status } = await t.batch([up(to, 7), down(from, 7)], { atomic: true });
                    assert.ok(status === 200 || status === 409, `${status}`);
                }
            }));
            const { body } = await t.query(accounts.map((name) => ({ get: { name, ...TOTAL } })));
            assert.equal(body.results.reduce((sum, result) => sum + Number(result.net), 0), 80);
        });
    });
});
