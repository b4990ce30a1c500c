// rows.mjs -- what is measured: each row says who does the work, how, and what tally must reach.

import { BATCH, bulk, eventBatch, events, load, MINUTES, pgbench, SUM, UPSERT, upsertBatches, YEAR } from './loads.mjs';

export const NAMES = {
  tally: 'tally', 'tally-64': 'tally, 64 connections', limit: 'bare limit', redis: 'Redis, AOF always', 'redis-everysec': 'Redis, AOF everysec',
  'redis-off': 'Redis, AOF off', postgres: 'PostgreSQL',
};

/** Contestants that may lose what they acknowledged: shown, never compared with. */
export const UNSAFE = ['redis-everysec', 'redis-off'];

/** The same load from the same generator for everybody who speaks HTTP or RESP. */
function same(names, options) {
  return Object.fromEntries(names.map((name) => [name, (peer) => load(peer, options)]));
}

/** Reads on one connection while 64 write as fast as they can. */
async function readWhileWriting(tally, path, seconds) {
  const writing = load(tally, { what: 'increment', connections: 64, seconds: seconds + 1 });
  await new Promise((resolve) => setTimeout(resolve, 500));
  const [reads, writes] = await Promise.all([load(tally, { what: path, connections: 1, seconds }), writing]);
  return { ...reads, beside: writes.ops / writes.seconds };
}

export function rows(seconds) {
  const batches = upsertBatches(8);
  const everybody = ['tally', 'limit', 'redis', 'redis-everysec', 'redis-off'];
  const increments = { what: 'increment', seconds };
  const third = Math.max(1, Math.round(seconds / 3));
  return [
    {
      id: 'single', title: 'single durable increments, 64 connections', must: { redis: 1.0, postgres: 5, limit: 0.75 },
      run: { ...same(everybody, { ...increments, connections: 64 }),
        postgres: (p) => pgbench(p, { scripts: [UPSERT], connections: 64, seconds }) },
    },
    {
      id: 'pipelined', title: 'the same, 16-deep pipelining', must: { redis: 1.0 },
      run: same(everybody, { ...increments, connections: 64, depth: 16 }),
    },
    {
      id: 'crowd', title: 'single durable increments, 1024 connections', must: { 'tally-64': 1.0 },
      run: { tally: (p) => load(p, { ...increments, connections: 1024 }), 'tally-64': (p) => load(p, { ...increments, connections: 64 }),
        redis: (p) => load(p, { ...increments, connections: 1024 }) },
    },
    {
      // Nothing but the disk's pace, which changes from second to second: more rounds, and shorter ones.
      id: 'alone', title: 'one connection, one increment at a time', must: { postgres: 1.5 }, rounds: 3,
      run: { ...same(['tally', 'limit', 'redis'], { ...increments, connections: 1, seconds: third }),
        postgres: (p) => pgbench(p, { scripts: [UPSERT], connections: 1, seconds: third }) },
    },
    {
      id: 'bulk', title: `bulk increments, batches of ${BATCH}`, must: { postgres: 10, redis: 3 },
      run: { tally: (p) => bulk(p, { connections: 4, seconds }), redis: (p) => load(p, { ...increments, connections: 64, depth: 16 }),
        postgres: (p) => pgbench(p, { scripts: batches, connections: 2, seconds, each: BATCH }) },
    },
    {
      id: 'events', title: `exactly-once events, two counters each, batches of ${BATCH}`, must: { postgres: 8 },
      run: { tally: (p) => events(p, { connections: 4, seconds }),
        postgres: (p) => pgbench(p, { scripts: [eventBatch(BATCH)], connections: 2, seconds, each: BATCH }) },
    },
    {
      id: 'get', title: 'get, 64 connections', must: { redis: 0.9 },
      run: same(['tally', 'redis'], { what: 'get', connections: 64, seconds }),
    },
    {
      id: 'sum', title: `sumRange over ${MINUTES.toLocaleString('en')} minutes`, must: { postgres: 20 },
      run: { tally: (p) => load(p, { what: YEAR, connections: 1, seconds }),
        postgres: (p) => pgbench(p, { scripts: [SUM], connections: 1, seconds }) },
    },
    {
      id: 'windows', title: 'windows read (7 counters) beside 64 connections that write', must: {}, p99MsBelow: 2,
      run: { tally: (p) => readWhileWriting(p, '/api/windows/bench', seconds) },
    },
  ];
}
