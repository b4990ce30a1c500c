// peers.mjs -- the servers that are measured: tally, the bare limit, Redis and PostgreSQL.
//
// Each has a start() and a stop(), keeps its data below one directory, listens on the loopback or on
// a socket in that directory, and tells what its processes have used so far. Nothing that runs on the
// machine already is touched: only processes started here are ended, by their ids.

import { execFile, execFileSync, spawn } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));
const CLOCK_TICKS = 100; // per second, in /proc; fixed on Linux
const run = promisify(execFile);

/** Runs a program to its end and gives its stdout. Bounded in time; an error carries its stderr. */
export async function command(program, args, { seconds = 60, ...options } = {}) {
  const limits = { timeout: seconds * 1000, killSignal: 'SIGKILL', maxBuffer: 1 << 28 };
  try {
    return (await run(program, args, { ...limits, ...options })).stdout;
  } catch (error) {
    throw new Error(`${path.basename(program)}: ${error.stderr?.trim().slice(0, 600) || error.message}`);
  }
}

export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function until(what, milliseconds, test) {
  for (const end = Date.now() + milliseconds; Date.now() < end; ) {
    if (await test().catch(() => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${what} did not happen within ${milliseconds / 1000} s`);
}

// ---- what processes use ----

function stat(pid) { // after the name, which may contain anything: state ppid ... utime stime cutime cstime
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ').map(Number);
  return { parent: fields[1], own: fields[11] + fields[12], ended: fields[13] + fields[14] };
}

function quietly(read, fallback) {
  try {
    return read();
  } catch {
    return fallback; // the process has ended since it was listed
  }
}

function childrenOf(pid) {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number)
    .filter((each) => quietly(() => stat(each).parent, 0) === pid);
}

/** CPU seconds and bytes written by a process and its children, also those that have ended. */
function usageOf(pid) {
  const pids = [pid, ...childrenOf(pid)];
  const ticks = pids.reduce((sum, each) => sum + quietly(() => stat(each).own, 0), stat(pid).ended);
  const written = pids.reduce((sum, each) => sum + quietly(() =>
    Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${each}/io`, 'utf8'))[1]), 0), 0);
  return { cpuSeconds: ticks / CLOCK_TICKS, writtenBytes: written };
}

/** CPU seconds of each thread by its number, with its name. */
function threadsOf(pid) {
  return new Map(readdirSync(`/proc/${pid}/task`).map((id) => [id, quietly(() => ({
    name: readFileSync(`/proc/${pid}/task/${id}/comm`, 'utf8').trim(),
    cpuSeconds: Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]) / 1e9,
  }), null)]).filter(([, thread]) => thread));
}

class Peer {
  constructor(directory) {
    this.directory = directory;
    mkdirSync(directory, { recursive: true });
  }

  /** Starts a process that says it is ready by printing what `ready` matches; gives the match. */
  spawn(program, args, { ready, ...options } = {}) {
    this.child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
    this.said = '';
    this.exited = new Promise((resolve) => this.child.on('close', resolve));
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`${this.name} was not ready in time: ${this.said}`)), 30000);
      const hear = (text) => {
        this.said = (this.said + text).slice(-4000);
        const match = ready?.exec(this.said);
        if (match || !ready) {
          clearTimeout(late);
          resolve(match);
        }
      };
      this.child.on('error', reject).on('exit', (code) => reject(new Error(`${this.name} ended (${code}): ${this.said}`)));
      this.child.stdout.on('data', hear);
      this.child.stderr.on('data', hear);
      if (!ready) hear('');
    });
  }

  usage() {
    return usageOf(this.pid ?? this.child.pid);
  }

  threads() {
    return threadsOf(this.pid ?? this.child.pid);
  }

  /** Peak resident memory since the last call of forgetPeak. */
  peakBytes() {
    const status = readFileSync(`/proc/${this.pid ?? this.child.pid}/status`, 'utf8');
    return Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024;
  }

  forgetPeak() {
    quietly(() => writeFileSync(`/proc/${this.pid ?? this.child.pid}/clear_refs`, '5'));
  }

  #tell(signal) {
    const pid = this.pid ?? this.child.pid;
    for (const each of [pid, ...childrenOf(pid)]) quietly(() => process.kill(each, signal));
  }

  /** Stands still, with all it has left to do in the background, until it is woken. */
  halt() {
    this.#tell('SIGSTOP');
  }

  wake() {
    this.#tell('SIGCONT');
  }

  async frozenWhile(use) {
    this.halt();
    try {
      return await use();
    } finally {
      this.wake();
    }
  }

  async stop(signal = 'SIGTERM') {
    if (!this.child || this.child.exitCode !== null) return;
    this.#tell('SIGCONT');
    this.child.kill(signal);
    const late = setTimeout(() => this.child.kill('SIGKILL'), 15000);
    await this.exited;
    clearTimeout(late);
  }
}

// ---- tally ----

function token(secret, payload) {
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(payload)}`;
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}

export class Tally extends Peer {
  name = 'tally';
  config = path.join(ROOT, 'bench/rules.yaml');
  scope = 'read write';
  env = {};

  async start() {
    const secret = randomBytes(32).toString('hex');
    this.token = token(secret, { sub: 'bench', scope: this.scope, exp: Math.floor(Date.now() / 1000) + 7200 });
    const program = path.resolve(ROOT, process.env.TALLY_BIN ?? 'build/tally');
    const args = ['serve', '--config', this.config, '--data', path.join(this.directory, 'data'), '--listen', '127.0.0.1:0',
      '--set', 'resp.listen=127.0.0.1:0'];
    const match = await this.spawn(program, args, {
      ready: /tally ready on (http:\/\/\S+)/,
      env: { ...process.env, ...this.env, TALLY_AUTH_JWTSECRET: secret },
    });
    this.url = match[1];
    this.respPort = Number(/speaking Redis's protocol","address":"[^"]*","port":(\d+)/.exec(this.said)?.[1]);
  }

  async get(path) {
    const reply = await fetch(`${this.url}/api/counters/bench${path}`, { headers: { authorization: `Bearer ${this.token}` } });
    return reply.json();
  }

  async event(event) {
    const reply = await fetch(`${this.url}/api/events/bench`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' },
      body: JSON.stringify(event),
    });
    if (reply.status !== 200) throw new Error(`tally refused an event: ${reply.status} ${await reply.text()}`);
  }

  /** Sends operations as NDJSON; every one of them has to be applied. */
  async batch(ops) {
    const reply = await fetch(`${this.url}/api/counters/bench/batch?results=errors`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.token}`, 'content-type': 'application/x-ndjson' },
      body: ops.map((op) => JSON.stringify(op)).join('\n'),
    });
    const text = await reply.text();
    if (reply.status !== 200 || text.includes('"status"')) {
      throw new Error(`tally refused a batch: ${reply.status} ${text.slice(0, 300)}`);
    }
  }
}

export class Limit extends Peer {
  name = 'limit';
  token = 'a-token-of-about-the-usual-length-so-that-the-requests-are-as-long'.repeat(3);

  async start() {
    const program = path.join(ROOT, 'build/bench/limit');
    const match = await this.spawn(process.env.LIMIT_BIN ?? program, [path.join(this.directory, 'journal')], {
      ready: /limit ready on (http:\/\/\S+)/,
    });
    this.url = match[1];
  }
}

// ---- Redis ----

/** `durability` is always, everysec or off: when what it answers is on disk. */
export class Redis extends Peer {
  constructor(directory, durability = 'always') {
    super(directory);
    this.durability = durability;
    this.id = durability === 'always' ? 'redis' : `redis-${durability}`;
  }

  name = 'redis';

  async start() {
    this.port = await freePort();
    const log = this.durability === 'off' ? ['--appendonly', 'no'] : ['--appendonly', 'yes', '--appendfsync', this.durability];
    await this.spawn('redis-server', ['--port', this.port, '--bind', '127.0.0.1', '--dir', this.directory, '--save', '', ...log],
      { ready: /Ready to accept connections/ });
  }

  cli(...args) {
    return command('redis-cli', ['-p', this.port, ...args]);
  }
}

// ---- PostgreSQL ----

function postgresBin() {
  const root = '/usr/lib/postgresql';
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => b - a) : [];
  if (versions.length === 0) throw new Error('PostgreSQL is not installed: run scripts/deps bench');
  return path.join(root, versions[0], 'bin');
}

/** As it comes, which is durable, with room for its buffers and its log. */
export class Postgres extends Peer {
  name = 'postgres';
  bin = postgresBin();
  settings = {}; // of the server, beside where it listens
  env = {}; // of its process, beside what this one has

  /** PostgreSQL refuses to run as root; then it runs as the user its package made. */
  asOwner(program, args) {
    if (process.getuid() !== 0) return [program, args];
    return ['setpriv', ['--reuid=postgres', '--regid=postgres', '--init-groups', program, ...args]];
  }

  /** Runs a program of PostgreSQL's as the owner of its directory, with that directory as its own. */
  asked(program, args, options = {}) {
    return command(...this.asOwner(path.join(this.bin, program), args), { cwd: this.directory, env: { ...process.env, LC_ALL: 'C' }, ...options });
  }

  ownDirectory() {
    if (process.getuid() !== 0) return;
    const id = (flag) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
    chownSync(this.directory, id('-u'), id('-g'));
  }

  async start() {
    const data = path.join(this.directory, 'data');
    this.ownDirectory();
    await this.asked('initdb', ['-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync', '-E', 'UTF8']);
    await this.startServer();
  }

  /** On the data that is there. */
  async startServer() {
    const data = path.join(this.directory, 'data');
    const options = { cwd: this.directory, env: { ...process.env, LC_ALL: 'C', ...this.env } };
    await this.spawn(...this.asOwner(path.join(this.bin, 'postgres'),
      ['-D', data, '-k', this.directory, ...this.#settings()]), { ready: /ready to accept (read-only )?connections/, ...options });
    await until('PostgreSQL answering', 10000, () => this.sql('SELECT 1'));
  }

  #settings() {
    const all = { listen_addresses: '', shared_buffers: '1GB', max_wal_size: '4GB', ...this.settings };
    return Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  }

  sql(text, seconds = 120) {
    return command('psql', ['-h', this.directory, '-U', 'postgres', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-c', text],
      { seconds });
  }

  /** SIGINT is "fast": it does not wait for clients. SIGQUIT is "immediate", which is a crash. */
  stop(signal = 'SIGINT') {
    return super.stop(signal);
  }
}
