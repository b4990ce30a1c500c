// rows.mjs -- what is measured: each row says who does the work, how, and what tally must reach.

import { BATCH, bulk, eventBatch, events, load, LANE_TENANTS, loadAll, MINUTES, pgbench, redisBenchmark, SUM, UPSERT, upsertBatches, YEAR } from './loads.mjs';

export const NAMES = {
  tally: 'tally', 'tally-64': 'tally, 64 connections', limit: 'bare limit', redis: 'Redis, AOF always', 'redis-everysec': 'Redis, AOF everysec',
  'redis-off': 'Redis, AOF off', postgres: 'PostgreSQL', 'postgres-4': 'PostgreSQL, 4 clients', 'postgres-16': 'PostgreSQL, 16 clients',
  node: 'tally on PostgreSQL', 'node-two': 'two nodes on PostgreSQL', lanes: 'tally on PostgreSQL, 4 lanes', full: 'tally on PostgreSQL, many ids',
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

/** The founding SQL, one transaction each, with 1, 4 and 16 clients: the best of them is what counts. */
const BEST = ['postgres', 'postgres-4', 'postgres-16'];
function founding(script, seconds) {
  const clients = { postgres: 1, 'postgres-4': 4, 'postgres-16': 16 };
  return Object.fromEntries(BEST.map((name) => [name, (p) => pgbench(p, { scripts: [script], connections: clients[name], seconds })]));
}

const batches = (seconds) => (p) => events(p, { connections: 4, seconds });
const batchesOfLanes = (seconds) => (p) => events(p, { connections: 8, seconds, tenants: LANE_TENANTS });

/** On PostgreSQL; `ids` is how many the registry called `full` has. */
function rowsOnPostgres(seconds, ids) {
  const increments = { what: 'increment', connections: 64, seconds };
  return [
    {
      id: 'node-single', title: 'on PostgreSQL: single increments, 64 connections', must: {}, marks: [{ of: 'node', against: BEST, must: 3 }],
      run: { node: (p) => load(p, increments), ...founding(UPSERT, seconds) },
    },
    {
      id: 'node-events', title: 'on PostgreSQL: single exactly-once events, 64 connections', must: {}, marks: [{ of: 'node', against: BEST, must: 4 }],
      run: { node: (p) => load(p, { ...increments, what: 'event' }), ...founding(eventBatch(1), seconds) },
    },
    {
      id: 'node-batches', title: `on PostgreSQL: exactly-once events, batches of ${BATCH}`, must: {},
      marks: [{ of: 'node', against: ['postgres'], must: 0.9 }, { of: 'lanes', against: ['postgres'], must: 1.2 }],
      run: { node: batches(seconds), lanes: batchesOfLanes(seconds),
        postgres: (p) => pgbench(p, { scripts: [eventBatch(BATCH)], connections: 2, seconds, each: BATCH }) },
    },
    {
      id: 'node-two', title: 'on PostgreSQL: one lane through two nodes, 64 connections at each', must: {},
      marks: [{ of: 'node-two', against: ['node'], must: 0.6 }],
      run: { node: (p) => load(p, increments), 'node-two': (p) => loadAll([p, ...p.beside], increments) },
    },
    {
      id: 'node-ids', title: `on PostgreSQL: the same batches over ${(ids / 1e6).toLocaleString('en')} million ids`, must: {},
      marks: [{ of: 'full', against: ['node'], must: 0.5 }],
      run: { full: batches(seconds), node: batches(seconds) },
    },
  ];
}

/** Redis's own benchmark against Redis's own protocol. */
function rowsOfRedis(seconds) {
  const row = (id, title, must, options) => {
    const run = (peer) => redisBenchmark(peer, { ...options, seconds });
    return { id, title: `over Redis's protocol, redis-benchmark -c 64: ${title}`, must: { redis: must }, run: { tally: run, redis: run } };
  };
  return [
    row('resp', 'INCR', 1.1, { what: 'incr' }),
    row('resp-pipelined', 'INCR, -P 16', 1.2, { what: 'incr', depth: 16 }),
    row('resp-get', 'GET', 0.9, { what: 'get' }),
    row('resp-get-pipelined', 'GET, -P 16', 0.9, { what: 'get', depth: 16 }),
  ];
}

export function rows(seconds, ids) {
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
    ...rowsOfRedis(seconds),
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
    ...rowsOnPostgres(seconds, ids),
  ];
}
