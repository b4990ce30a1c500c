// Which bucket an instant falls into, and every way to write an instant.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectTriple } from './support/expect.mjs';
import { serverFor } from './support/server.mjs';

/** The bucket starts a series shows for one counter: the server's own word on where things went. */
async function bucketStarts(t, name, durationSeconds) {
    const reply = await t.series(name, { durationSeconds, startTime: '0001-01-01T00:00:00Z', endTime: '9999-12-31T23:59:59Z' });
    assert.equal(reply.status, 200, reply.text);
    return reply.body.buckets.map((bucket) => bucket.timeStart);
}

describe('buckets', () => {
    const server = serverFor();

    const EXAMPLES = [
        ['S3-19', 60, '2024-03-15T10:30:45Z', '2024-03-15T10:30:00.000Z'],
        ['S3-19', 60, '2024-03-15T10:31:15Z', '2024-03-15T10:31:00.000Z'],
        ['S3-20', 3600, '2024-03-15T10:30:45Z', '2024-03-15T10:00:00.000Z'],
        ['S3-20', 3600, '2024-03-15T11:45:00Z', '2024-03-15T11:00:00.000Z'],
        ['S3-21', 0, '2024-03-15T10:30:45Z', '1970-01-01T00:00:00.000Z'],
        ['S3-21', 0, '1931-01-01T00:00:00Z', '1970-01-01T00:00:00.000Z'],
        ['S3-22 boundary', 60, '2024-03-15T10:30:00.000Z', '2024-03-15T10:30:00.000Z'],
        ['S3-22 last instant', 60, '2024-03-15T10:30:59.999Z', '2024-03-15T10:30:00.000Z'],
        ['S3-05 day', 86400, '2024-03-15T23:59:59.999Z', '2024-03-15T00:00:00.000Z'],
        ['A-20 thirty days', 2592000, '2024-03-01T00:00:00Z', '2024-02-17T00:00:00.000Z'],
        ['S3-06 seven seconds', 7, '1970-01-01T00:00:13Z', '1970-01-01T00:00:07.000Z'],
        ['S3-06 one second', 1, '2024-03-15T10:30:45.999Z', '2024-03-15T10:30:45.000Z'],
        ['E3-01 the longest', 2147483647, '2024-03-15T10:30:45Z', '1970-01-01T00:00:00.000Z'],
        ['E3-01 the longest, later', 2147483647, '2038-01-19T03:14:07Z', '2038-01-19T03:14:07.000Z'],
        ['defect 19', 60, '1969-12-31T23:59:59Z', '1969-12-31T23:59:00.000Z'],
        ['defect 19', 60, '1969-12-31T23:59:59.999Z', '1969-12-31T23:59:00.000Z'],
        ['defect 19', 60, '1969-12-31T23:59:00Z', '1969-12-31T23:59:00.000Z'],
        ['defect 19', 3600, '1969-12-31T22:59:59.001Z', '1969-12-31T22:00:00.000Z'],
        ['defect 19', 86400, '1931-03-04T05:06:07Z', '1931-03-04T00:00:00.000Z'],
        ['leap day', 86400, '2024-02-29T12:00:00Z', '2024-02-29T00:00:00.000Z'],
        ['the first year', 60, '0001-01-01T00:00:30Z', '0001-01-01T00:00:00.000Z'],
        ['the last year', 60, '9999-12-31T23:59:59.999Z', '9999-12-31T23:59:00.000Z'],
    ];

    test('S3-19 to S3-23, A-20, defect 19: an instant falls into floor(t / duration) * duration', async () => {
        const t = server.tenant();
        for (const [index, [id, durationSeconds, timestamp, start]] of EXAMPLES.entries()) {
            const name = `example-${index}`;
            expectTriple(await t.increment(name, { durationSeconds, timestamp }), 1);
            assert.deepEqual(await bucketStarts(t, name, durationSeconds), [start], `${id}: ${timestamp} by ${durationSeconds}`);
        }
    });

    test('a bucket that begins before the year 0001 has no name: nothing is counted in it, and nothing asked of it', async () => {
        const t = server.tenant();
        const at = { durationSeconds: 2147483647, timestamp: '0001-06-01T00:00:00Z' };
        for (const action of ['increment', 'decrement', 'incrementSync']) {
            const reply = await t.write(action, 'early', at);
            expectError(reply, 400, 'invalid_request');
            assert.match(reply.body.error, /^timestamp lies in a bucket that begins before the year 0001/);
        }
        expectError(await t.set('early', { ...at, targetValue: 1 }), 400, 'invalid_request');
        expectError(await t.get('early', at), 400, 'invalid_request');
        const { body } = await t.batch([{ op: 'increment', name: 'early', ...at }]);
        assert.equal(body.results[0].status, 400);
        const range = { durationSeconds: at.durationSeconds, startTime: at.timestamp };
        expectError(await t.series('early', { ...range, endTime: at.timestamp }), 400, 'invalid_request');
        const filled = await t.series('early', { ...range, endTime: '1999-01-01T00:00:00Z', fill: 'zero' });
        const starts = filled.body.buckets.map((bucket) => bucket.timeStart);
        assert.ok(starts.length > 28 && starts[0] > '0001-01-01', `the range begins with the first that has one: ${starts[0]}`);
        for (const timestamp of starts) expectTriple(await t.increment('early', { ...at, timestamp }), 1);
        assert.deepEqual(await bucketStarts(t, 'early', at.durationSeconds), starts);
    });

    test('S3-22: the first instant of the next bucket is another bucket', async () => {
        const t = server.tenant();
        const at = (timestamp) => ({ durationSeconds: 60, timestamp });
        expectTriple(await t.increment('edge', at('2024-03-15T10:30:00Z')), 1);
        expectTriple(await t.increment('edge', at('2024-03-15T10:30:59.999Z')), 2);
        expectTriple(await t.increment('edge', at('2024-03-15T10:31:00Z')), 1);
    });

    const SAME_INSTANT = [
        '2024-03-15T10:30:00Z',
        '2024-03-15T10:30:00.000Z',
        '2024-03-15T10:30:00.000000Z',
        '2024-03-15T10:30:00.0Z',
        '2024-03-15T10:30:00',
        '2024-03-15T12:30:00+02:00',
        '2024-03-15T05:00:00-05:30',
        '2024-03-15T10:30:00+00:00',
        '2024-03-16T00:30:00+14:00',
        1710498600,
        1710498600000,
        '1710498600',
        '1710498600000',
    ];

    test('S3-24, S3-25, A-19: ISO 8601 in its forms and epoch seconds or milliseconds name one instant', async () => {
        const t = server.tenant();
        for (const [index, timestamp] of SAME_INSTANT.entries()) {
            expectTriple(await t.increment('instant', { durationSeconds: 1, timestamp }), index + 1);
        }
        for (const timestamp of SAME_INSTANT) {
            expectTriple(await t.get('instant', { durationSeconds: 1, timestamp }), SAME_INSTANT.length);
        }
        assert.deepEqual(await bucketStarts(t, 'instant', 1), ['2024-03-15T10:30:00.000Z']);
    });

    const EPOCHS = [
        [0, '1970-01-01T00:00:00.000Z'],
        [-1, '1969-12-31T23:59:59.000Z'],
        [99999999999, '5138-11-16T09:46:39.000Z'],
        [100000000000, '1973-03-03T09:46:40.000Z'],
        [-100000000000, '1966-10-31T14:13:20.000Z'],
        [-62135596800000, '0001-01-01T00:00:00.000Z'],
        [253402300799999, '9999-12-31T23:59:59.000Z'],
    ];

    test('A-19: a magnitude below 100,000,000,000 is seconds, any other milliseconds', async () => {
        const t = server.tenant();
        for (const [index, [timestamp, start]] of EPOCHS.entries()) {
            expectTriple(await t.increment(`epoch-${index}`, { durationSeconds: 1, timestamp }), 1);
            assert.deepEqual(await bucketStarts(t, `epoch-${index}`, 1), [start], `${timestamp}`);
        }
    });

    test('defect 19: ranges across 1970 add both sides', async () => {
        const t = server.tenant();
        for (const timestamp of [-121, -120, -61, -60, -1, 0, 59, 60]) {
            await t.increment('around', { durationSeconds: 60, timestamp });
        }
        const sum = (startTime, endTime) => t.sumRange('around', { durationSeconds: 60, startTime, endTime });
        expectTriple(await sum(-120, -1), 4);
        expectTriple(await sum(-60, 0), 4);
        expectTriple(await sum(-180, 60), 8);
    });
});
