// Every way to say it wrong. Each case must be a 400 with a JSON error, and change nothing.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, NOT_FOUND } from './support/expect.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

const TIME = '"timestamp":"2024-03-15T10:30:00Z"';
const BASE = `"durationSeconds":0,${TIME}`;
const WRITES = ['increment', 'decrement', 'incrementSync', 'decrementSync', 'set'];

/** JSON texts that are no positive 64-bit integer in either form. */
const BAD_AMOUNTS = [
    '0', '"0"', '-1', '"-1"', '-9223372036854775808', '1.5', '"1.5"', '1e3', '"1e3"', '1E3', '""', '" 5"', '"5 "', '"+5"', '"\\t5"',
    '9223372036854775808', '"9223372036854775808"', '18446744073709551615', '18446744073709551617', '"18446744073709551617"',
    '99999999999999999999999999999999', '"99999999999999999999999999999999"', '1e400', 'true', 'false', '[]', '[1]', '{}', '{"value":1}',
    '"abc"', '"0x10"', '"1_000"', '"1,000"', '"\u0665"', '"\uff15"', '"5\\u0000"', '"NaN"', '"Infinity"', '"--5"', '"-"',
];

const BAD_TARGETS = BAD_AMOUNTS.filter((text) => text !== '0' && text !== '"0"');

const BAD_DURATIONS = [
    '-1', '1.5', '1e3', '2147483648', '4294967296', '4294967356', '9223372036854775808', '-9223372036854775808', 'null', 'true', '""',
    '"abc"', '" 60"', '"-60"', '[]', '[60]', '{}',
];

const BAD_TIMES = [
    'null', 'true', '[]', '{}', '""', '" "', '"yesterday"', '"now"', '1.5', '1710498600.5', '1e3', '"1.5"', '"1e3"', '"+5"', '"0x10"',
    '9223372036854775807', '-9223372036854775808', '"99999999999999999999999"', '253402300800000', '-62135596800001', '"253402300800000"',
    '"2024-13-01T00:00:00Z"', '"2024-00-01T00:00:00Z"', '"2024-02-30T00:00:00Z"', '"2023-02-29T00:00:00Z"', '"1900-02-29T00:00:00Z"',
    '"2024-04-31T00:00:00Z"', '"2024-03-00T00:00:00Z"', '"2024-03-15T24:00:01Z"', '"2024-03-15T25:00:00Z"', '"2024-03-15T10:60:00Z"',
    '"2024-03-15T10:30:61Z"', '"2024-03-15T10:30:00+24:01"', '"2024-03-15T10:30:00+02:60"', '"2024-03-15T10:30:00Zjunk"',
    '"2024-03-15T10:30:00ZZ"', '" 2024-03-15T10:30:00Z"', '"2024-03-15T10:30:00Z "', '"2024-3-15T10:30:00Z"', '"0000-01-01T00:00:00Z"',
    '"10000-01-01T00:00:00Z"', '"+2024-03-15T10:30:00Z"', '"-2024-03-15T10:30:00Z"', '"2024/03/15T10:30:00Z"', '"15-03-2024T10:30:00Z"',
    '"2024-03-15T10:30:00.Z"', '"2024-03-15T10:30:00+"', '"2024-03-15T"', '"0001-01-01T00:00:00+00:01"', '"9999-12-31T23:59:59-00:01"',
];

const BAD_BODIES = {
    'an empty body': '',
    'white space': ' \n',
    'a lone brace': '{',
    'a missing end': `{${BASE}`,
    'a trailing comma': `{${BASE},}`,
    'text after the end': `{${BASE}}x`,
    'two objects': `{${BASE}}{${BASE}}`,
    'single quotes': `{'durationSeconds':0,${TIME}}`,
    'a bare key': `{durationSeconds:0,${TIME}}`,
    'a comment': `{/* */${BASE}}`,
    'a leading zero': `{${BASE},"amount":01}`,
    'a leading plus': `{${BASE},"amount":+1}`,
    'a lone minus': `{${BASE},"amount":-}`,
    'a hex number': `{${BASE},"amount":0x10}`,
    'NaN': `{${BASE},"amount":NaN}`,
    'Infinity': `{${BASE},"amount":Infinity}`,
    'a raw control character': `{${BASE},"x-note":"\u0001"}`,
    'a raw line end in a string': `{${BASE},"x-note":"a\nb"}`,
    'a bad escape': `{${BASE},"x-note":"\\x"}`,
    'a bad unicode escape': `{${BASE},"x-note":"\\u12G4"}`,
    'an open string': `{${BASE},"x-note":"abc}`,
    'wrong capitals in true': `{${BASE},"x-note":True}`,
    'null': 'null',
    'a number': '42',
    'a string': '"increment"',
    'an array': `[{${BASE}}]`,
    'an empty array': '[]',
    'bytes that are no UTF-8': Buffer.concat([Buffer.from(`{${BASE},"x-note":"`), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]),
    'an overlong UTF-8 form': Buffer.concat([Buffer.from(`{${BASE},"x-note":"`), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')]),
    'a surrogate in UTF-8': Buffer.concat([Buffer.from(`{${BASE},"x-note":"`), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]),
};

describe('validation', () => {
    const server = serverFor();

    /** Sends each text, expects 400 each time, and that no counter came of it. */
    async function refuseAll(action, texts) {
        const t = server.tenant();
        for (const text of texts) {
            const reply = await t.write(action, 'refused', text);
            assert.equal(reply.status, 400, `${action} ${text}: ${reply.status} ${reply.text}`);
            expectError(reply, 400);
            assert.notEqual(reply.body.code, 'overflow', `${action} ${text}`);
        }
        expectExactly(await t.get('refused'), 404, NOT_FOUND);
        assert.deepEqual((await t.list()).body.counters, []);
    }

    for (const action of WRITES.filter((a) => a !== 'set')) {
        test(`S3-30, A-18: ${action} refuses every amount that is not a positive 64-bit integer`, async () => {
            await refuseAll(action, BAD_AMOUNTS.map((amount) => `{${BASE},"amount":${amount}}`));
        });
    }

    test('S3-52, A-18: set refuses every targetValue that is not a non-negative 64-bit integer, and a missing one', async () => {
        const values = [...BAD_TARGETS, 'null'];
        await refuseAll('set', [`{${BASE}}`, `{${BASE},"amount":5}`, ...values.map((value) => `{${BASE},"targetValue":${value}}`)]);
    });

    for (const action of WRITES) {
        const target = action === 'set' ? ',"targetValue":5' : '';

        test(`S3-32: ${action} refuses a missing, negative, fractional or oversized durationSeconds`, async () => {
            await refuseAll(action, [`{${TIME}${target}}`, ...BAD_DURATIONS.map((d) => `{"durationSeconds":${d},${TIME}${target}}`)]);
        });

        test(`S3-26: ${action} refuses a missing or unparseable timestamp`, async () => {
            await refuseAll(action, [`{"durationSeconds":0${target}}`, ...BAD_TIMES.map((t) => `{"durationSeconds":0,"timestamp":${t}${target}}`)]);
        });

        test(`S3-33: ${action} refuses a body that is not one JSON object`, async () => {
            await refuseAll(action, Object.values(BAD_BODIES));
        });
    }

    for (const action of ['increment', 'incrementSync', 'set']) {
        test(`S3-24: ${action} refuses an unparseable expiresAt`, async () => {
            const target = action === 'set' ? ',"targetValue":5' : '';
            const times = BAD_TIMES.filter((text) => text !== 'null');
            await refuseAll(action, times.map((time) => `{${BASE}${target},"expiresAt":${time}}`));
        });
    }

    test('SPEC 5: increment refuses a max that is not an integer', async () => {
        const texts = BAD_AMOUNTS.filter((text) => !/^"?-?\d+"?$/.test(text) || text.length > 20);
        await refuseAll('increment', texts.map((max) => `{${BASE},"max":${max}}`));
    });

    test('SPEC 3: fields that begin with x- are ignored, whatever they hold', async () => {
        const t = server.tenant();
        const extra = '"x-a":{"durationSeconds":-1,"deep":[1,2.5,{"amount":-1}]},"x-b":null,"x-c":1e40,"x-\\u0000":"","x-":[]';
        expectTriple(await t.increment('extra', `{${BASE},"amount":3,${extra}}`), 3);
    });

    test('A-27e: null for an optional field is the same as none', async () => {
        const t = server.tenant();
        expectTriple(await t.increment('nulls', `{${BASE},"amount":null,"expiresAt":null,"max":null}`), 1);
        expectTriple(await t.set('nulls', `{${BASE},"targetValue":7,"expiresAt":null}`), 7);
        expectTriple(await t.decrement('nulls', `{${BASE},"amount":null}`), 7, 1);
    });

    test('SPEC 3: of duplicate keys the last wins, whatever the earlier ones held', async () => {
        const t = server.tenant();
        expectTriple(await t.increment('twice', `{${BASE},"amount":1,"amount":7}`), 7);
        expectTriple(await t.increment('twice', `{"amount":"junk",${BASE},"amount":7}`), 14);
        expectTriple(await t.increment('twice', `{"amount":5,${BASE},"\\u0061mount":7}`), 21);
        expectTriple(await t.increment('twice', `{"durationSeconds":60,"timestamp":"junk",${BASE},"amount":9,"amount":null}`), 22);
        expectError(await t.increment('twice', `{${BASE},"amount":7,"amount":"junk"}`), 400);
        expectTriple(await t.get('twice'), 22);
    });

    test('A-18: numbers and strings are both accepted, with white space around tokens', async () => {
        const t = server.tenant();
        expectTriple(await t.increment('forms', `\r\n\t { "durationSeconds" : 0 , ${TIME} , "amount" : "5" } \n`), 5);
        expectTriple(await t.increment('forms', `{${BASE},"amount":9007199254740993}`), 9007199254740998n);
        expectTriple(await t.set('forms', `{${BASE},"targetValue":"9007199254740995"}`), 9007199254740998n, 3);
        expectTriple(await t.set('forms', `{${BASE},"targetValue":9007199254740994}`), 9007199254740998n, 4);
    });

    test('input never ends the server: deep nesting is answered, one way or the other', async () => {
        const t = server.tenant();
        for (const depth of [10, 500, 5000, 200000]) {
            const reply = await t.increment('deep', `{${BASE},"x":${'['.repeat(depth)}${']'.repeat(depth)}}`);
            assert.ok(reply.status === 200 || reply.status === 400, `${depth}: ${reply.status}`);
        }
        assert.equal((await server.call('GET', '/healthz')).status, 200);
    });

    test('S3-59: get refuses missing and malformed parameters', async () => {
        const t = server.tenant();
        const good = { durationSeconds: '0', timestamp: '2024-03-15T10:30:00Z' };
        const cases = [{}, { durationSeconds: '0' }, { timestamp: good.timestamp }];
        for (const durationSeconds of ['', '-1', '1.5', '1e3', 'abc', '2147483648', ' 60', '+60', '0x3c', 'null']) cases.push({ ...good, durationSeconds });
        for (const timestamp of ['', 'abc', '1.5', '2024-02-30T00:00:00Z', 'null', '253402300800000']) cases.push({ ...good, timestamp });
        for (const query of cases) {
            const reply = await t.get('anything', query);
            assert.equal(reply.status, 400, `${JSON.stringify(query)}: ${reply.status} ${reply.text}`);
            expectError(reply, 400);
        }
    });

    for (const action of ['sumRange', 'series']) {
        test(`S3-63: ${action} refuses missing and malformed parameters`, async () => {
            const t = server.tenant();
            const good = { durationSeconds: '60', startTime: '0', endTime: '600' };
            const cases = [{}, { durationSeconds: '60', startTime: '0' }, { durationSeconds: '60', endTime: '0' }, { startTime: '0', endTime: '600' }];
            for (const value of ['', 'abc', '-1', '1.5', '2147483648']) cases.push({ ...good, durationSeconds: value });
            for (const value of ['', 'abc', '1.5', '2024-02-30T00:00:00Z']) cases.push({ ...good, startTime: value }, { ...good, endTime: value });
            cases.push({ ...good, startTime: '601', endTime: '0' });
            for (const query of cases) {
                const reply = await t.read(action, 'anything', query);
                assert.equal(reply.status, 400, `${JSON.stringify(query)}: ${reply.status} ${reply.text}`);
                expectError(reply, 400);
            }
        });
    }

    test('SPEC 3: limit is a whole number from 1 to 10000 in lists, and a made-up cursor is refused', async () => {
        const t = server.tenant();
        await t.increment('one', TOTAL);
        for (const limit of ['0', '-1', 'abc', '1.5', '10001', '']) expectError(await t.list({ limit }), 400);
        assert.equal((await t.list({ limit: 10000 })).status, 200);
        expectError(await t.list({ after: 'not-a-cursor!' }), 400);
    });

    test('SPEC 7: any dim. parameter is refused on a direct counter', async () => {
        const t = server.tenant();
        await t.increment('plain', TOTAL);
        expectError(await t.get('plain', { ...TOTAL, 'dim.page': 'home' }), 400);
    });
});
