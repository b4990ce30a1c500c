// standby_faults.mjs -- a database that is lost for good, and its synchronous standby that takes its place.
//
// Every count that was acknowledged is there after it, also those that were acknowledged while the standby did not
// answer and somebody ended the wait for it: what is on one machine alone is not called durable (SPEC 12).

import { between } from '../crash/random.mjs';
import { eventually, sleep } from '../e2e/support/pace.mjs';
import { tokenFor } from '../e2e/support/tokens.mjs';
import { WatchedDatabase } from './database.mjs';
import { Wire } from './wire.mjs';
import { RECOVERED_MS, World } from './world.mjs';
import { PatroniCluster } from './patroni.mjs';

const WAITING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

/** How nodes find whichever of them takes writes. */
function dsnOf(databases) {
    const hosts = databases.map(({ host, port }) => `${host}:${port}`).join(',');
    return `postgresql://postgres:${WatchedDatabase.PASSWORD}@${hosts}/postgres?target_session_attrs=read-write`;
}

/** The standby hears nothing any more; whatever waits for it is told, one way or the other, to wait no more. */
async function interruptWaits({ random }, database) {
    for (let i = 0; i < 4; i++) {
        await sleep(between(random, 200, 900));
        await database.sql(`SELECT ${random() < 0.5 ? 'pg_terminate_backend' : 'pg_cancel_backend'}(pid) ${WAITING}`);
    }
}

export async function promotion({ seed, short, nodes = 2, cut = false }) {
    const primary = await WatchedDatabase.watched({ cuttable: cut });
    const wire = await new Wire(primary.port, primary.host).start();
    let standby;
    let world;
    try {
        if (primary.network) return { wrong: [], note: `left out: no network of its own: ${primary.network}` };
        standby = await primary.standby({ sync: true, settings: { primary_conninfo: `host=127.0.0.1 port=${wire.port} user=postgres application_name=standby1 sslmode=disable gssencmode=disable` } });
        const dsn = dsnOf([primary, standby]);
        world = new World({ seed, dsns: Array(nodes).fill(dsn) });
        await world.start();
        world.load();
        await world.served('the start');
        await sleep(short ? 1000 : 5000);
        wire.fallSilent();
        await interruptWaits(world, primary);
        const wrong = await primary.verdict();
        if (cut) await primary.cut();
        else await primary.crash();
        await standby.promote();
        await world.served('promoted', world.tenants, cut ? 30000 : RECOVERED_MS); // a dead connection is given up after 10 s
        await sleep(1000);
        return { wrong: [...wrong, ...await world.finish()], note: world.note() };
    } finally {
        await world?.end();
        await primary.stop();
        await standby?.stop();
        await wire.stop();
    }
}

/** The primary's machine is lost; Patroni promotes the synchronous standby by itself. */
export async function patroni({ seed }) {
    const cluster = new PatroniCluster();
    let world;
    try {
        await cluster.start();
        world = new World({ seed, dsns: [cluster.dsn, cluster.dsn] });
        await world.start();
        world.load();
        await world.served('the start');
        await sleep(3000);
        await cluster.lose(await cluster.primary());
        const began = performance.now();
        await eventually('Patroni to promote the standby', () => cluster.primary(), { ms: 60000, every: 100 });
        world.notes.push(`promoted by Patroni after ${Math.round(performance.now() - began)} ms`);
        await world.served('Patroni');
        await sleep(1000);
        return { wrong: await world.finish(), note: world.note() };
    } catch (error) {
        error.stack += `\n${cluster.said}`;
        throw error;
    } finally {
        await world?.end();
        await cluster.stop();
    }
}

const BEHIND = {
    async paused({ random }, standby) {
        await standby.pauseReplay();
        await sleep(between(random, 1000, 4000));
        await standby.resumeReplay();
    },
    async frozen({ random }, standby) {
        await standby.frozenWhile(() => sleep(between(random, 1000, 6000)));
    },
    async crashed({ random }, standby) {
        await standby.crash();
        await sleep(between(random, 0, 2000));
        await standby.up();
    },
};

async function readsOf(node, from) {
    const text = await (await fetch(`${node.url}/metrics`, { headers: { Authorization: `Bearer ${tokenFor('operator', { scope: 'metrics admin' })}` } })).text();
    return Number(new RegExp(`^tally_database_reads_total{[^}]*from="${from}"[^}]*} (\\d+)`, 'm').exec(text)?.[1] ?? 0);
}

/** Reads go to a standby that falls behind, freezes and dies; none of them forgets what somebody was told before. */
export async function standbyReads({ seed, short }) {
    const primary = await WatchedDatabase.watched();
    let standby;
    let world;
    try {
        standby = await primary.standby();
        world = new World({ seed, dsns: [primary.dsn, primary.dsn], session: true, settings: { 'store.postgres.readDsn': standby.dsn } });
        await world.start();
        world.load();
        await world.served('the start');
        for (const fault of short ? Object.keys(BEHIND) : [...Object.keys(BEHIND), ...Object.keys(BEHIND)]) {
            await sleep(between(world.random, 500, 2000));
            await BEHIND[fault](world, standby);
            await world.served(fault);
        }
        await sleep(2000);
        const [far, near] = [await readsOf(world.nodes[0], 'standby'), await readsOf(world.nodes[0], 'primary')];
        world.notes.push(`one node read ${far} times from the standby, ${near} times from the primary`);
        const wrong = far === 0 || near === 0 ? ['reads went to one of them alone'] : [];
        return { wrong: [...wrong, ...await world.finish(), ...await primary.verdict()], note: world.note() };
    } finally {
        await world?.end();
        await primary.stop();
        await standby?.stop();
    }
}
