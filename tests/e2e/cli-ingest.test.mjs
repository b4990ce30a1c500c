// cli-ingest.test.mjs -- `tally ingest`: a file counts once, whatever happens on the way.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { appendFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { cliFor } from './support/cli.mjs';
import { eventually } from './support/pace.mjs';
import { Relay } from './support/relay.mjs';
import { newDirectory, removeDirectory, Server, serverFor, spawnTally, TALLY_BIN } from './support/server.mjs';

const CONFIG = 'counters:\n  - counterName: views\n    rules: [{ on: page.viewed, op: increment }]\n';
const range = (count) => Array.from({ length: count }, (_, i) => i);
const event = (i, more = '') => `{"eventId":"e${i}","type":"page.viewed"${more}}`;
const increment = (name = 'c', more = '') => `{"op":"increment","name":"${name}","durationSeconds":0,"timestamp":0${more}}`;
const lines = (...all) => all.flat().join('\n') + '\n';

/** A folder for files and notes, a tenant, and the command. */
function workplace(server, url = () => server.url) {
    const place = {};
    before(() => (place.folder = newDirectory('ingest')));
    after(() => removeDirectory(place.folder));
    place.tenant = () => {
        const t = server.tenant();
        t.env = { XDG_STATE_HOME: path.join(place.folder, 'state'), TALLY_URL: url(), TALLY_TOKEN: t.token };
        t.tally = cliFor(server, t.token, { env: t.env });
        t.ingest = async (...args) => {
            const run = await t.tally('ingest', ...args, '--json');
            const { seconds, ...totals } = JSON.parse(run.stdout || '{}');
            return { ...run, totals };
        };
        t.net = async (name) => {
            const reply = await t.get(name, name === 'views' ? {} : { durationSeconds: 0, timestamp: 0 });
            return reply.status === 404 ? 0 : Number(reply.body.net);
        };
        return t;
    };
    place.file = (name, content) => {
        const file = path.join(place.folder, name);
        writeFileSync(file, content);
        return file;
    };
    place.notes = () => {
        try {
            return readdirSync(path.join(place.folder, 'state', 'tally'));
        } catch {
            return [];
        }
    };
    return place;
}

describe('tally ingest', () => {
    const server = serverFor({ config: CONFIG });
    const place = workplace(server);

    test('SPEC 2: a file of events counts once, however often it is sent', async () => {
        const t = place.tenant();
        const file = place.file('events.ndjson', lines(range(120).map((i) => event(i)), event(3), event(4)));
        const first = await t.ingest(file, '--batch', '50');
        assert.equal(first.code, 0, first.stderr);
        assert.deepEqual(first.totals, { lines: 122, applied: 120, duplicates: 2, rejected: 0 });
        const again = await t.ingest(file);
        assert.deepEqual(again.totals, { lines: 122, applied: 0, duplicates: 122, rejected: 0 });
        assert.equal(await t.net('views'), 120);
        assert.deepEqual(place.notes(), []);
    });

    test('a file of operations counts once, in whatever parcels, compressed or not', async () => {
        const t = place.tenant();
        const text = lines(range(100).map((i) => increment(i % 2 ? 'a' : 'b')), increment('own', ',"idempotencyKey":"mine"'),
            increment('own', ',"idempotencyKey":"mine"'), increment('a', ',"idempotencyKey":null'));
        const file = place.file('ops.ndjson', text);
        const first = await t.ingest(file, '--batch', '7');
        assert.equal(first.code, 0, first.stderr);
        assert.deepEqual(first.totals, { lines: 103, applied: 102, duplicates: 1, rejected: 0 });
        const again = await t.ingest(file, '--batch', '11', '--parallel', '3');
        assert.equal(again.totals.duplicates, 103);
        assert.equal((await t.ingest(place.file('ops.ndjson.gz', gzipSync(text)))).totals.duplicates, 103);
        assert.deepEqual([await t.net('a'), await t.net('b'), await t.net('own')], [51, 50, 1]);
    });

    test('a line that is new counts, also when the file grew or was changed in between', async () => {
        const t = place.tenant();
        const file = place.file('growing.ndjson', lines(increment(), increment()));
        await t.ingest(file);
        appendFileSync(file, lines(increment(), increment()));
        assert.deepEqual((await t.ingest(file)).totals, { lines: 4, applied: 2, duplicates: 2, rejected: 0 });
        place.file('growing.ndjson', lines(increment('other'), increment()));
        assert.deepEqual((await t.ingest(file)).totals, { lines: 2, applied: 1, duplicates: 1, rejected: 0 });
        assert.equal(await t.net('c'), 4);
    });

    test('operations go in the order of the file', async () => {
        const t = place.tenant();
        const text = lines(range(40).map((i) => (i % 2 ? increment().replace('increment', 'decrement') : increment())));
        const run = await t.ingest(place.file('order.ndjson', text), '--batch', '1');
        assert.equal(run.totals.rejected, 0, run.stderr);
        assert.equal(await t.net('c'), 0);
    });

    test('rejected lines are named with number and reason, the others count, and the exit code is 1', async () => {
        const t = place.tenant();
        const text = `\uFEFF${event(0)}\r\n\r\nnot json\n[1]\n{"type":"page.viewed"}\n{"eventId":"x","type":5}\n`
            + `{"eventId":"long","type":"page.viewed","payload":"${'x'.repeat(1 << 20)}"}\n   ${event(1)}  \n${event(2)}`;
        const file = place.file('bad.ndjson', text);
        const run = await t.ingest(file);
        assert.equal(run.code, 1);
        assert.deepEqual(run.totals, { lines: 9, applied: 3, duplicates: 0, rejected: 5 });
        const said = run.stderr.trim().split('\n').map((line) => JSON.parse(line));
        assert.deepEqual(said.map((each) => [each.line, each.code]), [[3, 'invalid_request'], [4, 'invalid_request'],
            [5, 'event_id_required'], [6, 'invalid_request'], [7, 'invalid_request']]);
        const plain = await t.tally('ingest', file);
        assert.match(plain.stderr, new RegExp(`^${file}:3: The line is not JSON\\. \\(invalid_request\\)\n`));
        assert.match(plain.stdout, /^9 lines: 0 applied, 3 duplicates, 5 rejected; /);
        const refused = await t.ingest(place.file('refused.ndjson', lines(increment(), increment().replace('increment', 'decrement'),
            increment('none').replace('increment', 'decrement'), '{"op":"explode"}', '{}')));
        assert.deepEqual(refused.totals, { lines: 5, applied: 2, duplicates: 0, rejected: 3 });
        assert.match(refused.stderr, /"line":3,.*"code":"constraint_violation"/);
    });

    test('events without an id can be given one, the same each time', async () => {
        const t = place.tenant();
        const file = place.file('idless.ndjson', lines('{"type":"page.viewed"}', '{"type":"page.viewed","eventId":null}'));
        assert.equal((await t.ingest(file)).totals.rejected, 2);
        assert.equal((await t.ingest(file, '--make-ids')).totals.applied, 2);
        assert.equal((await t.ingest(file, '--make-ids')).totals.duplicates, 2);
    });

    test('standard input is new each time unless the work has a name, and is not held back', async () => {
        const t = place.tenant();
        const run = async (...args) => {
            const child = spawn(TALLY_BIN, ['ingest', '-', '--json', ...args], { env: { ...process.env, ...t.env } });
            let out = '';
            child.stdout.on('data', (data) => (out += data));
            return { child, end: new Promise((resolve) => child.on('close', () => resolve(JSON.parse(out)))) };
        };
        const live = await run();
        live.child.stdin.write(lines(increment()));
        await eventually('the first line to count before the input ends', async () => (await t.net('c')) === 1);
        live.child.stdin.end(increment());
        assert.equal((await live.end).applied, 2);
        for (const wanted of ['applied', 'duplicates']) {
            const named = await run('--id', 'the import of may');
            named.child.stdin.end(lines(increment('named')));
            assert.equal((await named.end)[wanted], 1);
        }
    });

    test('what cannot be read is exit 1, wrong usage exit 2', async () => {
        const t = place.tenant();
        const whole = gzipSync(lines(range(5).map((i) => event(i))));
        const cut = place.file('cut.ndjson.gz', whole.subarray(0, whole.length - 12));
        for (const file of [path.join(place.folder, 'absent'), place.folder, cut]) {
            const run = await t.tally('ingest', file);
            assert.equal(run.code, 1);
            assert.ok(run.stderr.includes(file), run.stderr);
        }
        assert.equal((await t.ingest(place.file('empty.ndjson', ''))).code, 0);
        for (const args of [[], ['a', 'b'], ['-', '--as', 'x'], ['-', '--parallel', '0'], ['-', '--batch', 'x'], ['-', '--give-up', 'x']]) {
            assert.equal((await t.tally('ingest', ...args)).code, 2, args.join(' '));
        }
        const wrong = await t.tally('ingest', place.file('one.ndjson', lines(event(1))), '--token', 'x', '--tenant', 'y');
        assert.equal(wrong.code, 1);
        assert.match(wrong.stderr, /unauthorized/);
    });
});

describe('tally ingest against a server with small limits', () => {
    const server = serverFor({ settings: { 'limits.requestOps': 7, 'limits.queueOps': 50 } });
    const place = workplace(server);

    test('parcels that are too large are cut, a full queue is waited for', async () => {
        const t = place.tenant();
        const run = await t.ingest(place.file('ops.ndjson', lines(range(300).map(() => increment()))), '--parallel', '8');
        assert.equal(run.code, 0, run.stderr);
        assert.deepEqual(run.totals, { lines: 300, applied: 300, duplicates: 0, rejected: 0 });
        assert.equal(await t.net('c'), 300);
    });
});

describe('tally ingest when things break', () => {
    const server = new Server({ config: CONFIG });
    const relay = new Relay(() => server.port);
    const place = workplace(server, () => relay.url);
    before(async () => {
        await server.start();
        await relay.start();
    });
    after(async () => {
        await relay.stop();
        await server.stop();
    });
    const COUNT = 4000;
    /** Slow enough, 400 requests of 5 ms and more, that something can happen in between. */
    const start = (t, file) => {
        relay.delay = 5;
        return spawnTally(['ingest', file, '--batch', '10', '--json'], { env: t.env });
    };
    const end = async (run) => {
        relay.delay = 0;
        return run.exited;
    };

    test('S1: a server killed and restarted in between: every line counts exactly once', async () => {
        const t = place.tenant();
        const run = start(t, place.file('ops.ndjson', lines(range(COUNT).map(() => increment()))));
        await eventually('some lines to count', async () => (await t.net('c')) > 0, { every: 5 });
        await server.restart({ hard: true });
        assert.deepEqual(await end(run), { code: 0, signal: null }, run.stderr);
        assert.equal(await t.net('c'), COUNT);
    });

    test('A-31, defect 14: replies that are lost do not count twice', async () => {
        const t = place.tenant();
        relay.lose(5);
        const run = await t.ingest(place.file('lost.ndjson', lines(range(100).map(() => increment()))), '--batch', '10');
        assert.equal(relay.lost, 5);
        assert.equal(run.code, 0, run.stderr);
        assert.equal(run.totals.applied + run.totals.duplicates, 100);
        assert.equal(await t.net('c'), 100);
    });

    test('after Ctrl-C the same command goes on where it was', async () => {
        const t = place.tenant();
        const file = place.file('stopped.ndjson', lines(range(COUNT).map((i) => event(i))));
        const run = start(t, file);
        await eventually('some lines to count', async () => (await t.net('views')) > 50, { every: 5 });
        run.child.kill('SIGINT');
        assert.deepEqual(await end(run), { code: 1, signal: null });
        assert.match(run.stderr, /ended after line \d+; the same command goes on there\n/);
        assert.equal(place.notes().length, 1);
        const second = await t.ingest(file);
        assert.equal(second.code, 0, second.stderr);
        assert.match(second.stderr, /going on after line \d+\n/);
        assert.equal(second.totals.lines, COUNT);
        assert.equal(await t.net('views'), COUNT);
        assert.deepEqual(place.notes(), []);
    });

    test('a file that was changed meanwhile begins anew, and nothing counts twice', async () => {
        const t = place.tenant();
        const all = range(COUNT).map((i) => event(i));
        const file = place.file('changed.ndjson', lines(all));
        const run = start(t, file);
        await eventually('some lines to count', async () => (await t.net('views')) > 50, { every: 5 });
        run.child.kill('SIGTERM');
        await end(run);
        place.file('changed.ndjson', lines(event('new'), all));
        const second = await t.ingest(file);
        assert.match(second.stderr, /the file has changed/);
        assert.equal(await t.net('views'), COUNT + 1);
    });

    test('a server that stays away is given up, with the way to go on', async () => {
        const t = place.tenant();
        const file = place.file('away.ndjson', lines(event(1)));
        const run = await t.tally('ingest', file, '--url', 'http://127.0.0.1:1', '--give-up', '100ms');
        assert.equal(run.code, 1);
        assert.match(run.stderr, /Cannot reach tally at http:\/\/127\.0\.0\.1:1.*\(unreachable\)\n/s);
        assert.equal(run.stdout, '0 lines: 0 applied, 0 duplicates, 0 rejected; 0 s, 0 lines/s\n'.replace('0 s', run.stdout.match(/; (\d+ s)/)[1]));
    });
});
