// The settings of events: idScope, registryTtl, generateIds, types (SPEC 6).

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { allDuplicates, allEvents, applied, dropped, eventById, RULES, send, value } from './support/events.mjs';
import { expectError, expectExactly, NOT_FOUND } from './support/expect.mjs';
import { eventually, sleep, together } from './support/pace.mjs';
import { newDirectory, removeDirectory, Server, serverFor } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

const event = (eventId, more = {}) => ({ eventId, type: 'account.connected', dimensions: { masterAccountId: 'm1' }, ...more });
const connects = (t) => value(t, 'connects_total', { masterAccountId: 'm1' });
const CLOUD = 'application/cloudevents+json';

describe('one id for the whole installation', () => {
    const server = serverFor({ config: RULES, settings: { 'events.idScope': 'installation' } });

    test('S1-10 A-04: 32 tenants send one id at the same time: one applies, the others are told nothing of it', async () => {
        const tenants = Array.from({ length: 32 }, () => server.tenant());
        const replies = await Promise.all(tenants.map((t) => send(t, event('shared', { payload: { from: t.id } }))));
        const winners = replies.filter((reply) => reply.body.result === 'APPLIED');
        assert.equal(winners.length, 1);
        for (const reply of replies.filter((one) => !winners.includes(one))) {
            assert.deepEqual(Object.keys(reply.body), ['id', 'eventId', 'result'], reply.text);
        }
        assert.deepEqual((await Promise.all(tenants.map(connects))).sort(), [...Array(31).fill(0), 1]);
    });

    test('SPEC 6: the foreign event itself stays hidden, the duplicate is in the sender\'s audit only', async () => {
        const [a, b] = [server.tenant(), server.tenant()];
        await applied(a, event('theirs', { payload: { secret: 'of a' } }));
        const { body } = await send(b, [event('theirs'), event('mine')]);
        assert.deepEqual([body.applied, body.duplicates], [1, 1]);
        assert.ok(!('firstSeenAt' in body.results[0]) && !('conflict' in body.results[0]));
        expectExactly(await eventById(b, 'theirs'), 404, NOT_FOUND);
        assert.deepEqual((await allEvents(b)).map((one) => one.eventId), ['mine']);
        assert.deepEqual((await allDuplicates(a)).length, 0);
        const [record] = await allDuplicates(b);
        assert.equal(record.event_id, 'theirs');
        assert.ok(!JSON.stringify(record).includes('of a'));
    });

    test('S1-14: it stays so after kill -9 and after a restart', async () => {
        const [a, b] = [server.tenant(), server.tenant()];
        await applied(a, event('for-ever'));
        for (const hard of [true, false]) {
            await server.restart({ hard });
            assert.deepEqual(Object.keys(await dropped(b, event('for-ever'))), ['id', 'eventId', 'result']);
            assert.ok((await dropped(a, event('for-ever'))).firstSeenAt);
        }
        assert.deepEqual([await connects(a), await connects(b)], [1, 0]);
    });
});

describe('the scope of ids is fixed at the first start', () => {
    const directories = [];
    after(() => directories.forEach(removeDirectory));

    for (const [first, then] of [['tenant', 'installation'], ['installation', 'tenant'], [undefined, 'installation']]) {
        test(`SPEC 6: ${first ?? 'the default'}, then ${then}: it does not start, says why, and is unharmed`, async () => {
            const data = newDirectory('scope');
            directories.push(data);
            const settings = (scope) => (scope ? { 'events.idScope': scope } : {});
            const good = await new Server({ config: RULES, data, settings: settings(first) }).start();
            await applied(good.tenant('t1'), event('e'));
            await good.stop();
            const bad = new Server({ config: RULES, data, settings: settings(then) });
            await assert.rejects(bad.start(), /events\.idScope|scope/);
            assert.deepEqual(await bad.exited, { code: 1, signal: null });
            const again = await new Server({ config: RULES, data, settings: settings(first) }).start();
            await dropped(again.tenant('t1'), event('e'));
            await again.stop();
        });
    }
});

describe('ids that are forgotten', () => {
    const server = serverFor({ config: RULES, settings: { 'events.registryTtl': '2s', 'checkpoint.every': '100ms' } });

    test('SPEC 6: an id counts again once it is older than events.registryTtl, and not before', async () => {
        const t = server.tenant();
        const { id } = await applied(t, event('e'));
        const { firstSeenAt } = await dropped(t, event('e'));
        const due = Date.parse(firstSeenAt) + 2000;
        await server.restart({ hard: true });
        for (;;) {
            const sent = Date.now();
            const { body } = await send(t, event('e'));
            if (body.result === 'APPLIED') {
                assert.ok(Date.now() >= due - 5, 'not before its time');
                assert.notEqual(body.id, id);
                break;
            }
            assert.ok(sent < due + 5, 'forgotten in time');
            assert.equal(body.firstSeenAt, firstSeenAt, 'a duplicate does not renew it');
            await sleep(50);
        }
        assert.equal(await connects(t), 2);
        assert.ok(Date.parse((await dropped(t, event('e'))).firstSeenAt) >= due - 5);
        await server.restart();
        assert.equal(await connects(t), 2);
        await eventually('a third time', async () => (await send(t, event('e'))).body.result === 'APPLIED', { every: 100 });
        assert.equal(await connects(t), 3);
    });
});

describe('ids made by the server', () => {
    const server = serverFor({ config: RULES, settings: { 'events.generateIds': true } });

    test('SPEC 6: in bulk every event without one gets its own, and one with an id keeps it', async () => {
        const t = server.tenant();
        const list = Array.from({ length: 300 }, (_, i) => event(i === 7 ? 'own' : undefined));
        const { body } = await send(t, list.map((one) => JSON.stringify(one)).join('\n'), { type: 'application/x-ndjson' });
        assert.equal(body.applied, 300);
        const made = body.results.map((result) => result.eventId);
        assert.equal(new Set(made).size, 300);
        assert.equal(made[7], 'own');
        assert.equal(await connects(t), 300);
        await dropped(t, event(made[8]));
        await dropped(t, event('own'));
        assert.deepEqual((await allEvents(t)).map((one) => one.eventId), made);
    });

    test('SPEC 6: made ids of parallel requests and after a restart never meet', async () => {
        const t = server.tenant();
        const made = new Set();
        for (const hard of [undefined, true]) {
            if (hard) await server.restart({ hard });
            for (const { eventId } of await together(64, () => applied(t, event()))) made.add(eventId);
        }
        assert.equal(made.size, 128);
        assert.equal(await connects(t), 128);
    });
});

describe('a closed list of types', () => {
    const types = (list) => `events:\n  types: [${list}]\n${RULES}`;
    const server = serverFor({ config: types('account.connected, note.stored') });

    test('A-02d: whatever way an unknown type comes in, it is refused and its id stays free', async () => {
        const t = server.tenant();
        expectError(await send(t, event('a', { type: 'account.connecte' })), 400, 'unknown_event_type');
        expectError(await send(t, event('a', { type: 'Account.Connected' })), 400, 'unknown_event_type');
        const cloud = { specversion: '1.0', id: 'a', source: '/s', type: 'nope' };
        expectError(await send(t, cloud, { type: CLOUD }), 400, 'unknown_event_type');
        const lines = ['nope', 'account.connected'].map((type) => JSON.stringify(event('a', { type }))).join('\n');
        const { body } = await send(t, lines, { type: 'application/x-ndjson' });
        assert.deepEqual([body.applied, body.rejected], [1, 1]);
        assert.equal(body.results[0].code, 'unknown_event_type');
        expectError(await send(t, event('a', { type: 'nope' })), 400, 'unknown_event_type');
        assert.deepEqual([(await allEvents(t)).length, (await allDuplicates(t)).length], [1, 0]);
    });

    test('SPEC 7: the list is reloaded with the rules', async () => {
        const t = server.tenant();
        const reload = async (text) => {
            server.writeConfig(text);
            const reply = await server.call('POST', '/api/admin/reload', { token: tokenFor('operator', { scope: 'admin' }) });
            assert.equal(reply.status, 200, reply.text);
        };
        await reload(types('note.stored, later'));
        await applied(t, event('x', { type: 'later' }));
        expectError(await send(t, event('y')), 400, 'unknown_event_type');
        await reload(RULES);
        await applied(t, event('y', { type: 'anything at all' }));
    });
});
