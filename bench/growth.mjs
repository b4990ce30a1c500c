// growth.mjs -- `make bench-growth`: how tally's cost grows, one curve each.
//
//   ids        events/s against event ids remembered
//   clients    rate and latency against connections
//   ranges     time of a sumRange against the length of its range
//   restart    time from kill -9 to ready against cells, and against the journal's tail
//   memory     resident memory against cells
//   steady     ten minutes of increments and events at half the highest rate: the worst latency
//
// Writes bench/results/growth.json and one SVG a curve. QUICK=1 goes a tenth of the way; ONLY=ids,clients
// does some. Figures are this machine's and this hour's: look at the shape, not the numbers.

import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

import { BATCH, events } from './loads.mjs';
import { ROOT, Tally } from './peers.mjs';
import { curve } from './plot.mjs';

const QUICK = ['1', 'true', 'yes'].includes(process.env.QUICK);
const ONLY = process.env.ONLY ? process.env.ONLY.split(',') : [];
const run = promisify(execFile);
const directory = mkdtempSync(path.join(process.env.BENCH_DIR ?? '/var/tmp', 'tally-growth-'));
chmodSync(directory, 0o755);
const say = (text) => console.log(text);

let servers = 0;

/** A fresh server, stopped and its data gone when `use` is done. */
async function withServer(use) {
  const tally = new Tally(path.join(directory, `tally-${servers++}`));
  try {
    await tally.start();
    return await use(tally);
  } finally {
    await tally.stop();
    rmSync(tally.directory, { recursive: true, force: true });
  }
}

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

const CURVES = {
  async ids() {
    const goal = QUICK ? 5e6 : 50e6;
    return withServer(async (tally) => {
      const points = [];
      for (let ids = 0; ids < goal;) {
        const { ops, seconds } = await events(tally, { connections: 4, seconds: QUICK ? 2 : 5 });
        ids += ops;
        points.push({ x: ids / 1e6, y: ops / seconds });
        say(`  ${(ids / 1e6).toFixed(1)} million ids: ${Math.round(ops / seconds).toLocaleString('en')} events/s`);
      }
      const early = points.find((point) => point.x >= 1) ?? points[0];
      return { title: 'events a second against ids remembered', x: 'million ids', y: 'events/s', points,
        ratio: points.at(-1).y / early.y, must: 'at 50 million at least 0.7 of 1 million',
        memoryPerId: (await metric(tally, 'tally_registry_filter_bytes')) / (await metric(tally, 'tally_registry_ids')) };
    });
  },

  async clients() {
    return withServer(async (tally) => {
      const points = [];
      for (const connections of [1, 16, 64, 256, 1024]) {
        const r = await bench(tally, { connections, seconds: QUICK ? 2 : 8 });
        points.push({ x: connections, y: r.rate, p50Ms: r.p50Ms, p99Ms: r.p99Ms, p999Ms: r.p999Ms });
        say(`  ${connections} connections: ${Math.round(r.rate).toLocaleString('en')}/s, p50 ${r.p50Ms} ms, p99 ${r.p99Ms} ms`);
      }
      const at = (x) => points.find((point) => point.x === x).y;
      return { title: 'increments a second against connections', x: 'connections', y: 'increments/s', log: true, points,
        ratio: at(1024) / at(64), must: 'at 1024 at least as many as at 64' };
    });
  },

  async ranges() {
    const cells = QUICK ? 52560 : 525600;
    return withServer(async (tally) => {
      await makeCells(tally, 'year', 0, cells);
      const points = [];
      for (let length = 60; ; length = Math.min(length * 8, cells)) {
        const query = `/year/sumRange?durationSeconds=60&startTime=0&endTime=${(length - 1) * 60}`;
        await tally.get(query);
        await new Promise((resolve) => setTimeout(resolve, 3000)); // what a first large sum asks for is made meanwhile
        const times = [];
        for (let i = 0; i < 21; i++) {
          const began = performance.now();
          const { net } = await tally.get(query);
          times.push(performance.now() - began);
          if (net !== String(length)) throw new Error(`the sum over ${length} minutes is ${net}`);
        }
        points.push({ x: length, y: times.sort((a, b) => a - b)[10] });
        say(`  ${length} buckets: ${points.at(-1).y.toFixed(2)} ms`);
        if (length === cells) break;
      }
      return { title: 'time of a sumRange against the length of its range', x: 'buckets', y: 'ms', log: true, points };
    });
  },

  async restart() {
    const points = [];
    for (const cells of QUICK ? [1e5, 5e5] : [1e6, 3e6, 10e6]) {
      points.push(await withServer(async (tally) => {
        await makeCells(tally, 'c', 0, cells);
        const seconds = await restartSeconds(tally);
        say(`  ${cells.toLocaleString('en')} cells: ready ${seconds.toFixed(2)} s after kill -9`);
        return { x: cells / 1e6, y: seconds };
      }));
    }
    return { title: 'restart after kill -9 against cells', x: 'million cells', y: 'seconds', points, must: '10 million below 5 s' };
  },

  async tail() {
    const points = [];
    for (const million of QUICK ? [0.1, 0.5] : [0.2, 0.5, 1, 2]) {
      points.push(await withServer(async (tally) => {
        for (let sent = 0; sent < million * 1e6; sent += BATCH) {
          await tally.batch(Array.from({ length: BATCH }, (_, i) => ({ op: 'increment', name: `k${i}`, durationSeconds: 0, timestamp: 0 })));
        }
        const bytes = await metric(tally, 'tally_journal_appended_bytes_total');
        const seconds = await restartSeconds(tally);
        say(`  ${(bytes / 2 ** 20).toFixed(0)} MiB of journal: ready after ${seconds.toFixed(2)} s`);
        return { x: bytes / 2 ** 20, y: seconds };
      }));
    }
    return { title: 'restart after kill -9 against the journal written', x: 'MiB', y: 'seconds', points };
  },

  async memory() {
    return withServer(async (tally) => {
      const points = [{ x: 0, y: resident(tally) / 2 ** 20 }];
      const step = QUICK ? 2e5 : 2e6;
      for (let cells = 0; cells < 5 * step; cells += step) {
        await makeCells(tally, 'm', cells, step);
        points.push({ x: (cells + step) / 1e6, y: resident(tally) / 2 ** 20 });
        say(`  ${((cells + step) / 1e6).toFixed(1)} million cells: ${points.at(-1).y.toFixed(0)} MiB`);
      }
      return { title: 'resident memory against cells (store.cacheBytes 512 MiB)', x: 'million cells', y: 'MiB', points };
    });
  },

  async steady() {
    const seconds = QUICK ? 60 : 600;
    return withServer(async (tally) => {
      const most = await bench(tally, { seconds: 5 });
      const load = events(tally, { connections: 1, seconds });
      const half = await bench(tally, { seconds, rate: Math.round(most.rate / 2) });
      const { ops } = await load;
      say(`  ${Math.round(half.rate).toLocaleString('en')} increments/s of ${Math.round(most.rate).toLocaleString('en')} for ${seconds} s beside `
        + `${Math.round(ops / seconds).toLocaleString('en')} events/s: p50 ${half.p50Ms} ms, p99 ${half.p99Ms} ms, p99.9 ${half.p999Ms} ms, worst ${half.maxMs} ms`);
      return { title: 'steady', points: [], half, most, must: 'no stall above 250 ms' };
    });
  },
};

async function main() {
  const results = path.join(ROOT, 'bench/results');
  mkdirSync(results, { recursive: true });
  const report = {};
  for (const [name, draw] of Object.entries(CURVES)) {
    if (ONLY.length && !ONLY.includes(name)) continue;
    say(`${name}:`);
    report[name] = await draw();
    if (report[name].points.length) writeFileSync(path.join(results, `growth-${name}.svg`), curve(report[name]));
  }
  const file = path.join(results, QUICK ? 'growth-quick.json' : 'growth.json');
  let before = {};
  try {
    before = JSON.parse(readFileSync(file, 'utf8'));
  } catch { /* the first time */ }
  writeFileSync(file, `${JSON.stringify({ ...before, ...report }, null, 2)}\n`);
}

try {
  await main();
} finally {
  rmSync(directory, { recursive: true, force: true });
}
