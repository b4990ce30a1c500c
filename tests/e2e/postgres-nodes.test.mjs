// SPEC 2, 12: the nodes of a database: who is there, and who leads which lane.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { expectError } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { Database } from './support/postgres.mjs';
import { Server, serverFor } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

let database;
before(async () => (database = await Database.make()));
after(() => database?.stop());

const nodesOf = async (server) => (await server.call('GET', '/api/admin/nodes', { token: tokenFor('operator', { scope: 'admin' }) })).body.nodes;
const addresses = (nodes) => nodes.map(({ address }) => address);

describe('GET /api/admin/nodes', () => {
    test('SPEC 12: each node is listed with its address, and says which lanes it leads; all lanes are led', async () => {
        const settings = { 'store.kind': 'postgres', 'store.postgres.dsn': database.dsn, 'store.lanes': 4, 'store.postgres.unsafe': true };
        const [a, b] = [new Server({ settings }), new Server({ settings })];
        try {
            await a.start();
            await b.start();
            const both = [a.url, b.url].sort();
            await eventually('both to be there', async () => addresses(await nodesOf(a)).join() === both.join());
            await eventually('all lanes to be led', async () => (await nodesOf(b)).flatMap(({ lanes }) => lanes).sort().join() === '0,1,2,3');
            const nodes = await nodesOf(b);
            assert.deepEqual(nodes.map(({ address, self }) => [address, self]), both.map((url) => [url, url === b.url]));
            for (const { seenAt } of nodes) assert.ok(Math.abs(Date.parse(seenAt) - Date.now()) < 60000, seenAt);

            const seen = (server) => database.sql(`SELECT id, address, seen_at FROM tally.nodes WHERE address = '${server.url}'`);
            const first = await seen(b);
            await eventually('it to be seen again', async () => (await seen(b)) !== first, { ms: 20000 });
            await database.sql("INSERT INTO tally.nodes VALUES (gen_random_uuid(), 'http://long.gone', now() - interval '11 minutes')");
            await eventually('what is gone to be forgotten', async () => !(await nodesOf(a)).some(({ address }) => address === 'http://long.gone'), { ms: 20000 });

            await a.stop();
            assert.deepEqual(addresses(await nodesOf(b)), [b.url]);
            expectError(await b.tenant('acme').call('GET', '/api/admin/nodes'), 403, 'forbidden');
        } finally {
            await a.stop();
            await b.stop();
        }
        assert.equal((await database.sql('SELECT count(*) FROM tally.nodes')).trim(), '0');
    });
});

describe('a store that is not shared', () => {
    const server = serverFor();
    test('SPEC 12: has no nodes', async () => {
        if (process.env.TALLY_TEST_STORE === 'postgres') return;
        assert.deepEqual(await nodesOf(server), []);
    });
});
