// Days, weeks, months and years in real time zones, compared with what Node says of the same instants.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { cliFor } from './support/cli.mjs';
import { expectError, expectTriple } from './support/expect.mjs';
import { serverFor } from './support/server.mjs';

const ZONES = ['Europe/Berlin', 'America/New_York', 'America/St_Johns', 'America/Havana', 'Australia/Lord_Howe', 'Australia/Adelaide',
    'Asia/Kathmandu', 'Asia/Beirut', 'Pacific/Chatham', 'Pacific/Apia', 'Africa/Cairo', 'America/Santiago', 'Atlantic/Azores'];

const MINUTE = 60000;
const HOUR = 60 * MINUTE;
const iso = (ms) => new Date(ms).toISOString();

/** The local date of an instant, as Node has it: 2026-03-29. */
function localDate(zone) {
    const format = new Intl.DateTimeFormat('en-CA', { timeZone: zone, year: 'numeric', month: '2-digit', day: '2-digit' });
    return (ms) => format.format(ms);
}

function offset(zone) {
    const format = new Intl.DateTimeFormat('en-US', { timeZone: zone, timeZoneName: 'longOffset' });
    return (ms) => format.formatToParts(ms).find((part) => part.type === 'timeZoneName').value;
}

/** The instants of a span at which the zone's clocks are turned, to the minute. */
function turns(zone, from, to) {
    const at = offset(zone);
    const found = [];
    for (let ms = from; ms < to; ms += 6 * HOUR) {
        if (at(ms) === at(ms + 6 * HOUR)) continue;
        let low = ms;
        let high = ms + 6 * HOUR;
        while (high - low > MINUTE) {
            const middle = low + Math.floor((high - low) / MINUTE / 2) * MINUTE;
            if (at(middle) === at(low)) low = middle;
            else high = middle;
        }
        found.push(high);
    }
    return found;
}

/** The bucket of a local date: its first date. */
const FIRST = {
    day: (date) => date,
    week: (date) => {
        const day = new Date(`${date}T00:00:00Z`);
        return iso(day.getTime() - ((day.getUTCDay() + 6) % 7) * 24 * HOUR).slice(0, 10);
    },
    month: (date) => `${date.slice(0, 7)}-01`,
    year: (date) => `${date.slice(0, 4)}-01-01`,
};

/** Counts once at each instant, and once more in what Node says; both must say the same of every bucket. */
async function compare(t, zone, instants) {
    const date = localDate(zone);
    for (const bucket of Object.keys(FIRST)) {
        const name = `${zone.replace('/', '.')}.${bucket}`;
        const expected = new Map();
        for (const ms of instants) {
            const first = FIRST[bucket](date(ms));
            expected.set(first, (expected.get(first) ?? 0) + 1);
        }
        const reply = await t.batch(instants.map((ms) => ({ op: 'increment', name, bucket, zone, timestamp: iso(ms) })));
        assert.equal(reply.status, 200, reply.text);
        assert.ok(reply.body.results.every((result) => result.status === 200), reply.text.slice(0, 300));
        const series = await t.series(name, { bucket, zone, startTime: iso(instants[0]), endTime: iso(instants.at(-1)) });
        assert.deepEqual(series.body.buckets.map((one) => [one.date, Number(one.net)]),
            [...expected].sort(([a], [b]) => (a < b ? -1 : 1)), `${bucket} in ${zone}`);
        for (const one of series.body.buckets) {
            const begins = Date.parse(one.timeStart);
            assert.equal(FIRST[bucket](date(begins)), one.date, `${bucket} of ${one.date} in ${zone} begins within it`);
            assert.notEqual(FIRST[bucket](date(begins - 1)), one.date, `${bucket} of ${one.date} in ${zone} begins there`);
        }
    }
}

describe('calendar buckets', () => {
    const server = serverFor({
        config: `
counters:
  - counterName: views
    mode: series
    granularities: [0, { bucket: month, zone: Europe/Berlin }, 3600, { bucket: day }]
    rules: [{ on: page.viewed, op: increment }]
`,
    });

    test('SPEC 15: buckets around every change of daylight saving in 2026 are what Node says, instant by instant', async () => {
        const t = server.tenant();
        for (const zone of ZONES) {
            const instants = turns(zone, Date.UTC(2026, 0, 1), Date.UTC(2027, 0, 1)).flatMap((at) =>
                [-25 * HOUR, -90 * MINUTE, -HOUR, -MINUTE, -1, 0, MINUTE, HOUR, 90 * MINUTE, 25 * HOUR].map((by) => at + by));
            for (let ms = Date.UTC(2025, 11, 30); ms < Date.UTC(2027, 0, 5); ms += 41 * HOUR + 7 * MINUTE) instants.push(ms);
            await compare(t, zone, instants.sort((a, b) => a - b));
        }
    });

    test('SPEC 15: a date that Samoa left out in 2011 has no bucket', async () => {
        const t = server.tenant();
        const instants = [];
        for (let ms = Date.UTC(2011, 11, 28); ms < Date.UTC(2012, 0, 2); ms += 20 * MINUTE) instants.push(ms);
        await compare(t, 'Pacific/Apia', instants);
        const filled = await t.series('Pacific.Apia.day', {
            bucket: 'day', zone: 'Pacific/Apia', startTime: '2011-12-29T12:00:00Z', endTime: '2011-12-31T12:00:00Z', fill: 'zero',
        });
        assert.deepEqual(filled.body.buckets.map((one) => [one.date, one.net]), [['2011-12-29', '72'], ['2011-12-30', '0'], ['2011-12-31', '72'],
            ['2012-01-01', '72']]);
    });

    test('SPEC 15: each call knows bucket and zone, and zone is UTC where it is left out', async () => {
        const t = server.tenant();
        const at = { bucket: 'month', zone: 'Europe/Berlin', timestamp: '2026-02-28T23:30:00Z' };
        expectTriple(await t.increment('m', { ...at, amount: 5 }), 5);
        expectTriple(await t.decrement('m', at), 5, 1);
        expectTriple(await t.set('m', { ...at, targetValue: 9 }), 10, 1);
        expectTriple(await t.get('m', at), 10, 1);
        expectError(await t.get('m', { bucket: at.bucket, timestamp: at.timestamp }), 404, 'not_found');
        expectTriple(await t.increment('u', { bucket: 'day', timestamp: '2026-02-28T23:30:00Z' }), 1);
        expectTriple(await t.get('u', { bucket: 'day', zone: 'UTC', timestamp: '2026-02-28T00:00:00Z' }), 1);
        expectTriple(await t.sumRange('m', { bucket: 'month', zone: 'Europe/Berlin', startTime: '2026-01-01T00:00:00Z', endTime: '2026-12-01T00:00:00Z' }), 10, 1);
        const query = await t.query([{ get: { name: 'm', ...at } }]);
        assert.equal(query.body.results[0].net, '9', query.text);
        assert.deepEqual(await t.listAll(), [{ name: 'm', granularities: [{ bucket: 'month', zone: 'Europe/Berlin' }] },
            { name: 'u', granularities: [{ bucket: 'day', zone: 'UTC' }] }]);
    });

    test('SPEC 15: both ways to name a bucket, a zone alone and an unknown zone are refused', async () => {
        const t = server.tenant();
        const timestamp = '2026-01-01T00:00:00Z';
        for (const [fields, code, sentence] of [
            [{ bucket: 'day', durationSeconds: 60 }, 'invalid_request', /durationSeconds and bucket exclude each other/],
            [{ zone: 'UTC' }, 'invalid_request', /zone goes with bucket/],
            [{}, 'invalid_request', /durationSeconds is required/],
            [{ bucket: 'hour' }, 'invalid_request', /bucket must be one of/],
            [{ bucket: 'day', zone: 'Mars/Olympus' }, 'unknown_zone', /Mars\/Olympus/],
            [{ bucket: 'day', zone: 'europe/berlin' }, 'unknown_zone', /europe\/berlin/],
            [{ bucket: 'day', zone: '../UTC' }, 'unknown_zone', /UTC/],
        ]) {
            for (const reply of [await t.increment('r', { ...fields, timestamp }), await t.get('r', { ...fields, timestamp })]) {
                expectError(reply, 400, code);
                assert.match(reply.body.error, sentence);
            }
        }
    });

    test('SPEC 15: an idempotency key is for one bucket of one zone', async () => {
        const t = server.tenant();
        const at = { bucket: 'day', zone: 'Asia/Tokyo', timestamp: '2026-01-01T00:00:00Z' };
        const headers = { 'Idempotency-Key': 'k' };
        expectTriple(await t.write('increment', 'k', at, headers), 1);
        assert.equal((await t.write('increment', 'k', at, headers)).headers.get('idempotent-replayed'), 'true');
        expectError(await t.write('increment', 'k', { ...at, zone: 'Asia/Seoul' }, headers), 422, 'idempotency_conflict');
    });

    test('SPEC 15: rules count by calendars, and survive a restart and a rebuild of what is stored', async () => {
        const t = server.tenant();
        const send = (eventId, occurredAt) => t.call('POST', `/api/events/${t.id}`, { body: { eventId, type: 'page.viewed', occurredAt } });
        assert.equal((await send('a', '2026-01-31T22:59:59Z')).body.counters, 4);
        await send('b', '2026-01-31T23:00:00Z');
        await send('c', '2026-02-28T22:00:00Z');
        const months = async () => (await t.series('views', {
            bucket: 'month', zone: 'Europe/Berlin', startTime: '2025-12-31T23:00:00Z', endTime: '2026-03-15T00:00:00Z', fill: 'zero',
        })).body.buckets.map((one) => [one.date, one.timeStart, one.net]);
        const expected = [['2026-01-01', '2025-12-31T23:00:00.000Z', '1'], ['2026-02-01', '2026-01-31T23:00:00.000Z', '2'],
            ['2026-03-01', '2026-02-28T23:00:00.000Z', '0']];
        assert.deepEqual(await months(), expected);
        assert.deepEqual(await t.listAll(), [{ name: 'views', granularities: [{ bucket: 'month', zone: 'Europe/Berlin' }, { bucket: 'day', zone: 'UTC' }, 0, 3600] }]);
        expectError(await t.get('views', { bucket: 'week', timestamp: '2026-01-01T00:00:00Z' }), 404, 'granularity_not_kept');
        const cells = await t.read('cells', 'views', { bucket: 'month', zone: 'Europe/Berlin', timestamp: '2026-02-15T00:00:00Z' });
        assert.equal(cells.body.cells[0].net, '2', cells.text);
        await server.restart();
        assert.deepEqual(await months(), expected);
    });

    test('SPEC 15: the command line takes --bucket and --zone', async () => {
        const t = server.tenant();
        const cli = cliFor(server, t.token);
        const at = ['--bucket', 'week', '--zone', 'America/New_York', '--timestamp', '2026-11-16T04:59:00Z'];
        assert.match((await cli('inc', 'w', ...at)).stdout, /^1 /);
        assert.match((await cli('get', 'w', ...at)).stdout, /^1 /);
        assert.match((await cli('series', 'w', ...at.slice(0, 4), '--start-time', '2026-11-01', '--end-time', '2026-11-30')).stdout, /2026-11-09T05:00:00/);
        assert.match((await cli('get', 'w', '--bucket', 'day')).stderr, /--bucket week --zone America\/New_York/);
        assert.match((await cli('get', 'w', '--zone', 'UTC')).stderr, /--zone goes with --bucket/);
        assert.match((await cli('get', 'w', '--bucket', 'day', '--zone', 'X/Y')).stderr, /no time zone X\/Y/);
    });
});
