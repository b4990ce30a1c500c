// crash.mjs -- the real daemon under real load, killed again and again on one data directory.
//
//     node tests/crash/crash.mjs [--rounds N] [--seed S] [--point NAME]
//
// Each round starts the server, lets the workers loose on it, ends it (kill -9 at a random moment,
// or by itself at a named crash point, or now and then politely), restarts it and compares its books
// with the workers' (workers.mjs, event_workers.mjs and event_audit.mjs say what must hold). The same
// data lives through all rounds, but for those about letting go of old events, which have a world of
// their own. With --point every round ends at that crash point. The last line is `N passed, N failed`; a failure leaves the data where it says.

import { rmSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import { patience, sleep, within } from '../e2e/support/pace.mjs';
import { newDirectory, removeDirectory, Server, Tenant } from '../e2e/support/server.mjs';
import { tokenFor } from '../e2e/support/tokens.mjs';
import { EventAuditor } from './event_audit.mjs';
import { EventBook } from './event_book.mjs';
import { RULES } from './event_model.mjs';
import { EventWatcher, EventWorker, HistoryReader, OwnerWorker, RebuildWorker, RoomWorker } from './event_workers.mjs';
import { between, randomFrom } from './random.mjs';
import { BulkWorker, KeyedWorker, PlainWorker, TransferWorker } from './workers.mjs';

const CRASH_POINTS = [
    'commit.decided', 'commit.before_answer', 'journal.append.before_write', 'journal.sync.before', 'journal.sync.after',
    'journal.segment.before_switch', 'journal.segment.after_switch', 'checkpoint.before_flush', 'checkpoint.after_flush',
    'checkpoint.before_applied', 'checkpoint.after_applied', 'checkpoint.before_trim', 'registry.ingest.before', 'registry.ingest.after',
    'registry.run.before_rename', 'registry.merge.after', 'registry.filter.before_rename', 'archive.before_seal', 'archive.after_seal', 'retain.before_drop',
    'rebuild.before_chunk', 'rebuild.after_chunk', 'rebuild.swap', 'rebuild.after_swap', 'reconcile.scanned',
]; // journal.restart.before_header needs a failing disk: tests/e2e/disk-full.test.mjs passes it

const CYCLE = CRASH_POINTS.length + Math.floor((CRASH_POINTS.length - 1) / 3); // rounds that pass them all

const SETTINGS = {
    'journal.segmentBytes': 1048576,
    'journal.keep': '0s',
    'checkpoint.every': '200ms',
    'checkpoint.journalBytes': 1048576,
    'store.cacheBytes': 1048576,
    'limits.counterGranularities': 4,
    'limits.batchOps': 240,
};

const RETENTION_MS = 1500;
const ADMIN = tokenFor('operator', { scope: 'admin' });

const { values: flags } = parseArgs({
    options: {
        rounds: { type: 'string', default: '33' },
        seed: { type: 'string', default: String(Date.now() % 1000000) },
        point: { type: 'string' },
    },
});
if (flags.point && !CRASH_POINTS.includes(flags.point)) throw new Error(`no crash point ${flags.point}; there are ${CRASH_POINTS.join(', ')}`);
const rounds = Number(flags.rounds);
const seed = Number(flags.seed);
const random = randomFrom(seed);
const passes = new Map(CRASH_POINTS.map((name) => [name, 0]));

/** How often a crash point may be passed before it kills: all of them are to come within a round. */
function mostPasses(point) {
    if (/^(registry|state)/.test(point)) return 1;
    if (/^(archive|retain)/.test(point)) return 2;
    if (/^(commit|journal\.(append|sync))/.test(point)) return 200;
    return /chunk$/.test(point) ? 40 : 4;
}

/** How round `index` ends: every crash point in turn, each fourth time a kill -9 or, more rarely, a SIGTERM. */
function planRound(index) {
    const turn = index % CYCLE;
    if (turn % 4 === 3) return { how: turn % 12 === 11 ? 'SIGTERM' : 'kill -9', forgetful: turn % 8 === 7 };
    return planPoint(CRASH_POINTS[turn - Math.floor(turn / 4)]);
}

function planPoint(how) {
    return { how, nth: between(random, 1, mostPasses(how)), forgetful: how.startsWith('retain') };
}

/** A data directory and the workers that know what should be in it. */
class World {
    data = newDirectory('crash');
    rulesFile = `${this.data}.yaml`;
    workers = [];
    #settings;
    #tenant = new Tenant(null, 'crash', tokenFor('crash'));

    constructor(settings) {
        this.#settings = settings;
        writeFileSync(this.rulesFile, RULES);
    }

    server(env = {}) {
        return new Server({ data: this.data, settings: this.#settings, env, args: ['--config', this.rulesFile] });
    }

    add(kind, name, ...rest) {
        return this.#addFor(this.#tenant, kind, name, ...rest);
    }

    #addFor(tenant, kind, name, ...rest) {
        const worker = new kind(tenant, name, randomFrom(seed + this.workers.length), ...rest);
        this.workers.push(worker);
        return worker;
    }

    /** A tenant of its own: what is recounted from history is then soon recounted. */
    addRooms() {
        this.#addFor(new Tenant(null, 'rooms', tokenFor('rooms')), RoomWorker, 'rooms', new EventBook());
    }

    addEventWorkers({ senders, ...options }) {
        const book = new EventBook();
        for (let i = 0; i < senders; i++) this.add(EventWorker, `events-${i}`, book);
        for (let i = 0; i < 2; i++) this.add(OwnerWorker, `owner-${i}`, book);
        this.add(EventWatcher, 'event-watcher', book);
        this.add(HistoryReader, 'history-reader', book, options);
        this.add(EventAuditor, 'auditor', book, options);
    }

    get decidedOps() {
        return this.workers.reduce((sum, worker) => sum + worker.acknowledgedOps, 0);
    }

    remove() {
        removeDirectory(this.data);
        rmSync(this.rulesFile, { force: true });
    }
}

async function makeWorld() {
    const world = new World(SETTINGS);
    for (let i = 0; i < 4; i++) world.add(PlainWorker, `plain-${i}`);
    for (let i = 0; i < 4; i++) world.add(KeyedWorker, `keyed-${i}`);
    for (let i = 0; i < 2; i++) world.add(TransferWorker, `transfer-${i}`);
    world.add(BulkWorker, 'bulk');
    const rebuilder = world.add(RebuildWorker, 'rebuilder', ADMIN);
    world.addEventWorkers({ senders: 4, rebuilder });
    world.addRooms();
    const server = await world.server().start();
    await TransferWorker.open(server.tenant('crash'));
    await server.stop();
    return world;
}

/** Where events are let go of soon. */
function makeForgetfulWorld() {
    const world = new World({ ...SETTINGS, 'events.retention': `${RETENTION_MS}ms` });
    world.add(BulkWorker, 'bulk');
    const rebuilder = world.add(RebuildWorker, 'rebuilder', ADMIN, { forgetful: true });
    world.addEventWorkers({ senders: 3, retentionMs: RETENTION_MS, rebuilder });
    return world;
}

/** Starts a server that may die before it is ready, if its crash point lies on the way. */
async function startDoomed(plan, world) {
    const server = world.server({ TALLY_CRASH_POINT: `${plan.how}:${plan.nth}` });
    try {
        return await server.start();
    } catch (error) {
        if (!/SIGKILL/.test(error.message)) throw error;
        passes.set(plan.how, passes.get(plan.how) + 1);
        return null;
    }
}

/** Waits until the crash point has killed the server, or does it after a while. */
async function awaitCrash(server, plan) {
    const died = await Promise.race([server.exited.then(() => true), sleep(patience(2500)).then(() => false)]);
    if (died) passes.set(plan.how, passes.get(plan.how) + 1);
    await server.kill();
    return died;
}

async function endServer(server, plan) {
    if (passes.has(plan.how)) return awaitCrash(server, plan);
    await sleep(plan.forgetful ? between(random, RETENTION_MS, 2 * RETENTION_MS) : between(random, 30, 900));
    if (plan.how === 'SIGTERM') await server.stop();
    else await server.kill();
    return true;
}

async function loadAndEnd(plan, world) {
    const server = passes.has(plan.how) ? await startDoomed(plan, world) : await world.server().start();
    if (!server) return 'died while starting';
    let over = false;
    const running = world.workers.map((worker) => worker.run(server, () => over));
    const reached = await endServer(server, plan);
    over = true;
    await within(20000, 'the workers to stop', Promise.all(running));
    return reached ? '' : 'not passed, killed';
}

/** The restarted server must agree with every worker, now and after one more restart. */
async function compare(world) {
    const { workers } = world;
    const server = await world.server().start();
    const wrong = [];
    const connection = await server.raw();
    try {
        for (const worker of workers) await worker.settle(connection);
        for (const worker of workers) wrong.push(...await worker.verify(connection));
        const list = await connection.call('GET', '/api/counters/crash?limit=10000', { token: workers[0].tenant.token });
        const names = list.body.counters.map((counter) => counter.name);
        if (new Set(names).size !== names.length) wrong.push(`the list names a counter twice: ${names}`);
    } finally {
        connection.destroy();
        if (random() < 0.5) await server.kill();
        else await server.stop();
    }
    return wrong;
}

function describePlan(plan) {
    return plan.nth ? `${plan.how}:${plan.nth}` : plan.how;
}

async function runRound(index, plan, world) {
    const before = world.decidedOps;
    let wrong;
    let note = '';
    try {
        note = await loadAndEnd(plan, world);
        wrong = await compare(world);
    } catch (error) {
        wrong = [error.stack];
    }
    const verdict = wrong.length ? 'FAILED' : 'ok';
    console.log(`round ${String(index + 1).padStart(3)}  ${describePlan(plan).padEnd(34)} ${String(world.decidedOps - before).padStart(7)} ops decided  ${verdict}${note ? `  (${note})` : ''}`);
    for (const sentence of wrong) console.log(`    ${sentence}`);
    return wrong.length === 0;
}

async function main() {
    console.log(`crash test: ${rounds} rounds, seed ${seed}`);
    const worlds = [await makeWorld(), makeForgetfulWorld()];
    let world;
    let passed = 0;
    let index = 0;
    for (; index < rounds; index++) {
        const plan = flags.point ? planPoint(flags.point) : planRound(index);
        world = worlds[plan.forgetful ? 1 : 0];
        if (!await runRound(index, plan, world)) break;
        passed++;
    }
    const failed = index < rounds ? 1 : 0;
    const missed = [...passes].filter(([, count]) => count === 0).map(([name]) => name);
    if (missed.length && !failed && !flags.point && rounds >= CYCLE) console.log(`crash points never passed: ${missed.join(', ')}`);
    if (failed) console.log(`stopped; the data is in ${world.data}, its rules in ${world.rulesFile}, repeat with --seed ${seed}`);
    for (const one of worlds) if (!failed || one !== world) one.remove();
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed;
}

await main();
