// Windowed counters and GET /api/windows (seed 000; SPEC 7 and 8).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { allEvents, expectWindow } from './support/events.mjs';
import { expectError, expectExactly } from './support/expect.mjs';
import { eventually, times, together } from './support/pace.mjs';
import { rulesServer } from './support/rules.mjs';

const HOUR = 3600000;

const SEED = {
    artifact_received: 'artifacts_received_1h',
    artifact_completed: 'artifacts_completed_1h',
    artifact_failed: 'artifacts_failed_1h',
    transcription_completed: 'transcriptions_completed_1h',
    claims_extracted: 'claims_extracted_1h',
    entity_resolution_completed: 'entities_resolved_1h',
    drafts_generated: 'drafts_generated_1h',
};

const windowed = (name, on, window, more = '') => `
  - counterName: ${name}
    mode: windowed
    window: ${window}
    dimensions: [organizationId]
    rollups: [[]]${more}
    rules: [{ on: ${on}, op: increment }]`;

const SEED_CONFIG = `counters:${Object.entries(SEED).map(([type, name]) => windowed(name, type, '1h')).join('')}
`;

describe('the seven windows of seed 000', () => {
    const { tenant } = rulesServer(SEED_CONFIG);

    test('S0-36 S0-38: all seven come in one reply, 0 where nothing was counted', async () => {
        const reply = await tenant().windows();
        assert.equal(reply.status, 200, reply.text);
        assert.deepEqual(reply.body.windows.map((one) => one.counterType), Object.values(SEED));
        for (const one of reply.body.windows) {
            assert.deepEqual(one, {
                counterType: one.counterType, organizationId: null, dimensions: {},
                currentValue: 0, windowStart: null, windowEnd: null,
            });
        }
    });

    test('S0-02 S0-04 S0-20 S0-21: the first event opens an hour, later ones add and move nothing', async () => {
        const t = tenant();
        const before = Date.now();
        await t.send('artifact_received', { organizationId: 'org1' });
        const first = (await t.windowsByName({ organizationId: 'org1' })).artifacts_received_1h;
        assert.equal(first.counterType, 'artifacts_received_1h');
        assert.equal(first.organizationId, 'org1');
        assert.deepEqual(first.dimensions, { organizationId: 'org1' });
        assert.equal(first.currentValue, 1);
        assert.equal(first.windowEnd - first.windowStart, HOUR);
        assert.ok(first.windowStart >= before - 5 && first.windowStart <= Date.now() + 5, 'starts at the first event (A-02)');
        await t.send('artifact_received', { organizationId: 'org1' });
        const second = (await t.windowsByName({ organizationId: 'org1' })).artifacts_received_1h;
        assert.deepEqual(second, { ...first, currentValue: 2 });
        assert.ok(!('trailing' in second));
    });

    test('A-01 S0-03 S0-07 S0-24 S0-30 S0-37, defect 3: null is the platform, and counts every organisation', async () => {
        const t = tenant();
        const platform = async () => (await t.windowsByName()).artifacts_failed_1h;
        await t.send('artifact_failed', { organizationId: 'org1' });
        await t.send('artifact_failed', { organizationId: 'org2' });
        await t.send('artifact_failed', { organizationId: null });
        await t.send('artifact_failed', undefined);
        assert.equal((await platform()).currentValue, 4);
        assert.equal((await platform()).organizationId, null);
        assert.equal((await t.windowsByName({ organizationId: 'org1' })).artifacts_failed_1h.currentValue, 1);
    });

    test('S0-31: an event of one organisation never changes another\'s', async () => {
        const t = tenant();
        await t.send('claims_extracted', { organizationId: 'a' });
        const other = (await t.windowsByName({ organizationId: 'b' })).claims_extracted_1h;
        assert.equal(other.currentValue, 0);
        assert.equal(other.windowStart, null);
    });

    test('S0-09 to S0-16: each type changes its own counter and no other', async () => {
        const t = tenant();
        for (const [index, type] of Object.keys(SEED).entries()) {
            for (let i = 0; i <= index; i++) await t.send(type, { organizationId: 'o' });
        }
        await t.send('artifact_status_changed', { organizationId: 'o' });
        const windows = await t.windowsByName({ organizationId: 'o' });
        assert.deepEqual(Object.values(SEED).map((name) => windows[name].currentValue), [1, 2, 3, 4, 5, 6, 7]);
    });

    test('S0-01 S0-27: first events at the same time make one record and lose nothing', async () => {
        const t = tenant();
        await together(50, () => t.send('drafts_generated', { organizationId: 'o' }));
        assert.equal((await t.windowsByName({ organizationId: 'o' })).drafts_generated_1h.currentValue, 50);
        const rows = await t.allCells('drafts_generated_1h');
        assert.deepEqual(rows.map((row) => [row.dimensions, row.net]), [[{ organizationId: 'o' }, '50'], [{}, '50']]);
    });

    test('S0-08: records grow with scopes, not with events', async () => {
        const t = tenant();
        for (let i = 0; i < 30; i++) await t.send('artifact_completed', { organizationId: `org${i % 3}` });
        assert.equal((await t.allCells('artifacts_completed_1h')).length, 4);
    });

    test('S0-05 S0-06: one counter is found by its type and organisation', async () => {
        const t = tenant();
        await t.send('transcription_completed', { organizationId: 'o' });
        assert.equal(await t.net('transcriptions_completed_1h', { organizationId: 'o' }), 1);
        assert.equal(await t.net('transcriptions_completed_1h'), 1);
    });

    test('SPEC 8: a dimension set that no windowed counter keeps is 400', async () => {
        const t = tenant();
        expectError(await t.windows({ region: 'eu' }), 400, 'unknown_dimension_set');
        expectError(await t.windows({ organizationId: 'o', region: 'eu' }), 400, 'unknown_dimension_set');
    });

    test('SPEC 3: windows are the tenant\'s own and need the read scope', async () => {
        const t = tenant();
        await t.send('artifact_received', { organizationId: 'o' });
        assert.equal((await t.call('GET', '/api/windows/someone-else')).status, 404);
        assert.equal((await t.call('GET', `/api/windows/${t.id}`, { token: undefined })).status, 401);
        assert.equal((await tenant(t.id, { scope: 'write' }).windows()).status, 403);
    });
});

const SHORT_CONFIG = `counters:${windowed('short', 'ping', '2s', '\n    trailing: true')}
  - counterName: long
    mode: windowed
    window: 1h
    trailing: true
    rules: [{ on: ping, op: increment }]
  - counterName: removed_by_pong
    mode: windowed
    window: 2s
    floorAtZero: true
    rules: [{ on: ping, op: increment }, { on: pong, op: decrement }]
`;

describe('windows that end', () => {
    const { tenant } = rulesServer(SHORT_CONFIG);
    const one = async (t, name = 'short', dims = {}) => (await t.windowsByName(dims))[name];
    const over = (t) => eventually('the window to end', async () => (await one(t)).windowEnd <= Date.now(), { every: 20 });

    test('S0-35, defect 2: once over it reads 0, in windows, get and cells, and keeps its times', async () => {
        const t = tenant();
        await t.send('ping', { organizationId: 'o' });
        const open = await one(t);
        assert.equal(open.windowEnd - open.windowStart, 2000);
        await over(t);
        assert.deepEqual({ ...(await one(t)), trailing: 0 }, { ...open, currentValue: 0, trailing: 0 });
        assert.equal(await t.net('short'), 0);
        assert.equal(await t.net('short', { organizationId: 'o' }), 0);
        assert.deepEqual((await t.allCells('short')).map((row) => row.net), ['0', '0']);
        assert.equal((await one(t, 'long')).currentValue, 1);
    });

    test('S0-22 S0-26 S0-28 A-33, defect 16: events at the same time on an ended window rotate it once and all count', async () => {
        const t = tenant();
        await t.send('ping', {});
        const first = await one(t);
        await over(t);
        await together(20, () => t.send('ping', {}));
        const second = await one(t);
        assert.ok(second.windowStart >= first.windowEnd, 'S0-23: the new window starts at or after the old one\'s end');
        expectWindow(second, await allEvents(t), 2000);
        assert.equal((await one(t, 'long')).currentValue, 21);
    });

    test('S0-29: while it is open the value is what was sent since it opened', async () => {
        const t = tenant();
        for (let i = 1; i <= 5; i++) {
            await t.send('ping', {});
            const window = await one(t);
            const log = await allEvents(t);
            assert.equal(log.length, i);
            expectWindow(window, log, 2000);
        }
    });

    test('S0-41: trailing counts what came within the last window, across a rotation', async () => {
        const t = tenant();
        const before = Date.now();
        await t.send('ping', {});
        const { trailing } = await one(t);
        if (Date.now() < before + 2000) assert.equal(trailing, 1);
        assert.equal((await one(t, 'long')).trailing, 1);
        await eventually('the trailing count to forget', async () => (await one(t)).trailing === 0, { every: 100 });
        assert.equal((await one(t, 'long')).trailing, 1);
    });

    test('SPEC 8: one reply shows one instant: within the first hour, window and trailing count agree under load', async () => {
        const t = tenant();
        let reading = true;
        const write = async () => {
            while (reading) await t.send('ping', {});
        };
        const read = async () => {
            for (let i = 0; i < times(250, 50); i++) {
                const { currentValue, trailing } = await one(t, 'long');
                assert.equal(trailing, currentValue);
            }
        };
        const writers = together(4, write);
        await together(4, read).finally(() => { reading = false; });
        await writers;
    });

    test('SPEC 7: an event that was dropped as a duplicate adds to no window', async () => {
        const t = tenant();
        const event = { eventId: 'same', type: 'ping', dimensions: {} };
        await t.events(event);
        await t.events(event);
        assert.equal((await one(t, 'long')).currentValue, 1);
        assert.equal((await one(t, 'long')).trailing, 1);
    });

    test('S1-36: a windowed counter has a floor too', async () => {
        const t = tenant();
        await t.send('pong', {});
        assert.equal((await one(t, 'removed_by_pong')).currentValue, 0);
    });

    test('SPEC 8: a set that only some counters keep lists those', async () => {
        const t = tenant();
        assert.deepEqual((await t.windows({ organizationId: 'o' })).body.windows.map((window) => window.counterType), ['short']);
    });
});

describe('rules without windows', () => {
    const { tenant } = rulesServer('counters: []\n');

    test('SPEC 8: no windowed counter at all is an empty list, whatever is asked', async () => {
        expectExactly(await tenant().windows(), 200, { windows: [] });
        expectExactly(await tenant().windows({ organizationId: 'o' }), 200, { windows: [] });
    });
});
