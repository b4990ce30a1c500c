// cli-values.test.mjs -- one call each: inc, dec, set, get, sum, series.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';

import { cliFor } from './support/cli.mjs';
import { eventually, patience, within } from './support/pace.mjs';
import { newDirectory, removeDirectory, runTally, serverFor, spawnTally } from './support/server.mjs';

const good = (run) => {
    assert.equal(run.code, 0, run.stderr);
    assert.equal(run.stderr, '');
    return run.stdout;
};
const json = (run) => JSON.parse(good(run));

describe('tally inc, dec, set', () => {
    const server = serverFor();
    const client = () => {
        const t = server.tenant();
        t.tally = cliFor(server, t.token);
        return t;
    };

    test('SPEC 2: they change a counter and print what it holds then', async () => {
        const { tally } = client();
        assert.equal(good(await tally('inc', 'visits')), '1  (added 1, subbed 0)\n');
        assert.equal(good(await tally('inc', 'visits', '9')), '10  (added 10, subbed 0)\n');
        assert.equal(good(await tally('dec', 'visits', '3')), '7  (added 10, subbed 3)\n');
        assert.equal(good(await tally('set', 'visits', '5')), '5  (added 10, subbed 5)\n');
        assert.deepEqual(json(await tally('inc', 'visits', '--sync', '--json')), { net: '6', added: '11', subbed: '5' });
    });

    test('the same key counts once, and says so', async () => {
        const { tally } = client();
        assert.equal(good(await tally('inc', 'a', '5', '--key', 'order 17')), '5  (added 5, subbed 0)\n');
        assert.match(good(await tally('inc', 'a', '5', '--key', 'order 17')), /^5 .*counted before/);
        const day = ['inc', 'a', '--key', 'day', '--duration', '20000d'];
        for (const said of [/^1 [^c]*$/, /^1 .*counted before/]) assert.match(good(await tally(...day)), said);
        const other = await tally('inc', 'a', '6', '--key', 'order 17');
        assert.equal(other.code, 1);
        assert.match(other.stderr, /idempotency_conflict/);
    });

    test('a refusal is exit 1 with the sentence and the code on stderr, JSON with --json', async () => {
        const { tally } = client();
        const below = await tally('dec', 'a');
        assert.deepEqual([below.code, below.stdout], [1, '']);
        assert.match(below.stderr, /^tally dec: Operation failed.*\(constraint_violation\)\n$/);
        await tally('inc', 'quota', '3');
        const above = await tally('inc', 'quota', '--max', '3', '--json');
        assert.deepEqual([above.code, above.stdout], [1, '']);
        assert.equal(JSON.parse(above.stderr).code, 'limit_exceeded');
    });

    test('wrong usage is exit 2, and nothing is sent', async () => {
        const t = client();
        for (const args of [['inc'], ['inc', 'a/b'], ['inc', 'a', '0'], ['inc', 'a', '1.5'], ['inc', 'a', '1', '2'],
            ['inc', 'a', '--duration', '1.5s'], ['inc', 'a', '--duration', '-1'], ['inc', 'a', '--at', 'yesterday'],
            ['inc', 'a', '--nonsense'], ['inc', 'a', '--max', 'x'], ['dec', 'a', '--max', '1'], ['set', 'a'],
            ['set', 'a', '-1'], ['inc', 'a', '--timeout', '0'], ['inc', 'a', '--url', 'gopher://x'], ['inc', 'a', '--url', '']]) {
            const run = await t.tally(...args);
            assert.equal(run.code, 2, `${args.join(' ')}: ${run.stderr}`);
            assert.match(run.stderr, new RegExp(`See \`tally ${args[0]} --help\``));
        }
        assert.deepEqual(await t.listAll(), []);
    });

    test('A-24: names of every allowed character reach the server as they are', async () => {
        const t = client();
        const names = ['.', '..', '...', '~', '-', '--', '_', 'A.b~C_d-9', 'x'.repeat(255)];
        for (const name of names) assert.equal(json(await t.tally('inc', '--json', '--', name)).net, '1', name);
        assert.deepEqual((await t.listAll()).map((each) => each.name).sort(), names.sort());
    });

    test('neither the token nor a password in the URL is ever shown', async () => {
        const { token } = client();
        const outputs = await Promise.all([
            runTally(['inc', 'a', '--token', token, '--url', 'http://me:hunter2@127.0.0.1:1']),
            runTally(['inc', 'a', '--token', token, '--url', 'http://me:hunter2@no such host']),
            runTally(['inc', 'a', '--token', `${token}\r\nX: y`, '--url', server.url]),
            runTally(['inc', 'a', '--token', `${token}x`, '--url', server.url]),
        ]);
        for (const run of outputs) {
            assert.notEqual(run.code, 0);
            assert.ok(!run.stderr.includes('hunter2') && !run.stderr.includes(token.slice(0, 20)), run.stderr);
        }
        assert.match(outputs[0].stderr, /Cannot reach tally at http:\/\/127\.0\.0\.1:1:/);
    });

    test('SPEC 10: a token or secret given as an argument is not in the list of processes', async () => {
        const { token } = client();
        const secret = 'a secret of thirty-two bytes or more';
        const directory = newDirectory('arguments');
        const serve = ['serve', '--listen', '127.0.0.1:0', '--data', directory];
        const waiting = ['get', 'a', '--url', 'http://127.0.0.1:1', '--timeout', '1m'];
        const cases = [
            [[...waiting, '--token', token], token],
            [[...waiting, `--token=${token}`], token],
            [[...serve, '--set', `auth.jwtSecret=${secret}`], secret],
            [[...serve, `--set=auth.jwtSecret=${secret}`], secret],
        ];
        for (const [args, hidden] of cases) {
            const run = spawnTally(args);
            const listed = await eventually('the arguments to be hidden', () => {
                const text = readFileSync(`/proc/${run.child.pid}/cmdline`, 'utf8');
                return text.includes('***') && !text.includes(hidden) && text;
            });
            assert.ok(listed.includes(args[0]), 'the rest is there to see');
            run.child.kill('SIGTERM');
            await within(patience(20000), 'tally to stop', run.exited);
        }
        removeDirectory(directory);
    });
});

describe('tally get, sum, series', () => {
    const server = serverFor();
    const hour = { durationSeconds: 3600 };
    const at = (t) => ({ ...hour, timestamp: `2026-01-01T${t}:30:00Z` });
    const range = ['--duration', '1h', '--from', '2026-01-01T10:00:00Z', '--to', '2026-01-01T13:59:00Z'];
    const client = async () => {
        const t = server.tenant();
        t.tally = cliFor(server, t.token);
        await t.increment('visits', { ...at('10'), amount: 5 });
        await t.increment('visits', { ...at('13'), amount: 1000 });
        await t.decrement('visits', at('13'));
        return t;
    };

    test('SPEC 2: get prints one bucket', async () => {
        const { tally } = await client();
        const one = ['get', 'visits', '--duration', '3600', '--at', '2026-01-01T13:59:59Z'];
        assert.equal(good(await tally(...one)), '999  (added 1000, subbed 1)\n');
        assert.deepEqual(json(await tally(...one, '--json')), { net: '999', added: '1000', subbed: '1' });
        const absent = await tally('get', 'nothing');
        assert.deepEqual([absent.code, absent.stdout, absent.stderr], [1, '', 'tally get: not found (not_found)\n']);
    });

    test('sum adds up, past 64 bits too', async () => {
        const t = await client();
        assert.equal(good(await t.tally('sum', 'visits', ...range)), '1004  (added 1005, subbed 1)\n');
        const most = '9223372036854775807';
        for (const hours of ['10', '11']) await t.increment('huge', { ...at(hours), amount: most });
        assert.match(good(await t.tally('sum', 'huge', ...range)), /^18446744073709551614 /);
    });

    test('series prints a table, or the reply as it is', async () => {
        const { tally } = await client();
        assert.equal(good(await tally('series', 'visits', ...range)), [
            'start                     net  added  subbed',
            '2026-01-01T10:00:00.000Z    5      5       0',
            '2026-01-01T13:00:00.000Z  999   1000       1', ''].join('\n'));
        assert.equal(json(await tally('series', 'visits', ...range, '--fill', '--json')).buckets.length, 4);
        const many = await tally('series', 'visits', ...range, '--limit', '1');
        assert.equal(many.code, 1);
    });

    test('times may be before now, and the last day is the default', async () => {
        const { tally } = await client();
        await tally('inc', 'x', '--duration', '1m', '--at', '-1h');
        await tally('inc', 'x', '2', '--duration', '1m', '--at', '-30h');
        assert.equal(json(await tally('sum', 'x', '--duration', '60', '--json')).net, '1');
        assert.equal(json(await tally('sum', 'x', '--duration', '60', '--from', '-2d', '--to', '-29h', '--json')).net, '2');
        const wrong = await tally('sum', 'x', '--from', '-2');
        assert.equal(wrong.code, 0, 'an epoch number may be negative');
    });

    test('get of a counter that is kept in other granularities says in which, and the option that reads it', async () => {
        const { tally } = await client();
        assert.equal((await tally('inc', 'hello', '--duration', '1m')).code, 0);
        const other = await tally('get', 'hello');
        assert.deepEqual([other.code, other.stdout], [1, '']);
        assert.equal(other.stderr, [
            'tally get: not found: the counter is kept with durationSeconds 60. (not_found)',
            'tally get: the counter is there: read it with --duration 1m', ''].join('\n'));
        assert.equal(good(await tally('get', 'hello', '--duration', '1m')), '1  (added 1, subbed 0)\n');
        const json = await tally('get', 'hello', '--json');
        assert.equal(JSON.parse(json.stderr).code, 'not_found');
    });

    test('sum and series of what nobody has counted say so on stderr; the output stays what it is', async () => {
        const { tally } = await client();
        const empty = 'start                     net  added  subbed\n';
        const said = async (...args) => {
            const { code, stdout, stderr } = await tally(...args);
            assert.equal(code, 0, stderr);
            return [stdout, stderr];
        };
        const none = '0  (added 0, subbed 0)\n';
        assert.deepEqual(await said('sum', 'visit'), [none, 'tally sum: there is no counter visit\n']);
        assert.deepEqual(await said('series', 'visit'), [empty, 'tally series: there is no counter visit\n']);
        const hint = 'the counter is there: read it with --duration 1h\n';
        assert.deepEqual(await said('sum', 'visits', '--duration', '1m'), [none, `tally sum: ${hint}`]);
        assert.deepEqual(await said('series', 'visits', '--duration', '1m'), [empty, `tally series: ${hint}`]);
        assert.deepEqual(await said('sum', 'visits', '--duration', '1h'), [none, '']);
        const [, warning] = await said('sum', 'visit', '--json');
        assert.deepEqual(JSON.parse(warning), { warning: 'there is no counter visit' });
    });

    test('options are called what the fields are called; what they were called before still works', async () => {
        const { tally } = await client();
        const same = async (...spellings) => {
            const replies = [];
            for (const args of spellings) replies.push(good(await tally(...args, '--json')));
            assert.equal(new Set(replies).size, 1, replies.join());
        };
        const time = '2026-01-01T13:59:59Z';
        await same(...['--timestamp', '--at'].map((name) => ['get', 'visits', '--duration', '1h', name, time]));
        await same(...[['--start-time', '--end-time'], ['--startTime', '--endTime'], ['--from', '--to']].map(([start, end]) =>
            ['sum', 'visits', '--duration', '1h', start, '2026-01-01T10:00:00Z', end, time]));
        await same(...['--expires-at', '--expiresAt', '--expires'].map((name) => ['inc', 'once', '--key', 'k', name, '2099-01-01']));
        for (const name of ['--eventId', '--id', '--event-id']) {
            const { eventId } = JSON.parse(good(await tally('event', 'seen', name, `${name}-1`, '--occurred-at', time, '--json')));
            assert.equal(eventId, `${name}-1`);
        }
        assert.equal((await tally('get', 'visits', '--timeStamp', time)).code, 2);
    });

    test('a dimension needs a key and a value; a direct counter has none', async () => {
        const { tally } = await client();
        assert.equal((await tally('get', 'visits', '--dim', 'page')).code, 2);
        assert.equal((await tally('get', 'visits', '--dim', '=a')).code, 2);
        assert.equal((await tally('get', 'visits', '--dim', 'page=a')).code, 1);
    });
});
