// Rebuilding rule counters from the retained events (seed 004; SPEC 7).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, NOT_FOUND } from './support/expect.mjs';
import { eventually, sleep, together } from './support/pace.mjs';
import { ask, asked, bare, config, counter, look, medley, over, pour, rebuilt, reloader } from './support/rebuild.mjs';
import { dim, newId, rulesServer } from './support/rules.mjs';

/** Every mode there is, with what can be said of each. */
const MODES = `
  - counterName: connections
    dimensions: [master]
    rollups: [[]]
    floorAtZero: true
    rules: [{ on: up, op: increment }, { on: down, op: decrement }]
  - counterName: balance
    dimensions: [master, payload.kind]
    rollups: [[payload.kind], []]
    rules:
      - { on: up, op: increment, amount: payload.size }
      - { on: down, op: decrement, amount: 3, where: { payload.kind: note } }
  - counterName: present
    dimensions: [room]
    rollups: [[]]
    floorAtZero: true
    transition: { entity: [account] }
    rules: [{ on: up, op: increment }, { on: down, op: decrement }]
  - counterName: hour
    mode: windowed
    window: 1h
    trailing: true
    dimensions: [master]
    rollups: [[]]
    rules: [{ on: up, op: increment }]
  - counterName: second
    mode: windowed
    window: 1s
    trailing: true
    dimensions: [master]
    rollups: [[]]
    rules: [{ on: up, op: increment }]
  - counterName: views
    mode: series
    granularities: [0, 60, 86400]
    keep: 9000d
    dimensions: [master]
    rollups: [[]]
    rules: [{ on: up, op: increment }, { on: down, op: decrement }]`;
const MODE_NAMES = ['connections', 'balance', 'present', 'hour', 'second', 'views'];

/** All that can be read of a counter, but for when it was last changed. */
async function everything(t, name) {
    const seen = { cells: (await t.allCells(name)).map(bare) };
    if (['hour', 'second'].includes(name)) {
        seen.windows = [];
        for (const dims of [{}, { master: 'm0' }, { master: 'm1' }]) {
            const window = (await t.windowsByName(dims))[name];
            seen.windows.push(name === 'hour' ? window : { ...window, trailing: undefined });
        }
    }
    if (name === 'views') {
        seen.series = [];
        for (const durationSeconds of [60, 86400]) {
            for (const dims of [{}, { master: 'm0' }]) {
                const query = { durationSeconds, startTime: '2024-01-01T00:00:00Z', endTime: '2024-01-03T23:00:00Z', ...dim(dims) };
                const reply = await t.series(name, query);
                assert.equal(reply.status, 200, reply.text);
                assert.ok(reply.body.buckets.length > 0);
                seen.series.push(reply.body);
            }
        }
    }
    return seen;
}

describe('rebuild', () => {
    const { server, tenant, admin } = rulesServer(config(MODES));
    const reload = reloader(server, admin);

    test('S4-31 S1-59 S4-35: every mode recounts to what it was, for every tenant, and again after a restart', async () => {
        const tenants = [tenant(), tenant()];
        for (const [index, t] of tenants.entries()) await pour(t, medley(400, index + 7));
        await sleep(1100);
        for (const t of tenants) await pour(t, medley(40, 3)); /* a second window of one second */
        await sleep(1100);
        const read = () => Promise.all(tenants.map(async (t) => {
            const all = {};
            for (const name of MODE_NAMES) all[name] = await everything(t, name);
            return all;
        }));
        const before = await read();
        assert.ok(before[0].balance.cells.length > 8);
        for (const name of MODE_NAMES) await rebuilt(admin(), name);
        assert.deepEqual(await read(), before);
        await server.restart({ hard: true });
        assert.deepEqual(await read(), before);
        for (const name of MODE_NAMES) await rebuilt(admin(), name);
        await server.restart();
        assert.deepEqual(await read(), before);
    });

    test('S4-31: what comes after a rebuild counts on, and states of entities are those of before', async () => {
        const t = tenant();
        await t.send('up', { account: 'x', room: 'r1' });
        await t.send('up', { account: 'y', room: 'r1' });
        await t.send('down', { account: 'y', room: 'r1' });
        await rebuilt(admin(), 'present');
        await t.send('up', { account: 'x', room: 'r2' });
        assert.deepEqual([await t.net('present'), await t.net('present', { room: 'r2' })], [1, 0], 'x was on already');
        await t.send('down', { account: 'x', room: 'r2' });
        assert.deepEqual([await t.net('present'), await t.net('present', { room: 'r1' })], [0, 0], 'x leaves where it came');
        await t.send('down', { account: 'y', room: 'r1' });
        assert.equal(await t.net('present'), 0);
    });

    test('SPEC 7: a window that is open stays open, with its times', async () => {
        const t = tenant();
        await t.send('up', { master: 'm0' });
        const open = (await t.windowsByName()).hour;
        await rebuilt(admin(), 'hour');
        await t.send('up', { master: 'm0' });
        assert.deepEqual((await t.windowsByName()).hour, { ...open, currentValue: 2, trailing: 2 });
    });

    test('SPEC 7: a job says what it is, how far it is and when it ended', async () => {
        await tenant().send('up', { master: 'm0' });
        const began = Date.now();
        const id = await asked(admin(), 'connections');
        const job = await over(admin(), id);
        assert.deepEqual(Object.keys(job).sort(), ['askedAt', 'counter', 'endedAt', 'error', 'events', 'job', 'progress', 'state', 'type']);
        const { askedAt, endedAt, events, ...rest } = job;
        assert.deepEqual(rest, { job: id, type: 'rebuild', counter: 'connections', state: 'done', progress: 1, error: null });
        assert.ok(Date.parse(askedAt) >= began - 5 && Date.parse(endedAt) >= Date.parse(askedAt) && Date.parse(endedAt) <= Date.now() + 5);
        assert.ok(Number(events) >= 1);
        await server.restart();
        assert.deepEqual((await look(admin(), id)).body, job, 'a job is remembered');
    });

    test('SPEC 7: unknown jobs are 404, whatever they look like', async () => {
        for (const id of ['99999', '0', 'x', '-1', '1x', '99999999999999999999999', '%00', '..']) {
            assert.equal((await look(admin(), id)).status, 404, id);
        }
        expectExactly(await look(admin(), '99999'), 404, NOT_FOUND);
    });

    test('SPEC 7: only counters kept by rules can be rebuilt', async () => {
        const t = tenant('operator');
        await t.increment('direct', { durationSeconds: 0, timestamp: 0 });
        expectExactly(await ask(admin(), 'direct'), 404, NOT_FOUND);
        expectExactly(await ask(admin(), 'never_heard_of'), 404, NOT_FOUND);
        await reload(MODES, counter('leaving'));
        await t.send('up', {});
        await reload(MODES);
        expectExactly(await ask(admin(), 'leaving'), 404, NOT_FOUND);
        assert.equal(await t.net('leaving'), 1, 'it stays readable');
    });

    test('SPEC 4: asking and looking need the scope admin', async () => {
        const job = await asked(admin(), 'connections');
        for (const scope of ['read', 'write', 'read write']) {
            const t = tenant('operator', { scope });
            expectError(await ask(t, 'connections'), 403, 'forbidden');
            expectError(await ask(t, 'never_heard_of'), 403, 'forbidden');
            expectError(await look(t, job), 403, 'forbidden');
            expectError(await look(t, '99999'), 403, 'forbidden');
        }
        assert.equal((await server.call('POST', '/api/admin/counters/connections/rebuild')).status, 401);
        assert.equal((await server.call('GET', `/api/admin/jobs/${job}`)).status, 401);
        const wrong = await admin().call('GET', '/api/admin/counters/connections/rebuild');
        assert.deepEqual([wrong.status, wrong.headers.get('allow')], [405, 'POST']);
        await over(admin(), job);
    });

    test('SPEC 7: `from` needs an export, and odd bodies are 400', async () => {
        const refused = await ask(admin(), 'connections', { from: 'monday' });
        expectError(refused, 400, 'invalid_request');
        assert.match(refused.body.error, /export/);
        for (const body of [[], 'x', '{', { force: 'yes' }, { force: 1 }, { from: 7 }, '5']) {
            expectError(await ask(admin(), 'connections', body), 400);
        }
        for (const body of [{}, { force: false }, { force: null, from: null }, { force: true }, { 'x-other': 1 }]) {
            await rebuilt(admin(), 'connections', body);
        }
    });

    test('SPEC 7: rebuilds asked for at the same time, of one counter and of several, all end well', async () => {
        const t = tenant();
        await pour(t, medley(200, 99));
        const before = {};
        for (const name of MODE_NAMES) before[name] = await everything(t, name);
        const jobs = await together(12, (i) => asked(admin(), MODE_NAMES[i % 4]));
        assert.ok(new Set(jobs).size >= 4, 'one that has not begun serves whoever asks for the same');
        for (const job of jobs) assert.equal((await over(admin(), job)).state, 'done');
        for (const name of MODE_NAMES.filter((one) => one !== 'second')) {
            assert.deepEqual(await everything(t, name), before[name], name);
        }
    });

    test('SPEC 7: an empty counter of no events at all is rebuilt to nothing', async () => {
        await reload(MODES, counter('silent', '', '{ on: never, op: increment }'));
        const job = await rebuilt(admin(), 'silent');
        assert.equal(job.events, '0');
        assert.deepEqual(await tenant().allCells('silent'), []);
    });
});

describe('rules that changed', () => {
    const { server, tenant, admin } = rulesServer(config(MODES));
    const reload = reloader(server, admin);

    test('SPEC 7: a new counter counts from then on, and a rebuild fills its history', async () => {
        const t = tenant();
        await t.send('up', {});
        await t.send('up', {});
        await reload(MODES, counter('newcomer'));
        assert.equal(await t.net('newcomer'), 0);
        await t.send('up', {});
        assert.equal(await t.net('newcomer'), 1);
        await rebuilt(admin(), 'newcomer');
        assert.equal(await t.net('newcomer'), 3);
        await t.send('up', {});
        assert.equal(await t.net('newcomer'), 4);
    });

    const CHANGES = {
        'an amount': ['', '{ on: up, op: increment, amount: payload.size }'],
        'a condition': ['', '{ on: up, op: increment, where: { payload.kind: note } }'],
        'another event': ['', '{ on: up, op: increment }, { on: down, op: increment, amount: 10 }'],
        'a new rollup': ['\n    dimensions: [master]\n    rollups: [[room], [master, room], []]', '{ on: up, op: increment }'],
        'no whole tenant any more': ['\n    dimensions: [master]', '{ on: up, op: increment }'],
        'a floor': ['\n    floorAtZero: true', '{ on: up, op: increment }, { on: down, op: decrement, amount: 2 }'],
        'a transition': ['\n    transition: { entity: [account] }', '{ on: up, op: increment }, { on: down, op: decrement }'],
    };
    for (const [index, [what, [more, rule]]] of Object.entries(CHANGES).entries()) {
        test(`S4-31: ${what}, rebuilt, is what a first run would have given`, async () => {
            const t = tenant();
            const [name, model] = [`changed_${index}`, `model_${index}`];
            await reload(MODES, counter(name), counter(model, more, rule));
            await pour(t, medley(150, index + 21));
            await reload(MODES, counter(name, more, rule), counter(model, more, rule));
            await pour(t, medley(50, index + 77));
            await rebuilt(admin(), name);
            await pour(t, medley(50, index + 300));
            const cells = (await t.allCells(name)).map(bare);
            assert.deepEqual(cells, (await t.allCells(model)).map(bare));
            assert.ok(cells.length > 0);
        });
    }

    test('S4-31: a series gains granularities, a windowed counter another length', async () => {
        const t = tenant();
        const series = (granularities) => counter('s', `\n    mode: series\n    granularities: [${granularities}]`);
        const windowed = (window) => counter('w', `\n    mode: windowed\n    window: ${window}\n    trailing: true`);
        await reload(series('3600'), windowed('1h'));
        for (const hour of ['01', '02', '02']) await t.send('up', {}, { occurredAt: `2024-05-05T${hour}:10:00Z` });
        await reload(series('60, 86400'), windowed('2h'));
        await rebuilt(admin(), 's');
        await rebuilt(admin(), 'w');
        const at = async (durationSeconds, time) => Number((await t.get('s', { durationSeconds, timestamp: `2024-05-05T${time}Z` })).body.net);
        assert.deepEqual([await at(86400, '00:00:00'), await at(60, '01:10:30'), await at(60, '02:10:00')], [3, 1, 2]);
        const { w } = await t.windowsByName();
        assert.deepEqual([w.currentValue, w.trailing, w.windowEnd - w.windowStart], [3, 3, 7200000]);
    });
});

describe('rebuilds and limits', () => {
    const SETS = counter('sets', '\n    dimensions: [k]');
    const SUM = (amount) => counter('sum', '', `{ on: up, op: increment, amount: ${amount} }`);
    const USED = counter('used', '\n    group: usage');
    const EXPIRING = counter('expiring', '\n    mode: series\n    granularities: [0, 60]\n    keep: 1s');
    const { server, tenant, admin } = rulesServer(config(SETS, SUM(1), USED, EXPIRING), {
        settings: { 'clock.settle': '0s', 'limits.tenantCells': 1000, 'expiry.sweepEvery': '50ms' },
    });
    const reload = reloader(server, admin);
    const sets = (from, to) => Array.from({ length: to - from }, (_, i) => ({ type: 'up', dimensions: { k: `k${from + i}` } }));

    test('limits.tenantCells: a tenant near its limit can be rebuilt, again and again, and its limit is the same after', async () => {
        const t = tenant();
        await pour(t, sets(0, 700));
        for (let i = 0; i < 4; i++) await rebuilt(admin(), 'sets');
        assert.equal((await t.allCells('sets')).length, 700);
        /* The cells of generations gone by are swept bit by bit, and count until then. */
        const delivered = (what, list, least) => {
            const events = list.map((event) => ({ eventId: newId(), ...event }));
            return eventually(what, async () => {
                const { body } = await t.events(events);
                return body.applied + body.duplicates >= least && body;
            }, { ms: 30000 });
        };
        await delivered('room for 200 more', sets(700, 900), 200);
        const body = await delivered('room for what the limit allows', sets(900, 1100), 50);
        assert.ok(body.rejected >= 100, `${body.applied} ${body.duplicates} ${body.rejected}`);
        assert.ok(body.results.filter((one) => one.code).every((one) => one.code === 'cell_limit'));
    });

    test('SPEC 6: rules that would overflow fail the job; the counter keeps what it had', async () => {
        const t = tenant();
        for (const n of ['9223372036854775807', '1']) await t.events(`{"eventId":"${newId()}","type":"up","payload":{"n":${n}}}`);
        await reload(SETS, SUM('payload.n'), USED, EXPIRING);
        const job = await over(admin(), await asked(admin(), 'sum'));
        assert.equal(job.state, 'failed', JSON.stringify(job));
        assert.match(job.error, /overflow/);
        assert.ok(job.endedAt);
        assert.equal(await t.net('sum'), 2);
        await reload(SETS, SUM(1), USED, EXPIRING);
        await rebuilt(admin(), 'sum');
        assert.equal(await t.net('sum'), 2);
    });

    test('SPEC 8: a rebuild leaves the usage row as it was', async () => {
        const t = tenant();
        await t.send('up', {});
        const row = async () => ({ ...(await t.usage()).body, last_updated_at: undefined });
        const before = await row();
        await rebuilt(admin(), 'used');
        assert.deepEqual(await row(), before);
    });

    test('SPEC 7: buckets that were swept do not come back for good', async () => {
        const t = tenant();
        const timestamp = '2020-01-01T00:00:00Z';
        const bucket = async (durationSeconds) => Number((await t.get('expiring', { durationSeconds, timestamp })).body.net);
        await t.send('up', {}, { occurredAt: timestamp });
        await eventually('the sweep', async () => (await bucket(60)) === 0);
        await rebuilt(admin(), 'expiring');
        await eventually('the sweep', async () => (await bucket(60)) === 0);
        assert.equal(await bucket(0), 1);
    });
});

describe('rebuilds in tiny commits', { concurrency: true }, () => {
    for (const batchOps of [1, 2, 3, 4]) {
        describe(`of ${batchOps}`, { concurrency: 1 }, () => {
            const { tenant, admin } = rulesServer(config(counter('busy', '\n    dimensions: [k]\n    rollups: [[]]')), {
                settings: { 'journal.segmentBytes': '1MiB', 'limits.batchOps': batchOps, 'limits.atomicOps': batchOps },
            });

            test('limits.batchOps: they end, and right, while events come', async () => {
                const t = tenant();
                await pour(t, Array.from({ length: 60 }, (_, i) => ({ type: 'up', dimensions: { k: `k${i % 7}` } })));
                for (let i = 0; i < 2; i++) {
                    const job = await asked(admin(), 'busy');
                    await together(10, (k) => t.send('up', { k: `k${k}` }));
                    assert.equal((await over(admin(), job)).state, 'done');
                }
                assert.equal(await t.net('busy'), 80);
                assert.equal((await t.allCells('busy')).length, 11);
            });
        });
    }
});
