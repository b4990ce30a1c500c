// reconcile.mjs -- `make bench-reconcile`: the load of seed 002 (S2-42, S2-43).
//
// One conversation with 113,000 votes in a real PostgreSQL. 200 very active users: each casts votes, as 200
// sessions of pgbench do on the database's side, posts them to tally and reads the conversation's counters. The
// original failed at 28 users, because every vote locked the conversation's row. Here nobody locks anything:
// sessions of PostgreSQL that wait for a lock are sampled all the while and there must be none. Reads must stay
// below 100 ms at p95, and after the last vote the counters must be right within minInterval (20 s), one scan (2 s)
// and the time of a count. QUICK=1 takes 10 seconds of load instead of 40.
//
// The seed does not say how active "very active" is. Here each user votes twice a second without ever resting,
// which nobody who reads what is voted on can do: 400 votes and 400 reads a second. Users, server and database
// share the machine, and each commit answers many users at the same moment, who then all read: the users are
// therefore bare sockets with requests formatted by hand. With fetch or node:http their own work was most of what
// was measured (it took four times the server's CPU); the output says what everybody took.

import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
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

/** One connection, one request at a time. */
class User {
  constructor() {
    const { hostname, port } = new URL(tally.url);
    this.socket = connect(Number(port), hostname).setNoDelay().setEncoding('latin1');
    this.said = '';
    this.socket.on('data', (part) => this.#hear(part)).on('error', (error) => this.answered?.reject(error))
      .on('close', () => this.answered?.reject(new Error('the server hung up')));
  }

  #hear(part) {
    this.said += part;
    const head = this.said.indexOf('\r\n\r\n');
    if (head < 0) return;
    const size = Number(/content-length: *(\d+)/i.exec(this.said)[1]);
    if (this.said.length < head + 4 + size) return;
    this.answered.resolve({ status: Number(this.said.slice(9, 12)), said: this.said.slice(head + 4, head + 4 + size) });
    this.said = '';
  }

  send(method, target, text = '') {
    this.socket.write(`${method} ${target} HTTP/1.1\r\nHost: tally\r\nAuthorization: Bearer ${tally.token}\r\n`
      + `Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    return new Promise((resolve, reject) => (this.answered = { resolve, reject }));
  }

  async call(method, target, text) {
    const began = performance.now();
    const { status, said } = await this.send(method, target, text);
    if (status !== 200) throw new Error(`${method} ${target}: ${status} ${said}`);
    return { said, ms: performance.now() - began };
  }

  end() {
    this.answered = null;
    this.socket.destroy();
  }
}

const COUNTERS = ['opinion_count', 'vote_count', 'participant_count'];
const READ = JSON.stringify({ queries: COUNTERS.map((name) => ({ get: { name, dimensions: { conversation: 'c1' } } })) });
const read = (user) => user.call('POST', '/api/counters/bench/query', READ);
const counts = async (user) => JSON.parse((await read(user)).said).results.map((result) => Number(result.net)).join(' ');
const ENTITY = JSON.stringify({ conversation: 'c1' });
const reconcile = (user, action) => user.call('POST', `/api/reconcile/bench/conversation/${action}`, ENTITY);

async function truth() {
  const text = await postgres.sql(`COPY (SELECT (SELECT count(*) FROM opinion WHERE conversation_id = 'c1'),
    (SELECT count(*) FROM vote WHERE conversation_id = 'c1'),
    (SELECT count(DISTINCT author_id) FROM vote WHERE conversation_id = 'c1')) TO STDOUT`);
  return text.trim().split('\t').join(' ');
}

/** One user until `end`: a vote, a look at the counters, a moment's thought. */
async function beActive(number, end, times) {
  const user = new User();
  await sleep(Math.random() * PAUSE_MS);
  for (let i = 0; Date.now() < end; i++) {
    const vote = `{"eventId":"u${number}-${i}","type":"vote.cast","dimensions":{"conversation":"c1"}}`;
    times.posts.push((await user.call('POST', '/api/events/bench', vote)).ms);
    times.reads.push((await read(user)).ms);
    await sleep(PAUSE_MS);
  }
  user.end();
}

/** Sessions that wait for a heavyweight lock, looked at again and again until `load` is over. */
async function watchLocks(load, end) {
  const seen = { samples: 0, waiting: 0, examples: new Set() };
  const first = cpu();
  let last = first;
  let over = false;
  load.finally(() => (over = true)).catch(() => {});
  while (!over) {
    const text = await postgres.sql(`COPY (SELECT left(query, 80) FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' OR pid IN (SELECT pid FROM pg_locks WHERE NOT granted)) TO STDOUT`);
    const queries = text.split('\n').filter(Boolean);
    seen.samples++;
    seen.waiting += queries.length;
    for (const query of queries) seen.examples.add(query);
    if (Date.now() < end) last = cpu(); // while pgbench and its sessions are still there
    await sleep(500);
  }
  const used = Object.fromEntries(Object.keys(first).map((who) => [who, round(last[who] - first[who])]));
  return { locks: { ...seen, examples: [...seen.examples] }, cpuSeconds: used };
}

/** Every process there is: its name, its parent, its seconds of CPU. */
function processes() {
  const all = new Map();
  for (const pid of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const [, name, rest] = /\((.*)\) (.*)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'));
      const fields = rest.split(' ');
      all.set(Number(pid), { name, parent: Number(fields[1]), seconds: (Number(fields[11]) + Number(fields[12])) / 100 });
    } catch {
      // It has ended meanwhile.
    }
  }
  return all;
}

/** Seconds of CPU that the users (this process) and what it started have taken so far. */
function cpu() {
  const all = processes();
  const isMine = (entry) => entry && (entry.parent === process.pid || isMine(all.get(entry.parent)));
  const { user, system } = process.cpuUsage();
  const taken = { users: (user + system) / 1e6, tally: 0, postgres: 0, pgbench: 0 };
  for (const entry of all.values()) if (entry.name in taken && isMine(entry)) taken[entry.name] += entry.seconds;
  return taken;
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
  const users = Promise.all(Array.from({ length: USERS }, (_, number) => beActive(number, end, times)));
  const written = writeVotes();
  const watched = await watchLocks(Promise.all([users, written]), end);
  await users;
  return { votesWritten: await written, reads: summary(times.reads), posts: summary(times.posts), ...watched };
}

/** Seconds from the last write until tally shows the truth. */
async function heal(user) {
  const wanted = await truth();
  const began = performance.now();
  await reconcile(user, 'request');
  while ((await counts(user)) !== wanted) {
    if (performance.now() - began > 120000) throw new Error(`still ${await counts(user)}, not ${wanted}`);
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
  const operator = new User();
  await reconcile(operator, 'run');
  console.log(`${USERS} users on one conversation with ${VOTES} votes, ${SECONDS} s`);
  const result = await load();
  result.healed = await heal(operator);
  operator.end();
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
  console.log(`seconds of CPU                ${Object.entries(result.cpuSeconds).map(([who, seconds]) => `${who} ${seconds}`).join(', ')}`);
  console.log(`right after                   ${result.healed.seconds} s (${result.healed.counters})`);
  for (const [must, held] of Object.entries(musts)) console.log(`${held ? 'held ' : 'MISSED'} ${must}`);
  mkdirSync(path.join(ROOT, 'bench/results'), { recursive: true });
  writeFileSync(path.join(ROOT, 'bench/results/reconcile.json'), `${JSON.stringify({ users: USERS, votes: VOTES, seconds: SECONDS, ...result, musts }, null, 2)}\n`);
  if (Object.values(musts).includes(false)) process.exitCode = 1;
} finally {
  await tally.stop().catch((error) => console.error(error.message));
  await postgres.stop();
  rmSync(directory, { recursive: true, force: true });
}
