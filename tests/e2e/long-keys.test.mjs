// long-keys.test.mjs -- dimensions as long as an event may have them: one tenant's must not hold up
// another's cells, and what is done with them must fit the journal.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { eventually } from './support/pace.mjs';
import { serverFor } from './support/server.mjs';

const LONG = (i) => `${i}-${'x'.repeat(12000)}`;
const SERIES = `
  - counterName: short_lived
    mode: series
    granularities: [1]
    keep: 1s
    dimensions: [key]
    rules: [{ on: seen, op: increment }]
`;
const TOTALS = `
  - counterName: totals
    dimensions: [key]
    rules: [{ on: seen, op: increment }]
`;

describe('dimensions of 12 KB', () => {
    const server = serverFor({
        config: `counters:${SERIES}${TOTALS}`,
        settings: {
            'journal.segmentBytes': '1MiB', 'limits.counterGranularities': 4, 'limits.batchOps': 100, 'limits.atomicOps': 100,
            'clock.settle': '0s',
            'expiry.sweepEvery': '100ms',
        },
    });

    const pour = async (t, count) => {
        const lines = Array.from({ length: count }, (_, i) => JSON.stringify({ eventId: `e${i}`, type: 'seen', dimensions: { key: LONG(i) } }));
        const reply = await t.call('POST', `/api/events/${t.id}?results=errors`, { body: lines.join('\n'), headers: { 'Content-Type': 'application/x-ndjson' } });
        assert.equal(reply.body.applied, count, reply.text);
    };

    test('SPEC 5, 7: they expire like others, and the cells of other tenants do too', async () => {
        const long = server.tenant();
        const other = server.tenant();
        await pour(long, 150);
        const at = { durationSeconds: 60, timestamp: '2026-01-01T00:00:00Z' };
        await other.increment('brief', { ...at, expiresAt: Date.now() + 500 });
        await eventually('the other tenant\'s cell to expire', async () => (await other.get('brief', at)).status === 404);
        await eventually('the long ones to expire', async () => {
            const cells = await long.call('GET', `/api/counters/${long.id}/short_lived/cells?durationSeconds=1&limit=1`);
            return cells.body.cells.length === 0;
        });
    });

    test('SPEC 7: a frozen counter with many of them is deleted, in as many commits as it takes', async () => {
        const t = server.tenant();
        await pour(t, 150);
        server.writeConfig(`counters:${SERIES}`);
        const admin = server.tenant(t.id, { scope: 'admin' });
        assert.equal((await admin.call('POST', '/api/admin/reload')).status, 200);
        assert.equal((await admin.call('DELETE', admin.path('totals'))).status, 200);
        const cells = await t.call('GET', `/api/counters/${t.id}/totals/cells`);
        assert.deepEqual(cells.body.cells, []);
    });
});
