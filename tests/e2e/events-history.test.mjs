// What is retained: events and dropped duplicates, read back in order of arrival.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { allDuplicates, allEvents, applied, dropped, duplicates, event, eventById, events, metric, RULES, send, value } from './support/events.mjs';
import { expectError, expectExactly, NOT_FOUND } from './support/expect.mjs';
import { eventually, times } from './support/pace.mjs';
import { serverFor } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const ids = (records) => records.map((record) => record.eventId);
const at = (second) => `2026-01-01T00:00:${String(second).padStart(2, '0')}.000Z`;

describe('history', () => {
    const server = serverFor({ config: RULES });

    test('S1-03: an event comes back as it was sent', async () => {
        const t = server.tenant();
        const payload = { text: 'é "x" \n', list: [1, 1.5, null, true, { deep: [] }], big: 123456789012 };
        const sent = await applied(t, { eventId: 'E1', type: 't.x', occurredAt: '2026-01-01T01:00:00+01:00', dimensions: { b: 2, a: 'ü"\\', t: true, n: null }, payload });
        const { status, body } = await eventById(t, 'E1');
        assert.equal(status, 200);
        assert.deepEqual(Object.keys(body), ['id', 'eventId', 'type', 'occurredAt', 'receivedAt', 'dimensions', 'payload']);
        assert.match(body.receivedAt, ISO);
        assert.ok(Math.abs(Date.parse(body.receivedAt) - Date.now()) < 60000);
        assert.deepEqual({ ...body, receivedAt: '' }, {
            id: sent.id, eventId: 'E1', type: 't.x', occurredAt: at(0), receivedAt: '',
            dimensions: { a: 'ü"\\', b: '2', t: 'true' }, payload,
        });
        assert.deepEqual((await allEvents(t)), [body]);
    });

    test('what was not said is null, empty, or now', async () => {
        const t = server.tenant();
        await applied(t, { eventId: 'bare', type: 'x' });
        const { body } = await eventById(t, 'bare');
        assert.deepEqual([body.dimensions, body.payload], [{}, null]);
        assert.ok(Math.abs(Date.parse(body.occurredAt) - Date.now()) < 60000);
    });

    test('an id that is not retained is 404, whatever it looks like', async () => {
        const t = server.tenant();
        await applied(t, event('here'));
        for (const id of ['nope', 'here ', 'HERE', 'x'.repeat(300)]) expectExactly(await eventById(t, id), 404, NOT_FOUND);
        expectExactly(await t.call('GET', `/api/events/${t.id}/`), 404, NOT_FOUND);
        expectError(await t.call('GET', `/api/events/${t.id}/%zz`), 400, 'invalid_request');
        expectExactly(await eventById(server.tenant(), 'here'), 404, NOT_FOUND);
    });

    test('events come in order of arrival, a page at a time', async () => {
        const t = server.tenant();
        const names = Array.from({ length: 25 }, (_, i) => `p${i}`);
        await send(t, names.map((id, i) => event(id, 'x', { occurredAt: at(59 - i) })));
        assert.deepEqual(ids(await allEvents(t)), names);
        for (const limit of [1, 7, 24, 25, 26]) assert.deepEqual(ids(await allEvents(t, { limit })), names);
        const page = (await events(t, { limit: 10 })).body;
        assert.equal(page.events.length, 10);
        assert.match(page.next, /^[A-Za-z0-9_-]+$/);
        const rest = (await events(t, { after: page.next })).body;
        assert.deepEqual(ids(rest.events), names.slice(10));
        assert.equal(rest.next, null);
        const sequences = (await allEvents(t)).map((one) => BigInt(one.id));
        assert.ok(sequences.every((sequence, i) => i === 0 || sequence > sequences[i - 1]));
    });

    test('SPEC 6: type, from and to filter; times are those of occurrence, both ends included', async () => {
        const t = server.tenant();
        await send(t, [event('a', 'x', { occurredAt: at(5) }), event('b', 'y', { occurredAt: at(1) }), event('c', 'x', { occurredAt: at(3) })]);
        assert.deepEqual(ids(await allEvents(t, { type: 'x' })), ['a', 'c']);
        assert.deepEqual(ids(await allEvents(t, { from: at(3) })), ['a', 'c']);
        assert.deepEqual(ids(await allEvents(t, { to: at(3) })), ['b', 'c']);
        assert.deepEqual(ids(await allEvents(t, { from: at(1), to: at(3), type: 'y' })), ['b']);
        assert.deepEqual(ids(await allEvents(t, { from: at(9) })), []);
        assert.deepEqual(ids(await allEvents(t, { type: 'x', limit: 1 })), ['a', 'c']);
    });

    test('S1-23, S1-25: a duplicate is audited with what it brought', async () => {
        const t = server.tenant();
        const first = event('dup', 'x', { occurredAt: at(0) });
        await applied(t, first);
        const { firstSeenAt } = await dropped(t, { ...first, payload: { second: true } });
        await dropped(t, first);
        const audit = await allDuplicates(t);
        assert.equal(audit.length, 2);
        assert.deepEqual(Object.keys(audit[0]), ['event_id', 'first_seen_at', 'duplicate_seen_at', 'event_type', 'dimensions_json', 'payload_json']);
        for (const record of audit) {
            assert.deepEqual([record.event_id, record.first_seen_at, record.event_type], ['dup', firstSeenAt, 'x']);
            assert.match(record.duplicate_seen_at, ISO);
            assert.ok(record.duplicate_seen_at >= record.first_seen_at);
            assert.deepEqual(record.dimensions_json, first.dimensions);
        }
        assert.deepEqual(audit.map((record) => record.payload_json), [{ second: true }, null]);
        assert.equal((await allEvents(t)).length, 1, 'a duplicate is no event');
        assert.equal((await eventById(t, 'dup')).body.payload, null, 'the first one stands');
    });

    test('duplicates by id, by time and by page', async () => {
        const t = server.tenant();
        await send(t, [event('a', 'x'), event('b', 'x')]);
        for (const id of ['a', 'b', 'a', 'a', 'b']) await dropped(t, event(id, 'x'));
        const order = (records) => records.map((record) => record.event_id).join('');
        assert.equal(order(await allDuplicates(t)), 'abaab');
        assert.equal(order(await allDuplicates(t, { limit: 2 })), 'abaab');
        assert.equal(order(await allDuplicates(t, { eventId: 'b', limit: 1 })), 'bb');
        assert.equal(order(await allDuplicates(t, { eventId: 'c' })), '');
        const seen = (await allDuplicates(t)).map((record) => record.duplicate_seen_at);
        assert.equal(order(await allDuplicates(t, { from: seen[0], to: seen.at(-1) })), 'abaab');
        assert.equal(order(await allDuplicates(t, { to: new Date(Date.parse(seen[0]) - 1).toISOString() })), '');
        assert.equal(order(await allDuplicates(t, { from: new Date(Date.parse(seen.at(-1)) + 1).toISOString() })), '');
    });

    test('odd questions are 400', async () => {
        const t = server.tenant();
        for (const query of [{ limit: 0 }, { limit: 10001 }, { limit: 'x' }, { from: 'noon' }, { to: '1.5' }, { after: '!' }, { after: 'AAAA' }, { after: 'x'.repeat(50) }]) {
            expectError(await events(t, query), 400, 'invalid_request');
            expectError(await duplicates(t, query), 400, 'invalid_request');
        }
        expectError(await events(t, { type: '' }), 400, 'invalid_request');
        expectError(await duplicates(t, { eventId: '' }), 400, 'invalid_request');
        assert.deepEqual((await events(t, { after: '', _unknown: '1' })).body, { events: [], next: null });
        const last = Buffer.from('ffffffffffffffff', 'hex').toString('base64url');
        assert.deepEqual((await events(t, { after: last })).body, { events: [], next: null });
    });

    test('who may read: the tenant itself, with scope read', async () => {
        const [t, other] = [server.tenant(), server.tenant()];
        await applied(t, event('mine'));
        for (const path of [`/api/events/${t.id}`, `/api/events/${t.id}/mine`, `/api/duplicates/${t.id}`]) {
            assert.equal((await server.call('GET', path)).status, 401);
            expectExactly(await other.call('GET', path), 404, NOT_FOUND);
            expectError(await server.call('GET', path, { token: tokenFor(t.id, { scope: 'write' }) }), 403, 'forbidden');
            assert.equal((await t.call('GET', path)).status, 200);
        }
        assert.deepEqual(await allEvents(other), []);
    });

    test('SPEC 3: on one connection history shows what was just sent', async () => {
        const t = server.tenant();
        for (let i = 0; i < times(30); i++) {
            await applied(t, event(`c${i}`, 'x'));
            assert.equal((await eventById(t, `c${i}`)).status, 200);
        }
    });

    test('cursors and history outlive a restart', async () => {
        const t = server.tenant();
        const names = Array.from({ length: 12 }, (_, i) => `r${i}`);
        await send(t, names.map((id) => event(id, 'x')));
        await dropped(t, event('r3', 'x'));
        const { next } = (await events(t, { limit: 5 })).body;
        for (const hard of [true, false]) {
            await server.restart({ hard });
            assert.deepEqual(ids((await events(t, { after: next })).body.events), names.slice(5));
            assert.deepEqual((await allDuplicates(t)).map((record) => record.event_id), ['r3']);
            assert.equal((await eventById(t, 'r7')).status, 200);
        }
    });

    test('large pages are cut, and nothing is lost between them', async () => {
        const t = server.tenant();
        const payload = 'p'.repeat(15000);
        const count = 700;
        for (let i = 0; i < count; i += 100) {
            await send(t, Array.from({ length: 100 }, (_, k) => ({ eventId: `big-${i + k}`, type: 'x', payload })), { query: '?results=errors' });
        }
        const reply = await events(t, { limit: 10000 });
        assert.equal(reply.status, 200, reply.text);
        const page = reply.body;
        assert.ok(page.events.length < count && page.next, `${page.events.length} in one page`);
        assert.equal(new Set(ids(await allEvents(t, { limit: 10000 }))).size, count);
        assert.equal((await eventById(t, `big-${count - 1}`)).status, 200);
    });
});

describe('a journal that keeps nothing', () => {
    const server = serverFor({
        config: RULES,
        settings: {
            'journal.segmentBytes': '64KiB', 'journal.keep': 0, 'journal.keepBytes': 0, 'checkpoint.every': '100ms',
            'limits.batchOps': 3, 'limits.atomicOps': 3,
        },
    });

    const writtenBack = () => eventually('a checkpoint of everything', async () =>
        (await metric(server, 'tally_applied_sequence')) === (await metric(server, 'tally_durable_sequence')));

    test('S1-58: events outlive the segments they came in, over checkpoints and restarts', async () => {
        const t = server.tenant();
        const names = [];
        const payload = 'p'.repeat(8000);
        for (const hard of [false, true, false]) {
            const more = Array.from({ length: 40 }, (_, k) => `s${names.length + k}`);
            const { body } = await send(t, more.map((eventId) => ({ eventId, type: 'x', payload })), { query: '?results=errors' });
            assert.equal(body.applied, more.length);
            names.push(...more);
            await writtenBack();
            await server.restart({ hard });
            await applied(t, event(`after-${names.length}`, 'y'));
            await writtenBack();
            assert.deepEqual(ids(await allEvents(t, { type: 'x' })), names);
        }
    });
});

describe('retention', () => {
    const server = serverFor({ config: RULES, settings: { 'clock.settle': '0s', 'events.retention': '2s' } });

    test('S1-02, S1-14, S1-58: old events go, counters and ids stay', async () => {
        const t = server.tenant();
        await applied(t, event('old'));
        await dropped(t, event('old'));
        assert.equal((await eventById(t, 'old')).status, 200);
        await eventually('the event to go', async () => (await allEvents(t)).length === 0);
        await eventually('the audit to go', async () => (await allDuplicates(t)).length === 0);
        expectExactly(await eventById(t, 'old'), 404, NOT_FOUND);
        await dropped(t, event('old'));
        assert.equal(await value(t, 'connects_total', { masterAccountId: 'm1' }), 1);
        await applied(t, event('new'));
        assert.deepEqual(ids(await allEvents(t)), ['new']);
    });
});
