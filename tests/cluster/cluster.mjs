// cluster.mjs -- nodes over real databases, with all that can happen to either, under load.
//
//     node tests/cluster/cluster.mjs [--seed S] [--only NAME[,NAME]] [--short]
//
// Each scenario has databases, nodes and clients of its own. The seed says what happens when; a failure prints it. The
// last line is `N passed, N failed`.

import { parseArgs } from 'node:util';

import { together } from '../e2e/support/pace.mjs';
import { brokenCommits, hangingCommits } from './commit_faults.mjs';
import { databaseFaults } from './database_faults.mjs';
import { checkTheChecker } from './history_cases.mjs';
import { manyDatabases } from './many_databases.mjs';
import { nodeFaults } from './node_faults.mjs';
import { patroni, promotion, standbyReads } from './standby_faults.mjs';

const SCENARIOS = {
    checker: ({ seed }) => checkTheChecker(seed),
    'two-nodes': (run) => nodeFaults({ ...run, nodes: 2 }),
    'three-nodes': (run) => nodeFaults({ ...run, nodes: 3 }),
    database: databaseFaults,
    'broken-commits': brokenCommits,
    'hanging-commits': hangingCommits,
    databases: manyDatabases,
    promotion,
    'promotion-of-one': (run) => promotion({ ...run, nodes: 1 }),
    'promotion-beside': (run) => promotion({ ...run, cut: true }),
    'standby-reads': standbyReads,
    patroni,
};
const SHORT = ['checker', 'two-nodes', 'database', 'broken-commits', 'hanging-commits', 'databases', 'promotion-of-one'];

const AT_ONCE = 2; // they mostly wait

const { values: flags } = parseArgs({
    options: {
        seed: { type: 'string', default: process.env.CLUSTER_SEED || '1' },
        only: { type: 'string', default: process.env.ONLY || '' },
        short: { type: 'boolean', default: false },
    },
});
const seed = Number(flags.seed);

function chosen() {
    if (!flags.only) return flags.short ? SHORT : Object.keys(SCENARIOS);
    const names = flags.only.split(',');
    for (const name of names) if (!SCENARIOS[name]) throw new Error(`no scenario ${name}; there are ${Object.keys(SCENARIOS).join(', ')}`);
    return names;
}

async function runOne(name) {
    const began = performance.now();
    let result;
    try {
        result = await SCENARIOS[name]({ seed, short: flags.short });
    } catch (error) {
        result = { wrong: [error.stack] };
    }
    const seconds = Math.round((performance.now() - began) / 1000);
    console.log(`${name.padEnd(14)} ${String(seconds).padStart(4)} s  ${result.wrong.length ? 'FAILED' : 'ok'}${result.note ? `  (${result.note})` : ''}`);
    for (const sentence of result.wrong.slice(0, 20)) console.log(`    ${sentence}`);
    if (result.wrong.length) console.log(`    again: make cluster CLUSTER_SEED=${seed} ONLY=${name}`);
    return result.wrong.length === 0;
}

async function main() {
    const names = chosen();
    console.log(`cluster test: ${names.join(', ')}; seed ${seed}`);
    let failed = 0;
    const waiting = [...names];
    await together(AT_ONCE, async () => {
        while (waiting.length) if (!await runOne(waiting.shift())) failed++;
    });
    console.log(`${names.length - failed} passed, ${failed} failed`);
    process.exitCode = failed ? 1 : 0;
}

await main();
