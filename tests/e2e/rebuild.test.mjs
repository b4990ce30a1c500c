// Rebuilding rule counters from the retained events (seed 004; SPEC 7).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly, NOT_FOUND } from './support/expect.mjs';
import { eventually, sleep, times, together } from './support/pace.mjs';
import { dim, newId, rulesServer } from './support/rules.mjs';

const NDJSON = { 'Content-Type': 'application/x-ndjson' };

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

const counter = (name, more = '', rule = '{ on: up, op: increment }') => `
  - counterName: ${name}
    rules: [${rule}]${more}`;
const config = (...counters) => `counters:${counters.join('')}\n`;

const ask = (admin, name, body) => admin.call('POST', `/api/admin/counters/${name}/rebuild`, { body });
const look = (admin, job) => admin.call('GET', `/api/admin/jobs/${job}`);

async function asked(admin, name, body) {
    const reply = await ask(admin, name, body);
    assert.equal(reply.status, 202, reply.text);
    assert.deepEqual(Object.keys(reply.body), ['job']);
    return reply.body.job;
}

/** The job once it is over. */
function over(admin, job) {
    return eventually(`job ${job} to end`, async () => {
        const { status, body, text } = await look(admin, job);
        assert.equal(status, 200, text);
        return ['done', 'failed'].includes(body.state) && body;
    }, { ms: 30000, every: 10 });
}

async function rebuilt(admin, name, body) {
    const job = await over(admin, await asked(admin, name, body));
    assert.equal(job.state, 'done', JSON.stringify(job));
    return job;
}

function reloader(server, admin) {
    return async (...counters) => {
        server.writeConfig(config(...counters));
        expectExactly(await admin().call('POST', '/api/admin/reload'), 200, { reloaded: true });
    };
}

/** Events in bulk, all of them new. */
async function pour(t, list) {
    const text = list.map((event) => JSON.stringify({ eventId: newId(), ...event })).join('\n');
    const reply = await t.call('POST', `/api/events/${t.id}?results=errors`, { body: text, headers: NDJSON });
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.body.applied, list.length, reply.text);
}

/** Some of everything: late events, missing dimensions, odd amounts, decrements too many. */
function medley(count, seed = 1) {
    let state = seed;
    const random = (below) => {
        state = (state * 1103515245 + 12345) % 2147483648;
        return Math.floor((state / 2147483648) * below);
    };
    return Array.from({ length: count }, () => ({
        type: random(5) < 3 ? 'up' : 'down',
        occurredAt: new Date(Date.UTC(2024, 0, 1) + random(4) * 43200000 + random(100) * 1000).toISOString(),
        dimensions: {
            master: random(9) ? `m${random(4)}` : null, account: random(9) ? `a${random(12)}` : null, room: `r${random(3)}`,
        },
        payload: { kind: ['note', 'file'][random(2)], size: [random(1000), 'odd', undefined][random(9) ? 0 : 1 + random(2)] },
    }));
}

const bare = ({ dimensions, net, added, subbed }) => JSON.stringify({ dimensions, net, added, subbed });

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
        for (const body of [{}, { force: false }, { force: null, from: null }, { force: true }, { other: 1 }]) {
            await rebuilt(admin(), 'connections', body);
        }
    });

    test('SPEC 7: rebuilds asked for at the same time, of one counter and of several, all end well', async () => {
        const t = tenant();
        await pour(t, medley(200, 99));
        const before = {};
        for (const name of MODE_NAMES) before[name] = await everything(t, name);
        const jobs = await together(12, (i) => asked(admin(), MODE_NAMES[i % 4]));
        assert.equal(new Set(jobs).size, 12);
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

/* Chunks of a few events, so that a rebuild takes a while and much happens meanwhile. */
const SLOW = { 'limits.batchOps': 16, 'limits.atomicOps': 16 };

describe('a rebuild under traffic', () => {
    const BUSY = counter('busy', '\n    dimensions: [k]\n    rollups: [[]]');
    const PRESENT = `
  - counterName: inside
    transition: { entity: [account] }
    floorAtZero: true
    rules: [{ on: in, op: increment }, { on: out, op: decrement }]`;
    const { server, tenant, admin } = rulesServer(config(BUSY, PRESENT), { settings: SLOW });
    const reload = reloader(server, admin);
    const pad = (count, more = {}) => Array.from({ length: count }, (_, i) => ({ type: 'up', dimensions: { k: `k${i % 10}` }, ...more }));

    /** Writers that send until told to stop, and how many were sent and answered meanwhile. */
    function traffic(t, writers) {
        const count = { sent: 0, answered: 0, stop: false };
        count.ended = together(writers, async (w) => {
            for (let i = 0; !count.stop; i++) {
                count.sent++;
                await t.send('up', { k: `k${(w + i) % 10}` });
                count.answered++;
            }
        });
        return count;
    }

    /** Reads until told to stop; each must lie between what was answered before and sent by its end. */
    async function watch(t, base, count, read) {
        let reads = 0;
        for (let last = 0; !count.stop; reads++) {
            const least = base + count.answered;
            const value = await read(t);
            const most = base + count.sent;
            assert.ok(value >= least && value <= most, `read ${value}, not within ${least} and ${most}`);
            assert.ok(value >= last, `${value} after ${last}`);
            last = value;
        }
        return reads;
    }

    test('S4-35: 16 writers and readers of every kind: no zeros, no halves, and no event is lost at the swap', async () => {
        const t = tenant();
        const base = times(2000, 400);
        await pour(t, pad(base));
        const sum = (rows) => rows.filter((row) => row.dimensions.k).reduce((total, row) => total + Number(row.net), 0);
        const count = traffic(t, 16);
        const watchers = [
            watch(t, base, count, () => t.net('busy')),
            watch(t, base, count, async () => sum((await t.cells('busy')).body.cells)),
            watch(t, base, count, async () => {
                const [cell] = (await t.cells('busy', { sort: 'net', order: 'desc', limit: 1 })).body.cells;
                assert.deepEqual(cell.dimensions, {}, 'the whole tenant is the largest');
                return Number(cell.net);
            }),
            watch(t, base, count, async () => {
                const { body } = await t.query([{ get: { name: 'busy', dimensions: {} } }]);
                return Number(body.results[0].net);
            }),
        ];
        try {
            for (let i = 0; i < 3; i++) await rebuilt(admin(), 'busy');
        } finally {
            count.stop = true;
        }
        await count.ended;
        const reads = await Promise.all(watchers);
        assert.ok(reads.every((one) => one > 2), `${reads}`);
        assert.equal(await t.net('busy'), base + count.sent);
        assert.equal(sum(await t.allCells('busy')), base + count.sent);
    });

    test('S4-35: pages taken on both sides of a swap list every set once', async () => {
        const t = tenant();
        await pour(t, pad(100));
        for (const query of [{ limit: 2 }, { limit: 2, sort: 'net', order: 'desc' }]) {
            const rows = [];
            let after;
            do {
                const page = await t.cells('busy', after ? { ...query, after } : query);
                assert.equal(page.status, 200, page.text);
                rows.push(...page.body.cells);
                after = page.body.next;
                if (rows.length === 4) await rebuilt(admin(), 'busy');
            } while (after && rows.length < 100);
            assert.deepEqual(rows.map((row) => row.dimensions.k ?? '').sort(), ['', ...Array.from({ length: 10 }, (_, i) => `k${i}`)]);
        }
    });

    test('S4-31: entities that come and go during a rebuild are where they should be', async () => {
        const t = tenant();
        const on = new Map();
        let stop = false;
        const movers = together(8, async (w) => {
            for (let i = 0; !stop; i++) {
                const account = `a${w}-${i % 3}`;
                const type = (i * 7 + w) % 3 ? 'in' : 'out';
                await t.send(type, { account });
                on.set(account, type === 'in');
            }
        });
        for (let i = 0; i < 3; i++) await rebuilt(admin(), 'inside');
        stop = true;
        await movers;
        const expected = [...on.values()].filter(Boolean).length;
        assert.equal(await t.net('inside'), expected);
        await rebuilt(admin(), 'inside');
        assert.equal(await t.net('inside'), expected);
    });

    test('SPEC 7: a reload during a rebuild starts it anew, and it ends by the new rules', async () => {
        const t = tenant();
        const base = times(1500, 300);
        await pour(t, pad(base));
        const count = traffic(t, 4);
        const job = await asked(admin(), 'busy');
        const ten = counter('busy', '\n    dimensions: [k]\n    rollups: [[]]', '{ on: up, op: increment, amount: 10 }');
        await eventually('the rebuild to be under way', async () => (await look(admin(), job)).body.progress > 0, { every: 1 });
        await reload(ten, PRESENT);
        assert.equal((await over(admin(), job)).state, 'done');
        count.stop = true;
        await count.ended;
        assert.equal(await t.net('busy'), 10 * (base + count.sent));
        await reload(BUSY, PRESENT);
        await rebuilt(admin(), 'busy');
        assert.equal(await t.net('busy'), base + count.sent);
    });

    test('SPEC 7: a counter that leaves the rules during its rebuild fails the job and keeps its value', async () => {
        const t = tenant();
        const LEAVING = counter('leaving', '', '{ on: up, op: increment }');
        await reload(BUSY, PRESENT, LEAVING);
        await pour(t, pad(times(1500, 300)));
        const value = await t.net('leaving');
        const job = await asked(admin(), 'leaving');
        await reload(BUSY, PRESENT);
        const end = await over(admin(), job);
        if (end.state === 'failed') assert.match(end.error, /no longer/);
        assert.equal(await t.net('leaving'), value);
        await reload(BUSY, PRESENT, LEAVING);
        await rebuilt(admin(), 'leaving');
        assert.equal(await t.net('leaving'), value);
    });

    test('SPEC 7: kill -9 during a rebuild: it goes on by itself and ends right', async () => {
        const t = tenant();
        const base = times(2000, 400);
        await pour(t, pad(base));
        for (const more of [0, 5, 50]) {
            const job = await asked(admin(), 'busy');
            await eventually('the rebuild to be under way', async () => (await look(admin(), job)).body.progress > 0, { every: 1 });
            await sleep(more);
            await server.restart({ hard: true });
            assert.equal(await t.net('busy'), base, 'right from the start');
            assert.equal((await over(admin(), job)).state, 'done');
            assert.equal(await t.net('busy'), base);
        }
    });

    test('SPEC 7: a polite stop during a rebuild is no trouble either', async () => {
        const t = tenant();
        await pour(t, pad(times(1500, 300)));
        const value = await t.net('busy');
        const jobs = [await asked(admin(), 'busy'), await asked(admin(), 'inside'), await asked(admin(), 'busy')];
        await server.restart();
        for (const job of jobs) assert.equal((await over(admin(), job)).state, 'done');
        assert.equal(await t.net('busy'), value);
    });
});

describe('a rebuild after retention', () => {
    const OLD = counter('old') + counter('series', '\n    mode: series\n    granularities: [0, 60]') +
        counter('window', '\n    mode: windowed\n    window: 1h');
    const { server, tenant, admin } = rulesServer(config(OLD), { settings: { 'events.retention': '1s' } });
    const reload = reloader(server, admin);
    const refused = (name) => eventually('history to be incomplete', async () => {
        const reply = await ask(admin(), name);
        if (reply.status === 409) expectError(reply, 409, 'history_incomplete');
        else await over(admin(), reply.body.job);
        return reply.status === 409;
    });

    test('SPEC 7: history_incomplete for a persistent counter that counted what is gone; force does it', async () => {
        const t = tenant();
        await rebuilt(admin(), 'old');
        await t.send('up', {});
        await refused('old');
        expectError(await ask(admin(), 'old', { force: false }), 409, 'history_incomplete');
        assert.equal(await t.net('old'), 1, 'a refusal changes nothing');
        await rebuilt(admin(), 'series');
        await rebuilt(admin(), 'window');
        await rebuilt(admin(), 'old', { force: true });
        assert.equal(await t.net('old'), 0, 'only what is retained');
        await rebuilt(admin(), 'old');
        await t.send('up', {});
        await refused('old');
        await server.restart({ hard: true });
        expectError(await ask(admin(), 'old'), 409, 'history_incomplete');
        assert.equal(await t.net('old'), 1);
    });

    test('SPEC 7: a counter defined after the drop is not refused; once its own events are gone, it is', async () => {
        const t = tenant();
        await t.send('up', {});
        await reload(OLD, counter('witness'));
        await eventually('the event to be dropped', async () => {
            await rebuilt(admin(), 'witness', { force: true });
            return (await t.net('witness')) === 0;
        });
        await reload(OLD, counter('young'));
        await sleep(1500); /* with nothing to drop, the retained history ends where it did */
        await rebuilt(admin(), 'young');
        await t.send('up', {});
        await refused('young');
        assert.equal(await t.net('young'), 1);
    });
});

describe('a rebuild while events go', () => {
    const { server, tenant, admin } = rulesServer(config(counter('total')), { settings: { ...SLOW, 'events.retention': '2s' } });
    const reload = reloader(server, admin);

    test('X-09: history that a rebuild filled in is not lost by the next one', async () => {
        const t = tenant();
        await t.send('up', {});
        await sleep(500);
        await reload(counter('total'), counter('late'));
        await rebuilt(admin(), 'late');
        assert.equal(await t.net('late'), 1);
        await eventually('history to be incomplete', async () => {
            const reply = await ask(admin(), 'late');
            if (reply.status === 202) await over(admin(), reply.body.job);
            assert.equal(await t.net('late'), 1);
            return reply.status === 409;
        });
    });

    test('X-09: a total does not fall when events go between asking for a rebuild and its end', async () => {
        const t = tenant();
        await reload(counter('total'), counter('mine'));
        const count = times(1500, 300);
        await pour(t, Array.from({ length: count }, () => ({ type: 'up' })));
        const jobs = [];
        await eventually('history to be incomplete', async () => {
            const reply = await ask(admin(), 'mine');
            if (reply.status === 202) jobs.push(reply.body.job);
            return reply.status === 409;
        }, { every: 20 });
        for (const job of jobs) {
            const end = await over(admin(), job);
            if (end.state === 'failed') assert.match(end.error, /events|history/i);
            assert.equal(await t.net('mine'), count, JSON.stringify(end));
        }
        assert.ok(jobs.length > 0);
    });
});
