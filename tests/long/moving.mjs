// moving.mjs -- a large store goes from files into PostgreSQL and back, and is compared line by line.
//
//     node tests/long/moving.mjs [--size 1000000] [--kills 20] [--seed 1]
//
// The store has that many cells, idempotency keys, event ids and events, some duplicates and some entities that are
// on. Three exports are compared: of the first store, of PostgreSQL (two lanes), of the store that all of it went
// home to. Each has every line that the others have, but for what is a place in a lane; a line is compared by its hash.
// Last, some keys and events are sent again to each of the two later stores. With --kills the server dies that often
// (kill -9, at moments that the seed chooses) in the middle of each export and import, and is started again.
// tests/e2e/moving.test.mjs does the same in small.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createReadStream, statSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { Places } from '../e2e/support/errands.mjs';
import { sleep } from '../e2e/support/pace.mjs';
import { prepared } from '../e2e/support/porting.mjs';
import { endSharedDatabase, Server } from '../e2e/support/server.mjs';
import { between, randomFrom } from '../crash/random.mjs';

const { values: flags } = parseArgs({ options: { size: { type: 'string', default: '1000000' }, kills: { type: 'string', default: '0' }, seed: { type: 'string', default: '1' } } });
const [SIZE, KILLS] = [Number(flags.size), Number(flags.kills)];
const random = randomFrom(Number(flags.seed));
const CHUNK = 5000;
const TENANTS = 20;
const RULES = `
counters:
  - { counterName: ups, dimensions: [room], rollups: [[]], rules: [{ on: up, op: increment }] }
  - counterName: accounts
    dimensions: [master]
    transition: { entity: [account] }
    rules: [{ on: up, op: increment }]
`;

const places = new Places();
const server = (kind, lanes, data = places.fresh()) => new Server({ config: RULES, data, settings: { 'store.kind': kind, 'store.lanes': lanes, 'ops.dir': places.ops } });
const adminOf = (s) => s.tenant('operator', { scope: 'admin' });
const tenantOf = (s, chunk) => s.tenant(`t${chunk % TENANTS}`);

/* What is sent, by its number. */
const change = (i) => ({ op: 'increment', name: `c${i % 2003}`, durationSeconds: 60, timestamp: 60 * i, amount: 1 + (i % 7), idempotencyKey: `key-${i}` });
const event = (i) => ({ eventId: `event-${i}`, type: 'up', occurredAt: 1000 + i, dimensions: { room: `r${i % 1009}`, account: `a${i % 10007}`, master: `m${i % 13}` }, payload: { i } });
const chunkOf = (make, chunk) => Array.from({ length: Math.min(CHUNK, SIZE - chunk * CHUNK) }, (_, i) => JSON.stringify(make(chunk * CHUNK + i))).join('\n');
const send = (t, kind, body) => t.call('POST', kind === 'changes' ? `/api/counters/${t.id}/batch?results=errors` : `/api/events/${t.id}?results=errors`, { body, headers: { 'Content-Type': 'application/x-ndjson' } });

async function fill(s) {
    const chunks = Math.ceil(SIZE / CHUNK);
    for (let chunk = 0; chunk < chunks; chunk++) {
        const t = tenantOf(s, chunk);
        const replies = await Promise.all([send(t, 'changes', chunkOf(change, chunk)), send(t, 'events', chunkOf(event, chunk))]);
        if (chunk % 100 === 0) replies.push(await send(t, 'events', chunkOf(event, chunk)));
        for (const reply of replies) assert.equal(reply.status, 200, reply.text);
    }
}

async function errand(s, what, body) {
    const admin = adminOf(s);
    const began = Date.now();
    const asked = await admin.call('POST', `/api/admin/${what}`, { body });
    assert.equal(asked.status, 202, asked.text);
    for (let kills = 0; ;) {
        if (kills < KILLS) {
            await sleep(between(random, 5, 400));
            await s.restart({ hard: true });
            kills++;
        }
        const { status, body: job } = await admin.call('GET', `/api/admin/jobs/${asked.body.job}`);
        if (status === 200 && job.state === 'failed') throw new Error(job.error);
        if (status === 200 && job.state === 'done') return { kills, seconds: (Date.now() - began) / 1000 };
        await sleep(KILLS ? 5 : 200);
    }
}

/** What a line says that is no place in a lane; null: nothing. */
function meaning(line) {
    const { kind, ...record } = JSON.parse(line);
    if (['header', 'rules', 'end'].includes(kind)) return null;
    if (kind === 'definition') return [kind, record.counter, record.mode];
    if (kind !== 'event' && kind !== 'duplicate') return [kind, record];
    const { lane, sequence, id = sequence, firstSequence, ...rest } = record;
    return [kind, id, rest];
}

const MODULUS = 1n << 96n;

/** How many different lines there are of each kind, and the sum of their hashes. A key stands in each lane, for its
 * fingerprint does not show the tenant: it counts once. */
async function digest(name) {
    const kinds = {};
    const ids = new Set();
    for await (const line of createInterface({ input: createReadStream(path.join(places.ops, 'exports', name)) })) {
        const what = meaning(line);
        if (!what) continue;
        const hash = createHash('sha1').update(JSON.stringify(what)).digest('hex').slice(0, 24);
        if (what[0] === 'id' && ids.has(hash)) continue;
        if (what[0] === 'id') ids.add(hash);
        const sum = (kinds[what[0]] ??= { lines: 0, hash: 0n });
        sum.lines++;
        sum.hash = (sum.hash + BigInt(`0x${hash}`)) % MODULUS;
    }
    return kinds;
}

const told = ({ kills, seconds }) => `${seconds.toFixed(1)} s${kills ? `, killed ${kills} times` : ''}`;

async function move(from, name, kind, lanes) {
    const out = await errand(from, 'exports', { name, ids: true, events: true });
    const to = server(kind, lanes, await prepared(places, name, lanes, { 'store.kind': kind }));
    await to.start();
    const taken = await errand(to, 'imports', { name });
    const { size } = statSync(path.join(places.ops, 'exports', name));
    console.log(`${name}: ${Math.round(size / 1e6)} MB, exported in ${told(out)}, imported into ${kind} with ${lanes} lane(s) in ${told(taken)}`);
    return to;
}

/** What was counted before is answered as it was. */
async function expectRemembered(s) {
    for (let chunk = 0; chunk * CHUNK < SIZE; chunk += 17) {
        const t = tenantOf(s, chunk);
        const { body } = await t.call('POST', `/api/counters/${t.id}/batch`, { body: chunkOf(change, chunk), headers: { 'Content-Type': 'application/x-ndjson' } });
        assert.ok(body.results.every((result) => result.replayed), 'every key replays');
        const { body: sent } = await t.call('POST', `/api/events/${t.id}`, { body: chunkOf(event, chunk), headers: { 'Content-Type': 'application/x-ndjson' } });
        assert.ok(sent.results.every((result) => result.result === 'DROPPED_DUPLICATE'), 'every event is known');
    }
}

const servers = [];
try {
    const source = server('embedded', 1);
    servers.push(source);
    await source.start();
    const began = Date.now();
    await fill(source);
    console.log(`filled in ${((Date.now() - began) / 1000).toFixed(1)} s`);
    const middle = await move(source, 'out.ndjson', 'postgres', 2);
    servers.push(middle);
    const home = await move(middle, 'home.ndjson', 'embedded', 1);
    servers.push(home);
    await errand(home, 'exports', { name: 'end.ndjson', ids: true, events: true });
    const [first, second, third] = [await digest('out.ndjson'), await digest('home.ndjson'), await digest('end.ndjson')];
    assert.deepEqual(second, first);
    assert.deepEqual(third, first);
    for (const [kind, what] of Object.entries(first)) console.log(`${kind.padEnd(10)} ${String(what.lines).padStart(8)} lines, the same in all three`);
    for (const s of [middle, home]) await expectRemembered(s);
    console.log('keys and events that are sent again are answered as they were');
} finally {
    await Promise.all(servers.map((s) => s.stop()));
    await endSharedDatabase();
    places.remove();
}
