// Tally-Sequence and minSequence: what a write says is what a read can be held to (SPEC 1, 11, 13).

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { Places } from './support/errands.mjs';
import { expectError, expectExactly, expectTriple, NOT_FOUND, sequenceOf } from './support/expect.mjs';
import { laneServer, TENANTS } from './support/lanes.mjs';
import { together } from './support/pace.mjs';
import { TOTAL } from './support/server.mjs';

const places = new Places();
after(() => places.remove());

const read = (t, minSequence, name = 'total') => t.get(name, { ...TOTAL, ...(minSequence !== undefined && { minSequence }) });

for (const lanes of [1, 4]) {
    describe(`positions in ${lanes} lane${lanes > 1 ? 's' : ''}`, () => {
        const s = laneServer(places, lanes);
        after(() => s.stop());

        test('SPEC 1, 13: a write says where it stands, and a read given that answers with it', async () => {
            await s.start();
            await together(TENANTS.length, async (index) => {
                const t = s.tenant(TENANTS[index]);
                for (let i = 1; i <= 20; i++) {
                    const position = (await t.increment('total', TOTAL)).headers.get('Tally-Sequence');
                    const reply = await read(t, position);
                    expectTriple(reply, i);
                    assert.ok(sequenceOf(reply) >= BigInt(position.slice(2)), 'it says how far it is');
                }
            });
        });

        test('SPEC 13: every read that succeeds says how far it is; what is refused does not', async () => {
            const t = s.tenant(TENANTS[0]);
            const written = sequenceOf(await t.increment('total', TOTAL));
            const range = 'durationSeconds=60&startTime=0&endTime=60';
            const replies = [
                ...await Promise.all([
                    `/api/counters/${t.id}/total/get?durationSeconds=0&timestamp=0`, `/api/counters/${t.id}/total/sumRange?${range}`, `/api/counters/${t.id}/total/series?${range}`,
                    `/api/counters/${t.id}/ups/cells`, `/api/counters/${t.id}`, `/api/events/${t.id}`, `/api/duplicates/${t.id}`,
                    `/api/windows/${t.id}`, `/api/usage/${t.id}`, `/api/usage/${t.id}/health`, `/api/busiest/${t.id}`,
                ].map((target) => t.call('GET', target))),
                await t.query([{ get: { name: 'total', ...TOTAL } }]),
                await t.call('HEAD', `/api/counters/${t.id}/total/get?durationSeconds=0&timestamp=0`),
            ];
            for (const reply of replies) {
                assert.equal(reply.status, 200, reply.text);
                assert.ok(sequenceOf(reply) >= written);
            }
            const absent = await read(t, undefined, 'nothing');
            expectExactly(absent, 404, NOT_FOUND);
            assert.equal(absent.headers.get('Tally-Sequence'), null, 'byte for byte the 404 of a foreign tenant');
        });

        test('SPEC 13: a position beyond the end, or of another history, is lost', async () => {
            const t = s.tenant(TENANTS[1]);
            const last = sequenceOf(await read(t));
            expectTriple(await read(t, `0-${last}`), 20);
            for (const position of [`0-${last + 1n}`, '0-18446744073709551615', `1.00ff00ff-${last}`, '1.00ff00ff-0']) {
                expectError(await read(t, position), 409, 'position_lost');
                expectError(await t.call('GET', `/api/stream/${t.id}?minSequence=${position}`), 409, 'position_lost');
                expectError(await t.call('GET', `/api/counters/${t.id}?minSequence=${position}`), 409, 'position_lost');
            }
        });

        test('SPEC 3, 13: a malformed one is 400; what else is wrong is said before a position is lost', async () => {
            const t = s.tenant(TENANTS[1]);
            for (const text of ['', '5', '0', '0-', '0-x', '-1', '0-1-2', '1-5', '1.xyz-5', '0-18446744073709551616']) expectError(await read(t, text), 400, 'invalid_request');
            const lost = 'minSequence=0-999999999';
            expectError(await t.call('GET', `${t.path('total', 'get')}?${lost}&durationSeconds=x&timestamp=0`), 400, 'invalid_request');
            expectError(await s.call('GET', `${t.path('total', 'get')}?${lost}&durationSeconds=0&timestamp=0`), 401, 'unauthorized');
            expectExactly(await s.tenant('other').call('GET', `${t.path('total', 'get')}?${lost}&durationSeconds=0&timestamp=0`), 404, NOT_FOUND);
            expectError(await read(t, '0-999999999', 'nothing'), 409, 'position_lost');
        });

        test('SPEC 3: what does not read a tenant knows it and does not use it', async () => {
            const t = s.tenant('writer');
            const admin = s.tenant('operator', { scope: 'admin' });
            for (const text of ['0-999999999', 'nonsense']) {
                assert.equal((await t.call('POST', `${t.path('total', 'increment')}?minSequence=${text}`, { body: { ...TOTAL, minSequence: text } })).status, 200);
                assert.equal((await t.call('POST', `/api/counters/${t.id}/query`, { body: { queries: [], minSequence: text } })).status, 200);
                assert.equal((await admin.call('GET', `/api/admin/lanes?minSequence=${text}`)).status, 200);
                assert.equal((await s.call('GET', `/readyz?minSequence=${text}`)).status, 200);
            }
        });

        test('SPEC 1: whatever was acknowledged before a crash is reached after it', async () => {
            const positions = await Promise.all(TENANTS.map(async (id) => (await s.tenant(id).increment('total', TOTAL)).headers.get('Tally-Sequence')));
            await s.restart({ hard: true });
            for (const [index, id] of TENANTS.entries()) assert.equal((await read(s.tenant(id), positions[index])).status, 200);
        });
    });
}

test('SPEC 11: a sequence is that of the tenant\'s lane', async () => {
    const s = laneServer(places, 4);
    await s.start();
    const quiet = await Promise.all(TENANTS.map(async (id) => sequenceOf(await s.tenant(id).increment('total', TOTAL))));
    const busy = s.tenant(TENANTS[0]);
    for (let i = 0; i < 50; i++) await busy.increment('total', TOTAL);
    const [first, ...rest] = await Promise.all(TENANTS.map(async (id) => sequenceOf(await read(s.tenant(id)))));
    assert.ok(first >= quiet[0] + 50n);
    const elsewhere = TENANTS.slice(1).filter((_, index) => rest[index] < first);
    assert.ok(elsewhere.length > 0, 'some tenant is in another lane');
    for (const id of elsewhere) expectError(await read(s.tenant(id), `0-${first}`), 409, 'position_lost');
    await s.stop();
});
