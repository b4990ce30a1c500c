// bench-command.test.mjs -- `tally bench`: the load generator counts what it sends, once.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';

import { serverFor, TALLY_BIN } from './support/server.mjs';

const run = promisify(execFile);

describe('tally bench', () => {
    const server = serverFor({
        config: 'counters:\n  - counterName: bench_views\n    rules: [{ on: page.viewed, op: increment }]\n',
    });

    const bench = async (t, ...args) => {
        const { stdout } = await run(TALLY_BIN, ['bench', '--url', server.url, '--token', t.token,
            '--seconds', '0.5', '--keys', '1', ...args]);
        return stdout;
    };

    test("SPEC 2: every increment it reports was counted, for the token's own tenant", async () => {
        const t = server.tenant();
        const report = JSON.parse(await bench(t, '--json', '--connections', '4', '--depth', '3'));
        assert.equal(report.failed, 0);
        assert.ok(report.ops > 0 && report.ops === report.requests);
        assert.ok(report.p50Ms <= report.p99Ms && report.p99Ms <= report.maxMs);
        const reply = await t.get('bench-0', { durationSeconds: 3600, timestamp: 1767225600 });
        assert.equal(reply.body.net, String(report.ops));
    });

    test('an open loop sends what is due, and no more', async () => {
        const report = JSON.parse(await bench(server.tenant(), '--json', '--connections', '4', '--rate', '100'));
        assert.ok(report.requests <= 51);
        assert.equal(report.requests + report.late, 50);
    });

    test('an open loop sleeps until the next request is due', async () => {
        const { stdout } = await run('bash', ['-c', '"$@" >/dev/null && times', 'bash', TALLY_BIN, 'bench', '--url', server.url,
            '--token', server.tenant().token, '--seconds', '1', '--connections', '4', '--rate', '1001']);
        const spent = stdout.trim().split(/\s+/).slice(-2).map((text) => /(\d+)m([\d.]+)s/.exec(text))
            .reduce((sum, [, minutes, seconds]) => sum + 60 * minutes + Number(seconds), 0);
        assert.ok(spent < 0.6, `${spent} s of CPU in a second of waiting`);
    });

    test('events and batches carry many at once', async () => {
        const t = server.tenant();
        const events = JSON.parse(await bench(t, '--json', '--work', 'events', '--batch', '7', '--connections', '2'));
        assert.equal(events.ops, events.requests * 7);
        const views = await t.get('bench_views', {});
        assert.equal(views.body.net, String(events.ops));
        const batches = JSON.parse(await bench(t, '--json', '--work', 'batch', '--batch', '5', '--connections', '2'));
        assert.equal(batches.failed, 0);
        assert.match(await bench(t, '--work', 'get'), /operations a second.*0 failed\n {2}latency {2}p50 /s);
    });

    test('a server that is not there, a wrong token and wrong options are told apart', async () => {
        const failing = (...args) => run(TALLY_BIN, ['bench', '--seconds', '0.2', ...args]).then(assert.fail, (error) => error);
        const absent = await failing('--url', 'http://127.0.0.1:1', '--token', 'x', '--tenant', 't');
        assert.equal(absent.code, 1);
        assert.match(absent.stderr, /cannot connect/);
        const refused = await failing('--url', server.url, '--token', 'x', '--tenant', 't');
        assert.equal(refused.code, 1);
        assert.match(refused.stderr, /unauthorized/);
        const whose = await failing('--url', server.url, '--token', 'x');
        assert.equal(whose.code, 2);
        assert.match(whose.stderr, /whose counters\?/);
        for (const wrong of [['--work', 'nothing'], ['--depth', '0'], ['--url', 'ftp://x'], ['--connections', 'x']]) {
            assert.equal((await failing('--token', 'x', '--tenant', 't', ...wrong)).code, 2);
        }
    });
});
