// growth.mjs -- `make bench-growth`: how tally's cost grows, one curve each.
//
//   ids        events/s against event ids remembered, 1 to 50 million         (about 5 minutes)
//   sustained  the same beside PostgreSQL, until both remember 30 million     (15 minutes, in one go)
//   clients    latency and rate against connections, 1 to 1024                (1 minute)
//   ranges     time of a sumRange against the length of its range             (1 minute)
//   restart    time from kill -9 to ready against cells, up to 10 million     (5 minutes)
//   tail       time from kill -9 to ready against the journal written         (2 minutes)
//   memory     resident memory against cells, up to 10 million                (3 minutes)
//   database   on PostgreSQL: commits and disk against ids, up to 20 million, with a quarter as many cells (20 minutes)
//   steady     ten minutes at half the highest rates: the worst stall         (10 minutes)
//
// Each writes bench/results/growth-NAME.json and .svg after every point, and docs/performance.md
// says what came out. ONLY=ids,clients does some. A curve that was stopped, by Ctrl-C or because
// BUDGET seconds were over, goes on at the next call where it was; FRESH=1 starts anew. QUICK=1 goes
// a tenth of the way and writes growth-quick-NAME. BENCH_DIR=DIR is where the data goes (/var/tmp).
// Figures are this machine's and this hour's: look at the shape, not the numbers.

import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { open } from 'node:fs/promises';
import { promisify } from 'node:util';

import { Cluster, Node } from './databases.mjs';
import { BATCH, eventBatch, events, EVENT_TABLES, load, pgbench } from './loads.mjs';
import { Postgres, ROOT, Tally } from './peers.mjs';
import { curve } from './plot.mjs';
import { intoDocs } from './tell.mjs';

const on = (name) => ['1', 'true', 'yes'].includes(process.env[name]);
const QUICK = on('QUICK');
const FRESH = on('FRESH');
const ONLY = process.env.ONLY ? process.env.ONLY.split(',') : [];
const DEADLINE = process.env.BUDGET ? Date.now() + process.env.BUDGET * 1000 : Infinity;
const BASE = process.env.BENCH_DIR ?? '/var/tmp';
const RESULTS = path.join(ROOT, 'bench/results');
const run = promisify(execFile);
const say = (text) => console.log(`  ${text}`);
const number = (n) => Math.round(n).toLocaleString('en');
const million = (n) => +(n / 1e6).toPrecision(3);

// ---- a curve: its points so far, and where its server keeps its data ----

class Curve {
  constructor(name, about) {
    this.name = name;
    this.file = path.join(RESULTS, `growth-${QUICK ? 'quick-' : ''}${name}`);
    this.directory = path.join(BASE, `tally-growth-${QUICK ? 'quick-' : ''}${name}`);
    const before = FRESH || !existsSync(`${this.file}.json`) ? {} : JSON.parse(readFileSync(`${this.file}.json`, 'utf8'));
    const goOn = before.done === false && existsSync(this.directory);
    if (!goOn) rmSync(this.directory, { recursive: true, force: true });
    Object.assign(this, { report: { ...about, done: false, points: goOn ? before.points : [], kept: goOn ? before.kept : {} } });
    mkdirSync(this.directory, { recursive: true });
    chmodSync(this.directory, 0o755);
  }

  get points() {
    return this.report.points;
  }

  has(x) {
    return this.points.some((point) => point.at === x);
  }

  add(point, text) {
    this.points.push(point);
    say(text);
    this.write();
  }

  write() {
    mkdirSync(RESULTS, { recursive: true });
    writeFileSync(`${this.file}.json`, `${JSON.stringify(this.report, null, 2)}\n`);
    if (this.points.length > 1) writeFileSync(`${this.file}.svg`, curve(this.report));
  }

  /** True: there is no time left for another point. */
  over() {
    if (Date.now() < DEADLINE) return false;
    say('the budget is used up: run it again to go on');
    return true;
  }

  finish(verdict) {
    Object.assign(this.report, verdict, { done: true, finishedAt: new Date().toISOString() });
    this.write();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** A server on this curve's data; `anew`: on none. Stopped when `use` is done. */
  async server(use, anew = false, Peer = Tally) {
    const directory = path.join(this.directory, Peer.name.toLowerCase());
    if (anew) rmSync(directory, { recursive: true, force: true });
    const peer = new Peer(directory);
    running.add(peer);
    try {
      await peer.start();
      return await use(peer);
    } finally {
      await peer.stop();
      running.delete(peer);
    }
  }
}

const running = new Set();

// ---- doing things to a server ----

async function bench(tally, options) {
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const { stdout } = await run(path.resolve(ROOT, process.env.TALLY_BIN ?? 'build/tally'),
    ['bench', '--url', tally.url, '--token', tally.token, '--tenant', 'bench', '--json', ...args]);
  return JSON.parse(stdout);
}

async function metric(tally, name) {
  const text = await (await fetch(`${tally.url}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(text)?.[1] ?? NaN);
}

const resident = (tally) => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${tally.child.pid}/status`, 'utf8'))[1]) * 1024;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The longest that a write and sync of one page took for `ms`, on the same disk: what the machine itself stalls. */
async function worstSync(directory, ms) {
  const file = await open(path.join(directory, 'page'), 'w');
  let worst = 0;
  for (const end = performance.now() + ms; performance.now() < end; await pause(20)) {
    const began = performance.now();
    await file.write(Buffer.alloc(4096), 0, 4096, 0);
    await file.datasync();
    worst = Math.max(worst, performance.now() - began);
  }
  await file.close();
  return worst;
}

/** `count` cells of one counter, a minute each, from `first` on. */
async function makeCells(tally, name, first, count) {
  for (let at = first; at < first + count; at += 50000) {
    await tally.batch(Array.from({ length: Math.min(50000, first + count - at) }, (_, i) => ({
      op: 'increment', name, durationSeconds: 60, timestamp: (at + i) * 60,
    })));
  }
}

async function restartSeconds(tally) {
  tally.child.kill('SIGKILL');
  await tally.exited;
  const began = performance.now();
  await tally.start();
  return (performance.now() - began) / 1000;
}

// ---- the curves ----

const CURVES = {
  async ids() {
    const c = new Curve('ids', { title: 'events a second against ids remembered', x: 'million ids', y: 'events/s' });
    const goal = QUICK ? 5e6 : 50e6;
    await c.server(async (tally) => {
      let ids = c.points.at(-1)?.ids ?? 0;
      while (ids < goal && !c.over()) {
        const { ops, seconds } = await events(tally, { connections: 4, seconds: QUICK ? 2 : 4 });
        ids += ops;
        c.add({ x: ids / 1e6, y: ops / seconds, ids }, `${(ids / 1e6).toFixed(1)} million ids: ${number(ops / seconds)} events/s`);
      }
      if (ids < goal) return;
      const rate = (points) => points.reduce((sum, point) => sum + point.y, 0) / points.length;
      const first = c.points.filter((point) => point.ids <= goal / 10);
      const ratio = rate(c.points.slice(-3)) / rate(first.length ? first : c.points.slice(0, 1));
      const filter = (await metric(tally, 'tally_registry_filter_bytes')) / (await metric(tally, 'tally_registry_ids'));
      c.finish({ result: `the last three steps run at ${ratio.toFixed(2)} of the first tenth; filters take ${filter.toFixed(1)} bytes of memory an id`,
        ratio, must: 'at 50 million at least 0.7 of 1 million', met: ratio >= 0.7 });
    });
  },

  // Ids and cells that were there before are put into the tables; what is measured comes over HTTP.
  async database() {
    const c = new Curve('database', { title: 'on PostgreSQL: a lone event against ids remembered', x: 'million ids', y: 'ms' });
    rmSync(c.directory, { recursive: true, force: true }); // it begins anew: the tables are not kept
    const steps = (QUICK ? [0, 0.5, 1] : [0, 1, 5, 12, 20]).map((n) => n * 1e6).filter((n) => !c.has(n));
    await c.server(async (node) => {
      let ids = 0;
      for (const goal of steps) {
        if (goal > ids) await node.remember(goal - ids);
        if (goal > ids) await node.fillCells(ids / 4, (goal - ids) / 4);
        ids = goal;
        await events(node, { connections: 4, seconds: 2 });
        const batches = await events(node, { connections: 4, seconds: 3 });
        const lone = await load(node, { what: 'event', connections: 1, seconds: 3 });
        const [registry, cells] = [await node.sizes('registry'), await node.sizes('cells')];
        const all = await node.cluster.sql(`COPY (SELECT count(*) FROM ${node.schema}.registry) TO STDOUT`, 600);
        const each = registry.all / all;
        c.add({ at: goal, x: ids / 1e6, y: lone.p50Ms, p99Ms: lone.p99Ms, rate: batches.ops / batches.seconds, registry, cells, ids: Number(all) },
          `${million(ids)} million ids: a lone event ${lone.p50Ms.toFixed(2)} ms (p99 ${lone.p99Ms.toFixed(2)}), ${number(batches.ops / batches.seconds)} events/s in batches,`
          + ` ${each.toFixed(0)} bytes an id (${(registry.indexes / all).toFixed(0)} of index), cells ${million(cells.all)} MB`);
      }
    }, true, class extends Node {
      constructor(directory) {
        super('node', directory, { cluster: new Cluster(path.join(directory, 'cluster')) });
      }
    });
    const [first, last] = [c.points[0], c.points.at(-1)];
    c.finish({ result: `${million(last.at)} million ids: a lone event takes ${last.y.toFixed(2)} ms (${first.y.toFixed(2)} at first), batches run at ${(last.rate / first.rate).toFixed(2)} of the empty registry's rate, an id takes ${(last.registry.all / last.ids).toFixed(0)} bytes` });
  },

  // In turns: PostgreSQL for a while, then tally until it has as many ids. Each stands still in the other's
  // turn: what it puts off, checkpoints and merges, it does in its own time.
  async sustained() {
    const c = new Curve('sustained', { title: 'exactly-once events over 30 million ids', x: 'million ids', y: 'events/s',
      lines: [{ key: 'y', label: 'tally' }, { key: 'postgres', label: 'PostgreSQL' }] });
    c.report.points = [];
    const goal = QUICK ? 3e6 : 30e6;
    const all = { tally: { ops: 0, seconds: 0 }, postgres: { ops: 0, seconds: 0 } };
    const count = (who, { ops, seconds }) => {
      all[who].ops += ops;
      all[who].seconds += seconds;
    };
    const turn = async (tally, postgres) => {
      const theirs = await tally.frozenWhile(() =>
        pgbench(postgres, { scripts: [eventBatch(BATCH)], connections: 2, seconds: QUICK ? 10 : 60, each: BATCH }));
      count('postgres', theirs);
      const before = { ...all.tally };
      await postgres.frozenWhile(async () => {
        do count('tally', await events(tally, { connections: 4, seconds: QUICK ? 1 : 2 }));
        while (all.tally.ops < all.postgres.ops);
      });
      const rates = { y: (all.tally.ops - before.ops) / (all.tally.seconds - before.seconds), postgres: theirs.ops / theirs.seconds };
      c.add({ x: all.postgres.ops / 1e6, ...rates },
        `${(all.postgres.ops / 1e6).toFixed(1)} million ids: tally ${number(rates.y)} events/s, PostgreSQL ${number(rates.postgres)}: ${(rates.y / rates.postgres).toFixed(2)} x`);
    };
    await c.server((tally) => c.server(async (postgres) => {
      await postgres.sql(EVENT_TABLES);
      while (all.postgres.ops < goal && !c.over()) await turn(tally, postgres);
    }, true, Postgres), true);
    if (all.postgres.ops < goal) return;
    const ratio = all.tally.ops / all.tally.seconds / (all.postgres.ops / all.postgres.seconds);
    const last = c.points.at(-1);
    c.finish({ result: `${number(all.tally.ops / all.tally.seconds)} events/s over all, ${ratio.toFixed(2)} x PostgreSQL; at the end ${(last.y / last.postgres).toFixed(2)} x`,
      ratio, must: '8 x PostgreSQL over 30 million', met: ratio >= 8 });
  },

  async clients() {
    const c = new Curve('clients', { title: 'latency of an increment against connections', x: 'connections', y: 'ms', log: true,
      lines: [{ key: 'y', label: 'p50' }, { key: 'p99Ms', label: 'p99' }] });
    await c.server(async (tally) => {
      for (const connections of [1, 16, 64, 256, 1024]) {
        if (c.has(connections)) continue;
        if (c.over()) return;
        const r = await bench(tally, { connections, seconds: QUICK ? 2 : 8 });
        c.add({ at: connections, x: connections, y: r.p50Ms, p99Ms: r.p99Ms, p999Ms: r.p999Ms, rate: r.rate },
          `${connections} connections: ${number(r.rate)}/s, p50 ${r.p50Ms} ms, p99 ${r.p99Ms} ms`);
      }
      const rate = (x) => c.points.find((point) => point.x === x).rate;
      const ratio = rate(1024) / rate(64);
      c.finish({ result: `${c.points.map((point) => `${point.x}: ${number(point.rate)}/s`).join(', ')}; 1024 connections reach ${ratio.toFixed(2)} of 64`,
        ratio, must: 'at 1024 at least as many as at 64', met: ratio >= 1 });
    });
  },

  async ranges() {
    const c = new Curve('ranges', { title: 'time of a sumRange against the length of its range', x: 'buckets', y: 'ms', log: true });
    const cells = QUICK ? 52560 : 525600;
    await c.server(async (tally) => {
      if (!c.points.length) await makeCells(tally, 'year', 0, cells);
      for (let length = 60; length < cells * 8; length *= 8) {
        const size = Math.min(length, cells);
        if (c.has(size)) continue;
        if (c.over()) return;
        const query = `/year/sumRange?durationSeconds=60&startTime=0&endTime=${(size - 1) * 60}`;
        await tally.get(query);
        await pause(3000); // what a first large sum asks for is made meanwhile
        const times = [];
        for (let i = 0; i < 21; i++) {
          const began = performance.now();
          const { net } = await tally.get(query);
          times.push(performance.now() - began);
          if (net !== String(size)) throw new Error(`the sum over ${size} minutes is ${net}`);
        }
        c.add({ at: size, x: size, y: times.sort((a, b) => a - b)[10] }, `${number(size)} buckets: ${times[10].toFixed(2)} ms`);
      }
      c.finish({ result: `${number(cells)} buckets in ${c.points.at(-1).y.toFixed(2)} ms` });
    }, !c.points.length);
  },

  async restart() {
    const c = new Curve('restart', { title: 'restart after kill -9 against cells', x: 'million cells', y: 'seconds' });
    for (const cells of QUICK ? [1e5, 5e5] : [1e6, 3e6, 10e6]) {
      if (c.has(cells)) continue;
      if (c.over()) return;
      await c.server(async (tally) => {
        await makeCells(tally, 'c', 0, cells);
        const seconds = await restartSeconds(tally);
        c.add({ at: cells, x: cells / 1e6, y: seconds }, `${number(cells)} cells: ready ${seconds.toFixed(2)} s after kill -9`);
      }, true);
    }
    c.finish({ result: `${million(c.points.at(-1).at)} million cells: ready after ${c.points.at(-1).y.toFixed(2)} s`,
      must: '10 million below 4 s', met: c.points.at(-1).y < 4 });
  },

  async tail() {
    const c = new Curve('tail', { title: 'restart after kill -9 against the journal written', x: 'MiB', y: 'seconds' });
    for (const ops of QUICK ? [1e5, 5e5] : [2e5, 5e5, 1e6, 2e6]) {
      if (c.has(ops)) continue;
      if (c.over()) return;
      await c.server(async (tally) => {
        for (let sent = 0; sent < ops; sent += BATCH) {
          await tally.batch(Array.from({ length: BATCH }, (_, i) => ({ op: 'increment', name: `k${i}`, durationSeconds: 0, timestamp: 0 })));
        }
        const bytes = await metric(tally, 'tally_journal_appended_bytes_total');
        const seconds = await restartSeconds(tally);
        c.add({ at: ops, x: bytes / 2 ** 20, y: seconds }, `${(bytes / 2 ** 20).toFixed(0)} MiB of journal: ready after ${seconds.toFixed(2)} s`);
      }, true);
    }
    c.finish({ result: `${c.points.at(-1).x.toFixed(0)} MiB: ready after ${c.points.at(-1).y.toFixed(2)} s` });
  },

  async memory() {
    const c = new Curve('memory', { title: 'resident memory against cells (store.cacheBytes 512 MiB)', x: 'million cells', y: 'MiB' });
    const step = QUICK ? 2e5 : 2e6;
    await c.server(async (tally) => {
      if (!c.points.length) c.add({ at: 0, x: 0, y: resident(tally) / 2 ** 20 }, 'no cells');
      for (let cells = c.points.at(-1).at; cells < 5 * step && !c.over(); cells += step) {
        await makeCells(tally, 'm', cells, step);
        const mib = resident(tally) / 2 ** 20;
        c.add({ at: cells + step, x: (cells + step) / 1e6, y: mib }, `${million(cells + step)} million cells: ${mib.toFixed(0)} MiB`);
      }
      if (c.points.at(-1).at < 5 * step) return;
      c.finish({ result: `${million(5 * step)} million cells: ${c.points.at(-1).y.toFixed(0)} MiB` });
    }, !c.points.length);
  },

  // Half of what the machine can do: a quarter of the highest rate of increments, beside a quarter of
  // the highest rate of events. The increments come at their times whether the last were answered or
  // not (an open loop), so a stall is seen by every one that falls into it. On 256 connections: with 64,
  // after a stall they would wait for a free connection and not for the server.
  async steady() {
    const c = new Curve('steady', { title: 'worst latency of an increment in each ten seconds, at half the highest rates', x: 'seconds', y: 'ms',
      lines: [{ key: 'y', label: 'worst' }, { key: 'p99Ms', label: 'p99' }, { key: 'bareMs', label: 'a bare sync beside it, worst' }] });
    const total = QUICK ? 60 : 600;
    await c.server(async (tally) => {
      if (!c.points.length) {
        c.report.kept = { increments: 0, events: 0 };
        for (let round = 0; round < 3; round++) { // the best of three: a neighbour may slow one down
          const { rate } = await bench(tally, { seconds: 3 });
          const { ops, seconds } = await events(tally, { connections: 4, seconds: 3 });
          c.report.kept = { increments: Math.max(c.report.kept.increments, rate), events: Math.max(c.report.kept.events, ops / seconds) };
        }
        await pause(20_000); // until what the highest rates left behind is archived and merged
      }
      const { increments: most, events: mostEvents } = c.report.kept;
      const done = c.points.at(-1)?.x ?? 0;
      const beside = events(tally, { connections: 1, seconds: total - done, rate: mostEvents / 4 });
      beside.catch(() => {});
      for (let at = done; at < total; at += 10) {
        const [r, bareMs] = await Promise.all([bench(tally, { seconds: 10, connections: 256, rate: Math.round(most / 4) }), worstSync(c.directory, 10_000)]);
        c.add({ x: at + 10, y: r.maxMs, p50Ms: r.p50Ms, p99Ms: r.p99Ms, p999Ms: r.p999Ms, rate: r.rate, bareMs },
          `${at + 10} s: ${number(r.rate)} increments/s, p50 ${r.p50Ms} ms, p99 ${r.p99Ms} ms, worst ${r.maxMs} ms; a bare sync ${bareMs.toFixed(0)} ms`);
      }
      const { ops, seconds } = await beside;
      const worst = Math.max(...c.points.map((point) => point.y));
      const bare = Math.max(...c.points.map((point) => point.bareMs));
      const above = Math.max(...c.points.map((point) => point.y - point.bareMs)); // in the same ten seconds
      c.finish({ result: `${total} s of ${number(most / 4)} increments/s beside ${number(ops / seconds)} events/s: the worst took ${worst.toFixed(1)} ms, the worst of bare syncs beside them ${bare.toFixed(1)} ms; in no ten seconds more than ${above.toFixed(1)} ms above the bare sync's worst of these`,
        must: 'at most 100 ms above the bare sync', met: above <= 100 });
    });
  },
};

// ---- all of it ----

/** What every curve has come to, those of earlier calls too. */
function summary() {
  const files = readdirSync(RESULTS).filter((file) => /^growth-(?!quick-)\w+\.json$/.test(file)).sort();
  const reports = files.map((file) => ({ file, ...JSON.parse(readFileSync(path.join(RESULTS, file), 'utf8')) }));
  const lines = reports.map(({ file, title, result, must, met, done, finishedAt }) => [
    `[${title}](../bench/results/${file.replace('.json', '.svg')})`, done ? result : 'not finished', must ? `${must}: ${met ? 'met' : 'NOT MET'}` : '',
    finishedAt?.slice(0, 16).replace('T', ' ') ?? '']);
  if (lines.length === 0) return 'No curve has been drawn yet: `make bench-growth`.';
  return [['curve', 'result', 'must', 'when (UTC)'], ['---', '---', '---', '---'], ...lines].map((line) => `| ${line.join(' | ')} |`).join('\n');
}

async function main() {
  const unknown = ONLY.filter((name) => !CURVES[name]);
  if (unknown.length) throw new Error(`no curve is called ${unknown.join(', ')}; there are ${Object.keys(CURVES).join(', ')}`);
  for (const [name, draw] of Object.entries(CURVES)) {
    if (ONLY.length && !ONLY.includes(name)) continue;
    console.log(`${name}:`);
    await draw();
    if (!QUICK) intoDocs('growth', summary());
  }
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => Promise.allSettled([...running].map((peer) => peer.stop())).then(() => process.exit(1)));
}
await main().catch((error) => {
  console.error(`bench-growth: ${error.message}`);
  process.exitCode = 1;
});
