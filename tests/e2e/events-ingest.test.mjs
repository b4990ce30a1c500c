// Events on their way in: what they count, that they count once, and what is refused.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';

import { allDuplicates, allEvents, applied, dropped, event, eventById, metric, RULES, send, value } from './support/events.mjs';
import { expectError, expectExactly, NOT_FOUND, OVERFLOW, sequenceOf, UNAUTHORIZED } from './support/expect.mjs';
import { eventually, sleep, times, together } from './support/pace.mjs';
import { requestText } from './support/raw.mjs';
import { serverFor } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

const M1 = { masterAccountId: 'm1' };
const NDJSON = 'application/x-ndjson';
const note = (id, size, more = {}) => ({ eventId: id, type: 'note.stored', payload: { size }, ...more });

describe('events', () => {
    const server = serverFor({ config: RULES, settings: { 'limits.requestOps': 3000, 'log.level': 'debug' } });

    test('S1-45, S1-46, S1-47: connect, disconnect, and the connect delivered again', async () => {
        const t = server.tenant();
        const first = await applied(t, event('E1'));
        assert.equal(first.eventId, 'E1');
        assert.ok(first.counters >= 2);
        assert.deepEqual([await value(t, 'active_connections', M1), await value(t, 'connects_total', M1)], [1, 1]);

        await applied(t, event('E2', 'account.disconnected'));
        assert.deepEqual([await value(t, 'active_connections', M1), await value(t, 'connects_total', M1)], [0, 1]);

        const before = await metric(server, 'duplicate_event_dropped_total');
        const again = await dropped(t, event('E1'));
        assert.deepEqual(Object.keys(again), ['id', 'eventId', 'result', 'firstSeenAt']);
        assert.equal(again.id, first.id);
        assert.deepEqual([await value(t, 'active_connections', M1), await value(t, 'connects_total', M1)], [0, 1]);
        assert.equal(await metric(server, 'duplicate_event_dropped_total'), before + 1);
        assert.equal((await allDuplicates(t)).length, 1);
        await eventually('the log line', () => /"eventId":"E1","result":"DROPPED_DUPLICATE"/.test(server.stderr));
    });

    test('S0-25: the id of the reply is the record\'s, as a string of digits, and Tally-Sequence says it too', async () => {
        const t = server.tenant();
        const reply = await send(t, event('b4a3a0a4-7f6e-4f0e-9d7d-0a6a3f0d0001'));
        assert.deepEqual(Object.keys(reply.body), ['id', 'eventId', 'result', 'counters']);
        assert.match(reply.body.id, /^[1-9]\d*$/);
        assert.equal(String(sequenceOf(reply)), reply.body.id);
        assert.equal((await allEvents(t))[0].id, reply.body.id);
    });

    test('S1-48, S1-27: events of one master at the same time all count', async () => {
        const t = server.tenant();
        await Promise.all([applied(t, event('E3')), applied(t, event('E4'))]);
        assert.equal(await value(t, 'active_connections', M1), 2);
        const count = times(200);
        await together(count, (i) => applied(t, event(`more-${i}`)));
        assert.equal(await value(t, 'connects_total', M1), count + 2);
    });

    test('S1-49, S1-36, S1-37, A-06: a disconnect before its connect', async () => {
        const t = server.tenant();
        await applied(t, event('D1', 'account.disconnected'));
        assert.equal(await value(t, 'active_connections', M1), 0);
        assert.equal(await value(t, 'balance'), -1);
        assert.equal(await value(t, 'present'), 0);
        await applied(t, event('C1'));
        assert.equal(await value(t, 'active_connections', M1), 1);
        assert.equal(await value(t, 'balance'), 0);
        assert.equal(await value(t, 'present'), 1);
    });

    test('S1-12: a known id with another type, dimensions or payload changes nothing and is told apart', async () => {
        const t = server.tenant();
        const original = event('same', 'account.connected', { payload: { a: [1, 2] } });
        const first = await applied(t, original);
        const others = [
            { ...original, type: 'account.disconnected' },
            { ...original, type: 'note.stored', payload: { size: 5 } },
            { ...original, dimensions: { masterAccountId: 'm2' } },
            { ...original, payload: { a: [2, 1] } },
            { ...original, payload: undefined },
        ];
        for (const other of others) {
            const reply = await dropped(t, other);
            assert.deepEqual([reply.id, reply.conflict], [first.id, true], JSON.stringify(other));
        }
        assert.deepEqual([await value(t, 'active_connections', M1), await value(t, 'bytes'), await value(t, 'balance')], [1, 0, 1]);
        assert.equal(await value(t, 'active_connections', { masterAccountId: 'm2' }), 0);
        assert.equal((await allDuplicates(t)).length, others.length);
    });

    test('SPEC 12: a payload comes back as the text that was sent, and is compared as that', async () => {
        const t = server.tenant();
        const sent = '{"price":1.00,"big":1E+2,"long":0.10000000000000000000001,"text":"caf\\u00e9 \\u0000","n":-0}';
        const text = (payload) => `{"eventId":"exact","type":"x","payload":${payload}}`;
        const post = (payload) => t.call('POST', `/api/events/${t.id}`, { body: text(payload), headers: { 'Content-Type': 'application/json' } });
        assert.equal((await post(sent)).body.result, 'APPLIED');
        const kept = await t.call('GET', `/api/events/${t.id}/exact`);
        assert.ok(kept.text.includes(sent), kept.text);
        const again = await post(sent.replaceAll(',', ' , '));
        assert.equal(again.body.conflict, undefined, again.text);
        assert.equal((await post(sent.replace('1.00', '1.0'))).body.conflict, true);
    });

    test('SPEC 6, A-11: white space, the order of dimensions, 1 for "1" and another time are no conflict', async () => {
        const t = server.tenant();
        await applied(t, { eventId: 'w', type: 'x', dimensions: { a: '1', b: true }, payload: { k: [1, 2] } });
        const same = [
            '{ "eventId" : "w", "type" : "x",\n "dimensions" : { "b" : "true", "a" : 1 }, "payload" : { "k" : [ 1, 2 ] } }',
            '{"eventId":"w","type":"x","dimensions":{"a":"1","b":true,"gone":null},"payload":{"k":[1,2]},"occurredAt":5}',
        ];
        for (const text of same) assert.equal((await dropped(t, text)).conflict, undefined, text);
    });

    test('S1-17: 64 deliveries of one id at the same time: one applied, 63 dropped, 63 audited', async () => {
        const t = server.tenant();
        const replies = await together(64, () => send(t, event('once')));
        const results = replies.map((reply) => reply.body.result);
        assert.equal(results.filter((result) => result === 'APPLIED').length, 1);
        assert.equal(results.filter((result) => result === 'DROPPED_DUPLICATE').length, 63);
        assert.equal(new Set(replies.map((reply) => reply.body.id)).size, 1);
        assert.equal(await value(t, 'active_connections', M1), 1);
        const audit = await allDuplicates(t, { eventId: 'once' });
        assert.equal(audit.length, 63);
        assert.equal((await allEvents(t)).length, 1);
    });

    test('S1-22: firstSeenAt is the time of the first delivery, whatever follows', async () => {
        const t = server.tenant();
        const started = Date.now();
        await applied(t, event('f', 'x', { occurredAt: '2001-01-01T00:00:00Z' }));
        const seen = [];
        for (let i = 0; i < 3; i++) seen.push((await dropped(t, event('f', 'x'))).firstSeenAt);
        assert.equal(new Set(seen).size, 1);
        assert.match(seen[0], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
        assert.ok(Date.parse(seen[0]) >= started - 1000 && Date.parse(seen[0]) <= Date.now() + 1000, seen[0]);
    });

    test('A-09, S1-25: duplicates of one moment are audited each', async () => {
        const t = server.tenant();
        const { body } = await send(t, Array.from({ length: 10 }, () => event('k')));
        assert.deepEqual([body.applied, body.duplicates, body.rejected], [1, 9, 0]);
        assert.equal(body.results[0].result, 'APPLIED');
        assert.equal((await allDuplicates(t)).length, 9);
        assert.equal(await value(t, 'connects_total', M1), 1);
    });

    test('S1-26: an id is a UUID or any other text, compared byte for byte', async () => {
        const t = server.tenant();
        const ids = ['7D9F0C9E-1C1B-4C52-9D0F-2B6A8B7F6F11', '7d9f0c9e-1c1b-4c52-9d0f-2b6a8b7f6f11', ' ', '  ', 'a/b?c=d&e#f', '%2F', 'é', 'e\u0301', '\u0000', 'a\u0000b', 'a', '"\\\n\t', '😀', 'x'.repeat(255)];
        for (const id of ids) assert.equal((await applied(t, event(id))).eventId, id);
        for (const id of ids) assert.equal((await dropped(t, event(id))).eventId, id);
        assert.equal(await value(t, 'connects_total', M1), ids.length);
        for (const id of ids) {
            const reply = await eventById(t, id);
            assert.equal(reply.status, 200, `${JSON.stringify(id)}: ${reply.text}`);
            assert.equal(reply.body.eventId, id);
        }
    });

    test('S1-18: without an id of 1 to 255 bytes an event is refused and nothing is counted', async () => {
        const t = server.tenant();
        const base = event('x');
        for (const eventId of [undefined, null, '', 'x'.repeat(256), 'é'.repeat(128)]) {
            expectError(await send(t, { ...base, eventId }), 400, 'event_id_required');
        }
        for (const eventId of [5, true, {}, []]) expectError(await send(t, { ...base, eventId }), 400, 'invalid_request');
        assert.equal(await value(t, 'connects_total', M1), 0);
        assert.deepEqual(await allEvents(t), []);
    });

    test('A-10 S0-19, defect 1: an event that would overflow one counter is refused whole, its id too', async () => {
        const t = server.tenant();
        const most = '{"eventId":"max","type":"note.stored","payload":{"size":9223372036854775807}}';
        await applied(t, most);
        const refused = await send(t, note('over', 1));
        expectExactly(refused, 400, OVERFLOW);
        assert.ok(sequenceOf(refused) > 0n);
        assert.equal(await value(t, 'notes'), 1);
        assert.equal((await eventById(t, 'over')).status, 404);
        const { body } = await send(t, [note('over', 2), note('over', 0)]);
        assert.deepEqual([body.applied, body.duplicates, body.rejected], [1, 0, 1]);
        assert.deepEqual(body.results[0], { index: 0, status: 400, ...OVERFLOW });
        assert.equal(body.results[1].result, 'APPLIED');
        assert.equal(await value(t, 'notes'), 2);
    });

    test('S0-17, S1-44: an event that no rule knows is kept and registered, and changes no counter', async () => {
        const t = server.tenant();
        assert.equal((await applied(t, event('u', 'artifact_status_changed'))).counters, 0);
        await dropped(t, event('u', 'artifact_status_changed'));
        assert.deepEqual((await allEvents(t)).map((one) => one.eventId), ['u']);
    });

    test('A-08: a missing dimension skips that counter only, and is counted', async () => {
        const t = server.tenant();
        const name = 'projection_skipped_total{reason="missing_dimension"}';
        const before = await metric(server, name);
        assert.ok((await applied(t, { eventId: 'm', type: 'account.connected' })).counters >= 1);
        assert.equal(await value(t, 'balance'), 1);
        assert.equal(await value(t, 'connects_total', M1), 0);
        assert.ok(await metric(server, name) > before);
    });

    test('SPEC 7: an amount that is none counts as 0 and shows in a metric', async () => {
        const t = server.tenant();
        const name = 'projection_skipped_total{reason="bad_amount"}';
        const before = await metric(server, name);
        for (const [index, size] of [-1, 'x', 1.5, {}].entries()) await applied(t, note(`bad-${index}`, size));
        await applied(t, { eventId: 'none', type: 'note.stored' });
        assert.deepEqual([await value(t, 'bytes'), await value(t, 'notes')], [0, 5]);
        assert.equal(await metric(server, name), before + 4);
    });

    test('SPEC 6: many events, each with its own result, in order', async () => {
        const t = server.tenant();
        await applied(t, event('known'));
        const body = [event('n1'), event('known'), { type: 'x' }, 7, event('n1'), event('n2', ''), event('n3', 'x', { dimensions: [] })];
        const reply = await send(t, body);
        assert.equal(reply.status, 200, reply.text);
        assert.deepEqual(Object.keys(reply.body), ['applied', 'duplicates', 'rejected', 'results']);
        assert.deepEqual([reply.body.applied, reply.body.duplicates, reply.body.rejected], [1, 2, 4]);
        assert.deepEqual(reply.body.results.map((one) => one.result ?? [one.index, one.status, one.code]), [
            'APPLIED', 'DROPPED_DUPLICATE', [2, 400, 'event_id_required'], [3, 400, 'invalid_request'], 'DROPPED_DUPLICATE',
            [5, 400, 'invalid_request'], [6, 400, 'invalid_request'],
        ]);
        for (const bad of reply.body.results.filter((one) => one.status)) {
            assert.deepEqual(Object.keys(bad), ['index', 'status', 'error', 'code']);
            assert.ok(bad.error.endsWith('.'), bad.error);
        }
        assert.equal(reply.body.results[4].id, reply.body.results[0].id);
        assert.ok(sequenceOf(reply) > 0n);
    });

    test('SPEC 6: ?results=errors leaves out all but the refused', async () => {
        const t = server.tenant();
        const { body } = await send(t, [event('a'), {}, event('a'), event('b')], { query: '?results=errors' });
        assert.deepEqual([body.applied, body.duplicates, body.rejected], [2, 1, 1]);
        assert.deepEqual(body.results.map((one) => one.index), [1]);
        expectError(await send(t, [event('c')], { query: '?results=some' }), 400, 'invalid_request');
        assert.equal((await eventById(t, 'c')).status, 404);
    });

    test('SPEC 6: NDJSON, one event a line; a bad line is refused alone', async () => {
        const t = server.tenant();
        const lines = [JSON.stringify(event('l1')), '', '   ', '{"eventId":', 'null', `${JSON.stringify(event('l2'))}\r`, '\t\r', '[]', JSON.stringify(event('l1'))];
        for (const type of [NDJSON, `${NDJSON}; charset=utf-8`, 'APPLICATION/X-NDJSON']) {
            const tenant = type === NDJSON ? t : server.tenant();
            const { status, body, text } = await send(tenant, lines.join('\n'), { type });
            assert.equal(status, 200, text);
            assert.deepEqual([body.applied, body.duplicates, body.rejected], [2, 1, 3]);
            assert.deepEqual(body.results.map((one) => one.index ?? one.result), ['APPLIED', 1, 2, 'APPLIED', 4, 'DROPPED_DUPLICATE']);
        }
        assert.equal(await value(t, 'connects_total', M1), 2);
    });

    test('SPEC 6: nothing to do is no error', async () => {
        const t = server.tenant();
        const nothing = { applied: 0, duplicates: 0, rejected: 0, results: [] };
        expectExactly(await send(t, []), 200, nothing);
        expectExactly(await send(t, '', { type: NDJSON }), 200, nothing);
        expectExactly(await send(t, '\n \r\n', { type: NDJSON }), 200, nothing);
    });

    test('odd bodies are 400, and the connection lives on', async () => {
        const t = server.tenant();
        for (const body of ['', ' ', 'x', '{', '[', '{"eventId":"a","type":"t"', '7', '"e"', 'null', 'true', '{"eventId":"a","type":"t"}{}', '\ufeff{}']) {
            expectError(await send(t, body), 400, 'invalid_request');
        }
        expectError(await send(t, new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), 400, 'invalid_request');
        await applied(t, event('fine'), { type: 'text/plain' });
        await applied(t, event('fine too'), { type: 'application/json; charset=utf-8' });
    });

    test('odd fields are 400 and leave nothing behind', async () => {
        const t = server.tenant();
        const base = event('odd');
        const many = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`k${i}`, i]));
        const odd = [
            { type: undefined }, { type: null }, { type: '' }, { type: 7 }, { type: 't'.repeat(256) },
            { occurredAt: 'noon' }, { occurredAt: 1.5 }, { occurredAt: {} }, { occurredAt: '2026-02-30' }, { occurredAt: true },
            { dimensions: 'a' }, { dimensions: [] }, { dimensions: 5 }, { dimensions: { a: {} } }, { dimensions: { a: [1] } }, { dimensions: { a: 1.5 } },
            { dimensions: { '': 1 } }, { dimensions: { ['k'.repeat(256)]: 1 } }, { dimensions: many },
        ];
        for (const fields of odd) expectError(await send(t, { ...base, ...fields }), 400, 'invalid_request');
        assert.deepEqual(await allEvents(t), []);
        await applied(t, base);
    });

    test('SPEC 6: over 16 KiB is 413, alone and among others', async () => {
        const t = server.tenant();
        const large = event('large', 'x', { payload: 'p'.repeat(16384) });
        expectError(await send(t, large), 413, 'event_too_large');
        expectError(await send(t, event('wide', 'x', { dimensions: { a: 'd'.repeat(17000) } })), 413, 'event_too_large');
        const { body } = await send(t, [large, event('small', 'x')]);
        assert.deepEqual([body.applied, body.rejected, body.results[0].status, body.results[0].code], [1, 1, 413, 'event_too_large']);
    });

    test('limits.requestOps: one event too many refuses the request', async () => {
        const t = server.tenant();
        const lines = (count) => Array.from({ length: count }, (_, i) => JSON.stringify({ eventId: `q${i}`, type: 'x' })).join('\n');
        expectError(await send(t, lines(3001), { type: NDJSON }), 400, 'too_many_ops');
        assert.deepEqual(await allEvents(t, { limit: 10 }), []);
        assert.equal((await send(t, lines(3000), { type: NDJSON, query: '?results=errors' })).body.applied, 3000);
    });

    test('A-04: an id of one tenant is nothing to another', async () => {
        const [a, b] = [server.tenant(), server.tenant()];
        await applied(a, event('shared'));
        await applied(b, event('shared'));
        assert.equal(await value(b, 'connects_total', M1), 1);
    });

    test('an Idempotency-Key means nothing to events', async () => {
        const t = server.tenant();
        const headers = { 'Idempotency-Key': 'k1' };
        await applied(t, event('i1'), { headers });
        const second = await send(t, event('i2'), { headers });
        assert.equal(second.body.result, 'APPLIED', second.text);
        assert.equal(second.headers.get('idempotent-replayed'), null);
    });

    test('who may send: 401, another tenant\'s 404, 403 for readers, 405 with Allow', async () => {
        const t = server.tenant();
        const target = `/api/events/${t.id}`;
        expectExactly(await server.call('POST', target, { body: event('x') }), 401, UNAUTHORIZED);
        expectExactly(await t.call('POST', '/api/events/somebody', { body: event('x') }), 404, NOT_FOUND);
        const reader = tokenFor(t.id, { scope: 'read' });
        expectError(await server.call('POST', target, { body: event('x'), token: reader }), 403, 'forbidden');
        const put = await t.call('PUT', target, { body: event('x') });
        expectError(put, 405, 'method_not_allowed');
        assert.equal(put.headers.get('allow'), 'POST, GET, HEAD');
    });

    test('S1-53, SPEC 7, SPEC 10: at debug every change is a line with counter, dimensions, event, op and result', async () => {
        const t = server.tenant();
        await applied(t, event('log-1', 'account.disconnected', { dimensions: { masterAccountId: 'log"m' } }));
        const key = createHash('sha256').update('{"masterAccountId":"log\\"m"}').digest('hex');
        const lines = await eventually('the lines', () => {
            const found = server.stderr.split('\n').filter((line) => line.includes('"eventId":"log-1"'));
            return found.length >= 2 && found.map((line) => JSON.parse(line));
        });
        const clamped = lines.find((line) => line.counterName === 'active_connections');
        assert.deepEqual([clamped.dimensionKey, clamped.op, clamped.result, clamped.level], [key, 'DEC', 'CLAMPED', 'debug']);
        assert.ok(lines.some((line) => line.counterName === 'balance' && line.result === 'APPLIED'));
    });

    test('S1-52: applied changes, events and refusals are counted', async () => {
        const t = server.tenant();
        const names = ['counter_update_success_total', 'tally_events_total{result="applied"}', 'tally_events_total{result="rejected"}'];
        const before = await Promise.all(names.map((name) => metric(server, name)));
        const { body } = await send(t, [event('s1'), event('s2'), {}]);
        const changed = body.results[0].counters + body.results[1].counters;
        await send(t, { type: 'x' });
        const now = await Promise.all(names.map((name) => metric(server, name)));
        assert.deepEqual(now.map((figure, i) => figure - before[i]), [changed, 2, 2]);
    });

    test('a client that goes away leaves nothing half done', async () => {
        const t = server.tenant();
        for (let i = 0; i < times(40); i++) {
            const connection = await server.raw();
            const body = Array.from({ length: 50 }, (_, k) => event(`gone-${i}-${k}`));
            connection.write(requestText('POST', `/api/events/${t.id}`, { token: t.token, body }));
            if (i % 2) await connection.reply();
            connection.destroy();
        }
        let last = -1;
        const total = await eventually('the count to settle', async () => {
            const before = last;
            last = await value(t, 'balance');
            return last === before && last;
        });
        assert.equal(total % 50, 0);
        assert.equal((await allEvents(t, { limit: 1000 })).length, total);
    });

    test('S1-14, S1-16: after a kill everything acknowledged is there, and known', async () => {
        const t = server.tenant();
        const first = await applied(t, event('kept'));
        await server.restart({ hard: true });
        const again = await dropped(t, event('kept'));
        assert.equal(again.id, first.id);
        assert.equal(again.conflict, undefined);
        assert.equal(await value(t, 'connects_total', M1), 1);
        assert.equal((await allEvents(t)).length, 1);
        assert.equal((await allDuplicates(t)).length, 1);
    });
});

describe('duplicates in the log', () => {
    const server = serverFor({ config: RULES });

    test('SPEC 10: so many lines a second, and the count of what was left out', async () => {
        const t = server.tenant();
        await send(t, Array.from({ length: 500 }, () => event('noisy')));
        const lines = () => server.stderr.split('\n').filter((line) => line.includes('DROPPED_DUPLICATE'));
        await eventually('a line', () => lines().length > 0);
        assert.ok(lines().length <= 40, `${lines().length} lines`);
        const counted = await eventually('what was left out', async () => {
            await dropped(t, event('noisy'));
            return lines().map((line) => JSON.parse(line).leftOut).find((leftOut) => leftOut > 0);
        });
        assert.ok(counted >= 400, `${counted}`);
        assert.ok(!server.stderr.includes('counterName'), 'changes are for debug');
    });
});

describe('rules changed under way', () => {
    const server = serverFor({ config: RULES, settings: { 'log.level': 'debug' } });
    const MORE = '  - counterName: extra\n    rules: [{ on: account.connected, op: increment }]\n';

    test('SPEC 7: events sent while rules are reloaded count exactly once for each counter that stays', async () => {
        const t = server.tenant();
        let sent = 0;
        let done = false;
        const sender = async (who) => {
            while (!done) {
                const { body } = await send(t, Array.from({ length: 20 }, (_, k) => event(`${who}-${sent + k}`)), { query: '?results=errors' });
                assert.equal(body.applied, 20);
                sent += 20;
            }
        };
        const senders = Promise.all(['a', 'b', 'c', 'd'].map(sender));
        for (let i = 0; i < times(12); i++) {
            server.writeConfig(i % 2 ? RULES : RULES + MORE);
            server.signal('SIGHUP');
            await sleep(40);
        }
        done = true;
        await senders;
        assert.equal(await value(t, 'balance'), sent);
        assert.equal(await value(t, 'connects_total', M1), sent);
        const extra = await value(t, 'extra');
        assert.ok(extra > 0 && extra < sent, `extra ${extra} of ${sent}`);
    });
});

describe('a closed list of types', () => {
    const server = serverFor({ config: `events:\n  types: [account.connected]\n${RULES}` });

    test('A-02d: another type is 400 unknown_event_type and its id stays free', async () => {
        const t = server.tenant();
        expectError(await send(t, event('x', 'account.conected')), 400, 'unknown_event_type');
        const { body } = await send(t, [event('y', 'nope'), event('x')]);
        assert.deepEqual([body.applied, body.rejected, body.results[0].code], [1, 1, 'unknown_event_type']);
    });
});

describe('ids made by the server', () => {
    const server = serverFor({ config: RULES, settings: { 'events.generateIds': true } });

    test('SPEC 6: an event without an id gets a UUID of its own each time', async () => {
        const t = server.tenant();
        const made = [];
        for (const eventId of [undefined, null]) made.push((await applied(t, { ...event(), eventId })).eventId);
        for (const id of made) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        assert.notEqual(made[0], made[1]);
        assert.equal(await value(t, 'connects_total', M1), 2);
        await dropped(t, event(made[0]));
        expectError(await send(t, event('')), 400, 'event_id_required');
    });
});

describe('ids unique over the installation', () => {
    const server = serverFor({ config: RULES, settings: { 'events.idScope': 'installation' } });

    test('A-04, S1-10: another tenant\'s id is taken, and shows neither when nor whether it differs', async () => {
        const [a, b] = [server.tenant(), server.tenant()];
        await applied(a, event('one'));
        const foreign = await dropped(b, event('one', 'other'));
        assert.deepEqual(Object.keys(foreign), ['id', 'eventId', 'result']);
        assert.equal(await value(b, 'connects_total', M1), 0);
        const own = await dropped(a, event('one', 'other'));
        assert.equal(own.conflict, true);
        assert.ok(own.firstSeenAt);
        assert.deepEqual([(await allDuplicates(a)).length, (await allDuplicates(b)).length], [1, 1]);
    });
});
