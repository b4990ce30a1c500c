// lanes.mjs -- servers with several lanes on disk, and a life for tenants that lie in all of them.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import path from 'node:path';

import { expectTriple, sequenceOf } from './expect.mjs';
import { config, counter } from './rebuild.mjs';
import { LANES, Server, TOTAL } from './server.mjs';

const RULES = config(counter('ups', '\n    dimensions: []'));
const SETTINGS = { 'checkpoint.every': '200ms', 'journal.segmentBytes': 1048576, 'journal.keep': '0s', 'limits.counterGranularities': 4, 'limits.batchOps': 240 };

/** Enough of them for each of four lanes to have some. */
export const TENANTS = Array.from({ length: 12 }, (_, i) => `t${i}`);

/** A server below `places` (support/errands.mjs), with that many lanes. */
export function laneServer(places, lanes, options = {}) {
    return new Server({ config: RULES, data: places.fresh(), ...options, settings: { ...SETTINGS, 'store.lanes': lanes, 'ops.dir': places.ops, ...options.settings } });
}

/** The directory of one lane, or a path in it. */
export function lanePath(data, number, ...rest) {
    return path.join(data, `lane-${String(number).padStart(3, '0')}`, ...rest);
}

/* XXH3_64bits of the name, modulo 4. */
const LANE_OF = { load: 2, audited: 3 };

/** The lane of a tenant where TALLY_TEST_LANES says how many there are. */
export function laneOf(tenant, lanes = LANES) {
    assert.ok([1, 2, 4].includes(lanes), 'the numbers of lanes for which it is known');
    return LANE_OF[tenant] % lanes;
}

/** A path in what a tenant's lane has in a data directory, or in a backup. */
export function homeOf(root, tenant, ...rest) {
    return LANES === 1 ? path.join(root, ...rest) : lanePath(root, laneOf(tenant), ...rest);
}

/** The directories of all lanes. */
export function homesOf(data) {
    return LANES === 1 ? [data] : Array.from({ length: LANES }, (_, number) => lanePath(data, number));
}

/** The names of the files that all lanes have in their `part`. */
export function filesIn(data, part) {
    return homesOf(data).flatMap((home) => readdirSync(path.join(home, part)));
}

/** One of everything for each tenant; returns the sequences of the first write of each. */
export async function live(s, round) {
    return Promise.all(TENANTS.map(async (id, index) => {
        const t = s.tenant(id);
        const first = await t.increment('total', { ...TOTAL, amount: index + 1 }, { 'Idempotency-Key': `k-${round}` });
        assert.equal(first.status, 200, first.text);
        const events = Array.from({ length: 5 }, (_, i) => ({ eventId: `e-${round}-${i}`, type: 'up', occurredAt: 1000 + i }));
        const sent = await t.call('POST', `/api/events/${id}`, { body: events });
        assert.equal(sent.body.applied, 5, sent.text);
        return Number(sequenceOf(first));
    }));
}

/** All that `live` did in rounds 1 to `rounds` is there once, and remembered. */
export async function expectLived(s, rounds) {
    for (const [index, id] of TENANTS.entries()) {
        const t = s.tenant(id);
        expectTriple(await t.get('total'), rounds * (index + 1));
        assert.equal((await t.get('ups')).body.net, String(5 * rounds), id);
        const again = await t.call('POST', `/api/events/${id}`, { body: [{ eventId: `e-${rounds}-0`, type: 'up', occurredAt: 1000 }] });
        assert.equal(again.body.duplicates, 1, again.text);
        expectTriple(await t.increment('total', { ...TOTAL, amount: index + 1 }, { 'Idempotency-Key': `k-${rounds}` }), rounds * (index + 1));
    }
}

/** The sentence with which a server that must not start refuses. */
export async function refusal(s) {
    try {
        await s.start();
    } catch (error) {
        return /^tally: .*$/m.exec(error.message)?.[0] ?? error.message;
    }
    await s.stop();
    return assert.fail('it started');
}
