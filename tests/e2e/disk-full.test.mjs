// A disk without room: writes are refused as undecided, reads go on, and it recovers by itself.
//
// Needs a file system of its own: a small tmpfs, which only root may mount.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';

import { expectError, expectTriple } from './support/expect.mjs';
import { eventually, within } from './support/pace.mjs';
import { newDirectory, removeDirectory, Server, TOTAL } from './support/server.mjs';

const mountPoint = newDirectory('disk');
const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=96m', 'tmpfs', mountPoint]);
const reason = mounted.status === 0 ? false : `cannot mount a tmpfs here: ${(mounted.stderr ?? mounted.error ?? '').toString().trim()}`;
if (reason) console.log(`disk-full tests left out: ${reason}`);

describe('a full disk', { skip: reason }, () => {
    const filler = path.join(mountPoint, 'filler');
    const options = {
        data: path.join(mountPoint, 'data'),
        settings: {
            'journal.segmentBytes': 1048576, 'journal.keep': '0s', 'checkpoint.every': '200ms', 'checkpoint.journalBytes': 1048576,
            'limits.counterGranularities': 4, 'limits.batchOps': 240, // what such a segment has room for
        },
    };
    const server = new Server(options);

    before(() => server.start());
    afterEach(() => rmSync(filler, { force: true }));
    after(async () => {
        try {
            await server.stop();
        } finally {
            spawnSync('umount', [mountPoint]);
            removeDirectory(mountPoint);
        }
    });

    function fillDisk() {
        const file = openSync(filler, 'a');
        try {
            for (let size = 1048576; size >= 4096; size = Math.floor(size / 4)) {
                const block = Buffer.alloc(size, 120);
                try {
                    for (;;) if (writeSync(file, block) < size) break;
                } catch (error) {
                    assert.equal(error.code, 'ENOSPC');
                }
            }
        } finally {
            closeSync(file);
        }
    }

    /** Large batches under keys until one is not acknowledged; returns those that were, and that one. */
    async function writeUntilRefused(t, round) {
        const acknowledged = [];
        const undecided = await eventually('a refused write', async () => {
            fillDisk();
            const key = `${round}-${acknowledged.length}`;
            const ops = Array.from({ length: 200 }, (_, i) => ({ op: 'increment', name: `filling-${round}-${i}-${'x'.repeat(100)}`, durationSeconds: 60, timestamp: acknowledged.length * 60 }));
            ops.push({ op: 'increment', name: `batches-${round}`, ...TOTAL });
            const reply = await send(t, { key, ops });
            if (reply?.status === 200) {
                assert.deepEqual(reply.body.results, []);
                acknowledged.push(key);
                return null;
            }
            if (reply) expectError(reply, 503, 'storage_unavailable');
            return { key, ops, reply };
        }, { ms: 30000, every: 0 });
        return { acknowledged, undecided };
    }

    /** One keyed batch; null if the connection broke before an answer. */
    function send(t, { key, ops }) {
        return t.batch(ops, { query: '?results=errors', headers: { 'Idempotency-Key': key } }).catch((error) => {
            if (error instanceof TypeError) return null; // how fetch reports a broken connection
            throw error;
        });
    }

    for (const round of [1, 2]) {
        test(`SPEC 10: round ${round}: writes are 503 storage_unavailable, reads go on, nothing acknowledged is lost, and room brings writes back`, async () => {
            const t = server.tenant('full');
            expectTriple(await t.increment(`before-${round}`, { ...TOTAL, amount: 7 }), 7);
            const { acknowledged, undecided } = await writeUntilRefused(t, round);
            assert.ok(undecided.reply, 'the server went away');

            expectTriple(await t.get(`before-${round}`), 7);
            assert.equal((await t.list({ limit: 10 })).status, 200);
            const single = await t.increment('refused', TOTAL);
            if (single.status !== 200) expectError(single, 503, 'storage_unavailable');
            await eventually('/readyz to say so', async () => {
                await t.write('incrementSync', `probe-${round}`, TOTAL);
                return (await server.call('GET', '/readyz')).status === 503;
            });
            assert.equal((await server.call('GET', '/healthz')).status, 200);

            rmSync(filler);
            const decided = await eventually('writes to come back', async () => {
                const reply = await send(t, undecided);
                return reply.status === 200 && reply;
            }, { ms: 30000, every: 200 });
            assert.deepEqual(decided.body.results, []);
            expectTriple(await t.get(`batches-${round}`), acknowledged.length + 1);
            await eventually('/readyz to be well', async () => (await server.call('GET', '/readyz')).status === 200);
        });
    }

    test('SPEC 10, X-08: after kill -9 everything acknowledged is there', async () => {
        const t = server.tenant('full');
        const before = await Promise.all(['batches-1', 'batches-2', 'before-1', 'before-2'].map((name) => t.get(name)));
        await server.restart({ hard: true });
        for (const [index, name] of ['batches-1', 'batches-2', 'before-1', 'before-2'].entries()) {
            assert.equal((await t.get(name)).text, before[index].text, name);
        }
        expectTriple(await t.increment('alive', TOTAL), 1);
    });

    for (const how of ['killed', 'stopped']) {
        test(`SPEC 10: a ${how} server starts on a disk that is full to the last block, answers reads, refuses writes, and writes again once there is room`, async () => {
            const name = `kept-${how}`;
            expectTriple(await server.tenant('full').increment(name, { ...TOTAL, amount: 5 }), 5);
            await eventually('the room kept back to be used up', async () => {
                await writeUntilRefused(server.tenant('full'), `last-${how}`);
                fillDisk();
                return !existsSync(path.join(options.data, 'RESERVE'));
            }, { ms: 30000, every: 50 });
            await server[how === 'killed' ? 'kill' : 'stop']();
            fillDisk();

            await server.start();
            const t = server.tenant('full');
            expectTriple(await t.get(name), 5);
            assert.equal((await t.list({ limit: 10 })).status, 200);
            const { acknowledged, undecided } = await writeUntilRefused(t, `full-${how}`); // a spare segment may be left
            assert.ok(undecided.reply, 'the server went away');
            await eventually('/readyz to say so', async () => (await server.call('GET', '/readyz')).status === 503);
            assert.match(server.stderr, /the disk is full/);
            expectTriple(await t.get(name), 5);

            rmSync(filler);
            await eventually('writes to come back', async () => (await send(t, undecided)).status === 200, { ms: 30000, every: 200 });
            await eventually('/readyz to be well', async () => (await server.call('GET', '/readyz')).status === 200);
            await server.restart({ hard: true });
            expectTriple(await t.get(name), 5);
            expectTriple(await t.get(`batches-full-${how}`), acknowledged.length + 1);
        });
    }

    test('X-08: a crash while the journal begins again after a full disk loses and repeats nothing', async () => {
        await server.stop();
        const doomed = new Server({ ...options, env: { TALLY_CRASH_POINT: 'journal.restart.before_header' } });
        await doomed.start();
        let written;
        try {
            written = await writeUntilRefused(doomed.tenant('full'), 3);
            rmSync(filler);
            const end = await within(10000, 'the crash point', doomed.exited);
            assert.equal(end.signal, 'SIGKILL');
        } finally {
            await doomed.kill();
        }
        const { acknowledged, undecided } = written;
        await server.start();
        const t = server.tenant('full');
        assert.deepEqual((await send(t, undecided)).body.results, []);
        expectTriple(await t.get('batches-3'), acknowledged.length + 1);
    });
});
if (reason) removeDirectory(mountPoint);
