// database_faults.mjs -- a database that is killed, restarted, frozen and cut off while nodes write to it.
//
// Nothing that was acknowledged is lost, and as soon as it is back every tenant is served.

import { between } from '../crash/random.mjs';
import { sleep } from '../e2e/support/pace.mjs';
import { WatchedDatabase } from './database.mjs';
import { through, Wire } from './wire.mjs';
import { World } from './world.mjs';

const FAULTS = {
    async killed({ random }, database) {
        await database.crash();
        await sleep(between(random, 0, 3000));
        await database.up();
    },
    async restarted({ random }, database) {
        await database.down();
        await sleep(between(random, 0, 2000));
        await database.up();
    },
    async frozen({ random }, database, longest) {
        await database.frozenWhile(() => sleep(between(random, 2000, longest)));
    },
    async cut({ random }, database, longest, network) {
        await network.cut();
        await sleep(between(random, 2000, longest));
        await network.heal();
    },
};

export async function databaseFaults({ seed, short }) {
    const database = await WatchedDatabase.watched({ cuttable: true });
    const wire = database.network && await new Wire(database.port).start();
    const network = wire ? { cut: () => wire.fallSilent(), heal: () => wire.heal() } : database;
    const world = new World({ seed, dsns: Array(2).fill(wire ? through(database.dsn, wire.port) : database.dsn) });
    try {
        if (wire) world.notes.push(`cut off by a relay, for it has no network of its own: ${database.network}`);
        await world.start();
        world.load();
        await world.served('the start');
        const names = Object.keys(FAULTS);
        for (const fault of short ? names : [...names, ...names]) {
            await sleep(between(world.random, 500, 2000)); // of undisturbed load
            await FAULTS[fault](world, database, short ? 6000 : 14000, network);
            await world.served(fault);
        }
        return { wrong: [...await world.finish(), ...await database.verdict()], note: world.note() };
    } finally {
        await world.end();
        await wire?.stop();
        await database.stop();
    }
}
