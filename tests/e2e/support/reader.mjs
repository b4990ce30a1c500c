// reader.mjs -- somebody who follows a document: types its commands into one shell, in a folder that looks like
// the clone, beside a demo server, PostgreSQL and Redis where the document wants them.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { eventually, within } from './pace.mjs';
import { newDirectory, removeDirectory, TALLY_BIN } from './server.mjs';
import { blocksOf, runStep, Shell } from './transcript.mjs';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

function freePort() {
    return new Promise((resolve) => {
        const probe = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = probe.address();
            probe.close(() => resolve(port));
        });
    });
}

/** A folder that looks like the clone to the documents' commands, but for what they write there. `whole`: with all that
 * is in the clone; make runs in the clone itself. */
function workplace(whole) {
    const folder = newDirectory('docs');
    const link = (name) => symlinkSync(path.join(ROOT, name), `${folder}/${name}`);
    mkdirSync(`${folder}/build`);
    if (whole) {
        readdirSync(ROOT).filter((name) => !['.git', 'build'].includes(name)).forEach(link);
        link('build/release');
    } else {
        ['etc', 'docs'].forEach(link);
    }
    symlinkSync(TALLY_BIN, `${folder}/build/tally`);
    return folder;
}

/** `make run` itself, with another port and folder. Resolves to {token, stop}. */
async function demoServer(folder, port) {
    const env = { ...process.env, TALLY_LISTEN: `127.0.0.1:${port}`, TALLY_DATA: `${folder}/demo`, TALLY_OPS_DIR: `${folder}/ops` };
    const child = spawn('make', ['-s', 'run'], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    const exited = new Promise((resolve) => child.on('close', resolve));
    let said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text));
    const stop = async () => {
        process.kill(-child.pid, 'SIGTERM');
        await within(30000, 'the demo server to stop', exited);
    };
    const [token] = await eventually('make run', () => {
        assert.equal(child.exitCode, null, said);
        return /eyJ[\w.-]+/.exec(said);
    }, { ms: 120000 }).catch(async (error) => {
        await stop();
        throw error;
    });
    return { token, stop };
}

/** `make run` has been run by then, and `make test` is what runs this. */
const isDone = (command) => command.split('\n').every((line) => /^make (run|test)\b/.test(line));

/** PostgreSQL and Redis of our own, on Unix sockets and a free port, only for documents that name them. */
class Peers {
    #folder = newDirectory('peers');
    #stops = [];

    async postgres() {
        const bin = execFileSync('sh', ['-c', 'ls -d /usr/lib/postgresql/*/bin | tail -1'], { encoding: 'utf8' }).trim();
        const data = `${this.#folder}/pg`;
        const asOwner = (program, args) => (process.getuid() === 0
            ? ['setpriv', ['--reuid=postgres', '--regid=postgres', '--init-groups', program, ...args]]
            : [program, args]);
        mkdirSync(data);
        if (process.getuid() === 0) execFileSync('chown', ['-R', 'postgres', this.#folder]);
        const options = { cwd: '/', stdio: 'ignore' };
        execFileSync(...asOwner(`${bin}/initdb`, ['-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync']), options);
        const port = await freePort();
        const child = spawn(...asOwner(`${bin}/postgres`, ['-D', data, '-k', data, '-h', '127.0.0.1', '-p', String(port), '-F']), options);
        this.#stops.push(() => this.#end(child, 'SIGINT'));
        const env = { PGHOST: '127.0.0.1', PGPORT: String(port), PGUSER: 'postgres', PGDATABASE: 'postgres' };
        await eventually('PostgreSQL', () => {
            try {
                execFileSync('psql', ['-qc', 'SELECT 1'], { env: { ...process.env, ...env }, stdio: 'ignore' });
                return true;
            } catch {
                return false;
            }
        }, { ms: 30000 });
        return env;
    }

    async redis() {
        const port = await freePort();
        const child = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', this.#folder], { stdio: 'ignore' });
        this.#stops.push(() => this.#end(child, 'SIGTERM'));
        await eventually('Redis', () => {
            try {
                return execFileSync('redis-cli', ['-p', String(port), 'ping'], { encoding: 'utf8' }).startsWith('PONG');
            } catch {
                return false;
            }
        }, { ms: 30000 });
        return { REDIS_URL: `redis://127.0.0.1:${port}` };
    }

    async #end(child, signal) {
        const gone = new Promise((resolve) => child.on('exit', resolve));
        child.kill(signal);
        await within(20000, 'a peer to stop', gone);
    }

    async stop() {
        for (const stop of this.#stops) await stop();
        removeDirectory(this.#folder);
    }
}

export class Reader {
    #folder;
    #peers = new Peers();
    #given = new Set(); // variables that the shell has
    #shell;
    #port;
    #demo;

    constructor({ whole = false } = {}) {
        this.#folder = workplace(whole);
    }

    async #give(variables) {
        for (const [name, value] of Object.entries(variables)) await this.#shell.run(`export ${name}='${value}'`);
    }

    /** What the document wants to find. */
    async #prepare(markdown) {
        this.#port ??= await freePort();
        const env = { ...process.env, PATH: `${this.#folder}/build:${process.env.PATH}`, HOME: this.#folder, LC_ALL: 'C.UTF-8' };
        delete env.NODE_TEST_CONTEXT; // a document may run tests of its own
        if (!this.#shell) {
            this.#shell = new Shell({ cwd: this.#folder, env });
            await this.#shell.run(`make() { command make -C '${ROOT}' "$@"; }`);
        }
        if (/^make run\b/m.test(markdown)) this.#demo ??= await demoServer(this.#folder, this.#port);
        for (const [sign, peer] of [[/\bpsql\b/, 'postgres'], [/\bredis-cli\b/, 'redis']]) {
            if (!sign.test(markdown) || this.#given.has(peer)) continue;
            this.#given.add(peer);
            await this.#give(await this.#peers[peer]());
        }
    }

    /** Runs every block of a document; how many commands there were. */
    async follow(file) {
        const markdown = readFileSync(path.join(ROOT, file), 'utf8');
        await this.#prepare(markdown);
        const placed = (words) => words.replaceAll('127.0.0.1:8787', `127.0.0.1:${this.#port}`);
        let count = 0;
        for (const { line, needs, steps } of blocksOf(markdown).filter((block) => block.steps)) {
            if (needs && (await this.#shell.run(needs)).status !== 0) {
                console.log(`${file}:${line} is not run here: ${needs}`);
                continue;
            }
            for (const step of steps.filter(({ command }) => !isDone(command))) {
                const command = placed(step.command).replace('TALLY_TOKEN=...', `TALLY_TOKEN=${this.#demo?.token}`);
                await runStep(this.#shell, { ...step, command, expected: step.expected.map(placed) }, file);
                count++;
            }
        }
        return count;
    }

    async stopDemo() {
        await this.#demo?.stop();
        this.#demo = null;
    }

    async close() {
        await this.#shell?.close();
        await this.stopDemo();
        await this.#peers.stop();
        removeDirectory(this.#folder);
    }
}
