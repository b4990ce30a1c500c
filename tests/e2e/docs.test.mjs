// Every command of the documents is run, in order, against real servers, and says what the document says it
// says (issue 6, item 6). How blocks are read: support/transcript.mjs.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { eventually, within } from './support/pace.mjs';
import { newDirectory, removeDirectory, TALLY_BIN } from './support/server.mjs';
import { blocksOf, runStep, Shell } from './support/transcript.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const DOCUMENTS = ['README.md', 'docs/tutorial.md', 'docs/recipes.md', 'docs/operations.md', 'docs/migration.md'];
/** Blocks that cannot run here, all documents together. Each says why; the number may only fall. */
const SKIPPED_MAX = 1;

const text = (name) => readFileSync(path.join(ROOT, name), 'utf8');

function freePort() {
    return new Promise((resolve) => {
        const probe = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = probe.address();
            probe.close(() => resolve(port));
        });
    });
}

/** A folder that looks like the clone to the documents' commands, but for what they write. */
function workplace() {
    const folder = newDirectory('docs');
    mkdirSync(`${folder}/build`);
    symlinkSync(path.join(ROOT, 'etc'), `${folder}/etc`);
    symlinkSync(path.join(ROOT, 'docs'), `${folder}/docs`);
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

describe('every command of the documents', () => {
    for (const file of DOCUMENTS) {
        test(file, async () => {
            const markdown = text(file);
            const blocks = blocksOf(markdown);
            assert.ok(blocks.some((block) => block.steps), `${file} has commands`);
            const folder = workplace();
            const peers = new Peers();
            const port = await freePort();
            const demo = /^make run\b/m.test(markdown) ? await demoServer(folder, port) : null;
            const env = { ...process.env, PATH: `${folder}/build:${process.env.PATH}`, HOME: folder, LC_ALL: 'C.UTF-8',
                ...(/\bpsql\b/.test(markdown) && await peers.postgres()), ...(/\bredis-cli\b/.test(markdown) && await peers.redis()) };
            const shell = new Shell({ cwd: folder, env });
            const placed = (words) => words.replaceAll('127.0.0.1:8787', `127.0.0.1:${port}`);
            try {
                for (const step of blocks.flatMap((block) => block.steps ?? [])) {
                    if (isDone(step.command)) continue;
                    const command = placed(step.command).replace('TALLY_TOKEN=...', `TALLY_TOKEN=${demo?.token}`);
                    await runStep(shell, { ...step, command, expected: step.expected.map(placed) }, file);
                }
            } finally {
                await shell.close();
                await demo?.stop();
                await peers.stop();
                removeDirectory(folder);
            }
        });
    }

    test('what is not run says why, and is little', () => {
        const skipped = DOCUMENTS.flatMap((file) => blocksOf(text(file)).filter((block) => block.skipped));
        assert.ok(skipped.length <= SKIPPED_MAX, JSON.stringify(skipped));
    });
});

describe('what the documents name', () => {
    const all = ['README.md', 'ARCHITECTURE.md', 'CHANGELOG.md', ...readdirSync(path.join(ROOT, 'docs')).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)];

    test('links lead to files that are there, and to headings that are there', () => {
        const anchors = (markdown) => [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, title]) => title.toLowerCase().replace(/[^\w -]/g, '').replaceAll(' ', '-'));
        for (const file of all) {
            const markdown = text(file).replace(/```[\s\S]*?```/g, '');
            for (const [, target] of markdown.matchAll(/\]\(([^)\s]+)\)/g)) {
                if (/^https?:/.test(target)) continue;
                const [name, anchor] = target.split('#');
                const there = name ? path.join(path.dirname(file), name) : file;
                assert.ok(existsSync(path.join(ROOT, there)), `${file} links to ${target}`);
                if (anchor) assert.ok(anchors(text(there)).includes(anchor), `${file} links to ${target}`);
            }
        }
    });

    test('settings in YAML blocks are in the example they were taken from', () => {
        const example = text('etc/examples/recipes.yaml');
        for (const [, snippet] of text('docs/recipes.md').matchAll(/```yaml\n([\s\S]*?)```/g)) {
            assert.ok(example.includes(snippet), `not in etc/examples/recipes.yaml:\n${snippet}`);
        }
    });

    test('every figure of /metrics and every alert is explained in docs/operations.md', () => {
        const guide = text('docs/operations.md');
        const names = [...text('src/base/metrics.def').matchAll(/^METRIC\([^"]*"([^"]+)"/gm)].map((match) => match[1]);
        const alerts = [...text('etc/prometheus/tally.rules.yml').matchAll(/alert: (\S+)/g)].map((match) => match[1]);
        assert.ok(names.length > 30 && alerts.length > 10);
        for (const name of [...names, ...alerts]) assert.ok(guide.includes(`\`${name}\``), `${name} is not explained`);
    });
});
