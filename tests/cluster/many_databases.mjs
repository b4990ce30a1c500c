// many_databases.mjs -- lanes dealt over two databases, one of which dies: the other one's tenants notice nothing.
//
// Nothing means: not one request of theirs fails, and none takes as long as a client's patience.

import { between } from '../crash/random.mjs';
import { sleep } from '../e2e/support/pace.mjs';
import { WatchedDatabase } from './database.mjs';
import { World } from './world.mjs';

const CALM_MS = 3000; // a connection to the dead one is tried for 2 s, which may keep a reader's thread so long

const FAULTS = {
    async killed({ random }, database) {
        await database.crash();
        await sleep(between(random, 2000, 4000));
        await database.up();
    },
    async frozen({ random }, database) {
        await database.frozenWhile(() => sleep(between(random, 3000, 8000)));
    },
    async cut({ random }, database) {
        await database.cut();
        await sleep(between(random, 3000, 12000));
        await database.heal();
    },
};

/** Lanes are dealt out in turn, so every second tenant is the second database's. */
export async function manyDatabases({ seed, short }) {
    const [healthy, sick] = [await WatchedDatabase.watched(), await WatchedDatabase.watched({ cuttable: !short })];
    const world = new World({ seed, dsns: Array(2).fill([healthy.dsn, sick.dsn]) });
    const wrong = [];
    try {
        await world.start();
        world.load();
        await world.served('the start');
        const [lucky, unlucky] = [0, 1].map((place) => world.tenants.filter((_, lane) => lane % 2 === place));
        for (const fault of Object.keys(FAULTS).slice(0, short || sick.network ? 2 : 3)) {
            await sleep(between(world.random, 500, 1500));
            world.book.felt.clear();
            await FAULTS[fault](world, sick);
            await world.served(fault, world.tenants);
            for (const tenant of lucky) {
                const { longest, failed } = world.book.felt.get(tenant);
                if (failed || longest > CALM_MS) wrong.push(`${tenant}: the other database was ${fault}, and ${failed} requests failed, the slowest took ${Math.round(longest)} ms`);
            }
            const failed = unlucky.reduce((sum, tenant) => sum + world.book.felt.get(tenant).failed, 0);
            if (!failed) wrong.push(`the database was ${fault}, and its own tenants did not notice`);
            world.notes.push(`slowest beside it ${Math.round(Math.max(...lucky.map((tenant) => world.book.felt.get(tenant).longest)))} ms`);
        }
        return { wrong: [...wrong, ...await world.finish(), ...await healthy.verdict(), ...await sick.verdict()], note: world.note() };
    } finally {
        await world.end();
        await healthy.stop();
        await sick.stop();
    }
}
