// node_faults.mjs -- nodes that are killed, frozen for longer than a lease, and restarted, under load.
//
// After each of it every tenant is served, and every lane has a leader that was made one since: within 15 s
// of its leader's death (SPEC 12). Meanwhile rules are put in force, which a node that comes back with its old file
// has to go by.

import { between } from '../crash/random.mjs';
import { eventually, sleep } from '../e2e/support/pace.mjs';
import { WatchedDatabase } from './database.mjs';
import { LANES, World } from './world.mjs';

const LEASE_MS = 8000;
const LED_AGAIN_MS = 15000;

/** Every lane's lease has been taken or renewed since: none is left of what held then. */
async function ledAgain(world, database, what) {
    const began = performance.now();
    const then = (await database.sql('SELECT clock_timestamp()')).trim();
    const led = `SELECT count(*) FROM tally.leases WHERE until > timestamptz '${then}' + interval '${LEASE_MS + 100} milliseconds'`;
    await eventually(`${what}: all lanes to be led again`, async () => await database.number(led) === LANES, { ms: LED_AGAIN_MS, every: 200 });
    world.notes.push(`led again ${Math.round(performance.now() - began)} ms`);
}

/** A node that leads lanes now. */
async function leader(world, database) {
    const leading = `SELECT DISTINCT n.address FROM tally.leases l JOIN tally.nodes n ON n.id = l.holder WHERE l.until > clock_timestamp() ORDER BY 1`;
    const addresses = await eventually('somebody to lead', async () => (await database.sql(leading)).trim().split('\n').filter(Boolean));
    const address = addresses[between(world.random, 0, addresses.length - 1)];
    return world.nodes.find(({ port }) => address.endsWith(`:${port}`));
}

const FAULTS = {
    async kill(world, database) {
        const node = await leader(world, database);
        await node.kill();
        const led = ledAgain(world, database, 'kill -9');
        await world.served('kill -9');
        await led;
        await node.start();
    },
    async freeze(world, database) {
        const node = await leader(world, database);
        world.freeze(node);
        const until = performance.now() + between(world.random, 9000, 11000);
        const led = ledAgain(world, database, 'SIGSTOP');
        await world.served('SIGSTOP');
        await led;
        await world.adopt(world.nodes.find((each) => each !== node));
        await sleep(Math.max(0, until - performance.now()));
        world.thaw(node);
        await world.served('SIGCONT');
    },
    async restart(world) {
        await world.pick().restart();
        await world.served('a restart');
    },
    async killTwice(world) {
        const node = world.pick();
        await node.restart({ hard: true });
        await sleep(between(world.random, 0, 300));
        await node.restart({ hard: true });
        await world.served('kill -9 twice');
    },
    async killAll(world) {
        await Promise.all(world.nodes.map((node) => node.kill()));
        await Promise.all(world.nodes.map((node) => node.start()));
        await world.served('kill -9 of all');
    },
};

/** The first ones are those of the short form. */
const ORDER = ['freeze', 'kill', 'killTwice', 'restart', 'killAll'];

export async function nodeFaults({ seed, short, nodes }) {
    const database = await WatchedDatabase.watched();
    const world = new World({ seed, dsns: Array(nodes).fill(database.dsn) });
    try {
        await world.start();
        world.load();
        await world.served('the start');
        const faults = short ? ORDER.slice(0, 2) : [...ORDER, ...ORDER].map((fault) => [world.random(), fault]).sort().map(([, fault]) => fault);
        for (const fault of faults) {
            await FAULTS[fault](world, database);
            if (fault !== 'freeze') await world.adopt(world.pick());
        }
        return { wrong: [...await world.finish(), ...await database.verdict()], note: world.note() };
    } finally {
        await world.end();
        await database.stop();
    }
}
