// Rebuilds while much else goes on: traffic, reloads, crashes, retention (SPEC 7).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError } from './support/expect.mjs';
import { filesIn } from './support/lanes.mjs';
import { eventually, sleep, times, together } from './support/pace.mjs';
import { ask, asked, bare, config, counter, look, medley, over, pour, rebuilt, reloader, SLOW } from './support/rebuild.mjs';
import { rulesServer } from './support/rules.mjs';

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
                const listed = (await t.listAll()).filter((one) => one.name === 'busy');
                assert.deepEqual(listed, [{ name: 'busy', granularities: [0] }]);
                return t.net('busy');
            }),
            watch(t, base, count, async () => {
                const { body } = await t.query([{ get: { name: 'busy', dimensions: {} } }]);
                return Number(body.results[0].net);
            }),
        ];
        try {
            for (let i = 0; i < 2; i++) await rebuilt(admin(), 'busy');
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
        for (let i = 0; i < 2; i++) await rebuilt(admin(), 'inside');
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
        const ten = counter('busy', '\n    dimensions: [k]\n    rollups: [[]]', '{ on: up, op: increment, amount: 10 }');
        let job;
        await eventually('a rebuild that a reload comes into', async () => { // and not after it
            await reload(BUSY, PRESENT);
            job = await asked(admin(), 'busy');
            await eventually('the rebuild to be under way', async () => (await look(admin(), job)).body.progress > 0, { every: 1 });
            await reload(ten, PRESENT);
            return (await look(admin(), job)).body.state === 'running';
        }, { every: 1 });
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
        for (const more of [0, 30]) {
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

/* They wait most of the time, so they wait together, each with a server of its own. */
describe('rebuilds and retention', { concurrency: true }, () => {
    describe('a rebuild after retention', { concurrency: 1 }, () => {
        const OLD = counter('old') + counter('series', '\n    mode: series\n    granularities: [60]') +
            counter('totals', '\n    mode: series\n    granularities: [0, 60]') +
            counter('window', '\n    mode: windowed\n    window: 1h');
        const { server, tenant, admin } = rulesServer(config(OLD), { settings: { 'clock.settle': '0s', 'events.retention': '1s' } });
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
            expectError(await ask(admin(), 'totals'), 409, 'history_incomplete'); /* its granularity 0 is a total, too */
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

    describe('a rebuild from the archive', { concurrency: 1 }, () => {
        const RULES = `
  - counterName: floored
    dimensions: [master]
    rollups: [[]]
    floorAtZero: true
    rules: [{ on: up, op: increment }, { on: down, op: decrement }]
  - counterName: inside
    dimensions: [room]
    rollups: [[]]
    transition: { entity: [account] }
    rules: [{ on: up, op: increment }, { on: down, op: decrement }]`;
        const { server, tenant, admin } = rulesServer(config(RULES), { settings: { 'store.kind': 'embedded', 'clock.settle': '0s', ...SLOW, 'events.retention': '16s' } });

        test('S4-31: events of many tenants in several files and the journal are counted in their order', async () => {
            const tenants = Array.from({ length: 5 }, () => tenant());
            const files = () => filesIn(server.data, 'archive').length;
            for (let round = 0; round < 3; round++) {
                for (let i = 0; i < 3; i++) await Promise.all(tenants.map((t, index) => pour(t, medley(30, round * 100 + i * 10 + index))));
                if (round < 2) await eventually('another file', () => files() > round);
            }
            const read = () => Promise.all(tenants.map(async (t) => [(await t.allCells('floored')).map(bare), (await t.allCells('inside')).map(bare)]));
            const before = await read();
            for (const name of ['floored', 'inside']) {
                const job = await rebuilt(admin(), name);
                assert.ok(Number(job.events) > 1000, JSON.stringify(job));
            }
            assert.deepEqual(await read(), before);
        });
    });

    describe('a rebuild while events go', { concurrency: 1 }, () => {
        const { server, tenant, admin } = rulesServer(config(counter('total')), { settings: { 'clock.settle': '0s', ...SLOW, 'events.retention': '2s' } });
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
});
