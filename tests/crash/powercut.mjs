// powercut.mjs -- the real daemon under real load on a disk that forgets what was not synced.
//
//     node tests/crash/powercut.mjs [--rounds N] [--seed S] [--lanes 1,4]
//
// Like crash.mjs, but what ends the server ends the disk's memory too: it always runs with forget.so
// before it, and after each run its directory becomes what a disk could have kept (disk.mjs says what
// that can be), RocksDB's files included. A round is
//
//     load      workers at work; a kill -9 at a random moment, at a named crash point or after some
//               file operation, or a SIGTERM, then the cut
//     start     sometimes: the server is started and cut again before or soon after it is ready
//     compare   the server's books against the workers', new writes, then the cut again
//
// Backups are made all the while, onto another disk that keeps everything: none may fail, and the
// last of them, restored, must be whole.
//
// Sometimes the first end is a kill alone: the next server then reads what the disk has not got yet,
// and the cut that comes after it takes that away.
//
// Each few rounds begin with an empty directory, so that first starts are cut as well; in every third
// of these worlds events are let go of a second after they came. All rounds are lived with one lane
// and then with four, each of which has tenants at work. After every SIGTERM the log of
// forget.so must explain the directory byte for byte, or a call went past it. The last line is
// `N passed, N failed`; a failure leaves the data and the last log where it says.

import { readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { patience, sleep, within } from '../e2e/support/pace.mjs';
import { newDirectory, removeDirectory, Server, TALLY_BIN, Tenant } from '../e2e/support/server.mjs';
import { tokenFor } from '../e2e/support/tokens.mjs';
import { BackupWorker } from './backup_worker.mjs';
import { Disk } from './disk.mjs';
import { EventInspector } from './event_inspector.mjs';
import { EventBook } from './event_book.mjs';
import { RULES } from './event_model.mjs';
import { EventWatcher, EventWorker, HistoryReader, OwnerWorker, RebuildWorker, RoomWorker } from './event_workers.mjs';
import { between, randomFrom } from './random.mjs';
import { lanesOfFlag, ROOMS, shares, TENANTS } from './spread.mjs';
import { CrowdWorker, SoloWorker, Watcher } from './witnesses.mjs';
import { BulkWorker, KeyedWorker, PlainWorker, TransferWorker } from './workers.mjs';

const FORGET = path.join(path.dirname(realpathSync(TALLY_BIN)), 'tests', 'forget.so');
const ROUNDS_A_WORLD = 4;
const ENDS = [
    'kill -9', 'kill -9', 'kill -9', 'SIGTERM', 'SIGTERM', 'open', 'write', 'sync', 'sync', 'done', 'rename', 'rename', 'unlink',
    'commit.decided', 'commit.before_answer', 'journal.append.before_write', 'journal.sync.before', 'journal.sync.after',
    'journal.segment.before_switch', 'journal.segment.after_switch', 'checkpoint.before_flush', 'checkpoint.after_flush',
    'checkpoint.before_applied', 'checkpoint.after_applied', 'checkpoint.before_trim', 'registry.ingest.before', 'registry.ingest.after',
    'registry.run.before_rename', 'registry.merge.after', 'registry.filter.before_rename', 'archive.before_seal', 'archive.after_seal', 'retain.before_drop',
    'rebuild.before_chunk', 'rebuild.after_chunk', 'rebuild.swap', 'rebuild.after_swap',
];
// ...and by forget.so just after some file operation, with how many of its kind there may be before it.
const OPERATIONS = { open: 100, write: 300, sync: 300, done: 300, rename: 40, unlink: 20 };
const SHORT_OPERATIONS = { open: 40, write: 30, sync: 20, done: 20, rename: 6, unlink: 6, mkdir: 4 };

// Small files and short times, so that segments, checkpoints, flushes, ingestions and sweeps are all crossed.
const SETTINGS = {
    'journal.segmentBytes': 262144,
    'journal.keep': '0s',
    'checkpoint.every': '200ms',
    'checkpoint.journalBytes': 1048576,
    'store.cacheBytes': 1048576,
    'clock.settle': '0s',
    'expiry.sweepEvery': '100ms',
};

const BULK_LINES = 8000; // more than go into the state without an ingestion, fewer than would keep the others waiting

const { values: flags } = parseArgs({
    options: {
        rounds: { type: 'string', default: '15' },
        seed: { type: 'string', default: String(Date.now() % 1000000) },
        lanes: { type: 'string', default: '1,4' },
    },
});
const rounds = Number(flags.rounds);
const seed = Number(flags.seed);
const random = randomFrom(seed);

/** A disk with a data directory, which the first start makes, and the workers that know what should be in it. */
class World {
    disk = realpathSync(newDirectory('powercut'));
    data = path.join(this.disk, 'data');
    log = `${this.disk}.log`;
    rulesFile = `${this.disk}.yaml`;
    never;
    workers = [];
    #number;
    #lanes;
    #settings;
    #opened = false;
    #warm = null; // the disk, while it has power
    #notes = [];

    constructor(number, lanes) {
        const forgetful = number % 3 === 2;
        this.never = forgetful ? /^rebuild/ : /^retain/; // crash points that are not passed here
        this.#number = number;
        this.#lanes = lanes;
        const admin = tokenFor('operator', { scope: 'admin' });
        const rebuilder = this.#add(TENANTS[0], RebuildWorker, 'rebuilder', admin, { forgetful });
        this.#add(TENANTS[0], BackupWorker, 'backups', admin, `${this.disk}.ops`);
        this.#addCounting();
        for (let lane = 0; lane < lanes; lane++) {
            this.#addEvents(lane, { rebuilder: lane === 0 ? rebuilder : null, retentionMs: forgetful ? 1000 : Infinity });
            if (!forgetful) this.#add(ROOMS[lane], RoomWorker, ROOMS[lane], new EventBook());
        }
        this.#settings = { ...SETTINGS, 'store.lanes': lanes, 'ops.dir': `${this.disk}.ops`, ...(forgetful && { 'events.retention': '1s' }) };
        writeFileSync(this.rulesFile, RULES);
    }

    #add(id, kind, name, ...rest) {
        const worker = new kind(new Tenant(null, id, tokenFor(id)), name, randomFrom(seed + 1000 * this.#number + this.workers.length), ...rest);
        this.workers.push(worker);
        return worker;
    }

    #addCounting() {
        for (const [lane, share] of shares(3, this.#lanes)) {
            const id = TENANTS[lane];
            for (let i = 0; i < share; i++) {
                this.#add(id, PlainWorker, `plain-${lane}-${i}`);
                this.#add(id, KeyedWorker, `keyed-${lane}-${i}`);
                this.#add(id, SoloWorker, `solo-${lane}-${i}`);
            }
            this.#add(id, SoloWorker, `fleeting-${lane}`, { expiring: true });
            this.#add(id, CrowdWorker, `crowd-${lane}`);
            this.#add(id, TransferWorker, `transfer-${lane}`);
            this.#add(id, BulkWorker, `bulk-${lane}`, BULK_LINES / this.#lanes);
            this.#add(id, Watcher, `watcher-${lane}`, this.workers);
        }
    }

    #addEvents(lane, options) {
        const book = new EventBook();
        const id = TENANTS[lane];
        for (let i = 0; i < shares(3, this.#lanes)[lane][1]; i++) this.#add(id, EventWorker, `events-${lane}-${i}`, book);
        this.#add(id, OwnerWorker, `owner-${lane}`, book);
        this.#add(id, EventWatcher, `event-watcher-${lane}`, book);
        this.#add(id, HistoryReader, `history-reader-${lane}`, book, options);
        this.#add(id, EventInspector, `inspector-${lane}`, book, options);
    }

    get decidedOps() {
        return this.workers.reduce((sum, worker) => sum + worker.acknowledgedOps, 0);
    }

    /** What the last cuts had to choose from, and forgets it. */
    takeNotes() {
        return this.#notes.splice(0).join(', ');
    }

    get #stateDirectories() {
        if (this.#lanes === 1) return ['data/state'];
        return Array.from({ length: this.#lanes }, (_, lane) => `data/lane-00${lane}/state`);
    }

    /** Runs a server while `use` does, then cuts the power, if so asked. `use` must have ended the server. */
    async #powered(variables, use, cut = true) {
        const disk = this.#warm ?? Disk.read(this.disk, { ordered: this.#stateDirectories });
        const env = { LD_PRELOAD: FORGET, TALLY_FORGET_DIR: this.disk, TALLY_FORGET_LOG: this.log, ...variables };
        const server = new Server({ data: this.data, settings: this.#settings, env, args: ['--config', this.rulesFile] });
        writeFileSync(this.log, ''); // it may die before it gets to do that itself
        const polite = await use(server);
        disk.replay(readFileSync(this.log));
        const unexplained = polite ? disk.differences() : [];
        if (unexplained.length) throw new Error(`forget.so has missed something:\n${unexplained.join('\n')}`);
        this.#warm = cut ? null : disk;
        if (cut) {
            const { mood, files, names, namesKept } = disk.cut(random);
            this.#notes.push(`${files}f ${namesKept}/${names}n ${mood.toFixed(2)}`);
        } else {
            disk.killed();
            this.#notes.push('no cut');
        }
    }

    /** Accounts that transfer workers share; a world whose opening was cut is opened again. */
    async #open(server) {
        if (this.#opened) return;
        for (const id of TENANTS.slice(0, this.#lanes)) await TransferWorker.open(new Tenant(server, id, tokenFor(id)));
        this.#opened = true;
    }

    /** Load until the end that `plan` names. Returns a word about an end that came out differently. */
    async load(plan) {
        let note = '';
        await this.#powered(plan.variables, async (server) => {
            const died = () => !server.port;
            try {
                await server.start();
                await this.#open(server);
            } catch (error) {
                if (!plan.nth || (died() && !/SIGKILL/.test(error.message))) throw error;
                await server.kill();
                note = 'died while starting';
                return false;
            }
            let over = false;
            const running = this.workers.map((worker) => worker.run(server, () => over));
            const reached = await endServer(server, plan);
            if (!reached) note = 'not passed, killed';
            over = true;
            await within(20000, 'the workers to stop', Promise.all(running));
            return plan.end === 'SIGTERM';
        }, plan.cut);
        return note;
    }

    /** Starts and is cut before or soon after it is ready. */
    async cutStart() {
        const kind = Object.keys(SHORT_OPERATIONS)[between(random, 0, 12)]; // or none, one time in two
        const variables = kind ? { TALLY_FORGET_KILL: `${kind}:${between(random, 1, SHORT_OPERATIONS[kind] * this.#lanes)}` } : {};
        await this.#powered(variables, async (server) => {
            await server.spawn();
            const starting = server.ready().catch(() => {});
            await Promise.race([server.exited, sleep(kind ? patience(600) : between(random, 10, 250))]);
            await server.kill();
            await starting;
            return false;
        });
    }

    /** What the restarted server says against what the workers know: a list of sentences. */
    async compare() {
        const wrong = [];
        await this.#powered({}, async (server) => {
            await server.start();
            const polite = random() < 0.3;
            try {
                await this.#open(server);
                const connection = await server.raw();
                for (const worker of this.workers) await worker.settle(connection);
                for (const worker of this.workers) wrong.push(...await worker.verify(connection));
                connection.destroy();
            } finally {
                if (polite) await server.stop();
                else await server.kill();
            }
            return polite;
        });
        return wrong;
    }

    remove() {
        removeDirectory(this.disk);
        removeDirectory(`${this.disk}.ops`);
        rmSync(this.log, { force: true });
        rmSync(this.rulesFile, { force: true });
    }
}

/** Ends the server as planned; false if it did not come to its crash point and had to be killed. */
async function endServer(server, plan) {
    if (plan.nth) {
        const died = await Promise.race([server.exited.then(() => true), sleep(patience(2500)).then(() => false)]);
        await server.kill();
        return died;
    }
    await sleep(between(random, 30, 1200));
    if (plan.end === 'SIGTERM') await server.stop();
    else await server.kill();
    return true;
}

function shuffled(list) {
    const left = [...list];
    return list.map(() => left.splice(between(random, 0, left.length - 1), 1)[0]);
}

/** The next end of the list that can come in this world. */
function takeEnd(ends, world) {
    const index = ends.findLastIndex((end) => !world.never.test(end));
    if (index < 0) ends.push(...shuffled(ENDS));
    return index < 0 ? takeEnd(ends, world) : ends.splice(index, 1)[0];
}

/** How a round goes: what ends the load, at the how-manieth time and in which lane, and what is cut. */
function planRound(end, lanes) {
    const cut = random() < 0.75;
    const cutStart = random() < (cut ? 0.3 : 0.7);
    if (end === 'kill -9' || end === 'SIGTERM') return { end, what: end, variables: {}, cut, cutStart };
    const often = /^(commit|journal\.(append|sync))/.test(end) ? 200 : /chunk$/.test(end) ? 40 : 4;
    const nth = between(random, 1, end in OPERATIONS ? OPERATIONS[end] * lanes : Math.ceil(often / lanes));
    const inLane = lanes > 1 && !(end in OPERATIONS);
    const what = `${end}:${nth}${inLane ? `@${between(random, 0, lanes - 1)}` : ''}`;
    return { end, nth, what, variables: { [end in OPERATIONS ? 'TALLY_FORGET_KILL' : 'TALLY_CRASH_POINT']: what }, cut, cutStart };
}

async function runRound(index, world, plan) {
    const before = world.decidedOps;
    let wrong;
    let note = '';
    try {
        note = await world.load(plan);
        if (plan.cutStart) await world.cutStart();
        wrong = await world.compare();
    } catch (error) {
        wrong = [error.stack];
    }
    const verdict = wrong.length ? 'FAILED' : 'ok';
    console.log(`round ${String(index + 1).padStart(3)}  ${plan.what.padEnd(34)} ${String(world.decidedOps - before).padStart(6)} ops  ${verdict}  unsynced ${world.takeNotes()}${note ? `  (${note})` : ''}`);
    for (const sentence of wrong) console.log(`    ${sentence}`);
    return wrong.length === 0;
}

/** All rounds with that many lanes: how many passed. */
async function runRounds(lanes) {
    console.log(`power cut test: ${rounds} rounds with ${lanes} lane${lanes > 1 ? 's' : ''}, seed ${seed}`);
    const ends = [];
    let world = null;
    let passed = 0;
    for (let index = 0; index < rounds && passed === index; index++) {
        if (index % ROUNDS_A_WORLD === 0) {
            world?.remove();
            world = new World(index / ROUNDS_A_WORLD, lanes);
        }
        if (await runRound(index, world, planRound(takeEnd(ends, world), lanes))) passed++;
    }
    if (passed < rounds) console.log(`stopped; the data is in ${world.data}, the last log in ${world.log}, repeat with --seed ${seed} --lanes ${lanes}`);
    else world?.remove();
    return passed;
}

async function main() {
    console.log('unsynced: files with unsynced content, changes of names that survived of those unsynced, how likely the rest was to survive');
    let passed = 0;
    let failed = 0;
    for (const lanes of lanesOfFlag(flags.lanes)) {
        const ok = await runRounds(lanes);
        passed += ok;
        if (ok < rounds) failed++;
    }
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed ? 1 : 0;
}

await main();
