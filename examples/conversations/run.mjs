// run.mjs -- the whole example on this machine: starts a PostgreSQL and a tally of its own, tells the story, and
// removes everything again.   node examples/conversations/run.mjs

import { spawn } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { Postgres, ROOT } from '../../bench/peers.mjs';
import { App } from './app.mjs';
import { story } from './story.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

function tokenFor(secret, tenant) {
    const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const signed = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode({ sub: tenant, exp: Math.floor(Date.now() / 1000) + 3600 })}`;
    return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}

function startTally(directory, env) {
    const child = spawn(path.resolve(ROOT, process.env.TALLY_BIN ?? 'build/tally'),
        ['serve', '--config', here('tally.yaml'), '--data', path.join(directory, 'tally'), '--listen', '127.0.0.1:0'],
        { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    return new Promise((resolve, reject) => {
        let said = '';
        const log = (text) => { // one JSON object a line; what reconciling says is worth showing
            for (const line of text.split('\n').filter((one) => one.includes('Counter Reconciliation'))) {
                const { msg, diff } = JSON.parse(line);
                console.log(`      tally's log: ${msg} ${JSON.stringify(diff)}`);
            }
        };
        child.stderr.setEncoding('utf8').on('data', log);
        child.stdout.setEncoding('utf8').on('data', (text) => {
            said += text;
            const ready = /tally ready on (\S+)/.exec(said);
            if (ready) resolve({ child, url: ready[1] });
        });
        child.on('error', reject).on('exit', (code) => reject(new Error(`tally ended with ${code}`)));
    });
}

const directory = mkdtempSync(path.join(tmpdir(), 'conversations-'));
chmodSync(directory, 0o711); // a PostgreSQL started by root runs as another user
const postgres = new Postgres(path.join(directory, 'pg'));
let tally;
try {
    await postgres.start();
    const dsn = `host=${postgres.directory} user=postgres dbname=postgres`;
    await postgres.sql(readFileSync(here('schema.sql'), 'utf8'));
    const secret = randomBytes(32).toString('hex');
    tally = await startTally(directory, { SOURCE_DSN: dsn, TALLY_AUTH_JWTSECRET: secret });
    const app = new App({ url: tally.url, token: tokenFor(secret, 'app'), tenant: 'app' }, dsn);
    await story(app, (title, counts) => {
        const { opinions, votes, participants } = counts;
        console.log(`${String(opinions).padStart(3)} opinions ${String(votes).padStart(3)} votes ${String(participants).padStart(3)} people   ${title}`);
    });
} finally {
    tally?.child.kill('SIGTERM');
    await new Promise((resolve) => (tally ? tally.child.once('close', resolve) : resolve()));
    await postgres.stop();
    rmSync(directory, { recursive: true, force: true });
}
