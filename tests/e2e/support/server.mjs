// server.mjs -- one real tally process on a free port of the loopback, and clients for it.
//
// TALLY_BIN names the program (default: build/tally of this repository). A server that is stopped
// must have exited with 0 and left no sanitizer report, or the test file that used it fails.
//
// TALLY_TEST_STORE=postgres has every server that does not say otherwise keep its data in PostgreSQL: one
// for the test file, and in it a schema for each data directory. So has one whose settings have store.kind
// postgres and no DSN, anyway. TALLY_TEST_LANES=4 gives each server that does
// not say how many lanes it has four of them.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';

import { eventually, within } from './pace.mjs';
import { RawConnection } from './raw.mjs';
import { SECRET, tokenFor } from './tokens.mjs';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
export const TALLY_BIN = path.resolve(ROOT, process.env.TALLY_BIN ?? 'build/tally');

/* The small-world build makes every limit tiny. Those that clients see are given back their documented
 * size, for the tests speak of them; what is inside (commits, segments, caches) stays tiny. */
const SEEN_LIMITS = { 'limits.queueOps': 500000, 'limits.connections': 20000, 'limits.readQueue': 1024, 'limits.tenantStreams': 32 };
/* Two loops also where the machine's cores would give one: connections meet each other. */
const BUILD_SETTINGS = { threads: 2, ...(process.env.TALLY_VARIANT === 'small' ? SEEN_LIMITS : {}) };

/** Servers that do not say otherwise keep their data there. */
export const IN_POSTGRES = process.env.TALLY_TEST_STORE === 'postgres';
export const LANES = Number(process.env.TALLY_TEST_LANES ?? 1);

/** Ids that all tenants share are for one lane (SPEC 11). */
function lanesFor(settings, config) {
    const one = settings['events.idScope'] === 'installation' || /idScope: *installation/.test(config);
    return one ? 1 : LANES;
}

/** For tests that need commits and atomic batches of the documented 5000 operations in every build. */
export const LARGE_COMMITS = { 'journal.segmentBytes': '128MiB', 'limits.batchOps': 5000, 'limits.atomicOps': 5000 };

const SANITIZER = /AddressSanitizer|LeakSanitizer|ThreadSanitizer|UndefinedBehaviorSanitizer|runtime error:/;
const children = new Set();
process.on('exit', () => {
    for (const child of children) child.kill('SIGKILL');
});

export function newDirectory(label = 'data') {
    return mkdtempSync(path.join(tmpdir(), `tally-e2e-${label}-`));
}

export function removeDirectory(directory) {
    rmSync(directory, { recursive: true, force: true });
}

/** A tally process and what it has said so far. `exited` resolves to {code, signal}. */
export function spawnTally(args, { env = {}, descriptors } = {}) {
    const limited = ['bash', '-c', `ulimit -n ${descriptors} && exec "$0" "$@"`, TALLY_BIN, ...args];
    const [program, ...rest] = descriptors ? limited : [TALLY_BIN, ...args];
    const child = spawn(program, rest, {
        env: { ...process.env, ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
    });
    const run = { child, stdout: '', stderr: '' };
    children.add(child);
    child.stdout.setEncoding('utf8').on('data', (text) => (run.stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text) => (run.stderr += text));
    // A server that a failed test forgot must not keep the test file running for ever.
    for (const handle of [child, child.stdout, child.stderr]) handle.unref();
    run.exited = new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (code, signal) => {
            children.delete(child);
            resolve({ code, signal });
        });
    });
    return run;
}

/** Runs a tally command to its end: {code, signal, stdout, stderr}. */
export async function runTally(args, options) {
    const run = spawnTally(args, options);
    try {
        const end = await within(options?.ms ?? 15000, `tally ${args[0]} to end`, run.exited);
        return { ...end, stdout: run.stdout, stderr: run.stderr };
    } finally {
        run.child.kill('SIGKILL');
    }
}

/** A server's data directory stands for what it keeps: here, for a schema. */
const shared = { database: null, schemas: new Map(), shifted: new Map() };

/** Time is the database's: where a test moves the clock (shift.mjs), the data is in a database of its own. */
function databaseOf(data, env) {
    const make = (options) => import('./postgres.mjs').then(({ Database }) => Database.make(options));
    if (!env.TALLY_SHIFT) return (shared.database ??= make());
    if (!shared.shifted.has(data)) shared.shifted.set(data, make({ env }));
    return shared.shifted.get(data);
}

/** What makes a server, or a command, go by the store that `data` stands for. */
export async function storeSettings(settings, data, env = {}) {
    if ((settings['store.kind'] ?? process.env.TALLY_TEST_STORE) !== 'postgres' || settings['store.postgres.dsn']) return {};
    const database = await databaseOf(data, env);
    if (!shared.schemas.has(data)) shared.schemas.set(data, `t${shared.schemas.size}`);
    return {
        'store.kind': 'postgres',
        'store.postgres.dsn': database.dsn,
        'store.postgres.schema': shared.schemas.get(data),
        'store.postgres.unsafe': true,
    };
}

/** Once a server is in it. */
export const sharedDatabase = () => shared.database;

/** Test files call it if they ask for PostgreSQL themselves; other programs do, when their servers have ended. */
export async function endSharedDatabase() {
    const all = await Promise.all([shared.database, ...shared.shifted.values()]);
    await Promise.all(all.map((database) => database?.stop()));
}

if (IN_POSTGRES && process.env.NODE_TEST_CONTEXT) after(endSharedDatabase);

export class Server {
    #options;
    #run = null;
    #ownData = false;
    #tenants = 0;
    data;
    port;

    /** `settings` become --set; `config` is the text of a YAML file; `data` a directory to keep. */
    constructor({ settings = {}, config, data, env = {}, args = [], secret = SECRET, listen = '127.0.0.1:0', descriptors } = {}) {
        this.#options = { settings, config, env, args, secret, listen, descriptors };
        this.data = data;
    }

    get url() {
        return `http://127.0.0.1:${this.port}`;
    }

    get pid() {
        return this.#run.child.pid;
    }

    get stderr() {
        return this.#run?.stderr ?? '';
    }

    get stdout() {
        return this.#run?.stdout ?? '';
    }

    /** Resolves to {code, signal} when the process has ended, for whatever reason. */
    get exited() {
        return this.#run.exited;
    }

    get configFile() {
        return path.join(path.dirname(this.data), `${path.basename(this.data)}.yaml`);
    }

    async #arguments() {
        const { settings, config, args, env, secret, listen } = this.#options;
        const list = ['serve', '--data', this.data, '--listen', listen, ...args];
        if (config !== undefined) {
            this.writeConfig(config);
            list.push('--config', this.configFile);
        }
        const own = { ...BUILD_SETTINGS, 'store.lanes': lanesFor(settings, config), ...await storeSettings(settings, this.data, env) };
        const all = { ...own, ...(secret && { 'auth.jwtSecret': secret }), ...settings };
        for (const [key, value] of Object.entries(all)) list.push('--set', `${key}=${value}`);
        return list;
    }

    writeConfig(text) {
        writeFileSync(this.configFile, text);
    }

    async start() {
        await this.spawn();
        return this.ready();
    }

    /** Starts the process and does not wait for what becomes of it. */
    async spawn() {
        if (!this.data) {
            this.data = newDirectory();
            this.#ownData = true;
        }
        this.#run = spawnTally(await this.#arguments(), { env: this.#options.env, descriptors: this.#options.descriptors });
    }

    async ready() {
        const run = this.#run;
        let over = null;
        run.exited.then((end) => (over = end), (error) => (over = error));
        const ready = await eventually('tally to be ready', () => {
            if (over) throw new Error(`tally did not start: ${over.message ?? JSON.stringify(over)}\n${run.stderr}`);
            return /^tally ready on http:\/\/(\S+):(\d+)$/m.exec(run.stdout);
        }, { ms: 20000, every: 5 });
        this.address = ready[1];
        this.port = Number(ready[2]);
        return this;
    }

    signal(name) {
        this.#run.child.kill(name);
    }

    /** Ends it the polite way and checks that it ended well. */
    async stop() {
        if (!this.#run) return;
        const run = this.#run;
        this.#run = null;
        run.child.kill('SIGTERM');
        let end;
        try {
            end = await within(20000, 'tally to stop', run.exited);
        } finally {
            run.child.kill('SIGKILL');
            this.#clean();
        }
        assert.ok(!SANITIZER.test(run.stderr), `sanitizer report:\n${run.stderr}`);
        assert.deepEqual(end, { code: 0, signal: null }, `tally ended badly:\n${run.stderr}`);
    }

    /** Ends it as a power cut would, and keeps the data. */
    async kill() {
        const run = this.#run;
        run.child.kill('SIGKILL');
        await within(10000, 'tally to die', run.exited);
        assert.ok(!SANITIZER.test(run.stderr), `sanitizer report:\n${run.stderr}`);
        this.#run = null;
    }

    /** Stops with SIGTERM, or with kill -9, and starts again on the same data. */
    async restart({ hard = false } = {}) {
        const own = this.#ownData;
        this.#ownData = false;
        if (hard) await this.kill();
        else await this.stop();
        this.#ownData = own;
        await this.start();
    }

    #clean() {
        if (this.#ownData) removeDirectory(this.data);
        if (this.#options.config !== undefined) rmSync(this.configFile, { force: true });
    }

    raw() {
        return RawConnection.open(this.port);
    }

    /** fetch says why it failed in its cause alone, and the server may have said more. */
    async #fetch(url, request) {
        try {
            return await fetch(url, request);
        } catch (error) {
            error.message += `: ${error.cause?.message ?? ''} (${request.method} ${url})\n${this.stderr.slice(-2000)}`;
            throw error;
        }
    }

    /** One request with fetch: {status, headers, text, body}. */
    async call(method, target, { token, headers = {}, body } = {}) {
        const all = { ...headers };
        if (token) all.Authorization = `Bearer ${token}`;
        let text = body;
        if (body !== undefined && typeof body !== 'string' && !(body instanceof Uint8Array)) {
            text = JSON.stringify(body);
        }
        if (text !== undefined && all['Content-Type'] === undefined) all['Content-Type'] = 'application/json';
        const reply = await this.#fetch(this.url + target, { method, headers: all, body: text });
        const replyText = await reply.text();
        let parsed;
        try {
            parsed = JSON.parse(replyText);
        } catch {
            parsed = undefined;
        }
        return { status: reply.status, headers: reply.headers, text: replyText, body: parsed };
    }

    /** A client for one tenant; without an id, for a tenant nobody else uses. */
    tenant(id = `tenant-${++this.#tenants}`, claims = {}) {
        return new Tenant(this, id, tokenFor(id, claims));
    }
}

export class Tenant {
    constructor(server, id, token) {
        this.server = server;
        this.id = id;
        this.token = token;
    }

    path(name, action) {
        return `/api/counters/${this.id}/${name}${action ? `/${action}` : ''}`;
    }

    call(method, target, options = {}) {
        return this.server.call(method, target, { token: this.token, ...options });
    }

    write(action, name, body, headers = {}) {
        return this.call(action === 'set' ? 'PUT' : 'POST', this.path(name, action), { body, headers });
    }

    increment(name, body, headers) {
        return this.write('increment', name, body, headers);
    }

    decrement(name, body, headers) {
        return this.write('decrement', name, body, headers);
    }

    set(name, body, headers) {
        return this.write('set', name, body, headers);
    }

    read(action, name, query) {
        return this.call('GET', `${this.path(name, action)}?${new URLSearchParams(query)}`);
    }

    get(name, query = TOTAL) {
        return this.read('get', name, query);
    }

    sumRange(name, query) {
        return this.read('sumRange', name, query);
    }

    series(name, query) {
        return this.read('series', name, query);
    }

    list(query = {}) {
        return this.call('GET', `/api/counters/${this.id}?${new URLSearchParams(query)}`);
    }

    /** Every counter of the tenant, page by page. */
    async listAll(query = {}) {
        const all = [];
        let after;
        do {
            const page = await this.list(after ? { ...query, after } : query);
            assert.equal(page.status, 200, page.text);
            all.push(...page.body.counters);
            after = page.body.next;
        } while (after);
        return all;
    }

    batch(ops, { query = '', headers = {}, ...fields } = {}) {
        return this.call('POST', `/api/counters/${this.id}/batch${query}`, { body: { ops, ...fields }, headers });
    }

    ndjson(text, { query = '', headers = {} } = {}) {
        return this.call('POST', `/api/counters/${this.id}/batch${query}`, {
            body: text,
            headers: { 'Content-Type': 'application/x-ndjson', ...headers },
        });
    }

    query(queries) {
        return this.call('POST', `/api/counters/${this.id}/query`, { body: { queries } });
    }

    delete(name, headers = {}) {
        return this.call('DELETE', this.path(name), { headers });
    }
}

/** The perpetual bucket: what most tests count in. */
export const TOTAL = Object.freeze({ durationSeconds: 0, timestamp: '2024-03-15T10:30:00Z' });

/** A server for the enclosing describe(): started before its tests, stopped and checked after them. */
export function serverFor(options) {
    const server = new Server(options);
    before(() => server.start());
    after(() => server.stop());
    return server;
}
