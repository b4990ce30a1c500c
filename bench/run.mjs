// run.mjs -- `make bench`: tally against Redis, PostgreSQL and the bare limit, on this machine, now.
//
// Figures of one run are comparable with each other and with nothing else, so every judgement is a
// ratio. Contestants take turns (A B C A B C ...), the median round counts and the spread is shown.
// Those that are compared with keep what they acknowledge: Redis with appendfsync always, PostgreSQL
// as it comes, and so does the one that tally itself uses in the last rows, all on the same disk.
// Writes bench/results/<full|quick>.json and bench.svg, and puts the tables into docs/performance.md.
//
//   QUICK=1         fewer, shorter rounds: under 5 minutes
//   ONLY=single,get some rows only             SKIP=postgres  without that contestant; neither writes
//   BENCH_DIR=DIR   where the data goes (default: a new directory in /var/tmp)

import { mkdirSync, mkdtempSync, chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { EVENT_TABLES, KEYS, MINUTES, TABLE } from './loads.mjs';
import { Cluster, Node } from './databases.mjs';
import { Limit, Postgres, Redis, ROOT, Tally } from './peers.mjs';
import { plot } from './plot.mjs';
import { NAMES, rows, UNSAFE } from './rows.mjs';
import { asMarkdown, asText, intoDocs, verdictLine } from './tell.mjs';

const QUICK = ['1', 'true', 'yes'].includes(process.env.QUICK);
const ROUNDS = QUICK ? 3 : 9; // many and short: a neighbour on the machine disturbs some, seldom most
const SECONDS = QUICK ? 2 : 3;
const IDS = QUICK ? 1e6 : 12e6; // of the registry that is called full
const words = (text) => (text ? text.split(',') : []);
const ONLY = words(process.env.ONLY);
const SKIP = words(process.env.SKIP);
const HOUR = { durationSeconds: 3600, timestamp: '2026-01-01T00:00:00Z' };
const progress = (text) => process.stderr.isTTY && process.stderr.write(`\r\x1b[K${text}`);

// ---- what every contestant holds before the clock starts: 10,000 keys and one year of minutes ----

/** What redis-benchmark gets, and bench/load.c. */
const REDIS_KEYS = Array.from({ length: KEYS }, (_, i) => `key:${String(i).padStart(12, '0')}`);

const LOAD = {
  async tally(tally) {
    await tally.batch(Array.from({ length: KEYS }, (_, i) => ({ op: 'increment', name: `k${i}`, ...HOUR })));
    const first = Date.parse('2025-01-01T00:00:00Z') / 1000;
    let sum = 0;
    for (let i = 0; i < MINUTES; i++) sum += 1 + (i % 7);
    for (let at = 0; at < MINUTES; at += 50000) {
      await tally.batch(Array.from({ length: Math.min(50000, MINUTES - at) }, (_, i) => ({
        op: 'increment', name: 'year', durationSeconds: 60, timestamp: first + (at + i) * 60, amount: 1 + ((at + i) % 7),
      })));
    }
    const range = 'durationSeconds=60&startTime=2025-01-01T00:00:00Z&endTime=2025-12-31T23:59:00Z';
    const { net } = await tally.get(`/year/sumRange?${range}`);
    if (net !== String(sum)) throw new Error(`tally says the year's sum is ${net}, it is ${sum}`);
    await tally.event({ eventId: 'first', type: 'window.touched' });
    await tally.batch(REDIS_KEYS.map((name) => ({ op: 'increment', name, durationSeconds: 0, timestamp: 0 })));
  },
  async redis(redis) {
    await redis.cli('MSET', ...REDIS_KEYS.flatMap((key) => [key, '1']));
  },
  async postgres(postgres) {
    await postgres.sql(TABLE);
    await postgres.sql(EVENT_TABLES);
    await postgres.sql('VACUUM ANALYZE counters');
  },
  async limit() {},
  async node(node) {
    const keys = Array.from({ length: KEYS }, (_, i) => ({ op: 'increment', name: `k${i}`, ...HOUR }));
    await node.batch(keys);
    if (node.ids) await node.remember(node.ids);
  },
};

const load = (peer) => (peer instanceof Node ? LOAD.node : LOAD[peer.name])(peer);

// ---- measuring ----

async function measure(row, contestant, peer) {
  peer.forgetPeak();
  const before = peer.usage();
  const result = await row.run[contestant](peer);
  const after = peer.usage();
  if (result.failed) throw new Error(`${contestant}: ${result.failed} of ${result.ops} failed in "${row.title}"`);
  const ops = result.ops + (result.beside ?? 0) * result.seconds; // what else the server did meanwhile
  return {
    rate: result.ops / result.seconds, p50Ms: result.p50Ms, p99Ms: result.p99Ms, beside: result.beside,
    cpuSecondsPerMillion: (after.cpuSeconds - before.cpuSeconds) / (ops / 1e6),
    clientCpuSecondsPerMillion: result.clientCpuSeconds && result.clientCpuSeconds / (result.ops / 1e6),
    writtenBytesPerOp: (after.writtenBytes - before.writtenBytes) / ops,
    peakBytes: peer.name === 'postgres' ? null : peer.peakBytes(), // its processes share most of theirs
  };
}

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];

function summarise(rounds) {
  const rates = rounds.map((round) => round.rate);
  const rate = median(rates);
  const typical = rounds.find((round) => round.rate === rate);
  const p99Ms = rounds[0].p99Ms == null ? null : median(rounds.map((round) => round.p99Ms));
  return { ...typical, p99Ms, rates, spread: (Math.max(...rates) - Math.min(...rates)) / rate };
}

/** tally-64 is tally once more, with another load; and so are others. */
function peerOf(peers, contestant) {
  const named = (name) => peers.find((peer) => (peer.id ?? peer.name) === name);
  return named(contestant) ?? named(contestant.replace(/-.*/, ''));
}

async function runRow(row, peers) {
  const contestants = Object.keys(row.run).filter((name) => peerOf(peers, name));
  const rounds = Object.fromEntries(contestants.map((name) => [name, []]));
  const all = ROUNDS * (row.rounds ?? 1);
  for (let round = 0; round < all; round++) {
    for (const name of contestants) {
      progress(`${row.title}: round ${round + 1} of ${all}, ${NAMES[name]}`);
      rounds[name].push(await measure(row, name, peerOf(peers, name)));
    }
  }
  const results = Object.fromEntries(Object.entries(rounds).map(([name, each]) => [name, summarise(each)]));
  return { id: row.id, title: row.title, results, verdicts: judge(row, results) };
}

function judge(row, results) {
  const verdicts = Object.entries(row.must).filter(([peer]) => results[peer] && results.tally).map(([peer, must]) => {
    const ratio = results.tally.rate / results[peer].rate;
    return { peer, ratio, must, met: ratio >= must };
  });
  for (const { of, against, must } of row.marks ?? []) {
    const best = against.filter((name) => results[name]).sort((a, b) => results[b].rate - results[a].rate)[0];
    if (!best || !results[of]) continue;
    const ratio = results[of].rate / results[best].rate;
    verdicts.push({ of, peer: best, ratio, must, met: ratio >= must });
  }
  if (row.p99MsBelow) verdicts.push({ p99Ms: results.tally.p99Ms, below: row.p99MsBelow, met: results.tally.p99Ms < row.p99MsBelow });
  return verdicts;
}

// ---- telling ----

function machine(directory) {
  const cpu = os.cpus();
  return { cpu: cpu[0]?.model.trim(), cores: cpu.length, memoryGiB: Math.round(os.totalmem() / 2 ** 30), kernel: os.release(), disk: diskOf(directory) };
}

function diskOf(directory) {
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n').map((line) => line.split(' '));
  const home = mounts.filter(([, at]) => at && `${directory}/`.startsWith(at === '/' ? '/' : `${at}/`)).sort((a, b) => b[1].length - a[1].length)[0];
  return home?.[2];
}

function write(report) {
  const results = path.join(ROOT, 'bench/results');
  mkdirSync(results, { recursive: true });
  writeFileSync(path.join(results, `${report.name}.json`), `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(path.join(results, 'bench.svg'), plot(report, NAMES, UNSAFE));
  intoDocs('bench', asMarkdown(report));
  console.log(`\nWritten: bench/results/${report.name}.json, bench/results/bench.svg and the tables in docs/performance.md`);
}

// ---- all of it ----

function dataDirectory() {
  const directory = mkdtempSync(path.join(process.env.BENCH_DIR ?? '/var/tmp', 'tally-bench-'));
  chmodSync(directory, 0o755); // PostgreSQL's user has to pass through
  if (diskOf(directory) === 'tmpfs') console.log(`${directory} is in memory: a sync costs nothing there. Set BENCH_DIR to a disk.`);
  return directory;
}

/** Those that the chosen rows need. */
function contestants(directory, chosen) {
  const at = (name) => path.join(directory, name);
  const cluster = new Cluster(at('cluster'));
  const all = [new Tally(at('tally')), new Limit(at('limit')), new Redis(at('redis')), new Redis(at('redis-everysec'), 'everysec'),
    new Redis(at('redis-off'), 'off'), new Postgres(at('postgres')), new Node('node', at('node'), { cluster, nodes: 2 }),
    new Node('lanes', at('lanes'), { cluster, lanes: 4 }), new Node('full', at('full'), { cluster, ids: IDS })];
  const wanted = new Set(chosen.flatMap((row) => Object.keys(row.run).map((name) => peerOf(all, name))));
  return all.filter((peer) => wanted.has(peer) && !SKIP.includes(peer.id ?? peer.name));
}

async function main() {
  const directory = dataDirectory();
  const chosen = rows(SECONDS, IDS).filter((each) => ONLY.length === 0 || ONLY.includes(each.id));
  const peers = contestants(directory, chosen);
  const cleanUp = async () => {
    await Promise.allSettled(peers.map((peer) => peer.stop()));
    rmSync(directory, { recursive: true, force: true });
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => cleanUp().then(() => process.exit(1)));
  try {
    for (const peer of peers) {
      progress(`starting ${NAMES[peer.id ?? peer.name]}`);
      await peer.start();
      await load(peer);
    }
    const report = { name: QUICK ? 'quick' : 'full', at: new Date().toISOString(), rounds: ROUNDS, seconds: SECONDS, machine: machine(directory), rows: [] };
    for (const row of chosen) {
      report.rows.push(await runRow(row, peers));
      for (const verdict of report.rows.at(-1).verdicts) process.stderr.isTTY || console.error(verdictLine(report.rows.at(-1), verdict));
    }
    progress('');
    console.log(asText(report));
    if (ONLY.length === 0 && SKIP.length === 0) write(report);
  } finally {
    await cleanUp();
  }
}

await main().catch((error) => {
  progress('');
  console.error(`bench: ${error.message}`);
  process.exitCode = 1;
});
