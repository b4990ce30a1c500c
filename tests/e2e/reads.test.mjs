// Series, lists, many reads in one call, and delete.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, expectTriple, NOT_FOUND, triple } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

const MINUTE = 60;
const at = (minute) => minute * MINUTE;
const iso = (seconds) => new Date(seconds * 1000).toISOString();
const bucket = (minute, added, subbed = 0) => ({ timeStart: iso(at(minute)), ...triple(added, subbed) });

describe('series', () => {
    const server = serverFor();

    async function filled(t, name, minutes) {
        await t.batch(minutes.map((minute) => ({ op: 'increment', name, durationSeconds: MINUTE, timestamp: at(minute), amount: minute + 10 })));
    }

    test('SPEC 5: buckets come in time order, only those that exist, with both ends included', async () => {
        const t = server.tenant();
        await filled(t, 's', [5, 1, 9, 3]);
        await t.decrement('s', { durationSeconds: MINUTE, timestamp: at(3), amount: 2 });
        const reply = await t.series('s', { durationSeconds: MINUTE, startTime: at(1), endTime: at(5) + 59 });
        expectExactly(reply, 200, { buckets: [bucket(1, 11), bucket(3, 13, 2), bucket(5, 15)] });
    });

    test('SPEC 5: unaligned ends include their buckets', async () => {
        const t = server.tenant();
        await filled(t, 's', [1, 2, 3]);
        const reply = await t.series('s', { durationSeconds: MINUTE, startTime: at(1) + 59, endTime: at(2) });
        expectExactly(reply, 200, { buckets: [bucket(1, 11), bucket(2, 12)] });
    });

    test('SPEC 5: fill=zero gives every bucket of the range', async () => {
        const t = server.tenant();
        await filled(t, 's', [1, 3]);
        const reply = await t.series('s', { durationSeconds: MINUTE, startTime: at(0), endTime: at(4), fill: 'zero' });
        expectExactly(reply, 200, { buckets: [bucket(0, 0), bucket(1, 11), bucket(2, 0), bucket(3, 13), bucket(4, 0)] });
    });

    test('SPEC 5: fill=zero works across 1970 and for a counter that is not there', async () => {
        const t = server.tenant();
        const reply = await t.series('none', { durationSeconds: MINUTE, startTime: -61, endTime: 60, fill: 'zero' });
        assert.equal(reply.status, 200, reply.text);
        assert.deepEqual(reply.body.buckets.map((one) => one.timeStart), [-120, -60, 0, 60].map(iso));
    });

    test('SPEC 5: no data is no buckets', async () => {
        const t = server.tenant();
        expectExactly(await t.series('none', { durationSeconds: MINUTE, startTime: 0, endTime: at(100) }), 200, { buckets: [] });
    });

    test('SPEC 5: duration 0 has one bucket', async () => {
        const t = server.tenant();
        await t.increment('s', { ...TOTAL, amount: 4 });
        for (const fill of [{}, { fill: 'zero' }]) {
            const reply = await t.series('s', { durationSeconds: 0, startTime: 0, endTime: 999999, ...fill });
            expectExactly(reply, 200, { buckets: [bucket(0, 4)] });
        }
    });

    test('SPEC 5: more buckets than limit is 400; exactly limit is fine', async () => {
        const t = server.tenant();
        await filled(t, 's', [0, 1, 2, 3, 4]);
        const read = (more) => t.series('s', { durationSeconds: MINUTE, startTime: 0, endTime: at(4), ...more });
        assert.equal((await read({ limit: 5 })).body.buckets.length, 5);
        expectError(await read({ limit: 4 }), 400);
        assert.equal((await read({ limit: 5, fill: 'zero' })).body.buckets.length, 5);
        expectError(await read({ limit: 4, fill: 'zero' }), 400);
        assert.equal((await read({ limit: 100000 })).status, 200);
        for (const limit of ['0', '-1', '100001', 'x', '1.5']) expectError(await read({ limit }), 400);
        expectError(await read({ fill: 'junk' }), 400);
    });

    test('SPEC 5: a zero-filled range far beyond the limit is refused, not attempted', async () => {
        const t = server.tenant();
        const all = { durationSeconds: 1, startTime: '0001-01-01T00:00:00Z', endTime: '9999-12-31T23:59:59Z', fill: 'zero' };
        expectError(await t.series('s', all), 400);
        expectError(await t.series('s', { ...all, limit: 100000 }), 400);
    });

    test('SPEC 5: the default limit is 10000 buckets', async () => {
        const t = server.tenant();
        const read = (buckets) => t.series('s', { durationSeconds: MINUTE, startTime: 0, endTime: at(buckets - 1), fill: 'zero' });
        assert.equal((await read(10000)).body.buckets.length, 10000);
        expectError(await read(10001), 400);
    });

    test('S3-67, S3-68: sumRange and series agree over thousands of buckets', async () => {
        const t = server.tenant();
        const minutes = Array.from({ length: 3000 }, (_, i) => i * 2);
        await filled(t, 's', minutes);
        const range = { durationSeconds: MINUTE, startTime: at(501), endTime: at(4003) };
        const { body } = await t.series('s', range);
        const expected = minutes.filter((minute) => minute >= 501 && minute <= 4003);
        assert.deepEqual(body.buckets, expected.map((minute) => bucket(minute, minute + 10)));
        expectTriple(await t.sumRange('s', range), expected.reduce((sum, minute) => sum + minute + 10, 0));
    });
});

describe('long sums', () => {
    const server = serverFor({ settings: { 'clock.settle': '0s', 'checkpoint.every': '200ms', 'expiry.sweepEvery': '200ms' } });
    const FIRST = Math.floor(Date.parse('1969-07-01T00:00:00Z') / 1000 / MINUTE); // over 1970
    const COUNT = process.env.TALLY_SLOW ? 12000 : 525600; // past where sums are kept, in either
    const PAST = '2024-04-15T10:30:00Z';
    const CHUNK = 5000;
    const when = (index) => ({ durationSeconds: MINUTE, timestamp: at(FIRST + index) });
    const random = (below) => Math.floor(Math.random() * below);

    /** A counter of COUNT minutes and, beside it, what it has to hold. Every 50th cell may go at any time. */
    class Year {
        added = Array.from({ length: COUNT }, (_, i) => 1 + (i % 7));
        subbed = Array(COUNT).fill(0);
        fading = new Set();

        constructor(t) {
            this.t = t;
        }

        async load() {
            for (let from = 0; from < COUNT; from += CHUNK) {
                const ops = this.added.slice(from, from + CHUNK).map((amount, i) => ({ op: 'increment', name: 'year', ...when(from + i), amount }));
                assert.equal((await this.t.batch(ops)).status, 200);
            }
        }

        async change(count) {
            const ops = Array.from({ length: count }, (_, i) => {
                const index = random(COUNT);
                if (index % 50 === 0) {
                    if (this.fading.has(index)) return null;
                    this.fading.add(index);
                    this.added[index] += 5;
                    return { op: 'increment', name: 'year', ...when(index), amount: 5, expiresAt: PAST };
                }
                const decrement = i % 3 === 0 && this.added[index] > this.subbed[index];
                this[decrement ? 'subbed' : 'added'][index] += 1;
                return { op: decrement ? 'decrement' : 'increment', name: 'year', ...when(index) };
            }).filter(Boolean);
            const { body } = await this.t.batch(ops);
            assert.ok(body.results.every((result) => result.net !== undefined), JSON.stringify(body).slice(0, 300));
        }

        async expect(first = 0, last = COUNT - 1) {
            const reply = await this.t.sumRange('year', { durationSeconds: MINUTE, startTime: at(FIRST + first), endTime: at(FIRST + last) });
            assert.equal(reply.status, 200, reply.text);
            for (const part of ['added', 'subbed']) {
                const most = this[part].slice(first, last + 1).reduce((sum, each) => sum + each, 0);
                const fading = [...this.fading].filter((i) => i >= first && i <= last).reduce((sum, i) => sum + this[part][i], 0);
                const found = Number(reply.body[part]);
                assert.ok(found <= most && found >= most - fading, `${part} of ${first} to ${last}: ${found}, not ${most - fading} to ${most}`);
            }
        }

        async expectSome(count) {
            for (let i = 0; i < count; i++) {
                const [a, b] = [random(COUNT), random(COUNT)];
                await this.expect(Math.min(a, b), Math.max(a, b));
            }
        }

        /** Until every fading cell has gone. */
        async settle() {
            for (const index of this.fading) {
                await eventually(`minute ${index} to be swept`, async () => (await this.t.get('year', when(index))).status === 404);
                this.added[index] = this.subbed[index] = 0;
            }
            this.fading.clear();
        }
    }

    test('a year of minutes is summed right again and again while its cells change and expire', async () => {
        const t = server.tenant();
        const year = new Year(t);
        await year.load();
        await year.expect();
        for (let round = 0; round < 30; round++) {
            await year.change(round % 5 === 0 ? 400 : 10);
            await year.expect();
            await year.expectSome(3);
        }
        await year.settle();
        await year.expect();
        await server.restart({ hard: true });
        await year.expect();
        await year.expectSome(5);
        await year.change(200);
        await year.settle();
        await year.expect();
        assert.equal((await t.delete('year')).status, 200);
        const all = { durationSeconds: MINUTE, startTime: at(FIRST), endTime: at(FIRST + COUNT - 1) };
        expectTriple(await t.sumRange('year', all), 0);
        await t.increment('year', { ...when(3), amount: 4 });
        expectTriple(await t.sumRange('year', all), 4);
    });
});

describe('lists', () => {
    const server = serverFor();
    const names = (counters) => counters.map((counter) => counter.name);

    test('SPEC 5: every counter once, with its granularities', async () => {
        const t = server.tenant();
        await t.increment('a', { durationSeconds: 60, timestamp: 0 });
        await t.increment('a', { durationSeconds: 60, timestamp: 600 });
        await t.increment('a', { durationSeconds: 3600, timestamp: 0 });
        await t.set('b', { ...TOTAL, targetValue: 0 });
        const all = (await t.listAll()).map((counter) => ({ ...counter, granularities: [...counter.granularities].sort((x, y) => x - y) }));
        assert.deepEqual(all.sort((x, y) => (x.name < y.name ? -1 : 1)), [{ name: 'a', granularities: [60, 3600] }, { name: 'b', granularities: [0] }]);
    });

    test('SPEC 5: an empty tenant has an empty list and no next', async () => {
        const { status, body } = await server.tenant().list();
        assert.equal(status, 200);
        assert.deepEqual(body.counters, []);
        assert.ok(body.next === undefined || body.next === null);
    });

    test('SPEC 5: prefix is a prefix, not a pattern', async () => {
        const t = server.tenant();
        for (const name of ['app.x', 'app.y', 'app2', 'apple', 'ap', 'App.z', 'zz']) await t.increment(name, TOTAL);
        const found = async (prefix) => names(await t.listAll({ prefix })).sort();
        assert.deepEqual(await found('app.'), ['app.x', 'app.y']);
        assert.deepEqual(await found('app'), ['app.x', 'app.y', 'app2', 'apple']);
        assert.deepEqual(await found('ap'), ['ap', 'app.x', 'app.y', 'app2', 'apple']);
        assert.deepEqual(await found('zz'), ['zz']);
        assert.deepEqual(await found('zzz'), []);
        assert.deepEqual(await found('.'), []);
        assert.equal((await found('')).length, 7);
    });

    test('SPEC 3: pages of any size together are the whole list, each counter once', async () => {
        const t = server.tenant();
        const all = Array.from({ length: 57 }, (_, i) => `c-${String(i).padStart(3, '0')}`);
        await t.batch(all.map((name) => ({ op: 'increment', name, ...TOTAL })));
        for (const limit of [1, 2, 7, 56, 57, 58, 100]) {
            const page = await t.list({ limit });
            assert.ok(page.body.counters.length <= limit);
            assert.deepEqual(names(await t.listAll({ limit })).sort(), all, `limit ${limit}`);
        }
        assert.deepEqual(names(await t.listAll({ limit: 3, prefix: 'c-01' })).sort(), all.slice(10, 20));
    });

    test('SPEC 3: the default page is 100', async () => {
        const t = server.tenant();
        await t.batch(Array.from({ length: 130 }, (_, i) => ({ op: 'increment', name: `c-${i}`, ...TOTAL })));
        const { body } = await t.list();
        assert.ok(body.counters.length <= 100);
        assert.ok(body.next);
        assert.equal((await t.listAll()).length, 130);
    });

    test('SPEC 3: a cursor survives a restart, and deletes and additions in between', async () => {
        const t = server.tenant();
        const all = Array.from({ length: 30 }, (_, i) => `c-${String(i).padStart(2, '0')}`);
        await t.batch(all.map((name) => ({ op: 'increment', name, ...TOTAL })));
        const first = await t.list({ limit: 10 });
        await server.restart({ hard: true });
        const seen = names(first.body.counters);
        await t.delete(seen[9]);
        await t.increment('a-new-one', TOTAL);
        const rest = names(await t.listAll({ limit: 10, after: first.body.next }));
        assert.deepEqual(rest.filter((name) => name !== 'a-new-one').sort(), all.filter((name) => !seen.includes(name)));
    });

    test('SPEC 3: a cursor of one tenant opens nothing of another', async () => {
        const [one, two] = [server.tenant(), server.tenant()];
        await one.batch(Array.from({ length: 20 }, (_, i) => ({ op: 'increment', name: `secret-${i}`, ...TOTAL })));
        await two.increment('zz', TOTAL);
        const { body } = await one.list({ limit: 5 });
        const reply = await two.list({ after: body.next });
        if (reply.status === 200) assert.ok(names(reply.body.counters).every((name) => name === 'zz'));
        else expectError(reply, 400);
    });
});

describe('query', () => {
    const server = serverFor();

    test('SPEC 5: one result each, in order: get, sumRange and series', async () => {
        const t = server.tenant();
        await t.batch([1, 2, 3].map((minute) => ({ op: 'increment', name: 'q', durationSeconds: MINUTE, timestamp: at(minute), amount: minute })));
        const range = { name: 'q', durationSeconds: MINUTE, startTime: 0, endTime: at(3) };
        const reply = await t.query([
            { sumRange: range },
            { get: { name: 'q', durationSeconds: MINUTE, timestamp: at(2) } },
            { get: { name: 'absent', ...TOTAL } },
            { series: range },
            { sumRange: { ...range, name: 'absent' } },
            { series: { ...range, fill: 'zero' } },
            { get: { name: 'q', durationSeconds: MINUTE, timestamp: String(at(3)) } },
        ]);
        assert.equal(reply.status, 200, reply.text);
        const { results } = reply.body;
        assert.equal(results.length, 7);
        assert.equal(results[0].net, '6');
        assert.equal(results[1].net, '2');
        assert.equal(results[2].status, 404);
        assert.equal(results[2].code, 'not_found');
        assert.deepEqual(results[3].buckets, [bucket(1, 1), bucket(2, 2), bucket(3, 3)]);
        assert.equal(results[4].net, '0');
        assert.equal(results[5].buckets.length, 4);
        assert.equal(results[6].net, '3');
    });

    test('SPEC 5: a malformed query is its own 400', async () => {
        const t = server.tenant();
        await t.increment('q', TOTAL);
        const good = { get: { name: 'q', ...TOTAL } };
        const bad = [{}, { get: {} }, { get: { name: 'q' } }, { get: null }, { put: good.get }, 7, null, { get: { ...good.get, name: 'a b' } }, { get: { ...good.get, durationSeconds: -1 } },
            { sumRange: { name: 'q', durationSeconds: 60, startTime: 60, endTime: 0 } }, { ...good, series: {} }, { ...good, series: 5 }, { get: 5, ...good, sumRange: 'x' }];
        const { status, body } = await t.query(bad.flatMap((one) => [good, one]));
        assert.equal(status, 200);
        for (const [index, result] of body.results.entries()) {
            if (index % 2 === 0) assert.equal(result.net, '1');
            else assert.equal(result.status, 400, `${JSON.stringify(bad[(index - 1) / 2])}: ${JSON.stringify(result)}`);
        }
    });

    test('SPEC 5: no queries, no results; no list is 400', async () => {
        const t = server.tenant();
        assert.deepEqual((await t.query([])).body.results, []);
        for (const body of ['{}', '[]', '{"queries":5}', '{', '']) expectError(await t.call('POST', `/api/counters/${t.id}/query`, { body }), 400);
    });

    test('SPEC 5: thousands of reads in one call; past 10000 it is 400 too_many_ops', async () => {
        const t = server.tenant();
        const count = 2000;
        await t.batch(Array.from({ length: count }, (_, i) => ({ op: 'increment', name: `k-${i}`, ...TOTAL, amount: i + 1 })));
        const queries = Array.from({ length: count }, (_, i) => ({ get: { name: `k-${i}`, ...TOTAL } }));
        const { body } = await t.query(queries);
        assert.deepEqual(body.results.map((result) => Number(result.net)), Array.from({ length: count }, (_, i) => i + 1));
        expectError(await t.query(Array(10001).fill(queries[0])), 400, 'too_many_ops');
    });
});

describe('delete', () => {
    const server = serverFor();

    test('S3-96: delete takes every cell of the counter at once, and only of that one', async () => {
        const t = server.tenant();
        for (const durationSeconds of [0, 60, 3600]) await t.increment('gone', { durationSeconds, timestamp: 7200, amount: 5 });
        await t.increment('gone', { durationSeconds: 60, timestamp: 0 });
        await t.increment('gone2', TOTAL);
        expectExactly(await t.delete('gone'), 200, { deleted: true });
        for (const durationSeconds of [0, 60, 3600]) expectExactly(await t.get('gone', { durationSeconds, timestamp: 7200 }), 404, NOT_FOUND);
        expectTriple(await t.sumRange('gone', { durationSeconds: 60, startTime: 0, endTime: 7200 }), 0);
        assert.deepEqual((await t.series('gone', { durationSeconds: 60, startTime: 0, endTime: 7200 })).body.buckets, []);
        assert.deepEqual((await t.listAll()).map((counter) => counter.name), ['gone2']);
        expectTriple(await t.get('gone2'), 1);
    });

    test('S3-96: what is absent is 404, also the second time', async () => {
        const t = server.tenant();
        expectExactly(await t.delete('absent'), 404, NOT_FOUND);
        await t.increment('once', TOTAL);
        assert.equal((await t.delete('once')).status, 200);
        expectExactly(await t.delete('once'), 404, NOT_FOUND);
    });

    test('S3-96: a deleted counter starts afresh, and old cells never come back', async () => {
        const t = server.tenant();
        await t.increment('again', { durationSeconds: 60, timestamp: 0, amount: 100 });
        await t.increment('again', { durationSeconds: 60, timestamp: 60, amount: 100 });
        await t.delete('again');
        expectTriple(await t.increment('again', { durationSeconds: 60, timestamp: 0 }), 1);
        assert.equal((await t.decrement('again', { durationSeconds: 60, timestamp: 60 })).status, 409);
        expectTriple(await t.sumRange('again', { durationSeconds: 60, startTime: 0, endTime: 600 }), 1);
        await server.restart({ hard: true });
        expectTriple(await t.sumRange('again', { durationSeconds: 60, startTime: 0, endTime: 600 }), 1);
        expectExactly(await t.get('again', { durationSeconds: 60, timestamp: 60 }), 404, NOT_FOUND);
    });

    test('S3-96: a counter of thousands of buckets goes in one call', async () => {
        const t = server.tenant();
        await t.batch(Array.from({ length: 3000 }, (_, i) => ({ op: 'increment', name: 'long', durationSeconds: 60, timestamp: i * 60 })));
        expectExactly(await t.delete('long'), 200, { deleted: true });
        expectTriple(await t.sumRange('long', { durationSeconds: 60, startTime: 0, endTime: 3000 * 60 }), 0);
    });

    test('S3-96: delete against concurrent increments equals some serial order', async () => {
        const t = server.tenant();
        for (let round = 0; round < 10; round++) {
            await t.increment('race', TOTAL);
            const replies = await Promise.all([
                ...Array.from({ length: 8 }, () => t.increment('race', TOTAL)),
                t.delete('race'),
                ...Array.from({ length: 8 }, () => t.increment('race', TOTAL)),
            ]);
            assert.ok(replies.every((reply) => reply.status === 200));
            const left = await t.get('race');
            const nets = replies.filter((reply) => reply.body.net).map((reply) => Number(reply.body.net));
            if (left.status === 200) assert.ok(nets.includes(Number(left.body.net)));
            await t.delete('race');
        }
    });
});
