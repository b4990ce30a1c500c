// What operators and clients see of lanes: nothing where a call is about one tenant or about all of them, each lane where it
// is asked for.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { Places } from './support/errands.mjs';
import { laneServer } from './support/lanes.mjs';

const places = new Places();
after(() => places.remove());

const adminOf = (s) => s.tenant('operator', { scope: 'admin' });

describe('the list of tenants', () => {
    const USAGE = `
statuses: { Provisioned: active, Decommissioned: decommissioned, Suspended: suspended }
counters:
  - { counterName: entry_count, group: usage, rules: [{ on: Entry, op: increment }] }
`;
    const STATUSES = { active: 'Provisioned', decommissioned: 'Decommissioned', suspended: 'Suspended' };
    const NAMES = Array.from({ length: 60 }, (_, i) => `${'zyxabc'[i % 6]}.${i}~`);
    const statusOf = (index) => Object.keys(STATUSES)[index % 5 === 0 ? 2 : index % 2];
    const servers = [1, 4].map((lanes) => laneServer(places, lanes, { config: USAGE }));
    after(() => Promise.all(servers.map((s) => s.stop())));

    /** Every page of a query; `between` runs before each page but the first. */
    async function pages(s, query, between) {
        const found = [];
        for (let after; ;) {
            const { status, body, text } = await adminOf(s).call('GET', `/api/admin/tenants?${new URLSearchParams({ ...query, ...(after && { after }) })}`);
            assert.equal(status, 200, text);
            assert.ok(body.tenants.length <= (query.limit ?? 100));
            found.push(body.tenants.map((one) => `${one.tenant_id} ${one.status}`));
            after = body.next;
            if (!after) return found;
            await between?.();
        }
    }

    test('SPEC 3, 8, 11: it is in order, complete and the same page by page, whatever the number of lanes', async () => {
        const wanted = [...NAMES.entries()].map(([index, name]) => `${name} ${statusOf(index)}`).sort();
        for (const s of servers) {
            await s.start();
            await Promise.all(NAMES.map((name, index) => s.tenant(name).call('POST', `/api/events/${name}`, {
                body: [{ eventId: 'made', type: STATUSES[statusOf(index)] }, { eventId: 'used', type: 'Entry' }],
            })));
            assert.deepEqual((await pages(s, {})).flat(), wanted);
        }
        for (const query of [{ limit: 1 }, { limit: 7 }, { limit: 59 }, { limit: 60 }, { limit: 61 }, { status: 'suspended', limit: 5 }, { status: 'active', limit: 100 }, { status: 'nothing' }]) {
            for (const s of servers) assert.deepEqual((await pages(s, query)).flat(), wanted.filter((line) => !query.status || line.endsWith(` ${query.status}`)), JSON.stringify(query));
        }
    });

    test('SPEC 8: each tenant is listed with the moment of its own last change', async () => {
        for (const s of servers) {
            const { tenants } = (await adminOf(s).call('GET', '/api/admin/tenants?limit=10')).body;
            for (const { tenant_id: id, last_updated_at: changed } of tenants) {
                assert.equal((await s.tenant(id).call('GET', `/api/usage/${id}`)).body.last_updated_at, changed, id);
            }
        }
    });

    test('SPEC 3: a cursor holds across restarts', async () => {
        const [, four] = servers;
        const all = (await pages(four, {})).flat();
        assert.deepEqual((await pages(four, { limit: 25 }, () => four.restart({ hard: true }))).flat(), all);
    });
});
