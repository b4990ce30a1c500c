// The first minute with tally: what `serve --dev` prints works as printed, also after a
// restart, `tally token` finds the secret that servers have, and two nodes are one command.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { freePort } from '../../bench/peers.mjs';
import { eventually, within } from './support/pace.mjs';
import { newDirectory, removeDirectory, runTally, serverFor, spawnTally, TALLY_BIN, TOTAL } from './support/server.mjs';
import { SECRET } from './support/tokens.mjs';

const DEMO = fileURLToPath(new URL('../../etc/demo.yaml', import.meta.url));
const claimsOf = (token) => JSON.parse(Buffer.from(token.split('.')[1], 'base64url'));
const statusOf = async (url, token, method = 'GET', body) => (await fetch(url, {
    method, headers: { Authorization: `Bearer ${token}` }, body: body && JSON.stringify(body),
})).status;

const worries = (run) => run.stderr.split('\n').filter(Boolean).map((line) => JSON.parse(line)).filter(({ level }) => level === 'warn' || level === 'error');

/** `serve --dev` as `make run` starts it, and what it printed. */
async function startDemo(directory, ...more) {
    const run = spawnTally(['serve', '--dev', '--config', DEMO, '--data', path.join(directory, 'd'), '--listen', '127.0.0.1:0', '--set', `ops.dir=${directory}/ops`, ...more]);
    await eventually('all of the hints', () => /Ctrl-C stops the server/.test(run.stdout));
    const [, url] = /^tally ready on (\S+)$/m.exec(run.stdout);
    const stop = async () => {
        run.child.kill('SIGTERM');
        assert.deepEqual(await within(20000, 'tally to stop', run.exited), { code: 0, signal: null });
    };
    return { run, url, stop, link: /^ {2}(http\S+#token=\S+)$/m.exec(run.stdout)[1] };
}

describe('serve --dev', () => {
    const directory = newDirectory('first');
    let demo;
    before(async () => (demo = await startDemo(directory)));
    after(async () => {
        await demo.stop();
        removeDirectory(directory);
    });

    test('prints a link that signs in as tenant demo, a token for the command line and one for operators', async () => {
        const [address, token] = demo.link.split('/#token=');
        assert.equal(address, demo.url);
        assert.equal(await statusOf(`${demo.url}/api/counters/demo/x/increment`, token, 'POST', TOTAL), 200);
        assert.equal(await statusOf(`${demo.url}/api/admin/tenants`, token), 403);
        assert.ok(demo.run.stdout.includes(`export TALLY_URL=${demo.url} TALLY_TOKEN=${token}`));
        const [, admin] = /scope admin:\n\n {2}export TALLY_TOKEN=(\S+)/.exec(demo.run.stdout);
        assert.deepEqual([claimsOf(admin).scope, claimsOf(admin).sub], ['admin', 'demo']);
        assert.equal(await statusOf(`${demo.url}/api/admin/tenants`, admin), 200);
    });

    test('warns of nothing, and no token is in its log', () => {
        assert.deepEqual(worries(demo.run), []);
        assert.ok(!/eyJ/.test(demo.run.stderr));
    });

    test('SPEC 14: names the port that speaks Redis\'s protocol, and none where another program has it', async () => {
        const port = /redis-cli -p (\d+) /;
        const other = createServer();
        await new Promise((resolve) => other.once('error', resolve).listen(6780, '127.0.0.1', resolve)); // or it is taken already
        const home = newDirectory('redis');
        const without = await startDemo(home);
        assert.ok(!port.test(without.run.stdout), without.run.stdout);
        assert.deepEqual(worries(without.run), []);
        assert.match(without.run.stderr, /not speaking Redis's protocol: the port is taken/);
        await without.stop();
        const asked = await startDemo(home, '--set', 'resp.listen=127.0.0.1:0');
        assert.equal(port.exec(asked.run.stdout)[1], /speaking Redis's protocol.*"port":(\d+)/.exec(asked.run.stderr)[1]);
        await asked.stop();
        removeDirectory(home);
        other.close();
    });

    test('keeps its secret over a restart, where only its owner can read it', async () => {
        const [, token] = demo.link.split('/#token=');
        assert.equal(statSync(path.join(directory, 'd', 'dev-secret')).mode & 0o777, 0o600);
        await demo.stop();
        demo = await startDemo(directory);
        assert.equal(await statusOf(`${demo.url}/api/counters/demo`, token), 200);
    });

    test('a secret that was not written whole is made anew', async () => {
        const file = path.join(directory, 'd', 'dev-secret');
        await demo.stop();
        writeFileSync(file, 'abc');
        demo = await startDemo(directory);
        assert.match(readFileSync(file, 'utf8'), /^[0-9a-f]{64}\n$/);
    });

    test('the command on its sign-in page makes a token in any folder', async () => {
        const reply = await fetch(`${demo.url}/assets/token-command.txt`);
        assert.equal(reply.headers.get('content-type'), 'text/plain; charset=utf-8');
        const command = (await reply.text()).trim();
        const token = execFileSync('/bin/sh', ['-c', command], { cwd: '/', encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
        assert.equal(claimsOf(token).sub, 'demo');
        assert.equal(await statusOf(`${demo.url}/api/counters/demo`, token), 200);
    });
});

describe('a server that is not for trying', () => {
    const server = serverFor();

    test('tells nobody its paths: the command on its sign-in page is the same everywhere', async () => {
        assert.equal(await (await fetch(`${server.url}/assets/token-command.txt`)).text(), 'tally token --tenant NAME\n');
    });
});

describe('tally token finds the secret', () => {
    const directory = newDirectory('secret');
    const installed = path.join(directory, 'etc');
    const config = path.join(installed, 'tally.yaml');
    const other = 'another secret, of 32 bytes at least';
    const server = serverFor();
    before(() => {
        mkdirSync(installed);
        writeFileSync(config, `data: "${directory}/data"\n`);
        writeFileSync(path.join(installed, 'tally.env'), `# Secrets.\n\nTALLY_AUTH_JWTSECRET=${SECRET}\n`);
    });
    after(() => removeDirectory(directory));
    const token = (args, options) => runTally(['token', '--tenant', 'acme', ...args], options);
    const accepts = async ({ stdout }) => (await statusOf(`${server.url}/api/counters/acme`, stdout.trim())) === 200;

    test('of an installed server: in the file beside its config that the service reads, and says so', async () => {
        const made = await token(['--config', config]);
        assert.equal(made.code, 0, made.stderr);
        assert.ok(await accepts(made));
        assert.equal(made.stderr, `tally token: signed with the secret in ${installed}/tally.env\n`);
    });

    test('what is said wins over what is found, and then nothing is said about it', async () => {
        for (const options of [{ args: ['--set', `auth.jwtSecret=${other}`] }, { args: [], env: { TALLY_AUTH_JWTSECRET: other } }]) {
            const made = await token(['--config', config, ...options.args], { env: options.env });
            assert.equal(made.stderr, '');
            assert.equal(await accepts(made), false);
        }
    });

    test('who may not read it is told which file it is in, and what to do', async () => {
        // Root may read everything, so somebody else asks, with a program that anybody may run.
        const nobody = 65534;
        const program = path.join(directory, 'tally');
        copyFileSync(TALLY_BIN, program);
        for (const open of [directory, installed, program]) chmodSync(open, 0o755);
        chmodSync(config, 0o644);
        chmodSync(path.join(installed, 'tally.env'), process.getuid() === 0 ? 0o600 : 0);
        const as = process.getuid() === 0 ? { uid: nobody, gid: nobody } : {};
        assert.throws(() => execFileSync(program, ['token', '--tenant', 'acme', '--config', config], { ...as, cwd: '/', encoding: 'utf8', stdio: 'pipe' }),
            ({ status, stderr }) => status === 1 && stderr === `tally token: ${installed}/tally.env may not be read: try it as root (sudo tally token ..)\n`);
        chmodSync(path.join(installed, 'tally.env'), 0o600);
    });

    test('nowhere: it says where it was looked for', async () => {
        const none = await token(['--data', path.join(directory, 'none')]);
        assert.equal(none.code, 1);
        assert.match(none.stderr, /TALLY_AUTH_JWTSECRET.*serve --dev.*\/etc\/tally.*--config/);
    });
});

describe('make run STORE=postgres', () => {
    const SCRIPT = fileURLToPath(new URL('../../scripts/demo-nodes', import.meta.url));
    const directory = newDirectory('nodes');
    after(() => removeDirectory(directory));

    async function startNodes() {
        const ports = [await freePort(), await freePort()];
        const child = spawn(SCRIPT, ['--config', DEMO, '--set', 'resp.listen='], { env: { ...process.env, TALLY_BIN, DEMO_DIR: directory, DEMO_PORTS: ports.join(' ') }, stdio: ['ignore', 'pipe', 'inherit'] });
        const exited = new Promise((resolve) => child.on('close', resolve));
        let said = '';
        child.stdout.setEncoding('utf8').on('data', (text) => (said += text));
        await eventually('both nodes', () => /psql -h/.test(said), { ms: 60000 });
        const links = [...said.matchAll(/^ {2}(http\S+)\/#token=(\S+)$/gm)].map(([, url, token]) => ({ url, token }));
        const stop = async () => {
            child.kill('SIGINT');
            await within(30000, 'the nodes to stop', exited);
        };
        return { links, ports, stop };
    }

    test('two nodes over one PostgreSQL: counted at one, read at the other, with one token, over a restart too', async () => {
        for (const round of [1, 2]) {
            const { links: [first, second, operator], ports, stop } = await startNodes();
            try {
                assert.deepEqual([first.url, second.url], ports.map((port) => `http://127.0.0.1:${port}`));
                assert.equal(await statusOf(`${first.url}/api/counters/demo/x/increment`, first.token, 'POST', TOTAL), 200);
                const reply = await fetch(`${second.url}/api/counters/demo/x/get?durationSeconds=0&timestamp=0`, { headers: { Authorization: `Bearer ${first.token}` } });
                assert.equal((await reply.json()).net, String(round));
                const nodes = async () => (await (await fetch(`${operator.url}/api/admin/nodes`, { headers: { Authorization: `Bearer ${operator.token}` } })).json()).nodes;
                await eventually('both nodes to be listed', async () => (await nodes()).map(({ address }) => address).join() === [first.url, second.url].sort().join(), { ms: 20000 });
            } finally {
                await stop();
            }
            for (const { url } of [first, second]) await assert.rejects(fetch(`${url}/readyz`));
            assert.equal(existsSync(path.join(directory, 'database/data/postmaster.pid')), false, 'the database has ended');
        }
    });
});
