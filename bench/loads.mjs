// loads.mjs -- the load generators, one call each: {ops, seconds, p50Ms, p99Ms, failed}.
//
// bench/load.c drives tally, the bare limit and Redis with the same loop, bench/bulk.c sends large
// batches, pgbench drives PostgreSQL. Each has one thread and picks among the same 10,000 keys.

import { writeFileSync } from 'node:fs';
import path from 'node:path';

import { command, ROOT } from './peers.mjs';

export const KEYS = 10000;
export const BATCH = 5000;
export const MINUTES = 525600; // of a year
export const YEAR = '/api/counters/bench/year/sumRange?durationSeconds=60&startTime=2025-01-01T00:00:00Z&endTime=2025-12-31T23:59:00Z';

/** One of each of four lanes: XXH3_64bits of the names, modulo 4, is 0, 1, 2, 3. */
export const LANE_TENANTS = ['t1', 't0', 't5', 't4'];

const built = (name) => process.env[`${name.toUpperCase()}_BIN`] ?? path.join(ROOT, 'build/bench', name);

/** `what` is increment, get, event or a path to read; `depth` requests go out together. */
export async function load(peer, { what, connections, depth = 1, seconds }) {
  const { hostname, port } = peer.name === 'redis' ? { hostname: '127.0.0.1', port: peer.port } : new URL(peer.url);
  return JSON.parse(await command(built('load'), [peer.name === 'redis' ? 'redis' : 'http', hostname, port, what,
    peer.token ?? '-', connections, depth, KEYS, seconds], { seconds: seconds + 30 }));
}

/**
 * redis-benchmark itself, against Redis or against tally's own Redis port. It counts requests and not time, so a short
 * run says first how many fit into `seconds`.
 */
export async function redisBenchmark(peer, { what, depth = 1, seconds }) {
  const auth = peer.name === 'redis' ? [] : ['-a', peer.token];
  const run = async (requests) => {
    const out = await command('redis-benchmark', ['-h', '127.0.0.1', '-p', peer.respPort ?? peer.port, ...auth, '-t', what, '-c', 64, '-P', depth,
      '-r', KEYS, '-n', requests, '--csv'], { seconds: 4 * seconds + 60 });
    const found = new RegExp(`^"${what.toUpperCase()}",(.*)$`, 'm').exec(out);
    if (!found) throw new Error(`redis-benchmark said no rate: ${out.slice(-300)}`);
    const [rate, , , p50Ms, , p99Ms] = found[1].split(',').map((field) => Number(field.replaceAll('"', '')));
    return { ops: requests, seconds: requests / rate, failed: 0, p50Ms, p99Ms };
  };
  const { ops, seconds: took } = await run(64 * depth * 50);
  return run(Math.ceil((ops / took) * seconds));
}

/** The same on each of several nodes at once; their rates add up. */
export async function loadAll(peers, options) {
  const all = await Promise.all(peers.map((peer) => load(peer, options)));
  const sum = (field) => all.reduce((total, each) => total + each[field], 0);
  const worst = (field) => Math.max(...all.map((each) => each[field]));
  return { ops: sum('ops'), seconds: worst('seconds'), failed: sum('failed'), p50Ms: worst('p50Ms'), p99Ms: worst('p99Ms'),
    clientCpuSeconds: sum('clientCpuSeconds') };
}

export async function bulk(tally, { connections, seconds }) {
  const { hostname, port } = new URL(tally.url);
  return JSON.parse(await command(built('bulk'), [hostname, port, '/api/counters/bench/batch?results=errors', tally.token,
    connections, BATCH, KEYS, seconds], { seconds: seconds + 30 }));
}

/** Events with fresh random UUIDs, batches as NDJSON; connections have the tenants in turn. */
export async function events(tally, { connections, seconds, rate = 0, tenants = ['bench'] }) {
  const { hostname, port } = new URL(tally.url);
  const paths = tenants.map((tenant) => `/api/events/${tenant}?results=errors`).join(',');
  return JSON.parse(await command(built('bulk'), [hostname, port, paths, tally.token,
    connections, BATCH, KEYS, seconds, rate], { seconds: seconds + 30 }));
}

/** `scripts` are SQL texts taken at random; each transaction counts as `each` operations. */
export async function pgbench(postgres, { scripts, connections, seconds, each = 1 }) {
  const files = scripts.flatMap((text, i) => {
    const file = path.join(path.dirname(postgres.directory), `pgbench-${i}.sql`);
    writeFileSync(file, text);
    return ['-f', file];
  });
  const out = await command(path.join(postgres.bin, 'pgbench'), ['-n', '-M', 'prepared', '-h', postgres.directory,
    '-U', 'postgres', '-c', connections, '-j', 1, '-T', seconds, ...files, 'postgres'], { seconds: seconds + 30 });
  const number = (pattern) => Number(pattern.exec(out)?.[1] ?? NaN);
  const rate = number(/^tps = ([\d.]+)/m);
  if (!(rate > 0)) throw new Error(`pgbench said: ${out.slice(0, 300)}`);
  return { ops: Math.round(rate * seconds * each), seconds, p50Ms: number(/^latency average = ([\d.]+)/m),
    p99Ms: null, failed: number(/^number of failed transactions: (\d+)/m) || 0 };
}

// ---- the seed's table, and the same work as SQL ----

export const TABLE = `
  CREATE TABLE counters (
    tenant bigint NOT NULL, name text NOT NULL, duration_seconds int NOT NULL, time_start timestamptz NOT NULL,
    added bigint NOT NULL DEFAULT 0, subbed bigint NOT NULL DEFAULT 0, expires_at timestamptz,
    PRIMARY KEY (tenant, name, duration_seconds, time_start), CHECK (added >= subbed)
  ) PARTITION BY HASH (tenant);
  DO $$ BEGIN FOR i IN 0..15 LOOP
    EXECUTE format('CREATE TABLE counters_%s PARTITION OF counters FOR VALUES WITH (MODULUS 16, REMAINDER %s) WITH (fillfactor = 75)', i, i);
  END LOOP; END $$;
  INSERT INTO counters SELECT 1, 'k' || i, 3600, '2026-01-01T00:00:00Z', 1 FROM generate_series(0, ${KEYS - 1}) i;
  INSERT INTO counters SELECT 1, 'year', 60, '2025-01-01T00:00:00Z'::timestamptz + i * interval '1 minute', 1 + i % 7
    FROM generate_series(0, ${MINUTES - 1}) i`;

// ---- exactly-once events as SQL: the registry, the stored event and both counters, one transaction ----

export const EVENT_TABLES = `
  CREATE TABLE event_registry (event_id uuid PRIMARY KEY, first_seen_at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE events (id bigserial PRIMARY KEY, event_id uuid NOT NULL, type text NOT NULL, occurred_at timestamptz NOT NULL,
    dimensions jsonb NOT NULL, payload jsonb);
  CREATE TABLE dimension_counters (counter_name text, dimension_key text, value bigint NOT NULL, updated_at timestamptz NOT NULL,
    PRIMARY KEY (counter_name, dimension_key)) WITH (fillfactor = 75)`;

/** The server makes the ids itself, so nothing is spent on sending them: that favours PostgreSQL. */
export const eventBatch = (size) => `WITH incoming AS MATERIALIZED (
    SELECT gen_random_uuid() AS event_id, 'p' || floor(random() * ${KEYS})::int AS page, 1000 + floor(random() * 9000)::int AS ms
      FROM generate_series(1, ${size})),
  fresh AS (INSERT INTO event_registry (event_id) SELECT event_id FROM incoming ON CONFLICT DO NOTHING RETURNING event_id),
  counted AS MATERIALIZED (SELECT * FROM incoming JOIN fresh USING (event_id)),
  stored AS (INSERT INTO events (event_id, type, occurred_at, dimensions, payload)
    SELECT event_id, 'page.viewed', now(), jsonb_build_object('page', page), jsonb_build_object('ms', ms) FROM counted)
  INSERT INTO dimension_counters
    SELECT 'views', page, count(*), now() FROM counted GROUP BY page
    UNION ALL SELECT 'views_total', '', count(*), now() FROM counted
    ORDER BY 1, 2
    ON CONFLICT (counter_name, dimension_key) DO UPDATE
      SET value = dimension_counters.value + excluded.value, updated_at = excluded.updated_at;\n`;

const ADD = 'ON CONFLICT (tenant, name, duration_seconds, time_start) DO UPDATE SET added = counters.added + excluded.added';

export const UPSERT = `\\set k random(0, ${KEYS - 1})
INSERT INTO counters (tenant, name, duration_seconds, time_start, added)
  VALUES (1, 'k' || :k, 3600, '2026-01-01T00:00:00Z', 1) ${ADD} RETURNING added, subbed;\n`;

/** Different batches of 5000 random keys, summed and sorted first: one row may be met only once. */
export function upsertBatches(count) {
  return Array.from({ length: count }, () => {
    const names = Array.from({ length: BATCH }, () => `k${Math.floor(Math.random() * KEYS)}`);
    return `INSERT INTO counters (tenant, name, duration_seconds, time_start, added)
  SELECT 1, name, 3600, '2026-01-01T00:00:00Z', count(*) FROM unnest('{${names}}'::text[]) name
  GROUP BY name ORDER BY name ${ADD};\n`;
  });
}

export const SUM = `SELECT sum(added) - sum(subbed), sum(added), sum(subbed) FROM counters
  WHERE tenant = 1 AND name = 'year' AND duration_seconds = 60
    AND time_start BETWEEN '2025-01-01T00:00:00Z' AND '2025-12-31T23:59:00Z';\n`;
