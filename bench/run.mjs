// run.mjs -- `make bench`: tally against Redis, PostgreSQL and the bare limit, on this machine, now.
//
// Figures of one run are comparable with each other and with nothing else, so every judgement is a
// ratio. Contestants take turns (A B C A B C ...), the median round counts and the spread is shown.
// All keep what they acknowledge: Redis with appendfsync always, PostgreSQL as it comes, all on the
// same disk. Writes bench/results/<full|quick>.json and bench/results/bench.svg.
//
//   QUICK=1         fewer, shorter rounds: under 5 minutes
//   ONLY=single,get some rows only             SKIP=postgres  without that contestant
//   BENCH_DIR=DIR   where the data goes (default: a new directory in /var/tmp)

import { mkdirSync, mkdtempSync, chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { BATCH, bulk, EVENT_TABLES, eventBatch, events, KEYS, MINUTES, pgbench, redisBenchmark, SUM, TABLE, UPSERT, upsertBatches, wrk } from './loads.mjs';
import { Limit, Postgres, Redis, ROOT, Tally } from './peers.mjs';
import { plot } from './plot.mjs';

const QUICK = ['1', 'true', 'yes'].includes(process.env.QUICK);
const ROUNDS = QUICK ? 3 : 5;
const SECONDS = QUICK ? 2 : 6;
const words = (text) => (text ? text.split(',') : []);
const ONLY = words(process.env.ONLY);
const SKIP = words(process.env.SKIP);
const INCR = ['INCR', 'key:__rand_int__'];
const GET = ['GET', 'key:__rand_int__'];
const HOUR = { durationSeconds: 3600, timestamp: '2026-01-01T00:00:00Z' };

// Each row: who does the work, how, and what tally must reach (DESIGN: "How fast it has to be").
const ROWS = [
  {
    id: 'single', title: 'single durable increments, 64 connections',
    must: { redis: 1.0, postgres: 5, limit: 0.75 },
    tally: (p) => wrk(p, { mode: 'increment', connections: 64, seconds: SECONDS }),
    limit: (p) => wrk(p, { mode: 'increment', connections: 64, seconds: SECONDS }),
    redis: (p) => redisBenchmark(p, { words: INCR, connections: 64, seconds: SECONDS, guess: 20000 }),
    postgres: (p) => pgbench(p, { scripts: [UPSERT], connections: 64, seconds: SECONDS }),
  },
  {
    id: 'pipelined', title: 'the same, 16-deep pipelining',
    must: { redis: 1.0 },
    tally: (p) => wrk(p, { mode: 'increment', connections: 64, depth: 16, seconds: SECONDS }),
    limit: (p) => wrk(p, { mode: 'increment', connections: 64, depth: 16, seconds: SECONDS }),
    redis: (p) => redisBenchmark(p, { words: INCR, connections: 64, depth: 16, seconds: SECONDS, guess: 100000 }),
  },
  {
    id: 'alone', title: 'one connection, one increment at a time',
    must: { postgres: 1.5 },
    tally: (p) => wrk(p, { mode: 'increment', connections: 1, seconds: SECONDS }),
    limit: (p) => wrk(p, { mode: 'increment', connections: 1, seconds: SECONDS }),
    redis: (p) => redisBenchmark(p, { words: INCR, connections: 1, seconds: SECONDS, guess: 1000 }),
    postgres: (p) => pgbench(p, { scripts: [UPSERT], connections: 1, seconds: SECONDS }),
  },
  {
    id: 'bulk', title: `bulk increments, batches of ${BATCH}`,
    must: { postgres: 10, redis: 3 },
    tally: (p) => bulk(p, { connections: 4, seconds: SECONDS }),
    redis: (p) => redisBenchmark(p, { words: INCR, connections: 64, depth: 16, seconds: SECONDS, guess: 100000 }),
    postgres: (p) => pgbench(p, { scripts: BATCHES, connections: 2, seconds: SECONDS, each: BATCH }),
  },
  {
    id: 'events', title: `exactly-once events, two counters each, batches of ${BATCH}`,
    must: { postgres: 8 },
    tally: (p) => events(p, { connections: 4, seconds: SECONDS }),
    postgres: (p) => pgbench(p, { scripts: [eventBatch(BATCH)], connections: 2, seconds: SECONDS, each: BATCH }),
  },
  {
    id: 'get', title: 'get, 64 connections',
    must: { redis: 0.9 },
    tally: (p) => wrk(p, { mode: 'get', connections: 64, seconds: SECONDS }),
    redis: (p) => redisBenchmark(p, { words: GET, connections: 64, seconds: SECONDS, guess: 40000 }),
  },
  {
    id: 'sum', title: `sumRange over ${MINUTES.toLocaleString('en')} minutes`,
    must: { postgres: 20 },
    tally: (p) => wrk(p, { mode: 'sum', connections: 1, seconds: SECONDS }),
    postgres: (p) => pgbench(p, { scripts: [SUM], connections: 1, seconds: SECONDS }),
  },
];
const BATCHES = upsertBatches(8);
const NAMES = { tally: 'tally', limit: 'bare limit', redis: 'Redis (AOF always)', postgres: 'PostgreSQL' };

// ---- what every contestant holds before the clock starts: 10,000 keys and one year of minutes ----

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
  },
  async redis(redis) {
    const keys = Array.from({ length: KEYS }, (_, i) => [`key:${String(i).padStart(12, '0')}`, '1']);
    await redis.cli('MSET', ...keys.flat());
  },
  async postgres(postgres) {
    await postgres.sql(TABLE);
    await postgres.sql(EVENT_TABLES);
    await postgres.sql('VACUUM ANALYZE counters');
  },
  async limit() {},
};

// ---- measuring ----

async function measure(row, peer) {
  peer.forgetPeak();
  const before = peer.usage();
  const result = await row[peer.name](peer);
  const after = peer.usage();
  if (result.failed) throw new Error(`${peer.name}: ${result.failed} of ${result.ops} failed in "${row.title}"`);
  return {
    rate: result.ops / result.seconds, p50Ms: result.p50Ms, p99Ms: result.p99Ms,
    cpuUsPerOp: (after.cpuSeconds - before.cpuSeconds) / (result.ops / 1e6),
    writtenBytesPerOp: (after.writtenBytes - before.writtenBytes) / result.ops,
    peakBytes: peer.name === 'postgres' ? null : peer.peakBytes(), // its processes share most of theirs
  };
}

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];

function summarise(rounds) {
  const rates = rounds.map((round) => round.rate);
  const rate = median(rates);
  const typical = rounds.find((round) => round.rate === rate);
  return { ...typical, rates, spread: (Math.max(...rates) - Math.min(...rates)) / rate };
}

async function runRow(row, peers) {
  const contestants = peers.filter((peer) => row[peer.name]);
  const rounds = Object.fromEntries(contestants.map((peer) => [peer.name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const peer of contestants) {
      progress(`${row.title}: round ${round + 1} of ${ROUNDS}, ${NAMES[peer.name]}`);
      rounds[peer.name].push(await measure(row, peer));
    }
  }
  const results = Object.fromEntries(Object.entries(rounds).map(([name, each]) => [name, summarise(each)]));
  return { id: row.id, title: row.title, results, verdicts: judge(row, results) };
}

function judge(row, results) {
  return Object.entries(row.must).filter(([peer]) => results[peer] && results.tally).map(([peer, must]) => {
    const ratio = results.tally.rate / results[peer].rate;
    return { peer, ratio, must, met: ratio >= must };
  });
}

/** For information: what Redis does when it may lose the last second, or everything. */
async function redisUnsafe(redis) {
  const rates = {};
  for (const [name, setting] of [['everysec', ['appendfsync', 'everysec']], ['off', ['appendonly', 'no']]]) {
    progress(`for information: Redis, AOF ${name}`);
    await redis.cli('CONFIG', 'SET', ...setting);
    rates[name] = (await redisBenchmark(redis, { words: INCR, connections: 64, seconds: 2, guess: 50000 })).rate;
  }
  return rates;
}

// ---- telling ----

const progress = (text) => process.stderr.isTTY && process.stderr.write(`\r\x1b[K${text}`);
const count = (n) => (n >= 100 ? Math.round(n).toLocaleString('en') : n.toFixed(1));
const times = (n) => `${n >= 10 ? n.toFixed(0) : n.toFixed(2)} x`;
const bytes = (n) => (n >= 2 ** 20 ? `${(n / 2 ** 20).toFixed(0)} MiB` : `${Math.round(n)} B`);

function table(head, lines) {
  const widths = head.map((_, i) => Math.max(...[head, ...lines].map((line) => line[i].length)));
  const show = (line) => line.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join('  ');
  return [show(head), widths.map((width) => '-'.repeat(width)).join('  '), ...lines.map(show)].join('\n');
}

function verdictText({ peer, ratio, must, met }) {
  const gap = met ? 'met' : `NOT MET, ${((1 - ratio / must) * 100).toFixed(0)} % short`;
  return `${times(ratio)} ${NAMES[peer]}, must ${must}: ${gap}`;
}

function tell(report) {
  const lines = report.rows.flatMap((row) => Object.entries(row.results).map(([name, r], i) => [
    i === 0 ? row.title : '', NAMES[name], `${count(r.rate)}/s`, `${(r.spread * 100).toFixed(0)} %`,
    r.p50Ms ? `${r.p50Ms.toFixed(2)} ms` : '', r.p99Ms ? `${r.p99Ms.toFixed(2)} ms` : '',
    count(r.cpuUsPerOp), `${Math.round(r.writtenBytesPerOp)}`, r.peakBytes ? bytes(r.peakBytes) : '',
  ]));
  console.log(table(['work', 'who', 'rate', 'spread', 'typical', 'p99', 'CPU us/op', 'bytes/op', 'memory'], lines));
  console.log();
  for (const row of report.rows) {
    for (const verdict of row.verdicts) console.log(`${row.title}: ${verdictText(verdict)}`);
  }
  const unsafe = report.redisUnsafe;
  if (unsafe) console.log(`\nFor information: Redis, single increments, AOF everysec ${count(unsafe.everysec)}/s, off ${count(unsafe.off)}/s`);
}

function machine() {
  const cpu = os.cpus();
  return { cpu: cpu[0]?.model, cores: cpu.length, memoryGiB: Math.round(os.totalmem() / 2 ** 30), kernel: os.release() };
}

function write(report) {
  const results = path.join(ROOT, 'bench/results');
  mkdirSync(results, { recursive: true });
  writeFileSync(path.join(results, `${report.name}.json`), `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(path.join(results, 'bench.svg'), plot(report, NAMES));
  console.log(`\nWritten: bench/results/${report.name}.json and bench/results/bench.svg`);
}

// ---- all of it ----

function dataDirectory() {
  const directory = mkdtempSync(path.join(process.env.BENCH_DIR ?? '/var/tmp', 'tally-bench-'));
  chmodSync(directory, 0o755); // PostgreSQL's user has to pass through
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n').map((line) => line.split(' '));
  const home = mounts.filter(([, at]) => at && `${directory}/`.startsWith(at === '/' ? '/' : `${at}/`))
    .sort((a, b) => b[1].length - a[1].length)[0];
  if (home?.[2] === 'tmpfs') console.log(`${directory} is in memory: a sync costs nothing there. Set BENCH_DIR to a disk.`);
  return directory;
}

async function main() {
  const directory = dataDirectory();
  const peers = [Tally, Limit, Redis, Postgres].map((Kind) => new Kind(path.join(directory, Kind.name.toLowerCase())))
    .filter((peer) => !SKIP.includes(peer.name));
  const cleanUp = async () => {
    await Promise.allSettled(peers.map((peer) => peer.stop()));
    rmSync(directory, { recursive: true, force: true });
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => cleanUp().then(() => process.exit(1)));
  try {
    for (const peer of peers) {
      progress(`starting ${NAMES[peer.name]}`);
      await peer.start();
      await LOAD[peer.name](peer);
    }
    const report = { name: QUICK ? 'quick' : 'full', rounds: ROUNDS, seconds: SECONDS, machine: machine(), rows: [] };
    for (const row of ROWS.filter((each) => ONLY.length === 0 || ONLY.includes(each.id))) {
      report.rows.push(await runRow(row, peers));
    }
    const redis = peers.find((peer) => peer.name === 'redis');
    if (redis && ONLY.length === 0) report.redisUnsafe = await redisUnsafe(redis);
    progress('');
    tell(report);
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
