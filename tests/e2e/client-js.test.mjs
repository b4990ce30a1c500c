// client-js.test.mjs -- clients/js against the real server, also one that breaks; its types and README.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { Tally, TallyError } from '../../clients/js/tally.js';
import { eventually, within } from './support/pace.mjs';
import { Relay } from './support/relay.mjs';
import { newDirectory, removeDirectory, Server, TOTAL } from './support/server.mjs';

const run = promisify(execFile);
const CLIENT = fileURLToPath(new URL('../../clients/js/', import.meta.url));
const CONFIG = 'counters:\n  - counterName: paid\n    dimensions: [shop]\n    rules: [{ on: order.paid, op: increment }]\n';
const value = (net, added = net, subbed = 0) => ({ net: BigInt(net), added: BigInt(added), subbed: BigInt(subbed) });
const fails = (promise, wanted) => assert.rejects(promise, (error) => {
    assert.ok(error instanceof TallyError, String(error));
    for (const [key, each] of Object.entries(wanted)) assert.equal(error[key], each, `${key}: ${error.message}`);
    return true;
});

describe('the JavaScript client', () => {
    const server = new Server({ config: CONFIG });
    const relay = new Relay(() => server.port);
    before(async () => {
        await server.start();
        await relay.start();
    });
    after(async () => {
        await relay.stop();
        await server.stop();
    });
    const client = (options = {}) => {
        const t = server.tenant();
        return { t, tally: new Tally({ url: server.url, token: t.token, ...options }) };
    };

    test('changes answer with BigInts, exactly', async () => {
        const { tally } = client();
        assert.deepEqual(await tally.increment('a'), { ...value(1), replayed: false });
        assert.deepEqual(await tally.increment('a', { amount: 9n, sync: true }), { ...value(10), replayed: false });
        assert.deepEqual(await tally.decrement('a', { amount: 3 }), { ...value(7, 10, 3), replayed: false });
        assert.deepEqual(await tally.set('a', 20n), { ...value(20, 23, 3), replayed: false });
        const most = 9223372036854775807n;
        assert.equal((await tally.increment('huge', { amount: most })).net, most);
        await tally.delete('a');
        assert.equal(await tally.get('a'), null);
    });

    test('a key counts once; refusals say why and what that means', async () => {
        const { tally } = client();
        const order = { amount: 5, key: 'order 17' };
        assert.equal((await tally.increment('sales', order)).replayed, false);
        assert.deepEqual(await tally.increment('sales', order), { ...value(5), replayed: true });
        await fails(tally.increment('sales', { ...order, amount: 6 }), { code: 'idempotency_conflict', status: 422, outcome: 'refused' });
        await fails(tally.decrement('none'), { code: 'constraint_violation', status: 409, outcome: 'refused' });
        await fails(tally.increment('sales', { max: 5 }), { code: 'limit_exceeded', outcome: 'refused' });
        await fails(tally.increment('a/b'), { status: 400 });
        for (const wrong of [{ amount: 1.5 }, { amount: 2 ** 53 }, { amount: '1' }, { key: '' }, { key: 'a\n' }, { timestamp: new Date(NaN) }, { timestamp: 5 }, { durationSeconds: 1.5 }]) {
            await fails(tally.increment('a', wrong), { code: 'invalid_argument', outcome: 'invalid' });
        }
    });

    test('an option that a call does not take is a TypeError that names it and the nearest; nothing is sent', async () => {
        const { tally } = client();
        const batcher = tally.batcher();
        const refused = [
            [() => tally.increment('o', { maximum: 3 }), /increment has no option "maximum": did you mean "max"/],
            [() => tally.increment('o', { expiresat: 0 }), /"expiresat": did you mean "expiresAt"/],
            [() => tally.increment('o', { amout: 5 }), /"amout": did you mean "amount"/],
            [() => tally.increment('o', { colour: 5 }), /has no option "colour"$/],
            [() => tally.increment('o', 5), /options of increment must be an object/],
            [() => tally.decrement('o', { max: 5 }), /decrement has no option "max"/],
            [() => tally.set('o', 1, { amount: 5 }), /set has no option "amount"/],
            [() => tally.get('o', { duration: 60 }), /"duration": did you mean "durationSeconds"/],
            [() => tally.sum('o', { startTime: '0', enTime: '1' }), /"enTime": did you mean "endTime"/],
            [() => tally.series('o', { start: '0' }), /"start": did you mean "startTime"/],
            [() => tally.list({ prefx: 'o' }).next(), /"prefx": did you mean "prefix"/],
            [() => tally.event({ type: 'x', eventID: 'e' }), /an event has no option "eventID": did you mean "eventId"/],
            [() => tally.increment('o', { at: '0', timestamp: '0' }), /"at" and "timestamp" of increment are the same/],
            [() => tally.call('GET', '/healthz', { bodi: '' }), /"bodi": did you mean "body"/],
            [async () => batcher.increment('o', { sync: true }), /batcher.increment has no option "sync"/],
            [async () => tally.batcher({ maxOp: 1 }), /"maxOp": did you mean "maxOps"/],
            [async () => new Tally({ url: server.url, timeout: 5 }), /"timeout": did you mean "timeoutMs"/],
        ];
        for (const [call, message] of refused) await assert.rejects(call, (error) => error instanceof TypeError && message.test(error.message), message.source);
        assert.equal(await tally.get('o'), null);
    });

    test('what options were called before still works', async () => {
        const { tally } = client();
        await tally.increment('old', { at: '0', expires: '2099-01-01' });
        assert.deepEqual(await tally.get('old', { at: '0' }), value(1));
        assert.deepEqual(await tally.sum('old', { from: '0', to: '0' }), value(1));
        assert.equal((await tally.event({ id: 'old', type: 'order.paid', at: new Date(0) })).eventId, 'old');
    });

    test('A-24: names of every allowed character', async () => {
        const { t, tally } = client();
        const names = ['.', '..', '...', '~', '-', '_', 'A.b~C_d-9'];
        for (const name of names) {
            assert.equal((await tally.increment(name, { timestamp: '0' })).net, 1n, name);
            assert.deepEqual(await tally.get(name), value(1), name);
            assert.deepEqual(await tally.sum(name, { startTime: '0' }), value(1), name);
        }
        await fails(tally.decrement('.', { amount: 2 }), { code: 'constraint_violation' });
        for (const name of ['.', '..']) await fails(tally.delete(name), { code: 'invalid_argument', outcome: 'invalid' });
        const dots = new Tally({ url: server.url, token: t.token, tenant: '..' });
        await fails(Promise.resolve().then(() => dots.increment('x')), { code: 'invalid_argument', outcome: 'invalid' });
        const listed = [];
        for await (const counter of tally.list()) listed.push(counter.name);
        assert.deepEqual(listed.sort(), names.sort());
        assert.equal(tally.tenant, t.id);
    });

    test('reads: one bucket, a sum past 64 bits, a series', async () => {
        const { tally } = client();
        const hour = (h) => new Date(Date.UTC(2026, 0, 1, h));
        for (const h of [0, 2]) await tally.increment('x', { durationSeconds: 3600, timestamp: hour(h), amount: 9223372036854775807n });
        assert.equal((await tally.get('x', { durationSeconds: 3600, timestamp: hour(2) })).net, 9223372036854775807n);
        assert.equal((await tally.sum('x', { durationSeconds: 3600, startTime: hour(0), endTime: hour(2) })).net, 18446744073709551614n);
        const series = await tally.series('x', { durationSeconds: 3600, startTime: hour(0), endTime: hour(2), fill: true });
        assert.deepEqual(series.map(({ start }) => start.toISOString().slice(11, 13)), ['00', '01', '02']);
        assert.deepEqual(series[1], { start: hour(1), ...value(0) });
        await fails(tally.sum('x'), { outcome: 'invalid' });
        await fails(tally.series('x', { durationSeconds: 60, startTime: '0', fill: true }), { status: 400 });
    });

    test('SPEC 15: buckets of a calendar, alone, in a batcher and by a query', async () => {
        const { tally } = client();
        const where = { bucket: 'month', zone: 'Europe/Berlin' };
        const timestamp = '2026-02-28T23:30:00Z';
        assert.equal((await tally.increment('m', { ...where, timestamp, amount: 2 })).net, 2n);
        const batcher = tally.batcher();
        await Promise.all([batcher.increment('m', { ...where, timestamp }), batcher.close()]);
        assert.equal((await tally.get('m', { ...where, timestamp })).net, 3n);
        const [march] = await tally.series('m', { ...where, startTime: timestamp, endTime: timestamp });
        assert.deepEqual([march.date, march.start.toISOString(), march.net], ['2026-03-01', '2026-02-28T23:00:00.000Z', 3n]);
        assert.equal((await tally.increment('now', { bucket: 'day' })).net, 1n);
        await fails(tally.increment('m', { zone: 'UTC' }), { status: 400 });
        await fails(tally.increment('m', { ...where, durationSeconds: 60 }), { status: 400 });
        await fails(tally.get('m', { bucket: 'day', zone: 'Mars/Olympus' }), { code: 'unknown_zone' });
    });

    test('events count once, and dimensions of any text are read back', async () => {
        const { tally } = client();
        const shop = 'b&r=l/n "ü" %';
        const event = { eventId: 'e1', type: 'order.paid', occurredAt: new Date(0), dimensions: { shop }, payload: { a: [1] } };
        const first = await tally.event(event);
        assert.deepEqual([first.duplicate, first.counters, first.eventId], [false, 1, 'e1']);
        const again = await tally.event({ ...event, payload: 2 });
        assert.deepEqual([again.duplicate, again.conflict, again.id], [true, true, first.id]);
        assert.ok(again.firstSeenAt instanceof Date);
        assert.equal((await tally.event({ type: 'order.paid', dimensions: { shop } })).duplicate, false);
        assert.deepEqual(await tally.get('paid', { dimensions: { shop } }), value(2));
        await fails(tally.event({ eventId: 'x' }), { outcome: 'invalid' });
    });

    // Ticks between an answer and the next call: one added just as a batch ends must not be left behind.
    test('a batcher that is asked again at any moment after an answer answers again', async () => {
        const { tally } = client();
        const batcher = tally.batcher({ maxOps: 1 });
        for (let ticks = 0; ticks < 12; ticks++) {
            await within(30000, 'an answer', batcher.increment('again'));
            const next = (async () => {
                await batcher.increment('again');
                for (let i = 0; i < ticks; i++) await null;
                return batcher.increment('again');
            })();
            await within(30000, `an answer asked for ${ticks} ticks later`, next);
        }
        assert.equal((await batcher.close()).applied, 36);
    });

    test('a reply with fewer answers than questions fails the rest: nobody waits for ever', async () => {
        const odd = http.createServer((_, reply) => reply.end('{"results":[{"status":200,"net":"1","added":"1","subbed":"0"}]}'));
        await new Promise((resolve) => odd.listen(0, '127.0.0.1', resolve));
        try {
            const tally = new Tally({ url: `http://127.0.0.1:${odd.address().port}`, tenant: 't' });
            const batcher = tally.batcher({ maxOps: 2 });
            const [first, second] = [batcher.increment('x'), batcher.increment('x')];
            await fails(within(30000, 'the second to fail', second), { code: 'bad_reply', outcome: 'unknown' });
            await fails(first, { code: 'bad_reply' });
            assert.equal((await batcher.close()).failed, 2);
        } finally {
            odd.closeAllConnections();
            await new Promise((resolve) => odd.close(resolve));
        }
    });

    test('a batcher sends many at once, in order, and answers each', async () => {
        const { tally } = client();
        const batcher = tally.batcher({ maxOps: 100, maxDelayMs: 5 });
        const nets = await Promise.all(Array.from({ length: 250 }, () => batcher.increment('b').then((each) => each.net)));
        assert.deepEqual(nets, Array.from({ length: 250 }, (_, i) => BigInt(i + 1)));
        await fails(batcher.decrement('none'), { code: 'constraint_violation', outcome: 'refused' });
        batcher.decrement('none'); // nobody waits for this one, and nothing blows up
        batcher.set('b', 7n);
        batcher.event({ eventId: 'same', type: 'order.paid', dimensions: { shop: 's' } });
        batcher.event({ eventId: 'same', type: 'order.paid', dimensions: { shop: 's' } });
        await fails(batcher.event({ eventId: 'y'.repeat(300), type: 'order.paid' }), { status: 400 });
        assert.deepEqual(await batcher.close(), { applied: 252, duplicates: 1, refused: 3, failed: 0 });
        assert.throws(() => batcher.increment('b'), TallyError);
        assert.deepEqual(await tally.get('b'), value(7, 250, 243));
    });

    test('lost replies and a killed server: counted exactly once', async () => {
        const { t, tally } = client({ url: relay.url, attempts: 1000, timeoutMs: 120000 });
        const batcher = tally.batcher({ maxOps: 10, maxDelayMs: 1 });
        const count = 200;
        relay.delay = 2;
        const singles = (async () => {
            for (let i = 0; i < count; i++) await tally.increment('single');
        })();
        const net = async (name) => Number((await t.get(name, TOTAL)).body?.net ?? 0);
        for (let i = 0; i < count; i++) batcher.increment('batched');
        await eventually('some counts', async () => (await net('single')) > 5, { every: 5 });
        relay.lose(4);
        await eventually('replies to be lost', () => relay.lost === 4, { every: 5 });
        await server.restart({ hard: true });
        for (let i = 0; i < count; i++) batcher.increment('batched');
        relay.delay = 0;
        await singles;
        assert.equal((await batcher.flush()).failed, 0);
        assert.deepEqual([await net('single'), await net('batched')], [count, 2 * count]);
    });

    test('without a key of its own nothing that may have had an effect is sent again', async () => {
        let calls = 0;
        const broken = http.createServer((request) => {
            calls++;
            request.socket.destroy();
        });
        await new Promise((resolve) => broken.listen(0, '127.0.0.1', resolve));
        const tally = new Tally({ url: `http://127.0.0.1:${broken.address().port}`, token: 'k', tenant: 't', attempts: 3 });
        await fails(tally.call('POST', '/api/x', { body: '{}' }), { code: 'unreachable', outcome: 'unknown', status: 0 });
        assert.equal(calls, 1);
        await fails(tally.call('POST', '/api/x', { body: '{}', key: 'k' }), { outcome: 'unknown' });
        assert.equal(calls, 4);
        broken.close();
    });

    test('time limits and signals end a call', async () => {
        const silent = http.createServer(() => {});
        await new Promise((resolve) => silent.listen(0, '127.0.0.1', resolve));
        const url = `http://127.0.0.1:${silent.address().port}`;
        const tally = new Tally({ url, token: 'k', tenant: 't', timeoutMs: 100 });
        await fails(tally.increment('a'), { code: 'timeout', outcome: 'unknown' });
        const patient = new Tally({ url, token: 'k', tenant: 't' });
        const control = new AbortController();
        setTimeout(() => control.abort(new Error('enough')), 50);
        await assert.rejects(patient.increment('a', { signal: control.signal }), /^Error: enough$/);
        await assert.rejects(patient.get('a', { signal: AbortSignal.abort(new Error('before')) }), /before/);
        silent.closeAllConnections();
        silent.close();
    });

    test('neither token nor password is in a message', async () => {
        const { t } = client();
        const away = new Tally({ url: 'http://me:hunter2@127.0.0.1:1/', token: t.token, attempts: 1 });
        assert.equal(away.address, 'http://127.0.0.1:1');
        await assert.rejects(away.increment('a'), (error) => !/hunter2/.test(error.stack) && !error.stack.includes(t.token));
        for (const options of [{ url: 'ftp://x' }, { url: 'nothing' }, { url: server.url, token: 'a\r\nb' }]) {
            assert.throws(() => new Tally(options), TallyError);
        }
        await fails(new Tally({ url: server.url, token: 'key' }).increment('a'), { outcome: 'invalid' });
    });

    test('the example of its README, from a package that is installed', async () => {
        const folder = newDirectory('js');
        try {
            const installed = path.join(folder, 'node_modules/tally-client');
            mkdirSync(installed, { recursive: true });
            const { files } = JSON.parse(readFileSync(path.join(CLIENT, 'package.json'), 'utf8'));
            for (const file of [...files, 'package.json']) cpSync(path.join(CLIENT, file), path.join(installed, file));
            const [, example] = /```js\n([^]*?)```/.exec(readFileSync(path.join(CLIENT, 'README.md'), 'utf8'));
            writeFileSync(path.join(folder, 'example.mjs'), example);
            const { t } = client();
            const { stdout } = await run(process.execPath, ['example.mjs'],
                { cwd: folder, env: { ...process.env, TALLY_URL: server.url, TALLY_TOKEN: t.token } });
            assert.equal(stdout, '1 visit this hour\ntrue\n{ applied: 5000, duplicates: 0, refused: 0, failed: 0 }\n');
        } finally {
            removeDirectory(folder);
        }
    });

    test('its types hold', { skip: process.env.TALLY_VARIANT !== 'release' && 'looked at once is enough' }, async () => {
        const folder = newDirectory('types');
        try {
            writeFileSync(path.join(folder, 'use.mts'), `
                import { Tally, TallyError, type Value, type ChangedValue, type Bucket } from '${CLIENT}tally.js';
                const tally = new Tally({ url: new URL('http://x'), token: 't' });
                const changed: ChangedValue = await tally.increment('a', { amount: 1n, max: 3, sync: true, signal: AbortSignal.timeout(1) });
                const read: Value | null = await tally.get('a', { timestamp: new Date(), dimensions: { a: 'b' } });
                const series: Bucket[] = await tally.series('a', { startTime: '0', fill: true });
                for await (const { name, granularities } of tally.list({ prefix: 'a' })) granularities.concat(name.length);
                const batcher = tally.batcher({ maxOps: 5 });
                const applied: number = (await batcher.flush()).applied;
                const result: boolean = (await tally.event({ type: 'x', payload: { any: ['thing'] } })).duplicate;
                const error = {} as TallyError;
                const outcome: 'refused' | 'unknown' | 'invalid' = error.outcome;
                // @ts-expect-error an amount is an integer
                tally.increment('a', { amount: '1' });
                // @ts-expect-error maximum is not max
                tally.increment('a', { maximum: 3 });
                // @ts-expect-error a sum needs its beginning
                tally.sum('a', {});
                // @ts-expect-error sync is for single calls
                batcher.increment('a', { sync: true });
                export { changed, read, series, applied, result, outcome };
            `);
            const tsc = fileURLToPath(new URL('node_modules/typescript/bin/tsc', import.meta.url));
            const { stdout } = await run(process.execPath, [tsc, '--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext',
                '--moduleResolution', 'nodenext', '--lib', 'es2023,dom,dom.asynciterable', path.join(folder, 'use.mts')]).catch((error) => error);
            assert.equal(stdout, '');
        } finally {
            removeDirectory(folder);
        }
    });
});
