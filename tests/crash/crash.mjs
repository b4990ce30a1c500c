// crash.mjs -- the real daemon under real load, killed again and again on one data directory.
//
//     node tests/crash/crash.mjs [--rounds N] [--seed S]
//
// Each round starts the server, lets the workers loose on it, ends it (kill -9 at a random moment,
// or by itself at a named crash point, or now and then politely), restarts it and compares its books
// with the workers' (workers.mjs says what must hold). The same data lives through all rounds. The
// last line is `N passed, N failed`; a failure leaves the data where it says.

import { parseArgs } from 'node:util';

import { patience, sleep, within } from '../e2e/support/pace.mjs';
import { newDirectory, removeDirectory, Server, Tenant } from '../e2e/support/server.mjs';
import { tokenFor } from '../e2e/support/tokens.mjs';
import { between, randomFrom } from './random.mjs';
import { BulkWorker, KeyedWorker, PlainWorker, TransferWorker } from './workers.mjs';

const CRASH_POINTS = [
    'commit.decided', 'commit.before_answer', 'journal.append.before_write', 'journal.sync.before', 'journal.sync.after',
    'journal.segment.before_switch', 'journal.segment.after_switch', 'checkpoint.before_flush', 'checkpoint.after_flush',
    'checkpoint.before_applied', 'checkpoint.after_applied', 'checkpoint.before_trim', 'registry.ingest.before', 'registry.ingest.after',
    'state.ingest.before_move', 'registry.filter.before_rename',
]; // journal.restart.before_header needs a failing disk: tests/e2e/disk-full.test.mjs passes it

const SETTINGS = {
    'journal.segmentBytes': 1048576,
    'journal.keep': '0s',
    'checkpoint.every': '200ms',
    'checkpoint.journalBytes': 1048576,
    'store.cacheBytes': 1048576,
    'limits.counterGranularities': 4,
    'limits.batchOps': 240,
};

const { values: flags } = parseArgs({ options: { rounds: { type: 'string', default: '25' }, seed: { type: 'string', default: String(Date.now() % 1000000) } } });
const rounds = Number(flags.rounds);
const seed = Number(flags.seed);
const random = randomFrom(seed);
const data = newDirectory('crash');
const passes = new Map(CRASH_POINTS.map((name) => [name, 0]));

/** How round `index` ends: every crash point in turn, a random kill -9 between, SIGTERM now and then. */
function planRound(index) {
    const points = CRASH_POINTS.length;
    const turn = index % Math.ceil(points * 1.5);
    if (turn % 3 === 2) return index % 9 === 8 ? { how: 'SIGTERM' } : { how: 'kill -9' };
    const point = CRASH_POINTS[(turn - Math.floor(turn / 3)) % points];
    const rare = point.startsWith('registry') || point.startsWith('state');
    const often = /^(commit|journal\.(append|sync))/.test(point);
    return { how: point, nth: rare ? 1 : between(random, 1, often ? 200 : 4) };
}

function makeWorkers() {
    const tenant = new Tenant(null, 'crash', tokenFor('crash'));
    const list = [];
    for (let i = 0; i < 4; i++) list.push(new PlainWorker(tenant, `plain-${i}`, randomFrom(seed + i)));
    for (let i = 0; i < 4; i++) list.push(new KeyedWorker(tenant, `keyed-${i}`, randomFrom(seed + 10 + i)));
    for (let i = 0; i < 2; i++) list.push(new TransferWorker(tenant, `transfer-${i}`, randomFrom(seed + 20 + i)));
    list.push(new BulkWorker(tenant, 'bulk', randomFrom(seed + 30)));
    return list;
}

function newServer(env = {}) {
    return new Server({ data, settings: SETTINGS, env });
}

/** Starts a server that may die before it is ready, if its crash point lies on the way. */
async function startDoomed(plan) {
    const server = newServer({ TALLY_CRASH_POINT: `${plan.how}:${plan.nth}` });
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
    await sleep(between(random, 30, 900));
    if (plan.how === 'SIGTERM') await server.stop();
    else await server.kill();
    return true;
}

async function loadAndEnd(plan, workers) {
    const server = passes.has(plan.how) ? await startDoomed(plan) : await newServer().start();
    if (!server) return 'died while starting';
    let over = false;
    const running = workers.map((worker) => worker.run(server, () => over));
    const reached = await endServer(server, plan);
    over = true;
    await within(20000, 'the workers to stop', Promise.all(running));
    return reached ? '' : 'not passed, killed';
}

/** The restarted server must agree with every worker, now and after one more restart. */
async function compare(workers) {
    const server = await newServer().start();
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

async function openAccounts() {
    const server = await newServer().start();
    await TransferWorker.open(server.tenant('crash'));
    await server.stop();
}

function describePlan(plan) {
    return plan.nth ? `${plan.how}:${plan.nth}` : plan.how;
}

async function runRound(index, workers) {
    const plan = planRound(index);
    const acknowledged = () => workers.reduce((sum, worker) => sum + worker.acknowledgedOps, 0);
    const before = acknowledged();
    let wrong;
    let note = '';
    try {
        note = await loadAndEnd(plan, workers);
        wrong = await compare(workers);
    } catch (error) {
        wrong = [error.stack];
    }
    const verdict = wrong.length ? 'FAILED' : 'ok';
    console.log(`round ${String(index + 1).padStart(3)}  ${describePlan(plan).padEnd(34)} ${String(acknowledged() - before).padStart(7)} ops decided  ${verdict}${note ? `  (${note})` : ''}`);
    for (const sentence of wrong) console.log(`    ${sentence}`);
    return wrong.length === 0;
}

async function main() {
    console.log(`crash test: ${rounds} rounds, seed ${seed}`);
    const workers = makeWorkers();
    await openAccounts();
    let passed = 0;
    let index = 0;
    for (; index < rounds; index++) {
        if (!await runRound(index, workers)) break;
        passed++;
    }
    const failed = index < rounds ? 1 : 0;
    const missed = [...passes].filter(([, count]) => count === 0).map(([name]) => name);
    if (missed.length && !failed && rounds >= CRASH_POINTS.length * 1.5) console.log(`crash points never passed: ${missed.join(', ')}`);
    if (failed) console.log(`stopped; the data is in ${data}, repeat with --seed ${seed}`);
    else removeDirectory(data);
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed;
}

await main();
