// cli-terminal.test.mjs -- what needs a real terminal: `tally top`, and the progress of `tally ingest`.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { cliFor } from './support/cli.mjs';
import { Relay } from './support/relay.mjs';
import { newDirectory, removeDirectory, runTally, Server, TALLY_BIN, TOTAL } from './support/server.mjs';
import { hasTmux, Terminal } from './support/terminal.mjs';

describe('in a terminal', { skip: !hasTmux && 'no tmux here' }, () => {
    const server = new Server({ config: 'counters:\n  - { counterName: by_page, dimensions: [page], rules: [{ on: seen, op: increment }] }\n' });
    const relay = new Relay(() => server.port);
    let folder;
    before(async () => {
        folder = newDirectory('terminal');
        await server.start();
        await relay.start();
    });
    after(async () => {
        await relay.stop();
        await server.stop();
        removeDirectory(folder);
    });
    const terminal = async (t, token, command, size) => {
        const one = new Terminal({ TALLY_URL: relay.url, TALLY_TOKEN: token, XDG_STATE_HOME: folder });
        t.after(() => one.close());
        await one.start(command, size);
        return one;
    };

    test('SPEC 2: top shows figures and the busiest counters, resizes, outlives a restart, and quits', async (t) => {
        const tenant = server.tenant();
        await tenant.increment('quiet', { ...TOTAL, amount: 7 });
        const screen = await terminal(t, tenant.token, `${TALLY_BIN} top --interval 200ms`);
        await screen.shows(/^tally top {2}http.* tenant tenant-1 .*\(q quits\)/);
        await screen.shows(/^changes .*\/s.*events .*\/s.*requests/m);
        await screen.shows(/^COUNTER .*\nquiet +ever +7 +0\.0/m);
        const busy = setInterval(() => tenant.increment('busy', TOTAL).catch(() => {}), 20);
        try {
            await screen.shows(/^COUNTER .*\nbusy +ever +\d+ +[1-9]\d*\.\d\nquiet /m, 'the busy one first, with a rate');
            await screen.shows(/^commit +p50 < +\d/m, 'commit latency');
        } finally {
            clearInterval(busy);
        }
        await screen.resize(50, 8);
        const small = await screen.shows(/^changes/m);
        assert.ok(small.trimEnd().split('\n').length <= 8);
        assert.doesNotMatch(await screen.shows(/^queue/m), /COUNTER/);
        await screen.resize(100, 30);
        await screen.shows(/^COUNTER/m);
        await server.kill();
        await screen.shows(/Cannot reach tally at/);
        await server.start();
        await screen.shows(/^COUNTER .*\nbusy/m);
        assert.ok(!(await screen.screen()).includes(tenant.token.slice(0, 12)));
        await screen.type('x');
        await screen.type('q');
        const left = await screen.shows(/ended with 0/);
        assert.doesNotMatch(left, /tally top/, 'the screen from before is back');
    });

    test('top finds the busiest of 5,000 counters, the last by name, and those that rules keep by dimensions', async () => {
        const tenant = server.tenant();
        const ops = Array.from({ length: 5000 }, (_, i) => ({ op: 'increment', name: `n${String(i).padStart(5, '0')}`, ...TOTAL }));
        assert.equal((await tenant.batch(ops)).status, 200);
        const tally = cliFor(server, tenant.token);
        const load = async () => {
            const busy = ['n04990', 'n04999', 'n04999'].map((name) => ({ op: 'increment', name, ...TOTAL }));
            assert.equal((await tenant.batch(busy)).status, 200);
            const event = { eventId: `top-${Math.random()}`, type: 'seen', dimensions: { page: 'p' } };
            assert.equal((await tenant.call('POST', `/api/events/${tenant.id}`, { body: event })).status, 200);
        };
        const loading = setInterval(() => load().catch(() => {}), 20);
        try {
            const figures = JSON.parse((await tally('top', '--json', '--interval', '1s')).stdout);
            const [first, ...next] = figures.counters.slice(0, 3);
            assert.equal(first.name, 'n04999');
            assert.deepEqual(next.map((each) => each.name).sort(), ['by_page', 'n04990']);
            for (const each of [first, ...next]) assert.ok(each.changesPerSecond > 0, JSON.stringify(each));
            assert.equal(figures.counters[3].changesPerSecond, 0);
        } finally {
            clearInterval(loading);
        }
        const other = JSON.parse((await cliFor(server, server.tenant().token)('top', '--json', '--interval', '100ms')).stdout);
        assert.deepEqual(other.counters.filter((each) => each.changesPerSecond > 0), [], 'what others do is not shown');
    });

    test('Ctrl-C ends top as q does', async (t) => {
        const screen = await terminal(t, server.tenant().token, `${TALLY_BIN} top`);
        await screen.shows(/^changes/m);
        await screen.press('C-c');
        assert.doesNotMatch(await screen.shows(/ended with 0/), /tally top/);
    });

    test('without a terminal, or with --once, one page is printed', async () => {
        const tenant = server.tenant();
        await tenant.increment('a', TOTAL);
        await tenant.call('POST', `/api/events/${tenant.id}`, { body: { eventId: '1', type: 'seen', dimensions: { page: 'p' } } });
        const tally = cliFor(server, tenant.token);
        const page = await tally('top', '--interval', '100ms');
        assert.equal(page.code, 0, page.stderr);
        assert.match(page.stdout, /^tally top .*\n\nchanges [^]*\nCOUNTER .*\na +ever +1 /);
        assert.match(page.stdout, /^by_page +ever +by dimensions +0\.0$/m);
        const figures = JSON.parse((await tally('top', '--json', '--interval', '100ms')).stdout);
        assert.deepEqual(figures.counters.map((each) => [each.name, each.net]), [['a', 1], ['by_page', null]]);
        const plain = await runTally(['top', '--interval', '100ms'], { env: { TALLY_URL: server.url, TALLY_TOKEN: '' } });
        assert.match(plain.stdout, /^changes/m);
        const away = await runTally(['top', '--url', 'http://u:hunter2@127.0.0.1:1']);
        assert.equal(away.code, 1);
        assert.doesNotMatch(away.stderr, /hunter2/);
        assert.equal((await tally('top', '--interval', '1ms')).code, 2);
    });

    for (const [columns, pattern] of [[80, /^\[=*>? *\] +\d+% {2}\d+ min \d+ s left {2}\d+ lines\/s {2}[\d,]+ applied, 0 duplicates, 0 rejected$/m], [60, /^ *\d+% {2}\d+ lines\/s {2}[\d,]+ applied, 0 duplicates, 0 rejected$/m], [30, /^ *\d+% {2}\d+ lines\/s {2}[\d,]+ a\w*[^\n]*\n\n/m]]) {
        test(`the progress line fits ${columns} columns`, async (t) => {
            const file = path.join(folder, `narrow-${columns}.ndjson`);
            writeFileSync(file, '{"op":"increment","name":"c","durationSeconds":0,"timestamp":0}\n'.repeat(30000));
            relay.delay = 20;
            t.after(() => (relay.delay = 0));
            const screen = await terminal(t, server.tenant().token, `clear; ${TALLY_BIN} ingest ${file} --batch 10`, { columns });
            const shown = await screen.shows(pattern);
            assert.equal(shown.match(/lines\/s/g).length, 1, 'one line that changes, none that wraps');
            relay.delay = 0;
            await screen.shows(/ended with 0/);
        });
    }

    test('ingest draws a bar with rate, counts and time left', async (t) => {
        const file = path.join(folder, 'ops.ndjson');
        const line = '{"op":"increment","name":"c","durationSeconds":0,"timestamp":0}\n';
        writeFileSync(file, line.repeat(3000));
        relay.delay = 20;
        const screen = await terminal(t, server.tenant().token, `${TALLY_BIN} ingest ${file} --batch 10`, { columns: 120 });
        await screen.shows(/\[=*>? *\] +\d+% {2}\d+ s left {2}\d+ lines\/s {2}[\d,]+ applied, 0 duplicates, 0 rejected/);
        relay.delay = 0;
        assert.match(await screen.shows(/ended with 0/), /^3,000 lines: 3,000 applied, 0 duplicates, 0 rejected; /m);
    });
});
