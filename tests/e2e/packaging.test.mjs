// What operators install: the Debian packages, the systemd unit, nginx in front, Prometheus rules and the
// Grafana dashboard. Each is given to the tool that would use it.

import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { eventually, within } from './support/pace.mjs';
import { newDirectory, removeDirectory, Server, serverFor, TOTAL } from './support/server.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const at = (name) => path.join(ROOT, name);
const run = promisify(execFile);

/** The output of a tool that must succeed. */
async function output(command, args, options = {}) {
    try {
        const { stdout, stderr } = await run(command, args, { cwd: ROOT, maxBuffer: 1 << 24, ...options });
        return stdout + stderr;
    } catch (error) {
        assert.fail(`${command} ${args.join(' ')}\n${error.stdout}${error.stderr}${error.message}`);
    }
}

function freePort() {
    return new Promise((resolve) => {
        const probe = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = probe.address();
            probe.close(() => resolve(port));
        });
    });
}

describe('the Debian packages', () => {
    let folder;
    let control;
    before(async () => {
        folder = newDirectory('deb');
        await output('make', ['-s', 'deb']);
        const [file] = readdirSync(at('build/deb')).filter((name) => /^tally_.*\.deb$/.test(name));
        control = await output('dpkg-deb', ['--field', at(`build/deb/${file}`)]);
        await output('dpkg-deb', ['--raw-extract', at(`build/deb/${file}`), folder]);
    });
    after(() => removeDirectory(folder));

    test('lintian finds nothing but the address we do not have', async () => {
        const files = readdirSync(at('build/deb')).filter((name) => name.endsWith('.deb')).map((name) => at(`build/deb/${name}`));
        assert.equal(files.length, 3);
        const tags = 'bogus-mail-host,bogus-mail-host-in-debian-changelog,pkg-config-unavailable-for-cross-compilation';
        const said = await output('lintian', ['--fail-on', 'error,warning', '--suppress-tags', tags, '--allow-root', ...files]);
        assert.equal(said.replace('running with root privileges is not recommended!', '').trim(), '');
    });

    test('depends on the libraries it is linked with, by what ldd says', () => {
        for (const name of ['librocksdb', 'libsimdjson', 'libyaml', 'libxxhash', 'libjwt', 'libzstd', 'libssl']) {
            assert.match(control, new RegExp(`Depends: .*${name}`), control);
        }
    });

    test('holds the server, its config, its unit and its documents', () => {
        const files = ['usr/bin/tally', 'etc/tally/tally.yaml', 'lib/systemd/system/tally.service', 'usr/share/doc/tally/copyright', 'usr/share/man/man1/tally.1.gz',
            'usr/share/bash-completion/completions/tally',
            'usr/share/doc/tally/examples/prometheus/tally.rules.yml', 'usr/share/doc/tally/examples/nginx/tally.conf'];
        for (const file of files) assert.ok(existsSync(path.join(folder, file)), file);
        assert.match(readFileSync(path.join(folder, 'DEBIAN/conffiles'), 'utf8'), /^\/etc\/tally\/tally\.yaml$/m);
        assert.match(readFileSync(path.join(folder, 'etc/tally/tally.yaml'), 'utf8'), /^data: "\/var\/lib\/tally\/data"/m);
    });

    test('`make install` and the packages install the same files', async () => {
        const installed = newDirectory('install');
        const packaged = newDirectory('packaged');
        await output('make', ['-s', 'install', `DESTDIR=${installed}`, 'PREFIX=/usr', 'SYSCONFDIR=/etc/tally']);
        for (const name of readdirSync(at('build/deb')).filter((one) => one.endsWith('.deb'))) await output('dpkg-deb', ['-x', at(`build/deb/${name}`), packaged]);
        const files = (root) => readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => !entry.isDirectory()).map((entry) => path.relative(root, path.join(entry.path, entry.name)));
        // What Debian wants in places of its own: long texts compressed, the license and the changes under other names.
        const known = (name) => name.replace(/\.gz$/, '').replace(/^lib\/systemd/, 'usr/lib/systemd').replace(/(doc\/tally)\/copyright$/, '$1/LICENSE').replace(/(doc\/tally)\/changelog$/, '$1/CHANGELOG.md');
        const ofPackages = files(packaged).map(known).filter((name) => !/^usr\/share\/(doc\/libtally|lintian)|changelog\.Debian$/.test(name));
        assert.deepEqual(ofPackages.sort(), files(installed).sort());
        assert.equal(readFileSync(path.join(installed, 'usr/lib/systemd/system/tally.service'), 'utf8'), readFileSync(at('packaging/tally.service'), 'utf8'));
        removeDirectory(installed);
        removeDirectory(packaged);
    });

    test('the packaged binary serves with the packaged config, and refuses to without a secret', async () => {
        const binary = path.join(folder, 'usr/bin/tally');
        const config = path.join(folder, 'etc/tally/tally.yaml');
        const args = ['serve', '--config', config, '--data', path.join(folder, 'data'), '--listen', '127.0.0.1:0', '--set', `ops.dir=${folder}/ops`];
        await assert.rejects(run(binary, args), /secret/i);
        const child = spawn(binary, args, { env: { ...process.env, TALLY_AUTH_JWTSECRET: 'x'.repeat(40) }, stdio: ['ignore', 'pipe', 'ignore'] });
        try {
            let said = '';
            child.stdout.on('data', (text) => (said += text));
            const ready = await eventually('the packaged server', () => /ready on (\S+)/.exec(said));
            assert.equal((await fetch(`${ready[1]}/readyz`)).status, 200);
            child.kill('SIGTERM');
            const code = await within(20000, 'it to stop', new Promise((resolve) => child.on('exit', resolve)));
            assert.equal(code, 0);
        } finally {
            child.kill('SIGKILL');
        }
    });

    test('what the installation makes up as a secret is what `tally token` signs with', async () => {
        const script = readFileSync(path.join(folder, 'DEBIAN/postinst'), 'utf8');
        const [made] = /\{\n[^}]*TALLY_AUTH_JWTSECRET[^}]*\} >\/etc\/tally\/tally\.env/.exec(script);
        await output('sh', ['-c', made.replace('/etc/', `${folder}/etc/`)]);
        const secrets = readFileSync(path.join(folder, 'etc/tally/tally.env'), 'utf8');
        const [, secret] = /^TALLY_AUTH_JWTSECRET=([0-9a-f]{64})$/m.exec(secrets);
        const server = await new Server({ secret }).start();
        try {
            const args = ['token', '--tenant', 'acme', '--config', path.join(folder, 'etc/tally/tally.yaml')];
            const { stdout } = await run(path.join(folder, 'usr/bin/tally'), args);
            const reply = await fetch(`${server.url}/api/counters/acme`, { headers: { Authorization: `Bearer ${stdout.trim()}` } });
            assert.equal(reply.status, 200);
        } finally {
            await server.stop();
        }
    });

    test('the unit is what systemd takes, well shut in, and starts what the package holds', async () => {
        const unit = readFileSync(path.join(folder, 'lib/systemd/system/tally.service'), 'utf8');
        // Elsewhere than in /usr/bin the program is not there, and the man page is not installed.
        writeFileSync(path.join(folder, 'tally.service'),
            unit.replaceAll('/usr/bin/tally', path.join(folder, 'usr/bin/tally')).replace(/^Documentation=.*$/m, ''));
        await output('systemd-analyze', ['verify', path.join(folder, 'tally.service')]);
        const said = await output('systemd-analyze', ['security', '--offline=true', path.join(folder, 'tally.service')]);
        const [, exposure] = /Overall exposure level for \S+: ([\d.]+)/.exec(said);
        assert.ok(Number(exposure) <= 1.5, said);
    });
});

describe('nginx in front', () => {
    const server = serverFor();
    let folder;
    let port;
    let nginx;
    let certificate;

    before(async () => {
        folder = newDirectory('nginx');
        port = await freePort();
        await output('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1',
            '-subj', '/CN=counters.example.org', '-addext', 'subjectAltName=DNS:counters.example.org',
            '-keyout', `${folder}/privkey.pem`, '-out', `${folder}/fullchain.pem`]);
        certificate = readFileSync(`${folder}/fullchain.pem`);
        const site = readFileSync(at('etc/nginx/tally.conf'), 'utf8')
            .replaceAll('/etc/ssl/tally/', `${folder}/`)
            .replace('listen 443', `listen 127.0.0.1:${port}`)
            .replace('127.0.0.1:8787', `127.0.0.1:${server.port}`);
        for (const name of ['body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']) mkdirSync(`${folder}/${name}`);
        writeFileSync(`${folder}/site.conf`, site);
        writeFileSync(`${folder}/nginx.conf`, `
            daemon off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log;
            events {}
            http {
                access_log off;
                client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
                uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
                include ${folder}/site.conf;
            }`);
        const program = execFileSync('sh', ['-c', 'PATH=$PATH:/usr/sbin command -v nginx'], { encoding: 'utf8' }).trim();
        const args = ['-c', `${folder}/nginx.conf`, '-e', `${folder}/error.log`, '-p', folder];
        await output(program, [...args, '-t']);
        nginx = spawn(program, args, { stdio: 'ignore' });
        await eventually('nginx', () => existsSync(`${folder}/pid`) && readFileSync(`${folder}/pid`, 'utf8').trim());
        await eventually('nginx to listen', () => ask('GET', '/healthz').catch(() => null));
    });
    after(async () => {
        const gone = new Promise((resolve) => nginx.on('exit', resolve));
        nginx.kill('SIGTERM');
        await within(10000, 'nginx to stop', gone);
        removeDirectory(folder);
    });

    function ask(method, target, { token, body } = {}) {
        return within(15000, 'a reply through nginx', new Promise((resolve, reject) => {
            const headers = { ...(token && { Authorization: `Bearer ${token}` }), ...(body && { 'Content-Type': 'application/json' }) };
            const request = https.request({ host: '127.0.0.1', port, servername: 'counters.example.org', ca: certificate, method, path: target, headers }, (reply) => {
                let text = '';
                reply.on('data', (data) => (text += data)).on('end', () => resolve({ status: reply.statusCode, headers: reply.headers, text }));
            });
            request.on('error', reject);
            request.end(body && JSON.stringify(body));
        }));
    }

    test('counts over TLS, keeps errors as they are, and shows neither metrics nor admin calls', async () => {
        const t = server.tenant();
        for (let i = 1; i <= 3; i++) {
            const reply = await ask('POST', t.path('n', 'increment'), { token: t.token, body: TOTAL });
            assert.equal(reply.status, 200, reply.text);
            assert.equal(JSON.parse(reply.text).net, String(i));
            assert.match(reply.headers['tally-sequence'], /^0-\d+$/);
        }
        assert.equal((await ask('POST', t.path('n', 'decrement'), { token: t.token, body: { ...TOTAL, amount: 9 } })).status, 409);
        assert.equal((await ask('GET', t.path('n', 'get'))).status, 401);
        assert.equal((await ask('GET', '/metrics')).status, 404);
        assert.equal((await ask('GET', '/api/admin/tenants', { token: t.token })).status, 404);
    });
});

describe('Prometheus and Grafana', () => {
    const server = serverFor();
    const names = (text) => new Set([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name, kind]) =>
        (kind === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name])));

    /** Metric names in an expression: words that are not followed by "(" and are no PromQL. */
    function metricsOf(expression) {
        const bare = expression.replace(/"[^"]*"/g, '""').replace(/\b(by|without|on|ignoring) *\([^)]*\)/g, '').replace(/\{[^}]*\}/g, '').replace(/\[[^\]]*\]/g, '');
        return [...bare.matchAll(/\b([a-z][a-z0-9_]*)\b(?! *\()/g)].map((match) => match[1])
            .filter((word) => !['and', 'or', 'unless', 'sum', 'max', 'up', 'e9'].includes(word) && word.includes('_'));
    }

    test('promtool takes the scrape config and the rules, and every alert fires when it should', async () => {
        const cwd = at('etc/prometheus');
        await output('promtool', ['check', 'config', 'prometheus.yml'], { cwd });
        await output('promtool', ['check', 'rules', 'tally.rules.yml'], { cwd });
        await output('promtool', ['test', 'rules', 'tally.rules.test.yml'], { cwd });
        const rules = readFileSync(`${cwd}/tally.rules.yml`, 'utf8');
        const tests = readFileSync(`${cwd}/tally.rules.test.yml`, 'utf8');
        for (const [, alert] of rules.matchAll(/alert: (\S+)/g)) {
            assert.match(tests, new RegExp(`alertname: ${alert}\\n +exp_alerts`), `nothing tests that ${alert} fires`);
        }
    });

    test('every figure that an alert or a panel asks for is one the server has', async () => {
        const { text } = await server.call('GET', '/metrics');
        const known = names(text);
        const rules = readFileSync(at('etc/prometheus/tally.rules.yml'), 'utf8');
        const board = JSON.parse(readFileSync(at('etc/grafana/tally.json'), 'utf8'));
        const asked = [
            ...[...rules.matchAll(/expr: (.*)$/gm)].map((match) => match[1]),
            ...board.panels.flatMap((panel) => (panel.targets ?? []).map((target) => target.expr)),
        ];
        assert.ok(asked.length > 40);
        for (const expression of asked) {
            const mentioned = metricsOf(expression);
            if (!expression.startsWith('up{')) assert.ok(mentioned.length > 0, expression);
            for (const name of mentioned) assert.ok(known.has(name), `${name} in ${expression}`);
        }
    });

    test('promtool finds nothing to say about /metrics itself', async () => {
        const { text } = await server.call('GET', '/metrics');
        const child = spawn('promtool', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
        let said = '';
        child.stdout.on('data', (data) => (said += data));
        child.stderr.on('data', (data) => (said += data));
        child.stdin.end(text);
        const code = await within(15000, 'promtool', new Promise((resolve) => child.on('close', resolve)));
        assert.deepEqual([said, code], ['', 0]);
    });
});
