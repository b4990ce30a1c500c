// A wall clock that steps while the server runs, or was wrong when it began (SPEC 10, "Clocks").

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { cliFor } from './support/cli.mjs';
import { metric } from './support/events.mjs';
import { expectError } from './support/expect.mjs';
import { eventually, sleep } from './support/pace.mjs';
import { IN_POSTGRES, LANES, newDirectory, removeDirectory, Server, TOTAL } from './support/server.mjs';
import { WallClock } from './support/shift.mjs';
import { jwt, tokenFor } from './support/tokens.mjs';

const DAY = 86400000;
const MONTH = 31 * DAY;
const SECONDS = 5000;

const CONFIG = `counters:
  - counterName: recent
    mode: windowed
    window: ${SECONDS / 1000}s
    rules: [{ on: up, op: increment }]
`;

/* Whether the kernel of this machine calls its clock synchronised says nothing about the one that is moved. */
const SETTLE = { 'clock.settle': '1h', 'expiry.sweepEvery': '50ms' };
const SETTLED = { ...SETTLE, 'clock.settle': '0s' };

/* A token of any time: what it is good for goes by the wall clock that moves. */
const claims = { exp: Math.floor((Date.now() + 400 * DAY) / 1000) };

async function world(t, settings) {
    const wall = new WallClock();
    const data = newDirectory('clocks');
    const server = new Server({ config: CONFIG, settings, data, env: wall.env });
    const servers = [server]; // on the same data, one after the other
    t.after(async () => {
        for (const one of servers) await one.stop();
        removeDirectory(data);
        wall.remove();
    });
    await server.start();
    const tenant = server.tenant('t1', claims);
    const token = tokenFor('ops', { ...claims, scope: 'admin' });
    const w = { wall, server, servers, tenant, token, cli: (...args) => cliFor(server, token)('clock', ...args) };
    /* A database is asked for the time with a commit; between two of them a node carries it on. */
    w.heard = async () => IN_POSTGRES && assert.equal((await tenant.increment('heard', TOTAL)).status, 200);
    w.clock = async () => (await server.call('GET', '/api/admin/clock', { token })).body;
    w.ask = (action) => server.call('POST', '/api/admin/clock', { token, body: { action } });
    w.up = async (eventId) => {
        const reply = await tenant.call('POST', '/api/events/t1', { body: { eventId, type: 'up' } });
        assert.equal(reply.status, 200, reply.text);
    };
    w.window = async () => (await tenant.call('GET', '/api/windows/t1')).body.windows[0];
    w.suspects = () => metric(server, 'tally_clock_suspect'); // how many lanes
    w.once = (key) => tenant.increment('once', { ...TOTAL, amount: 5 }, { 'Idempotency-Key': key });
    return w;
}

/* The wall clock is wrong for as long as `work` takes. */
async function wrongly(w, by, work) {
    w.wall.by(by);
    await work();
    w.wall.by(0);
}

describe('a wall clock that steps', { concurrency: true }, () => {
    test('SPEC 10: a key that was used counts once, though the clock is 31 days ahead for an instant', async (t) => {
        const w = await world(t, SETTLE);
        const first = await w.once('K1');
        await wrongly(w, MONTH, () => w.up('E1'));
        const again = await w.once('K1');
        assert.equal(again.headers.get('idempotent-replayed'), 'true');
        assert.equal(again.text, first.text);
        assert.equal((await w.tenant.get('once')).body.net, '5');
    });

    test('SPEC 10: a window ends in time, though the clock is 31 days ahead for an instant', async (t) => {
        const w = await world(t, SETTLE);
        const began = Date.now();
        await wrongly(w, MONTH, () => w.up('E1'));
        const window = await w.window();
        assert.equal(window.currentValue, 1);
        assert.ok(window.windowEnd < began + 6 * SECONDS, 'ends when it should');
        await eventually('the window to be over', async () => (await w.window()).currentValue === 0);
        await w.up('E2');
        assert.equal((await w.window()).currentValue, 1);
    });

    test('SPEC 10: a suspect clock is said, expires nothing, and SIGHUP does not accept it', async (t) => {
        const w = await world(t, SETTLE);
        await w.ask('accept'); // this start needs no time to settle
        await w.tenant.increment('cell', { ...TOTAL, expiresAt: Date.now() + DAY });
        assert.equal(await w.suspects(), 0);
        w.wall.by(MONTH);
        await w.heard();
        await eventually('the clock to be suspect', async () => (await w.suspects()) === LANES);
        await eventually('a line of log', () => /"the wall clock stepped/.test(w.server.stderr));
        w.server.signal('SIGHUP');
        await eventually('the reload', () => /reloaded the config/.test(w.server.stderr));
        await sleep(300); // some sweeps
        assert.equal(await w.suspects(), LANES);
        assert.equal((await w.tenant.get('cell')).status, 200);
        w.wall.by(0);
        await w.heard();
        await eventually('the clock to be believed again', async () => (await w.suspects()) === 0);
        await eventually('another line', () => /"the wall clock is believed again"/.test(w.server.stderr));
    });

    test('SPEC 10: reads and defaults go by the same time as decisions', async (t) => {
        const w = await world(t, SETTLE);
        w.wall.by(MONTH);
        await w.up('E1');
        const { events } = (await w.tenant.call('GET', '/api/events/t1')).body;
        assert.ok(Date.parse(events[0].occurredAt ?? events[0].occurred_at) < Date.now() + DAY, JSON.stringify(events[0]));
        assert.equal((await w.window()).currentValue, 1);
        assert.ok(Date.parse((await w.clock()).time) < Date.now() + DAY);
    });

    test('SPEC 10: tokens go by the wall clock', async (t) => {
        const w = await world(t, SETTLE);
        const token = jwt({ sub: 't1', exp: Math.floor(Date.now() / 1000) + 3600 });
        const read = () => w.server.call('GET', '/api/windows/t1', { token });
        assert.equal((await read()).status, 200);
        w.wall.by(MONTH);
        await eventually('the token to be over', async () => (await read()).status === 401);
    });
});

describe('the operator\'s word', { concurrency: true }, () => {
    test('SPEC 10: accept believes it, then time stands still, and reset is the way back', async (t) => {
        const w = await world(t, SETTLED);
        await w.once('K1');
        w.wall.by(20 * DAY);
        await w.heard();
        const accepted = await w.cli('accept', '--json');
        assert.equal(accepted.code, 0, accepted.stderr);
        assert.equal(JSON.parse(accepted.stdout).suspect, false);
        await w.up('E1');
        w.wall.by(0);
        await w.heard();
        const lead = Date.parse((await w.clock()).time);
        assert.ok(lead > Date.now() + 19 * DAY, 'it does not run back by itself');
        await w.ask('accept');
        const stands = (await w.clock()).time;
        await sleep(20);
        assert.equal((await w.clock()).time, stands);
        const reset = await w.cli('reset');
        assert.equal(reset.code, 0, reset.stderr);
        assert.match(reset.stdout, /^ +believed$/m);
        assert.ok(Math.abs(Date.parse((await w.clock()).time) - Date.now()) < DAY);
        assert.ok((await w.window()).windowEnd < Date.now() + DAY, 'what was begun then is as old as it is');
        assert.equal((await w.once('K1')).headers.get('idempotent-replayed'), 'true');
        await w.server.restart({ hard: true });
        assert.ok(Math.abs(Date.parse((await w.clock()).time) - Date.now()) < DAY);
        assert.equal((await w.once('K1')).headers.get('idempotent-replayed'), 'true');
        await eventually('the window to be over', async () => (await w.window()).currentValue === 0);
    });

    test('tally clock says how it is, and takes nothing else', async (t) => {
        const w = await world(t, SETTLE);
        const status = await w.cli();
        assert.match(status.stdout, /^time +\d{4}-/m);
        assert.match(status.stdout, /believed, and not yet settled/);
        assert.equal((await w.cli('stop')).code, 2);
        expectError(await w.ask('forward'), 400, 'invalid_request');
        expectError(await w.tenant.call('GET', '/api/admin/clock'), 403, 'forbidden');
    });
});

describe('a wall clock that was wrong at the start', { concurrency: true }, () => {
    test('SPEC 10: a step back is believed at once, and keys, windows and cells are as if nothing had been', async (t) => {
        const w = await world(t, SETTLED);
        await w.tenant.increment('cell', { ...TOTAL, expiresAt: Date.now() + DAY });
        await w.once('K1');
        await w.server.stop();
        w.wall.by(MONTH);
        const late = new Server({ config: CONFIG, settings: SETTLE, data: w.server.data, env: w.wall.env });
        await late.start();
        w.servers.push(late);
        w.server.port = late.port;
        assert.equal((await w.once('K1')).headers.get('idempotent-replayed'), 'true');
        await w.up('E1');
        await sleep(200); // some sweeps
        assert.equal((await w.tenant.get('cell')).status, 200);
        await w.once('K2');
        w.wall.by(0);
        await w.heard();
        await eventually('time to be set back', async () => Date.parse((await w.clock()).time) < Date.now() + DAY);
        await eventually('it to be said, once it is durable', () => /"time was set back"/.test(late.stderr));
        assert.equal((await w.clock()).suspect, false);
        for (const key of ['K1', 'K2']) assert.equal((await w.once(key)).headers.get('idempotent-replayed'), 'true');
        await eventually('the window to be over', async () => (await w.window()).currentValue === 0);
        await late.restart({ hard: true });
        w.server.port = late.port;
        for (const key of ['K1', 'K2']) assert.equal((await w.once(key)).headers.get('idempotent-replayed'), 'true');
        assert.equal((await w.tenant.get('once')).body.net, '10');
    });

    test('SPEC 10: one before the last commit is not believed', async (t) => {
        const w = await world(t, SETTLED);
        await w.once('K1');
        await w.server.kill();
        w.wall.by(-MONTH);
        await w.server.start();
        const clock = await w.clock();
        // A kernel that vouches for it is believed after clock.settle, which is 0 here: time then stands still.
        assert.ok(clock.suspect || clock.synchronised);
        assert.ok(Math.abs(Date.parse(clock.time) - Date.now()) < DAY);
        assert.equal((await w.once('K1')).headers.get('idempotent-replayed'), 'true');
    });
});
