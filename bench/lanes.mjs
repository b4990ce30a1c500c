// lanes.mjs -- `make bench-lanes`: exactly-once events with one, two and four lanes.
//
// The same load for each: eight connections that send batches of 5000 for four tenants, one of each of
// four lanes. Servers take turns and stand still in the others'; the median round counts. What a
// thread has used comes from /proc, by its name. A machine with few cores cannot show what lanes are
// for, but it shows what of an event must be done by one thread after the other, and that bounds
// every machine:
//
//   CPU an event       of the whole server: how many events all cores together can do
//   the longest thread the busiest of those that exist once a lane (commit, sync, tend): nothing beside
//                      it can be faster, however many cores there are. Net threads grow with the cores
//
// Writes bench/results/lanes.json and the table in docs/performance.md. QUICK=1: three rounds of 2 s,
// nothing written. BENCH_DIR=DIR is where the data goes (/var/tmp).

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { events, LANE_TENANTS } from './loads.mjs';
import { ROOT, Tally } from './peers.mjs';
import { count, intoDocs, markdownTable, textTable } from './tell.mjs';

const QUICK = ['1', 'true', 'yes'].includes(process.env.QUICK);
const ROUNDS = QUICK ? 3 : 9;
const SECONDS = QUICK ? 2 : 3;
const LANES = [1, 2, 4];
const MUST = 0.9; // of one lane, with four
const CORES = [4, 8, 16];
const OF_A_LANE = ['commit', 'sync', 'tend'];

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];

class Laned extends Tally {
  scope = 'read write admin';

  constructor(directory, lanes) {
    super(path.join(directory, `lanes-${lanes}`));
    this.lanes = lanes;
    this.env = { TALLY_STORE_LANES: String(lanes) };
  }
}

/** Microseconds an event of each thread there is: [{name, us}], the busiest first. */
function used(before, after, ops) {
  const threads = [...after].map(([id, { name, cpuSeconds }]) => ({ name, us: (cpuSeconds - (before.get(id)?.cpuSeconds ?? 0)) / ops * 1e6 }));
  return threads.sort((a, b) => b.us - a.us);
}

async function round(tally) {
  const before = tally.threads();
  const cpuBefore = tally.usage().cpuSeconds;
  const { ops, seconds, failed, p99Ms } = await events(tally, { connections: 2 * LANE_TENANTS.length, seconds: SECONDS, tenants: LANE_TENANTS });
  if (failed) throw new Error(`${failed} batches failed with ${tally.lanes} lanes`);
  const threads = used(before, tally.threads(), ops);
  const sum = (name) => threads.filter((thread) => thread.name === name).reduce((total, { us }) => total + us, 0);
  const longest = threads.find(({ name }) => OF_A_LANE.includes(name));
  return { rate: ops / seconds, p99Ms, us: (tally.usage().cpuSeconds - cpuBefore) / ops * 1e6, net: sum('net'),
    commit: sum('commit'), sync: sum('sync'), tend: sum('tend'), longest: longest.us, longestName: longest.name };
}

/** In turns; whoever has none stands still with all that it puts off. */
async function rounds(servers) {
  const all = new Map(servers.map((tally) => [tally, []]));
  for (let i = 0; i <= ROUNDS; i++) {
    for (const tally of servers) {
      tally.wake();
      const one = await round(tally);
      tally.halt();
      if (i > 0) all.get(tally).push(one); // the first of all finds empty files and caches
    }
  }
  return all;
}

function summarise(lanes, each) {
  const of = (field) => median(each.map((one) => one[field]));
  const rate = of('rate');
  const us = of('us');
  const longest = of('longest');
  const spread = (Math.max(...each.map((one) => one.rate)) - Math.min(...each.map((one) => one.rate))) / rate;
  const most = Object.fromEntries(CORES.map((cores) => [cores, Math.min(cores / us, 1 / longest) * 1e6]));
  return { lanes, rate, spread, p99Ms: of('p99Ms'), us, net: of('net'), commit: of('commit'), sync: of('sync'), tend: of('tend'),
    longest, longestName: each.find((one) => one.longest === longest).longestName, most, rounds: each };
}

const HEAD = ['lanes', 'events/s', 'of one lane', 'spread', 'p99', 'CPU an event', 'net', 'commit', 'sync', 'tend', 'the longest thread',
  ...CORES.map((cores) => `at most, ${cores} cores`)];

function lines(results) {
  const us = (value) => `${value.toFixed(2)} us`;
  return results.map((r) => [String(r.lanes), count(r.rate), (r.rate / results[0].rate).toFixed(2), `${(r.spread * 100).toFixed(0)} %`, `${r.p99Ms.toFixed(1)} ms`,
    us(r.us), us(r.net), us(r.commit), us(r.sync), us(r.tend), `${us(r.longest)} (${r.longestName})`,
    ...CORES.map((cores) => `${(r.most[cores] / 1e6).toFixed(1)} M/s`)]);
}

function verdict(results) {
  const ratio = results.at(-1).rate / results[0].rate;
  return `Four lanes reach ${ratio.toFixed(2)} of one (must: ${MUST}; ${ratio >= MUST ? 'met' : 'NOT MET'}).`;
}

async function main() {
  const directory = mkdtempSync(path.join(process.env.BENCH_DIR ?? '/var/tmp', 'tally-lanes-'));
  chmodSync(directory, 0o755);
  const servers = LANES.map((lanes) => new Laned(directory, lanes));
  const cleanUp = async () => {
    await Promise.allSettled(servers.map((tally) => tally.stop()));
    rmSync(directory, { recursive: true, force: true });
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => cleanUp().then(() => process.exit(1)));
  try {
    for (const tally of servers) {
      await tally.start();
      tally.halt();
    }
    const results = [...await rounds(servers)].map(([tally, each]) => summarise(tally.lanes, each));
    console.log(`${textTable(HEAD, lines(results))}\n\n${verdict(results)}`);
    if (QUICK) return;
    const report = { at: new Date().toISOString(), rounds: ROUNDS, seconds: SECONDS, cpu: os.cpus()[0]?.model.trim(), cores: os.cpus().length, results };
    mkdirSync(path.join(ROOT, 'bench/results'), { recursive: true });
    writeFileSync(path.join(ROOT, 'bench/results/lanes.json'), `${JSON.stringify(report, null, 2)}\n`);
    intoDocs('lanes', `Run of ${report.at.slice(0, 16).replace('T', ' ')} UTC: ${ROUNDS} rounds of ${SECONDS} s each, on ${report.cores} cores (${report.cpu}), beside the client.\n${verdict(results)}\n\n${markdownTable(HEAD, lines(results))}`);
  } finally {
    await cleanUp();
  }
}

await main().catch((error) => {
  console.error(`bench-lanes: ${error.message}`);
  process.exitCode = 1;
});
