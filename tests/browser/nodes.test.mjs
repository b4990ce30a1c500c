// The dashboard of a store that several processes share (SPEC 12).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Database } from '../e2e/support/postgres.mjs';
import { Server } from '../e2e/support/server.mjs';
import { tokenFor } from '../e2e/support/tokens.mjs';
import { browserFor, Dashboard } from './support.mjs';

describe('nodes on the dashboard', () => {
    const browser = browserFor();

    test('SPEC 12: administrators see each node with its address and its lanes; tenants do not', async () => {
        const database = await Database.make();
        const settings = { 'store.kind': 'postgres', 'store.postgres.dsn': database.dsn, 'store.lanes': 4, 'store.postgres.unsafe': true };
        const nodes = [new Server({ settings }), new Server({ settings })];
        try {
            for (const node of nodes) await node.start();
            const d = await Dashboard.open(browser.context, nodes[0]);
            await d.signIn(tokenFor('operator', { scope: 'admin' }), 'acme');
            await d.live();
            const panel = d.page.locator('section', { has: d.page.getByRole('heading', { name: 'Nodes' }) });
            for (const [i, node] of nodes.entries()) {
                const row = panel.locator('tr', { hasText: node.url });
                await d.text(row.locator('td').nth(1), i === 0 ? 'this one' : 'there');
            }
            assert.match(await panel.locator('tbody').innerText(), /0|1|2|3/);
            assert.equal(await d.page.getByText('Disk free').isVisible(), false, 'the disk is the database\'s');
            await d.close();

            const tenant = await Dashboard.open(browser.context, nodes[1]);
            await tenant.signIn(tokenFor('acme'));
            await tenant.live();
            assert.equal(await tenant.page.getByRole('heading', { name: 'Nodes' }).count(), 0);
            await tenant.close();
        } finally {
            for (const node of nodes) await node.stop();
            await database.stop();
        }
    });
});
