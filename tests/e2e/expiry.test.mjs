// expiresAt: kept until it is over, extended by the later date, swept, and then forgotten.
//
// The sweep runs several times a second here. A cell that must go is waited for; a cell that must stay is
// looked at only after a neighbour with the same expiry has gone, so no test depends on a fixed wait.
// Most of the time is waiting, so the tests run side by side.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectTriple } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { serverFor, TOTAL } from './support/server.mjs';

const inSeconds = (seconds) => new Date(Date.now() + seconds * 1000).toISOString();
const PAST = '2024-04-15T10:30:00Z';

const SETTINGS = { 'clock.settle': '0s', 'expiry.sweepEvery': '200ms' };

const gone = (t, name, query) => eventually(`${name} to be swept`, async () => (await t.get(name, query)).status === 404, { every: 100 });

/** Two more cells come and go: by then every sweep that could take an expired cell has run. */
async function sweepsPass(t) {
    for (let i = 0; i < 2; i++) {
        await t.increment('marker', { ...TOTAL, expiresAt: PAST });
        await gone(t, 'marker');
    }
}

describe('expiry', { concurrency: true }, () => {
    const server = serverFor({ settings: SETTINGS });

    test('S3-77, S3-78: a cell past its expiresAt is removed, from get, sumRange, series and the list; others stay', async () => {
        const t = server.tenant();
        const minute = (timestamp) => ({ durationSeconds: 60, timestamp });
        await t.increment('mixed', { ...minute(0), expiresAt: inSeconds(1) });
        await t.increment('mixed', { ...minute(60), amount: 5 });
        await t.increment('alone', { ...TOTAL, expiresAt: inSeconds(1) });
        await gone(t, 'mixed', minute(0));
        await gone(t, 'alone');
        expectTriple(await t.get('mixed', minute(60)), 5);
        expectTriple(await t.sumRange('mixed', { durationSeconds: 60, startTime: 0, endTime: 120 }), 5);
        assert.equal((await t.series('mixed', { durationSeconds: 60, startTime: 0, endTime: 120 })).body.buckets.length, 1);
    });

    test('S3-79: a cell is not removed before its expiresAt', async () => {
        const t = server.tenant();
        const end = Date.now() + 4000;
        await t.increment('patient', { ...TOTAL, expiresAt: new Date(end).toISOString() });
        const when = await eventually('the sweep', async () => {
            const asked = Date.now();
            return (await t.get('patient')).status === 404 && { asked, answered: Date.now() };
        }, { every: 100 });
        assert.ok(when.answered >= end, `removed ${end - when.answered} ms early`);
    });

    test('A-22: a past expiresAt is accepted, and the cell is readable and writable until the sweep', async () => {
        const t = server.tenant();
        const reply = await t.increment('past', { ...TOTAL, amount: 5, expiresAt: PAST });
        expectTriple(reply, 5);
        await gone(t, 'past');
    });

    test('S3-80: after the sweep an increment starts from zero, and a decrement is refused', async () => {
        const t = server.tenant();
        await t.increment('fresh', { ...TOTAL, amount: 100, expiresAt: PAST });
        await gone(t, 'fresh');
        assert.equal((await t.decrement('fresh', TOTAL)).status, 409);
        expectTriple(await t.increment('fresh', TOTAL), 1);
        await sweepsPass(t);
        expectTriple(await t.get('fresh'), 1);
    });

    test('A-22, E3-04, S3-79: the later of two dates is kept, in either order', async () => {
        const t = server.tenant();
        await t.increment('extended', { ...TOTAL, expiresAt: inSeconds(1) });
        await t.increment('extended', { ...TOTAL, expiresAt: inSeconds(3600) });
        await t.increment('shortened', { ...TOTAL, expiresAt: inSeconds(3600) });
        await t.increment('shortened', { ...TOTAL, expiresAt: PAST });
        await t.set('set-later', { ...TOTAL, targetValue: 2, expiresAt: inSeconds(1) });
        await t.set('set-later', { ...TOTAL, targetValue: 2, expiresAt: inSeconds(3600) });
        await t.increment('witness', { ...TOTAL, expiresAt: inSeconds(1) });
        await gone(t, 'witness');
        await sweepsPass(t);
        for (const name of ['extended', 'shortened', 'set-later']) expectTriple(await t.get(name), 2);
    });

    test('A-22: a write without expiresAt keeps the one there is', async () => {
        const t = server.tenant();
        await t.increment('kept', { ...TOTAL, expiresAt: inSeconds(2) });
        await t.increment('kept', TOTAL);
        await t.set('kept', { ...TOTAL, targetValue: 9 });
        await gone(t, 'kept');
    });

    test('S3-43: a decrement neither sets nor extends an expiry', async () => {
        const t = server.tenant();
        await t.increment('unset', { ...TOTAL, amount: 5 });
        await t.decrement('unset', { ...TOTAL, expiresAt: PAST });
        await t.increment('same', { ...TOTAL, amount: 5, expiresAt: inSeconds(2) });
        await t.decrement('same', { ...TOTAL, expiresAt: inSeconds(3600) });
        await t.write('decrementSync', 'same', { ...TOTAL, expiresAt: inSeconds(3600) });
        await gone(t, 'same');
        await sweepsPass(t);
        expectTriple(await t.get('unset'), 5, 1);
    });

    test('S3-40: refused operations leave the expiry alone', async () => {
        const t = server.tenant();
        await t.increment('refused', { ...TOTAL, amount: 10 });
        await t.increment('refused', { ...TOTAL, max: 10, expiresAt: PAST });
        await sweepsPass(t);
        expectTriple(await t.get('refused'), 10);
    });

    test('S3-77: thousands of cells expire while writes go on', async () => {
        const t = server.tenant();
        const ops = Array.from({ length: 3000 }, (_, i) => ({ op: 'increment', name: 'many', durationSeconds: 60, timestamp: i * 60, expiresAt: PAST }));
        await t.batch(ops, { query: '?results=errors' });
        let busy = 0;
        await eventually('all of them to be swept', async () => {
            expectTriple(await t.increment('busy', TOTAL), ++busy);
            return (await t.sumRange('many', { durationSeconds: 60, startTime: 0, endTime: 3000 * 60 })).body.net === '0';
        });
    });
});

describe('expiry over restarts', () => {
    const server = serverFor({ settings: SETTINGS });

    test('S3-77: the expiry survives kill -9, and a restart removes nothing that is due later', async () => {
        const t = server.tenant();
        await t.increment('due', { ...TOTAL, expiresAt: inSeconds(2) });
        await t.increment('later', { ...TOTAL, expiresAt: inSeconds(3600) });
        await t.increment('never', TOTAL);
        await server.restart({ hard: true });
        await gone(t, 'due');
        await sweepsPass(t);
        expectTriple(await t.get('later'), 1);
        expectTriple(await t.get('never'), 1);
        await server.restart({ hard: true });
        assert.equal((await t.get('due')).status, 404);
    });
});
