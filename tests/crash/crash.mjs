// crash.mjs -- the real daemon under real load, killed again and again on one data directory.
//
//     node tests/crash/crash.mjs [--rounds N] [--seed S] [--point NAME] [--lanes 1,4]
//
// Each round starts the server, lets the workers loose on it, ends it (kill -9 at a random moment,
// or by itself at a named crash point, or now and then politely), restarts it and compares its books
// with the workers' (workers.mjs, event_workers.mjs and event_inspector.mjs say what must hold). The same
// data lives through all rounds, but for those about letting go of old events, which have a world of
// their own. With --point every round ends at that crash point.
//
// With TALLY_TEST_STORE=postgres the store is in a PostgreSQL of the test's own, which lives on, and exports are made
// one after the other.
//
// All of that is done with one lane and then with four: each lane has tenants with the same workers
// then, and a round ends at a crash point in a lane of its choice, while the others are at work. The
// last line is `N passed, N failed`; a failure leaves the data where it says.

import { rmSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import { patience, sleep, within } from '../e2e/support/pace.mjs';
import { endSharedDatabase, IN_POSTGRES, newDirectory, removeDirectory, Server, Tenant } from '../e2e/support/server.mjs';
import { tokenFor } from '../e2e/support/tokens.mjs';
import { EventInspector } from './event_inspector.mjs';
import { EventBook } from './event_book.mjs';
import { RULES } from './event_model.mjs';
import { EventWatcher, EventWorker, HistoryReader, OwnerWorker, RebuildWorker, RoomWorker } from './event_workers.mjs';
import { ExportWorker } from './export_worker.mjs';
import { between, randomFrom } from './random.mjs';
import { lanesOfFlag, ROOMS, shares, TENANTS } from './spread.mjs';
import { BulkWorker, KeyedWorker, PlainWorker, TransferWorker } from './workers.mjs';

const POINTS_ON_DISK = [
    'commit.decided', 'commit.before_answer', 'journal.append.before_write', 'journal.sync.before', 'journal.sync.after',
    'journal.segment.before_switch', 'journal.segment.after_switch', 'checkpoint.before_flush', 'checkpoint.after_flush',
    'checkpoint.before_applied', 'checkpoint.after_applied', 'checkpoint.before_trim', 'registry.ingest.before', 'registry.ingest.after',
    'registry.run.before_rename', 'registry.merge.after', 'registry.filter.before_rename', 'archive.before_seal', 'archive.after_seal', 'retain.before_drop',
    'rebuild.before_chunk', 'rebuild.after_chunk', 'rebuild.swap', 'rebuild.after_swap', 'reconcile.scanned',
]; // journal.restart.before_header needs a failing disk: tests/e2e/disk-full.test.mjs passes it
const POINTS_IN_POSTGRES = [
    'commit.decided', 'commit.before_answer', 'postgres.before_commit', 'postgres.after_commit', 'retain.before_drop',
    'rebuild.before_chunk', 'rebuild.after_chunk', 'rebuild.swap', 'rebuild.after_swap', 'reconcile.scanned', 'export.lane',
]; // import.*: tests/e2e/moving.test.mjs, because an import puts counters back
const CRASH_POINTS = IN_POSTGRES ? POINTS_IN_POSTGRES : POINTS_ON_DISK;
const OF_NO_LANE = ['reconcile.scanned', 'export.lane']; // one thread goes over all lanes

const TRIES = 3; // at a crash point that was not passed
const CYCLE = CRASH_POINTS.length + Math.floor((CRASH_POINTS.length - 1) / 3); // rounds that pass them all

const SETTINGS = {
    'journal.segmentBytes': 1048576,
    'journal.keep': '0s',
    'checkpoint.every': '200ms',
    'checkpoint.journalBytes': 1048576,
    'store.cacheBytes': 1048576,
    'limits.counterGranularities': 4,
    'limits.batchOps': 240,
    'clock.settle': '0s', // or events would not be let go of before ten minutes are over
};

const RETENTION_MS = 1500;
const BULK_LINES = 12000;
const ADMIN = tokenFor('operator', { scope: 'admin' });

const { values: flags } = parseArgs({
    options: {
        rounds: { type: 'string', default: '33' },
        seed: { type: 'string', default: String(Date.now() % 1000000) },
        point: { type: 'string' },
        lanes: { type: 'string', default: '1,4' },
    },
});
if (flags.point && !CRASH_POINTS.includes(flags.point)) throw new Error(`no crash point ${flags.point}; there are ${CRASH_POINTS.join(', ')}`);
const rounds = Number(flags.rounds);
const seed = Number(flags.seed);
const random = randomFrom(seed);

/** How often a crash point may be passed before it kills: all of them are to come within a round, in
 * each of the lanes that share its work. */
function mostPasses(point, lanes) {
    if (/^(registry|state)/.test(point)) return 1;
    if (/^(archive|retain)/.test(point)) return lanes > 1 ? 1 : 2;
    if (/^(commit|postgres|journal\.(append|sync))/.test(point)) return 200 / lanes;
    if (/chunk$/.test(point)) return 40 / lanes;
    return lanes > 1 ? 2 : 4;
}

/** How round `index` ends: every crash point in turn, each fourth time a kill -9 or, more rarely, a SIGTERM. */
function planRound(index, lanes) {
    const turn = index % CYCLE;
    if (turn % 4 === 3) return { how: turn % 12 === 11 ? 'SIGTERM' : 'kill -9', lane: null, forgetful: turn % 8 === 7 };
    const point = turn - Math.floor(turn / 4);
    return planPoint(CRASH_POINTS[point], lanes, Math.floor(index / CYCLE) + point);
}

/** Lanes take turns, beginning with another one by the seed. */
function planPoint(how, lanes, turn) {
    const lane = lanes > 1 && !OF_NO_LANE.includes(how) ? (seed + turn) % lanes : null;
    return { how, lane, nth: between(random, 1, mostPasses(how, lanes)), forgetful: how.startsWith('retain') };
}

/** A data directory and the workers that know what should be in it. */
class World {
    data = newDirectory('crash');
    rulesFile = `${this.data}.yaml`;
    ops = `${this.data}.ops`;
    workers = [];
    lanes;
    #settings;

    constructor(lanes, settings) {
        this.lanes = lanes;
        this.#settings = { 'store.lanes': lanes, 'ops.dir': this.ops, ...settings };
        writeFileSync(this.rulesFile, RULES);
    }

    server(env = {}) {
        return new Server({ data: this.data, settings: this.#settings, env, args: ['--config', this.rulesFile] });
    }

    /** The tenants that have counters and events. */
    get tenants() {
        return TENANTS.slice(0, this.lanes);
    }

    add(id, kind, name, ...rest) {
        const worker = new kind(new Tenant(null, id, tokenFor(id)), name, randomFrom(seed + this.workers.length), ...rest);
        this.workers.push(worker);
        return worker;
    }

    /** `count` of them, divided among the lanes. */
    addMany(count, kind, name) {
        for (const [lane, share] of shares(count, this.lanes)) {
            for (let i = 0; i < share; i++) this.add(TENANTS[lane], kind, `${name}-${lane}-${i}`);
        }
    }

    /** What makes segments full. */
    addBulk() {
        for (let lane = 0; lane < this.lanes; lane++) this.add(TENANTS[lane], BulkWorker, `bulk-${lane}`, Math.ceil(BULK_LINES / this.lanes));
    }

    /** Tenants of their own: what is recounted from history is then soon recounted. */
    addRooms() {
        for (let lane = 0; lane < this.lanes; lane++) this.add(ROOMS[lane], RoomWorker, ROOMS[lane], new EventBook());
    }

    /** Of each lane a tenant with a book. one rebuild before the first is inspected is enough for all. */
    addEventWorkers({ senders, rebuilder, ...options }) {
        for (const [lane, share] of shares(senders, this.lanes)) {
            const book = new EventBook();
            const id = TENANTS[lane];
            for (let i = 0; i < share; i++) this.add(id, EventWorker, `events-${lane}-${i}`, book);
            for (let i = 0; i < shares(2, this.lanes)[lane][1]; i++) this.add(id, OwnerWorker, `owner-${lane}-${i}`, book);
            this.add(id, EventWatcher, `event-watcher-${lane}`, book);
            this.add(id, HistoryReader, `history-reader-${lane}`, book, options);
            this.add(id, EventInspector, `inspector-${lane}`, book, { ...options, rebuilder: lane === 0 ? rebuilder : null });
        }
    }

    get decidedOps() {
        return this.workers.reduce((sum, worker) => sum + worker.acknowledgedOps, 0);
    }

    remove() {
        removeDirectory(this.data);
        removeDirectory(this.ops);
        rmSync(this.rulesFile, { force: true });
    }
}

async function makeWorld(lanes) {
    const world = new World(lanes, SETTINGS);
    world.addMany(4, PlainWorker, 'plain');
    world.addMany(4, KeyedWorker, 'keyed');
    world.addMany(2, TransferWorker, 'transfer');
    world.addBulk();
    const rebuilder = world.add(TENANTS[0], RebuildWorker, 'rebuilder', ADMIN);
    world.addEventWorkers({ senders: 4, rebuilder });
    world.addRooms();
    if (IN_POSTGRES) world.add(TENANTS[0], ExportWorker, 'exporter', ADMIN, world.ops);
    const server = await world.server().start();
    for (const id of world.tenants) await TransferWorker.open(server.tenant(id));
    await server.stop();
    return world;
}

/** Where events are let go of soon. */
function makeForgetfulWorld(lanes) {
    const world = new World(lanes, { ...SETTINGS, 'events.retention': `${RETENTION_MS}ms` });
    world.addBulk();
    const rebuilder = world.add(TENANTS[0], RebuildWorker, 'rebuilder', ADMIN, { forgetful: true });
    world.addEventWorkers({ senders: 3, retentionMs: RETENTION_MS, rebuilder });
    return world;
}

/** Starts a server that may die before it is ready, if its crash point lies on the way. */
async function startDoomed(plan, world) {
    const server = world.server({ TALLY_CRASH_POINT: describePlan(plan) });
    try {
        return await server.start();
    } catch (error) {
        if (!/SIGKILL/.test(error.message)) throw error;
        plan.passed = true;
        return null;
    }
}

/** Waits until the crash point has killed the server, or does it after a while: one lane of four has a quarter of the work. */
async function awaitCrash(server, plan, { lanes }) {
    plan.passed = await Promise.race([server.exited.then(() => true), sleep(patience(2500) * lanes).then(() => false)]);
    await server.kill();
    return plan.passed;
}

async function endServer(server, plan, world) {
    if (plan.nth) return awaitCrash(server, plan, world);
    await sleep(plan.forgetful ? between(random, RETENTION_MS, 2 * RETENTION_MS) : between(random, 30, 900));
    if (plan.how === 'SIGTERM') await server.stop();
    else await server.kill();
    return true;
}

async function loadAndEnd(plan, world) {
    const server = plan.nth ? await startDoomed(plan, world) : await world.server().start();
    if (!server) return 'died while starting';
    let over = false;
    const running = world.workers.map((worker) => worker.run(server, () => over));
    const reached = await endServer(server, plan, world);
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
        for (const id of world.tenants) {
            const list = await connection.call('GET', `/api/counters/${id}?limit=10000`, { token: tokenFor(id) });
            const names = list.body.counters.map((counter) => counter.name);
            if (new Set(names).size !== names.length) wrong.push(`the list of ${id} names a counter twice: ${names}`);
        }
    } finally {
        connection.destroy();
        if (random() < 0.5) await server.kill();
        else await server.stop();
    }
    return wrong;
}

function describePlan({ how, nth, lane }) {
    return `${how}${nth ? `:${nth}` : ''}${lane === null ? '' : `@${lane}`}`;
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

/** Rounds of one life, with a number of lanes. */
class Life {
    plans = [];
    ok = 0;
    failed = 0;
    #lanes;
    #worlds;

    constructor(lanes, worlds) {
        this.#lanes = lanes;
        this.#worlds = worlds;
    }

    async #round(plan) {
        const world = this.#worlds[plan.forgetful ? 1 : 0];
        this.plans.push(plan);
        if (await runRound(this.plans.length - 1, plan, world)) this.ok++;
        else this.#stop(world);
    }

    #stop(world) {
        this.failed = 1;
        console.log(`stopped; the data is in ${world.data}, its rules in ${world.rulesFile}, repeat with --seed ${seed} --lanes ${this.#lanes}`);
        this.#worlds = this.#worlds.filter((one) => one !== world);
    }

    #missed() {
        return CRASH_POINTS.filter((point) => !this.plans.some(({ how, passed }) => how === point && passed));
    }

    /** Points that killed no server are tried again: a busy machine may not have come there in time. */
    async #catchUp() {
        for (let tries = 1; tries < TRIES && !this.failed; tries++) {
            for (const point of this.#missed()) if (!this.failed) await this.#round(planPoint(point, this.#lanes, tries));
        }
        const missed = this.#missed();
        if (missed.length) console.log(`crash points never passed: ${missed.join(', ')}`);
        if (missed.length) this.failed = 1;
    }

    async run() {
        console.log(`crash test: ${rounds} rounds with ${this.#lanes} lane${this.#lanes > 1 ? 's' : ''}, seed ${seed}`);
        for (let index = 0; index < rounds && !this.failed; index++) {
            await this.#round(flags.point ? planPoint(flags.point, this.#lanes, index) : planRound(index, this.#lanes));
        }
        if (!flags.point && rounds >= CYCLE && !this.failed) await this.#catchUp();
        for (const world of this.#worlds) world.remove();
        if (this.#lanes > 1) this.#tellLanes();
    }

    #tellLanes() {
        const killed = (lane) => this.plans.filter((plan) => plan.passed && plan.lane === lane).length;
        console.log(`crash points passed: ${Array.from({ length: this.#lanes }, (_, lane) => `${killed(lane)} in lane ${lane}`).join(', ')}`);
    }
}

async function main() {
    let passed = 0;
    let failed = 0;
    for (const lanes of lanesOfFlag(flags.lanes)) {
        const life = new Life(lanes, [await makeWorld(lanes), makeForgetfulWorld(lanes)]);
        await life.run();
        passed += life.ok;
        failed += life.failed;
    }
    await endSharedDatabase();
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed ? 1 : 0;
}

await main();
