// examples/conversations is told with a real PostgreSQL, and `tally reconcile` looks at it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { App } from '../../examples/conversations/app.mjs';
import { story } from '../../examples/conversations/story.mjs';
import { eventually } from './support/pace.mjs';
import { databaseFor } from './support/postgres.mjs';
import { runTally, Server } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

const read = (name) => readFileSync(fileURLToPath(new URL(`../../examples/conversations/${name}`, import.meta.url)), 'utf8');
const database = databaseFor(read('schema.sql'));

test('A-15 A-16 S2-24: soft deletes, moderation and a deleted user heal; the command line sees it', async () => {
    const { dsn } = database.current;
    const config = read('tally.yaml').replace(/scanEvery: 1s/, 'scanEvery: 50ms').replace(/minInterval: 2s/, 'minInterval: 100ms');
    const server = new Server({ config, env: { SOURCE_DSN: dsn } });
    await server.start();
    try {
        const tally = { url: server.url, token: tokenFor('app'), tenant: 'app' };
        const app = new App(tally, dsn);
        const titles = [];
        await story(app, (title) => titles.push(title));
        assert.equal(titles.length, 9);
        assert.match(titles[4], /"opinion_count":"1","vote_count":"5","participant_count":"0"/);

        const env = { TALLY_URL: server.url, TALLY_TOKEN: tally.token };
        const cli = async (...args) => {
            const { code, stdout, stderr } = await runTally(['reconcile', ...args], { env });
            assert.equal(code, 0, stderr);
            return stdout;
        };
        assert.equal(await cli('drift', 'conversation'), 'nothing is wrong\n');
        await eventually('nothing to be marked', async () => (await app.pending()) === 0);
        await app.sql`UPDATE vote SET cancelled_at = now() WHERE cancelled_at IS NULL`;
        assert.match(await cli('drift', 'conversation'),
            /^conversation=parks\n  opinion_count +stored 1, actual 1, drift 0\n  vote_count +stored 3, actual 0, drift 3\n/);
        assert.match(await cli('run', 'conversation', 'conversation=parks'), /  vote_count +before 3, after 0, diff -3\n/);
        assert.equal(await cli('request', 'conversation', 'conversation=parks'), 'requested\n');
        assert.match(await cli('status', 'conversation'), /^\d+ waiting.*\nsource ok\n$/);
        assert.equal(JSON.parse(await cli('drift', 'conversation', '--json')).drift.length, 0);

        assert.equal((await runTally(['reconcile', 'drift', 'nosuch'], { env })).code, 1);
        for (const wrong of [[], ['nonsense', 'x'], ['run'], ['run', 'conversation', 'parks'], ['drift', 'conversation', 'a=b']]) {
            assert.equal((await runTally(['reconcile', ...wrong], { env })).code, 2, wrong.join(' '));
        }
    } finally {
        await server.stop();
    }
});
