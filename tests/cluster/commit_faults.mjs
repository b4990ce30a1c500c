// commit_faults.mjs -- the way to the database breaks between any two messages of a commit.
//
// A node reaches the database through a relay (wire.mjs), another one directly. For every n, in both directions, one
// operation's commit is broken off before and after its nth message; the client asks the other node, and then both
// again. However it ended, the operation counts once and has one answer.
//
// Where the relay falls silent instead, the node hangs in its commit, and the lane must be the other one's within
// 5 s, in which PostgreSQL ends the transaction. All lanes hang at the same time, each at another message.

import { between, randomFrom } from '../crash/random.mjs';
import { eventually, sleep, together } from '../e2e/support/pace.mjs';
import { tokenFor } from '../e2e/support/tokens.mjs';
import { Adder, request, Sender } from './clients.mjs';
import { WatchedDatabase } from './database.mjs';
import { through, Wire } from './wire.mjs';
import { World } from './world.mjs';

const DECIDED_MS = 7000; // some tenths of a second; 5 s where a transaction has to be ended first
const FREED_MS = 12000; // 5 s until a transaction is ended, 2 s of waiting for the lock, and a busy machine

async function withWire({ seed, settings }, use) {
    const database = await WatchedDatabase.watched();
    const wire = await new Wire(database.port).start();
    const world = new World({ seed, dsns: [through(database.dsn, wire.port), database.dsn], settings });
    try {
        await world.start();
        const wrong = await use({ world, wire, database });
        wire.closeAll(); // what still hangs would for as long as the node waits for a COMMIT
        return { wrong: [...wrong, ...await world.finish(), ...await database.verdict()], note: world.note() };
    } finally {
        await wire.stop();
        await world.end();
        await database.stop();
    }
}

/** One operation at the node behind the wire, whose commit breaks off there. Gives how long it took until it was decided.
 * The node may still be finding out about the last break; then the other one served it, and it is tried once more. */
async function breakOne(client, wire, plan) {
    for (let tries = 0; tries < 20; tries++) {
        const began = performance.now();
        client.at = 0;
        wire.arm(plan);
        await client.step(1);
        const took = performance.now() - began;
        const unused = wire.disarm();
        for (let i = 0; i < 2; i++) await client.again();
        if (!unused) return took;
        await sleep(50);
    }
    throw new Error(`no commit was seen on the wire for message ${plan.n} ${plan.direction}`);
}

export function brokenCommits({ seed, short }) {
    return withWire({ seed, settings: { 'store.lanes': 1 } }, async ({ world, wire }) => {
        const random = randomFrom(seed);
        const wrong = [];
        let slowest = { took: 0 };
        const make = (kind, name, share) => Object.assign(new kind({ nodes: world.nodes, tenant: world.tenants[0], name, random, book: world.book }), { id: name, share });
        const clients = [make(Sender, 'seen', 0), make(Adder, 'sum', 0)];
        for (const client of clients) for (let i = 0; i < 3; i++) await client.step(1);
        for (const direction of ['up', 'down']) {
            for (const side of ['before', 'after']) {
                for (const client of clients) {
                    let n = short ? between(random, 1, 5) : 1;
                    for (let broken = -1; wire.broken > broken; n += short ? 5 : 1) {
                        broken = wire.broken;
                        const took = await breakOne(client, wire, { direction, side, n });
                        if (took > slowest.took) slowest = { took, where: `${side} message ${n} ${direction}` };
                        if (took > DECIDED_MS) wrong.push(`broken off ${side} message ${n} ${direction}, it took ${Math.round(took)} ms`);
                    }
                }
            }
        }
        world.notes.push(`${wire.broken} commits broken off, of up to ${wire.counted.up} messages to and ${wire.counted.down} from the database; decided within ${Math.round(slowest.took)} ms (${slowest.where})`);
        return wrong;
    });
}

/** A tenant of each lane, as the database knows them. */
async function tenantsOfLanes(world, database, lanes) {
    const known = async () => (await database.sql('SELECT lane, min(tenant_id) FROM tally.tenants GROUP BY lane ORDER BY lane')).trim().split('\n').filter(Boolean);
    for (let i = 0; (await known()).length < lanes; i += 50) {
        await together(50, (n) => request(world.nodes[1].port, 'POST', `/api/counters/of${i + n}/warm/increment`, { token: tokenFor(`of${i + n}`), body: { durationSeconds: 0, timestamp: 0 }, ms: 20000 }));
    }
    return (await known()).map((line) => line.split('|')[1]);
}

export function hangingCommits({ seed, short }) {
    const lanes = short ? 16 : 64;
    const settings = { 'store.lanes': lanes, 'store.postgres.connections': lanes + 8 };
    return withWire({ seed, settings }, async ({ world, wire, database }) => {
        const random = randomFrom(seed);
        const wrong = [];
        const tenants = await tenantsOfLanes(world, database, lanes);
        const hung = [];
        const results = [];
        for (const [lane, tenant] of tenants.entries()) {
            const broken = wire.broken;
            const n = short ? between(random, 1, 60) : lane + 1;
            const adder = (nodes, name) => Object.assign(new Adder({ nodes, tenant, name: 'sum', random: randomFrom(seed + lane), book: world.book }), { id: `${name}-${lane}` });
            const [first, second] = [adder(world.nodes, 'hung'), adder([world.nodes[1]], 'other')];
            first.at = 0;
            wire.arm({ n, silent: true });
            const done = first.step(1);
            await Promise.race([done, eventually('the commit to hang', () => wire.broken > broken, { every: 2 })]);
            wire.disarm();
            results.push(done);
            if (wire.broken > broken) hung.push({ second, n, began: performance.now() });
        }
        const times = await Promise.all(hung.map(async ({ second, n, began }) => {
            await second.step(1);
            const took = performance.now() - began;
            if (took > FREED_MS) wrong.push(`with a node that hung before message ${n} the lane was another one's after ${Math.round(took)} ms`);
            return took;
        }));
        await Promise.all(results);
        world.notes.push(`${hung.length} lanes hung, and were another node's within ${Math.round(Math.max(...times))} ms`);
        return wrong;
    });
}
