// cli-events.test.mjs -- `tally event` and `tally rebuild`.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';

import { cliFor } from './support/cli.mjs';
import { serverFor, TALLY_BIN } from './support/server.mjs';

const CONFIG = `
counters:
  - counterName: views
    dimensions: [page]
    rollups: [[]]
    rules: [{ on: page.viewed, op: increment, amount: payload.n }]
`;

describe('tally event and rebuild', () => {
    const server = serverFor({ config: CONFIG });
    const client = (claims) => {
        const t = server.tenant(undefined, claims);
        t.tally = cliFor(server, t.token);
        return t;
    };
    const view = (...args) => ['event', 'page.viewed', '--payload', '{"n":3}', ...args];

    test('SPEC 2, 6: an event counts once, whatever is in its dimensions', async () => {
        const { tally } = client();
        const page = '/a b?c=d&e="f"%20\u00e9';
        const first = await tally(...view('--id', 'e 1', '--dim', `page=${page}`));
        assert.deepEqual([first.code, first.stdout], [0, 'applied e 1, counters changed: 2\n']);
        const again = await tally(...view('--id', 'e 1', '--dim', 'page=other'));
        assert.equal(again.code, 0);
        assert.match(again.stdout, /^duplicate e 1, first seen at .*Z, and the first one said something else\n$/);
        assert.match((await tally('get', 'views', '--dim', `page=${page}`)).stdout, /^3 /);
        assert.match((await tally('get', 'views')).stdout, /^3 /);
    });

    test('without an id each event is its own', async () => {
        const { tally } = client();
        for (let i = 0; i < 2; i++) assert.equal((await tally(...view('--dim', 'page=x'))).code, 0);
        assert.equal(JSON.parse((await tally('get', 'views', '--json')).stdout).net, '6');
    });

    test('one whole event may come from standard input', async () => {
        const t = client();
        const run = (input, ...args) => spawnSync(TALLY_BIN, ['event', '-', ...args],
            { input, encoding: 'utf8', env: { ...process.env, TALLY_URL: server.url, TALLY_TOKEN: t.token } });
        const event = '{"eventId":"i1","type":"page.viewed","dimensions":{"page":"p"},"payload":{"n":1}}';
        assert.equal(run(event).stdout, 'applied i1, counters changed: 2\n');
        assert.equal(JSON.parse(run(event, '--json').stdout).result, 'DROPPED_DUPLICATE');
        assert.equal(run('').status, 1);
        assert.equal(run('{"type":"x"}').status, 1);
        assert.equal(run(event, '--id', 'x').status, 2);
    });

    test('wrong usage is exit 2', async () => {
        const { tally } = client();
        for (const args of [['event'], ['event', 'a', 'b'], ['event', 'a', '--payload', '{"a":1}}'],
            ['event', 'a', '--dim', 'x'], ['event', 'a', '--at', 'x'], ['rebuild'], ['rebuild', 'a/b']]) {
            assert.equal((await tally(...args)).code, 2, args.join(' '));
        }
    });

    test('SPEC 7: rebuild waits, and says what it did; it needs an admin', async () => {
        const { tally } = client({ scope: 'admin' });
        const done = await tally('rebuild', 'views');
        assert.equal(done.code, 0, done.stderr);
        assert.match(done.stdout, /^rebuilt views from \d+ events\n$/);
        const state = JSON.parse((await tally('rebuild', 'views', '--json')).stdout);
        assert.deepEqual([state.state, state.counter], ['done', 'views']);
        assert.match((await tally('rebuild', 'views', '--no-wait')).stdout, /^job \d+\n$/);
        assert.equal((await tally('rebuild', 'nothing')).code, 1);
        const refused = await client().tally('rebuild', 'views');
        assert.equal(refused.code, 1);
        assert.match(refused.stderr, /\(forbidden\)/);
    });
});
