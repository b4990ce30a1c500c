// picture.mjs -- what a server shows of what it holds, to be compared with what another one shows.

import assert from 'node:assert/strict';

/** Every page of a list. */
export async function pages(t, target, field) {
    const all = [];
    for (let after = ''; after !== null;) {
        const reply = await t.call('GET', `${target}${target.includes('?') ? '&' : '?'}limit=1000${after && `&after=${after}`}`);
        assert.equal(reply.status, 200, reply.text);
        all.push(...reply.body[field]);
        after = reply.body.next ?? null;
    }
    return all;
}

/** Everything that tenants can read of their counters, `kept` by rules or not, but for what is the time of asking. */
export async function picture(s, tenants, kept) {
    const seen = { tenants: await pages(s.tenant('operator', { scope: 'admin' }), '/api/admin/tenants', 'tenants') };
    for (const id of tenants) {
        const t = s.tenant(id);
        const mine = (seen[id] = { list: await pages(t, `/api/counters/${id}`, 'counters') });
        for (const { name, granularities } of mine.list) {
            for (const duration of granularities) {
                const range = { durationSeconds: duration, startTime: '0001-01-01T00:00:00Z', endTime: '9999-12-31T00:00:00Z' };
                mine[`${name} ${duration}`] = [(await t.series(name, range)).body, (await t.sumRange(name, range)).body];
            }
        }
        for (const name of kept) mine[`cells ${name}`] = await pages(t, `/api/counters/${id}/${name}/cells`, 'cells');
        for (const dim of ['', '?dim.room=r0', '?dim.room=r1']) mine[`windows ${dim}`] = (await t.call('GET', `/api/windows/${id}${dim}`)).body;
        mine.usage = (await t.call('GET', `/api/usage/${id}`)).body;
        mine.health = { ...(await t.call('GET', `/api/usage/${id}/health`)).body, queried_at: null };
    }
    return seen;
}
