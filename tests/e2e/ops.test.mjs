// What an operator sees: health, metrics, logs, the command line.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, UNAUTHORIZED } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { dimensionKey, rulesServer } from './support/rules.mjs';
import { runTally, serverFor, TOTAL } from './support/server.mjs';
import { SECRET, tokenFor } from './support/tokens.mjs';

const NAMES = [
    'counter_update_success_total', 'duplicate_event_dropped_total', 'counter_update_conflict_retries', 'projection_lag_seconds',
    'projection_skipped_total', 'tally_queue_depth', 'tally_batch_size', 'tally_commit_seconds', 'tally_http_requests_total', 'tally_http_seconds',
];

/** Parses Prometheus text strictly: {types: Map, samples: [{name, labels, value}]}. */
function parseMetrics(text) {
    assert.ok(text.endsWith('\n'), 'the last line has no end');
    const types = new Map();
    const samples = [];
    const seen = new Set();
    for (const line of text.slice(0, -1).split('\n')) {
        const type = /^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram|summary|untyped)$/.exec(line);
        if (type) {
            assert.ok(!types.has(type[1]), `${type[1]} has two TYPE lines`);
            types.set(type[1], type[2]);
            continue;
        }
        if (/^# HELP [a-zA-Z_:][\w:]* \S/.test(line)) continue;
        const sample = /^([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|NaN|[+-]Inf)$/.exec(line);
        assert.ok(sample, `no valid line: ${line}`);
        const labels = {};
        for (const pair of (sample[2] ?? '').match(/[^,=]+="(?:[^"\\]|\\.)*"/g) ?? []) {
            const [, key, value] = /^([a-zA-Z_]\w*)="(.*)"$/.exec(pair);
            labels[key] = value;
        }
        const id = `${sample[1]}{${sample[2] ?? ''}}`;
        assert.ok(!seen.has(id), `${id} stands twice`);
        seen.add(id);
        samples.push({ name: sample[1], labels, value: Number(sample[3].replace('Inf', 'Infinity')) });
    }
    return { types, samples };
}

const family = (name, types) => (types.has(name) ? name : name.replace(/_(bucket|sum|count)$/, ''));

describe('operating it', () => {
    const server = serverFor();
    const metrics = async () => parseMetrics((await server.call('GET', '/metrics')).text);
    const total = ({ samples }, name, labels = {}) => samples
        .filter((sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value))
        .reduce((sum, sample) => sum + sample.value, 0);

    test('SPEC 3: /healthz and /readyz are 200 without a token', async () => {
        for (const path of ['/healthz', '/readyz']) {
            const reply = await server.call('GET', path);
            assert.equal(reply.status, 200, `${path}: ${reply.text}`);
        }
    });

    test('SPEC 10, X-10: /metrics is valid Prometheus text with every promised name', async () => {
        const t = server.tenant();
        await t.increment('m', TOTAL);
        const reply = await server.call('GET', '/metrics');
        assert.equal(reply.status, 200);
        assert.match(reply.headers.get('content-type'), /^text\/plain/);
        const { types, samples } = parseMetrics(reply.text);
        for (const name of NAMES) assert.ok(types.has(name), `${name} is missing`);
        for (const sample of samples) assert.ok(types.has(family(sample.name, types)), `${sample.name} has no TYPE`);
    });

    test('SPEC 10: histograms have growing buckets up to +Inf, a sum and a count that agree', async () => {
        const { types, samples } = await metrics();
        for (const [name] of [...types].filter(([, type]) => type === 'histogram')) {
            const groups = new Map();
            for (const sample of samples.filter((one) => one.name === `${name}_bucket`)) {
                const { le, ...labels } = sample.labels;
                const key = JSON.stringify(labels);
                groups.set(key, [...(groups.get(key) ?? []), [le, sample.value]]);
            }
            for (const [key, buckets] of groups) {
                const values = buckets.map(([, value]) => value);
                assert.deepEqual(values, [...values].sort((a, b) => a - b), `${name}${key}`);
                assert.equal(buckets.at(-1)[0], '+Inf', `${name}${key}`);
                assert.equal(total({ samples }, `${name}_count`, JSON.parse(key)), values.at(-1), `${name}${key}`);
                assert.equal(samples.filter((one) => one.name === `${name}_sum`).length, groups.size);
            }
        }
    });

    test('S3-87: requests are counted by route and status, batched and sync apart', async () => {
        const t = server.tenant();
        const before = await metrics();
        for (let i = 0; i < 3; i++) await t.increment('m', TOTAL);
        for (let i = 0; i < 2; i++) await t.write('incrementSync', 'm', TOTAL);
        await t.decrement('none', TOTAL);
        const sum = (all) => total(all, 'tally_http_requests_total', { status: '409' }) + total(all, 'counter_update_success_total');
        /* A request is counted once its reply has left: another connection may be quicker than that. */
        const after = await eventually('the last request to be counted', async () => {
            const now = await metrics();
            return sum(now) - sum(before) >= 6 ? now : null;
        });
        const grown = (status) => {
            const changes = new Map();
            for (const sample of after.samples.filter((one) => one.name === 'tally_http_requests_total' && one.labels.status === status)) {
                const change = sample.value - total(before, sample.name, sample.labels);
                if (change > 0 && !/metrics/.test(sample.labels.route)) changes.set(sample.labels.route, change);
            }
            return changes;
        };
        assert.deepEqual([...grown('200').values()].sort(), [2, 3], 'two routes for batched and sync');
        assert.deepEqual([...grown('409').values()], [1]);
        assert.equal(total(after, 'counter_update_success_total') - total(before, 'counter_update_success_total'), 5);
    });

    test('SPEC 10: what is answered from a key is counted as that, and not as a change or a refusal again', async () => {
        const t = server.tenant();
        const op = (name, idempotencyKey, kind = 'increment') => ({ op: kind, name, ...TOTAL, ...(idempotencyKey && { idempotencyKey }) });
        const once = [() => t.increment('m', TOTAL, { 'Idempotency-Key': 'one' }),
            () => t.decrement('none', TOTAL, { 'Idempotency-Key': 'two' }),
            () => t.batch([op('m'), op('none', undefined, 'decrement')], { headers: { 'Idempotency-Key': 'three' } }),
            () => t.batch([op('m', 'four'), op('none', 'five', 'decrement')])];
        const names = ['counter_update_success_total', 'tally_constraint_refused_total', 'tally_keys_replayed_total'];
        const figures = async () => {
            const now = await metrics();
            return names.map((name) => total(now, name));
        };
        const grown = async (work) => {
            const before = await figures();
            for (const send of work) assert.ok([200, 409].includes((await send()).status));
            return (await figures()).map((value, i) => value - before[i]);
        };
        assert.deepEqual(await grown(once), [3, 3, 0]);
        assert.deepEqual(await grown(once), [0, 0, 5], 'a key of a batch is one, keys of its operations are their own');
    });

    test('SPEC 10: what came to no route is counted too: an unknown path, a wrong method, no HTTP at all', async () => {
        const counted = async () => {
            const now = await metrics();
            return ['404', '405', '400'].map((status) => total(now, 'tally_http_requests_total', { route: 'other', status }));
        };
        const before = await counted();
        await server.call('GET', '/no/such/path');
        await server.call('PATCH', '/healthz');
        const connection = await server.raw();
        connection.write('this is not HTTP\r\n\r\n');
        assert.equal((await connection.replies(1))[0].status, 400);
        connection.destroy();
        await eventually('all three to be counted', async () => (await counted()).every((count, i) => count === before[i] + 1));
    });

    test('SPEC 10: no tenant, counter, token or key shows in the metrics', async () => {
        const t = server.tenant('walrus-tenant');
        await t.increment('walrus-counter', TOTAL, { 'Idempotency-Key': 'walrus-key' });
        await server.call('GET', '/walrus-path');
        await server.call('GET', '/api/counters/walrus-tenant/x/walrus-action', { token: t.token });
        assert.ok(!(await server.call('GET', '/metrics')).text.includes('walrus'));
    });

    test('SPEC 10: the set of routes does not grow with what clients ask for', async () => {
        const routes = async () => new Set((await metrics()).samples.map((sample) => sample.labels.route)).size;
        await server.call('GET', '/unknown-first');
        const before = await routes();
        for (let i = 0; i < 50; i++) await server.call('GET', `/unknown-${i}`);
        assert.equal(await routes(), before);
    });

    test('SPEC 10: the log is one JSON object a line, with level, ts and msg, and no token or secret in it', async () => {
        const t = server.tenant();
        await t.increment('logged', TOTAL);
        await server.call('POST', t.path('x', 'increment'), { token: `${t.token}x`, body: TOTAL });
        await server.restart();
        const text = await eventually('some log', () => server.stderr);
        for (const line of text.trimEnd().split('\n')) {
            const entry = JSON.parse(line);
            assert.match(entry.level, /^(debug|info|warn|error)$/, line);
            assert.ok(!Number.isNaN(Date.parse(entry.ts)), line);
            assert.equal(typeof entry.msg, 'string', line);
        }
        for (const secret of [SECRET, t.token, t.token.split('.')[2]]) assert.ok(!text.includes(secret));
    });

    test('SPEC 2: the ready line is the one line on stdout', async () => {
        assert.match(server.stdout, /^tally ready on http:\/\/127\.0\.0\.1:\d+\n$/);
    });
});

describe('the log at level debug', () => {
    const server = serverFor({ settings: { 'log.level': 'debug' } });

    test('SPEC 10: it is still JSON line by line and shows neither token nor secret', async () => {
        const t = server.tenant();
        await t.increment('logged', TOTAL, { 'Idempotency-Key': 'k' });
        await server.call('POST', t.path('x', 'increment'), { token: 'not-a-token-but-long-enough', body: TOTAL });
        for (const line of server.stderr.trimEnd().split('\n').filter(Boolean)) JSON.parse(line);
        for (const secret of [SECRET, t.token, 'not-a-token-but-long-enough']) assert.ok(!server.stderr.includes(secret));
    });
});

describe('what events did, at level debug', () => {
    const { server, tenant } = rulesServer(`counters:
  - counterName: open
    dimensions: [room]
    transition: { entity: [who] }
    rules: [{ on: enter, op: increment }, { on: leave, op: decrement }]
`, { settings: { 'log.level': 'debug' } });

    test('SPEC 10: a transition-safe decrement names the set it counted under, not the event\'s', async () => {
        const t = tenant();
        await t.send('other', {}); // what comes with a change of rules has no lines: a node may find its own in force only now
        await t.send('enter', { who: 'w', room: 'a' });
        await t.send('leave', { who: 'w', room: 'b' });
        await t.send('leave', { who: 'w', room: 'b' });
        const lines = await eventually('three lines', async () => {
            const found = server.stderr.split('\n').slice(0, -1).map((line) => JSON.parse(line)).filter((line) => line.msg === 'counter change');
            return found.length === 3 && found;
        });
        assert.deepEqual(lines.map(({ op, result, dimensionKey: key }) => [op, result, key]), [
            ['INC', 'APPLIED', dimensionKey({ room: 'a' })],
            ['DEC', 'APPLIED', dimensionKey({ room: 'a' })],
            ['DEC', 'IGNORED_TRANSITION', dimensionKey({ room: 'b' })],
        ]);
        assert.equal(await t.net('open', { room: 'a' }), 0);
    });
});

describe('metrics that are not public', () => {
    const server = serverFor({ settings: { 'metrics.public': 'false' } });

    test('SPEC 3: metrics.public: false asks for an admin token', async () => {
        const ask = (token) => server.call('GET', '/metrics', { token });
        const nobody = await ask();
        assert.equal(nobody.status, 401);
        assert.deepEqual(nobody.body, UNAUTHORIZED);
        assert.equal((await ask('junk')).status, 401);
        expectError(await ask(tokenFor('acme')), 403, 'forbidden');
        assert.equal((await ask(tokenFor('acme', { scope: 'admin' }))).status, 200);
        assert.equal((await server.call('GET', '/healthz')).status, 200);
    });
});

describe('the command line', () => {
    test('SPEC 2: --help prints help and exits 0', async () => {
        for (const args of [['--help'], ['serve', '--help'], ['token', '--help'], ['check-config', '--help']]) {
            const end = await runTally(args);
            assert.equal(end.code, 0, `${args.join(' ')}: ${end.stderr}`);
            assert.match(end.stdout, /tally/);
        }
    });

    test('SPEC 2: no command is wrong usage', async () => {
        const end = await runTally([]);
        assert.equal(end.code, 2);
        assert.notEqual(end.stderr, '');
    });

    describe('tally token', () => {
        const server = serverFor();

        test('SPEC 2: tally token prints a token the server accepts, with the scope asked for', async () => {
            const make = (...more) => runTally(['token', '--tenant', 'cli', '--set', `auth.jwtSecret=${SECRET}`, ...more]);
            const full = await make();
            assert.equal(full.code, 0, full.stderr);
            const write = (token) => server.call('POST', '/api/counters/cli/x/increment', { token, body: TOTAL });
            assert.equal((await write(full.stdout.trim())).status, 200);
            const reader = await make('--scope', 'read', '--ttl', '1h');
            assert.equal((await write(reader.stdout.trim())).status, 403);
        });
    });
});
