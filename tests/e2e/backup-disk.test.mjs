// Backups on a disk without room: they fail and say so, leave nothing behind, and counting goes on.
//
// Needs file systems of its own: small tmpfs, which only root may mount.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';

import { backedUp, backup } from './support/errands.mjs';
import { expectTriple } from './support/expect.mjs';
import { homesOf } from './support/lanes.mjs';
import { over } from './support/rebuild.mjs';
import { LANES, newDirectory, removeDirectory, Server, TOTAL } from './support/server.mjs';

const root = newDirectory('backup-disk');
const mounts = [];

function mount(name, size) {
    const point = path.join(root, name);
    mkdirSync(point);
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', point]);
    if (mounted.status === 0) mounts.push(point);
    return mounted.status === 0 ? point : null;
}

const separate = mount('ops', '4m');
const shared = separate && mount('both', LANES === 1 ? '96m' : '130m'); // a new store takes 30 MiB, one of four lanes 60
const reason = shared ? false : 'cannot mount a tmpfs here';
if (reason) console.log(`backup-disk tests left out: ${reason}`);

after(() => {
    for (const point of mounts) spawnSync('umount', [point]);
    removeDirectory(root);
});

const SETTINGS = { 'journal.segmentBytes': 1048576, 'journal.keep': '0s', 'checkpoint.every': '200ms', 'limits.counterGranularities': 4, 'limits.batchOps': 240 };
const adminOf = (s) => s.tenant('operator', { scope: 'admin' });
const leftovers = (ops) => (existsSync(path.join(ops, 'backups')) ? readdirSync(path.join(ops, 'backups')) : []);

describe('a backup without room', { skip: reason }, () => {
    for (const what of ['backups', 'exports']) {
        test(`X-08: ${what}: it fails and says why, nothing is left of it, and with room it works`, async () => {
            const ops = path.join(separate, what);
            mkdirSync(ops);
            const s = new Server({ data: path.join(root, `data-${what}`), settings: { ...SETTINGS, 'ops.dir': ops } });
            mkdirSync(s.data);
            await s.start();
            const t = s.tenant('room');
            expectTriple(await t.increment('kept', TOTAL), 1);
            const filler = path.join(separate, 'filler');
            const made = spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=4096']); // until it is full
            assert.notEqual(made.status, 0);
            const reply = await adminOf(s).call('POST', `/api/admin/${what}`, { body: { name: 'full' } });
            const job = await over(adminOf(s), reply.body.job);
            assert.equal(job.state, 'failed', JSON.stringify(job));
            assert.match(job.error, /No space left/);
            assert.deepEqual(leftovers(ops), []);
            for (const home of homesOf(s.data)) assert.ok(!existsSync(path.join(home, 'snapshot')));
            expectTriple(await t.increment('kept', TOTAL), 2);
            rmSync(filler);
            const again = await over(adminOf(s), (await adminOf(s).call('POST', `/api/admin/${what}`, { body: { name: 'full' } })).body.job);
            assert.equal(again.state, 'done', JSON.stringify(again));
            await s.stop();
        });
    }

    test('on the disk of the data it gives up before that is full: commits go first', async () => {
        const s = new Server({ data: path.join(shared, 'data'), settings: { ...SETTINGS, 'ops.dir': path.join(shared, 'ops') } });
        mkdirSync(s.data);
        await s.start();
        const t = s.tenant('room');
        expectTriple(await t.increment('kept', TOTAL), 1);
        writeFileSync(path.join(shared, 'filler'), Buffer.alloc(60 << 20, 1)); // some 30 MiB are left
        const reply = await backup(adminOf(s), 'greedy');
        const job = await over(adminOf(s), reply.body.job);
        assert.equal(job.state, process.env.TALLY_VARIANT === 'small' ? 'done' : 'failed', JSON.stringify(job));
        expectTriple(await t.increment('kept', TOTAL), 2);
        rmSync(path.join(shared, 'filler'));
        if (process.env.TALLY_VARIANT !== 'small') {
            assert.deepEqual(leftovers(path.join(shared, 'ops')), []);
            await backedUp(adminOf(s), 'modest');
        }
        await s.stop();
    });
});
