// reconcile.mjs -- `make bench-reconcile`: the load of seed 002 (S2-42, S2-43).
//
// One conversation with 113,000 votes in a real PostgreSQL. 200 very active users: each casts votes, as 200
// sessions of pgbench do on the database's side, posts them to tally and reads the conversation's counters. The
// original failed at 28 users, because every vote locked the conversation's row. Here nobody locks anything:
// sessions of PostgreSQL that wait for a lock are sampled all the while and there must be none. Reads must stay
// below 100 ms at p95, and after the last vote the counters must be right within minInterval (20 s), one scan (2 s)
// and the time of a count. QUICK=1 takes 10 seconds of load instead of 40.

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { command, Postgres, ROOT, Tally } from './peers.mjs';

const QUICK = ['1', 'true', 'yes'].includes(process.env.QUICK);
const USERS = 200;
const VOTES = 113000;
const SECONDS = QUICK ? 10 : 40;
const VOTES_PER_SECOND = 400; // written to PostgreSQL: two a second by each user
const PAUSE_MS = 500; // of a user between two votes
const HEALED_SECONDS = 20 + 2 + 3; // minInterval, a scan, and the count itself on a busy machine (A-16b)

const SCHEMA = `
  CREATE TABLE conversation (id text PRIMARY KEY);
  CREATE TABLE opinion (id serial PRIMARY KEY, conversation_id text NOT NULL REFERENCES conversation);
  CREATE TABLE vote (id bigserial PRIMARY KEY, conversation_id text NOT NULL REFERENCES conversation, author_id int NOT NULL);
  CREATE INDEX ON vote (conversation_id, author_id);
  INSERT INTO conversation VALUES ('c1');
  INSERT INTO opinion (conversation_id) SELECT 'c1' FROM generate_series(1, 500);
  INSERT INTO vote (conversation_id, author_id) SELECT 'c1', n % 2000 FROM generate_series(1, ${VOTES}) n;
  ANALYZE;`;
const VOTE = `\\set author random(1, 3000)
INSERT INTO vote (conversation_id, author_id) VALUES ('c1', :author);\n`;

const directory = mkdtempSync(path.join(process.env.BENCH_DIR ?? '/var/tmp', 'tally-reconcile-'));
chmodSync(directory, 0o755);
const postgres = new Postgres(path.join(directory, 'pg'));
const tally = new Tally(path.join(directory, 'tally'));

// One connection a user. Not fetch: at 800 requests a second its own work would be what is measured.
const agent = new http.Agent({ keepAlive: true, maxSockets: USERS + 1 });

function send(method, target, text) {
  const headers = { Authorization: `Bearer ${tally.token}` };
  if (text) Object.assign(headers, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) });
  return new Promise((resolve, reject) => {
    const request = http.request(tally.url + target, { method, headers, agent }, (reply) => {
      let said = '';
      reply.setEncoding('utf8').on('data', (part) => (said += part)).on('error', reject)
        .on('end', () => resolve({ status: reply.statusCode, said }));
    });
    request.on('error', reject).end(text);
  });
}

async function call(method, target, body) {
  const text = body && JSON.stringify(body);
  const began = performance.now();
  const { status, said } = await send(method, target, text);
  const ms = performance.now() - began;
  if (status !== 200) throw new Error(`${method} ${target}: ${status} ${said}`);
  return { answer: JSON.parse(said), ms };
}

const COUNTERS = ['opinion_count', 'vote_count', 'participant_count'];
const read = () => call('POST', '/api/counters/bench/query',
  { queries: COUNTERS.map((name) => ({ get: { name, dimensions: { conversation: 'c1' } } })) });
const counts = async () => (await read()).answer.results.map((result) => Number(result.net)).join(' ');

async function truth() {
  const text = await postgres.sql(`COPY (SELECT (SELECT count(*) FROM opinion WHERE conversation_id = 'c1'),
    (SELECT count(*) FROM vote WHERE conversation_id = 'c1'),
    (SELECT count(DISTINCT author_id) FROM vote WHERE conversation_id = 'c1')) TO STDOUT`);
  return text.trim().split('\t').join(' ');
}

/** One user until `end`: a vote, a look at the counters, a moment's thought. */
async function user(number, end, times) {
  await sleep(Math.random() * PAUSE_MS);
  for (let i = 0; Date.now() < end; i++) {
    const event = { eventId: `u${number}-${i}`, type: 'vote.cast', dimensions: { conversation: 'c1' } };
    times.posts.push((await call('POST', '/api/events/bench', event)).ms);
    times.reads.push((await read()).ms);
    await sleep(PAUSE_MS);
  }
}

/** Sessions that wait for a heavyweight lock, looked at again and again until `load` is over. */
async function watchLocks(load) {
  const seen = { samples: 0, waiting: 0, examples: new Set() };
  let over = false;
  load.finally(() => (over = true)).catch(() => {});
  while (!over) {
    const text = await postgres.sql(`COPY (SELECT left(query, 80) FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' OR pid IN (SELECT pid FROM pg_locks WHERE NOT granted)) TO STDOUT`);
    const queries = text.split('\n').filter(Boolean);
    seen.samples++;
    seen.waiting += queries.length;
    for (const query of queries) seen.examples.add(query);
    await sleep(500);
  }
  return { ...seen, examples: [...seen.examples] };
}

/** pgbench's 200 sessions, at a rate; resolves to how many votes they wrote. */
async function writeVotes() {
  const script = path.join(directory, 'vote.sql');
  writeFileSync(script, VOTE);
  const said = await command(path.join(postgres.bin, 'pgbench'), ['-h', postgres.directory, '-U', 'postgres', '-n', '-M', 'prepared',
    '-c', String(USERS), '-j', '2', '-T', String(SECONDS), '-R', String(VOTES_PER_SECOND), '-f', script, 'postgres'],
  { seconds: SECONDS + 60 });
  return Number(/transactions actually processed: (\d+)/.exec(said)[1]);
}

const percentile = (times, share) => times.sort((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * share))];
const round = (ms) => Math.round(ms * 10) / 10;
const summary = (times) => ({ count: times.length, p50: round(percentile(times, 0.5)), p95: round(percentile(times, 0.95)), p99: round(percentile(times, 0.99)) });

async function load() {
  const times = { reads: [], posts: [] };
  const end = Date.now() + SECONDS * 1000;
  const users = Promise.all(Array.from({ length: USERS }, (_, number) => user(number, end, times)));
  const written = writeVotes();
  const locks = await watchLocks(Promise.all([users, written]));
  await users;
  return { votesWritten: await written, reads: summary(times.reads), posts: summary(times.posts), locks };
}

/** Seconds from the last write until tally shows the truth. */
async function heal() {
  const wanted = await truth();
  const began = performance.now();
  await call('POST', '/api/reconcile/bench/conversation/request', { conversation: 'c1' });
  while ((await counts()) !== wanted) {
    if (performance.now() - began > 120000) throw new Error(`still ${await counts()}, not ${wanted}`);
    await sleep(100);
  }
  return { counters: wanted, seconds: round((performance.now() - began) / 1000) };
}

try {
  postgres.settings = { max_connections: USERS + 40 };
  await postgres.start();
  await postgres.sql(SCHEMA);
  tally.config = path.join(ROOT, 'bench/reconcile.yaml');
  tally.env = { SOURCE_DSN: `host=${postgres.directory} user=postgres dbname=postgres` };
  await tally.start();
  await call('POST', '/api/reconcile/bench/conversation/run', { conversation: 'c1' });
  console.log(`${USERS} users on one conversation with ${VOTES} votes, ${SECONDS} s`);
  const result = await load();
  result.healed = await heal();
  const musts = {
    'reads below 100 ms at p95': result.reads.p95 < 100,
    'no session of PostgreSQL waited for a lock': result.locks.waiting === 0,
    [`counters right within ${HEALED_SECONDS} s`]: result.healed.seconds <= HEALED_SECONDS,
  };
  console.log(`votes written to PostgreSQL   ${result.votesWritten}`);
  for (const what of ['reads', 'posts']) {
    const { count, p50, p95, p99 } = result[what];
    console.log(`${what} ${String(count).padStart(29 - what.length)}   p50 ${p50} ms, p95 ${p95} ms, p99 ${p99} ms`);
  }
  console.log(`lock waits                    ${result.locks.waiting} in ${result.locks.samples} looks ${result.locks.examples.join('; ')}`);
  console.log(`right after                   ${result.healed.seconds} s (${result.healed.counters})`);
  for (const [must, held] of Object.entries(musts)) console.log(`${held ? 'held ' : 'MISSED'} ${must}`);
  mkdirSync(path.join(ROOT, 'bench/results'), { recursive: true });
  writeFileSync(path.join(ROOT, 'bench/results/reconcile.json'), `${JSON.stringify({ users: USERS, votes: VOTES, seconds: SECONDS, ...result, musts }, null, 2)}\n`);
  if (Object.values(musts).includes(false)) process.exitCode = 1;
} finally {
  agent.destroy();
  await tally.stop().catch((error) => console.error(error.message));
  await postgres.stop();
  rmSync(directory, { recursive: true, force: true });
}
