// The dashboard says nothing that it does not know: what looks right is right.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { eventually } from '../e2e/support/pace.mjs';
import { RuleTenant } from '../e2e/support/rules.mjs';
import { Server, serverFor, TOTAL } from '../e2e/support/server.mjs';
import { browserFor, Dashboard } from './support.mjs';

const CONFIG = `counters:
  - counterName: orders_1h
    mode: windowed
    window: 1h
    trailing: true
    dimensions: [shop]
    rollups: [[]]
    rules: [{ on: ordered, op: increment }]
  - counterName: views
    mode: series
    granularities: [0, 60]
    dimensions: [page]
    rollups: [[]]
    rules: [{ on: viewed, op: increment }]
`;
const NONE = '\u2013';
const minute = (amount = 1) => ({ durationSeconds: 60, timestamp: new Date().toISOString(), amount });

describe('the dashboard says what it knows', () => {
    const server = serverFor({ config: CONFIG, settings: { 'limits.tenantStreams': 2 } });
    const browser = browserFor();
    let tenants = 0;
    const newTenant = () => new RuleTenant(server, `honest-${++tenants}`);
    const open = (options) => Dashboard.open(browser.context, server, options);
    const headline = (d) => d.card('Counter').locator('.headline .number');
    const caption = (d) => d.card('Counter').locator('.headline .foot');

    /** How much of the plot's line is in its first three quarters, and in the last. */
    const accent = (d) => d.page.locator('.live-chart canvas').evaluate((canvas) => {
        const probe = document.createElement('div');
        probe.style.color = getComputedStyle(document.documentElement).getPropertyValue('--accent');
        document.body.append(probe);
        const line = getComputedStyle(probe).color.match(/\d+/g).map(Number);
        probe.remove();
        const { data, width } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        const found = { early: 0, late: 0 };
        for (let i = 0; i < data.length; i += 4) {
            if (data[i + 3] === 0 || line.some((part, k) => Math.abs(data[i + k] - part) > 12)) continue;
            found[(i / 4) % width < 0.75 * width ? 'early' : 'late']++;
        }
        return found;
    });

    test('nothing is drawn for the time before anybody looked', async () => {
        const t = newTenant();
        const d = await open();
        await d.signInAs(t);
        await t.increment('a', TOTAL);
        await d.text(d.tile('Now', 'Applied').locator('.foot'), '1 in all');
        await d.text(d.tile('Now', 'Applied').locator('.number'), /^\d/);
        const { early } = await eventually('what is known to be drawn', async () => {
            const drawn = await accent(d);
            return drawn.late > 0 && drawn;
        });
        assert.equal(early, 0, 'and nothing before it');
        await d.close();
    });

    test('a name that no counter has shows no number and no plot, until there is one', async () => {
        const t = newTenant();
        await t.increment('clicks', minute(7));
        const d = await open();
        await d.signInAs(t);
        await d.text(headline(d), '7');
        await d.card('Counter').getByText('As a table').click();
        await d.text(d.card('Counter').locator('tbody tr').first(), /7/);
        await d.control('Counter', 'Name').fill('clicksy');
        await d.text(caption(d), 'There is no counter named clicksy.');
        await d.text(headline(d), NONE);
        assert.equal(await d.card('Counter').locator('tbody tr').count(), 0);
        await t.increment('clicksy', minute(3));
        await d.text(headline(d), '3');
        await d.control('Counter', 'Name').fill('');
        await d.text(caption(d), 'Choose or type a name.');
        await d.control('Counter', 'Name').fill('clicks');
        await d.text(headline(d), '7');
        await d.close();
    });

    test('a counter that is deleted while it is looked at is gone, and one that gets buckets has them', async () => {
        const t = newTenant();
        await t.increment('stock', minute(5));
        const d = await open();
        await d.signInAs(t);
        await d.text(headline(d), '5');
        await t.increment('stock', { ...minute(6), durationSeconds: 3600 });
        await d.control('Counter', 'Granularity').selectOption({ label: '1 h' });
        await d.text(headline(d), '6');
        await t.call('DELETE', `/api/counters/${t.id}/stock`);
        await t.increment('other', TOTAL);
        await d.text(caption(d), 'There is no counter named stock.');
        await d.text(headline(d), NONE);
        await d.close();
    });

    test('per page without a page asks for one', async () => {
        const t = newTenant();
        await t.send('viewed', { page: '/a' });
        const d = await open();
        await d.signInAs(t);
        await d.control('Counter', 'Name').fill('views');
        await d.text(headline(d), '1');
        await d.control('Counter', 'Per').selectOption({ label: 'page' });
        await d.text(caption(d), 'Fill in page to see its counts.');
        await d.text(headline(d), NONE);
        await d.text(d.card('Counter').locator('.readout'), '');
        await d.control('Counter', 'page').fill('/a');
        await d.control('Counter', 'page').press('Enter');
        await d.text(headline(d), '1');
        await d.close();
    });

    test('windows per shop without a shop show nothing of the whole tenant', async () => {
        const t = newTenant();
        await t.send('ordered', { shop: 'north' });
        await t.send('ordered', { shop: 'south' });
        const d = await open();
        await d.signInAs(t);
        const tile = d.tile('Windows', 'orders_1h');
        await d.text(tile.locator('.number'), '2');
        await d.control('Windows', 'Per').selectOption({ label: 'shop' });
        await d.text(d.card('Windows').locator('.empty:visible'), 'Fill in shop to see its windows.');
        assert.equal(await tile.count(), 0);
        await t.send('ordered', { shop: 'south' });
        await d.text(d.tile('Now', 'Applied').locator('.foot'), '1 in all');
        assert.equal(await tile.count(), 0);
        await d.control('Windows', 'shop').fill('north');
        await d.control('Windows', 'shop').press('Enter');
        await d.text(tile.locator('.number'), '1');
        await d.text(d.tile('Now', 'Applied').locator('.foot'), '1 in all'); // the count of this visit goes on
        await d.close();
    });

    test('a direct counter shows one granularity at a time: its minutes are no part of its all-time bucket', async () => {
        const t = newTenant();
        await t.increment('both', TOTAL);
        await t.increment('both', minute(5));
        const d = await open();
        await d.signInAs(t);
        await d.text(headline(d), '5');
        await d.text(caption(d), 'in the last 1 h');
        await d.control('Counter', 'Granularity').selectOption({ label: 'all time' });
        await d.text(headline(d), '1');
        await d.text(caption(d), 'added 1, taken away 0');
        assert.equal(await d.card('Counter').locator('.chart').isVisible(), false);
        await d.control('Counter', 'Granularity').selectOption({ label: '1 min' });
        await d.text(headline(d), '5');
        await d.close();
    });

    test('the sum of a range is never more than the total, however fast it grows', async () => {
        const t = newTenant();
        const d = await open();
        await t.send('viewed', { page: '/a' });
        await d.signInAs(t);
        await d.control('Counter', 'Name').fill('views');
        await d.text(headline(d), /^\d+$/);
        const seen = [];
        for (let i = 0; i < 40; i++) {
            await Promise.all(Array.from({ length: 10 }, () => t.send('viewed', { page: '/a' })));
            if (i % 4 === 0) await d.control('Counter', 'Range').selectOption({ index: (i / 4) % 3 });
            seen.push(/added (\d+), .* (\d+) in the/.exec((await caption(d).textContent()).replaceAll('\u202f', '')));
        }
        const pairs = seen.filter(Boolean).map(([, total, sum]) => [Number(total), Number(sum)]);
        assert.ok(pairs.length > 5);
        assert.deepEqual(pairs.filter(([total, sum]) => sum > total), []);
        await d.close();
    });

    test('"Count one now" stays for as long as one wants to press it', async () => {
        const t = newTenant();
        const d = await open();
        await d.signInAs(t);
        const button = d.card('Counter').getByRole('button', { name: 'Count one now' });
        for (let i = 1; i <= 3; i++) {
            await button.click();
            await d.text(headline(d), String(i));
        }
        await t.increment('own', minute());
        await d.control('Counter', 'Name').fill('own');
        await d.text(headline(d), '1');
        assert.equal(await button.isVisible(), false, 'for hello only: other counters are not played with');
        await d.close();
    });

    test('a browser whose clock is wrong shows what the server means by now', async () => {
        const t = newTenant();
        await t.send('ordered', { shop: 'north' });
        await t.send('viewed', { page: '/a' });
        const d = await open();
        await d.page.addInitScript(() => {
            const now = Date.now.bind(Date);
            Date.now = () => now() + 2 * 86400000;
        });
        await d.page.reload();
        await d.signInAs(t);
        await d.text(d.tile('Windows', 'orders_1h'), /1 h window, ends in \d+ min/);
        await d.control('Counter', 'Name').fill('views');
        await d.text(caption(d), 'added 1, taken away 0 \u00b7 1 in the last 1 h');
        await t.send('viewed', { page: '/a' });
        await d.text(d.tile('Now', 'Applied').locator('.number'), /^[1-9]|^0\.\d/);
        await d.close();
    });

    test('nothing is said of duplicates before the server was asked; an error is told, not hidden', async () => {
        const t = newTenant();
        const d = await open({ expectErrors: true });
        const answer = { status: 503, contentType: 'application/json', body: '{"error":"The disk is away.","code":"storage_unavailable"}' };
        let broken = true;
        await d.page.route('**/api/duplicates/**', (route) => (broken ? route.fulfill(answer) : route.fallback()));
        await d.signInAs(t);
        const card = d.card('Recent duplicates');
        await d.text(card.locator('.problem'), 'This may be out of date: The disk is away.');
        assert.equal(await card.getByText('No duplicates').isVisible(), false);
        broken = false;
        await d.text(card.locator('.empty'), /^No duplicates in the last 24 hours/);
        await card.locator('.problem').waitFor({ state: 'detached' });
        await d.close();
    });

    test('the newest duplicates are shown, however many there were', async () => {
        const t = newTenant();
        const many = Array.from({ length: 6500 }, (_, i) => ({ eventId: `many-${i}`, type: 'other' }));
        for (const half of [many.slice(0, 3500), many.slice(3500)]) await t.events([...half, ...half]);
        const d = await open();
        await d.signInAs(t);
        await d.text(d.card('Recent duplicates').locator('tbody tr').first(), /^many-6499/);
        await d.close();
    });

    test('why there is no stream is told', async () => {
        const t = newTenant();
        const [first, second, third] = [await open(), await open(), await open({ expectErrors: true })];
        await first.signInAs(t);
        await second.signInAs(t);
        await third.signIn(t.token);
        await third.text(third.page.locator('#status'), /^The tenant has as many streams as it may have\. Asking again/);
        for (const d of [first, second, third]) await d.close();
    });
});

describe('the dashboard over changes of the server', () => {
    const browser = browserFor();

    test('a reload that takes a counter away takes it off the page', async () => {
        const other = CONFIG.replaceAll('views', 'looks').replace('orders_1h', 'sales_1h');
        const server = await new Server({ config: CONFIG }).start();
        const t = new RuleTenant(server, 'reloaded');
        const d = await Dashboard.open(browser.context, server);
        try {
            await d.signInAs(t);
            await d.text(d.tile('Windows', 'orders_1h').locator('.number'), '0');
            await d.control('Counter', 'Name').fill('views');
            await d.text(d.card('Counter').locator('.headline .number'), '0');
            server.writeConfig(other);
            server.signal('SIGHUP');
            await d.tile('Windows', 'sales_1h').waitFor();
            await d.text(d.card('Counter').locator('.headline .foot'), /frozen: no rule counts into it any more$/);
            assert.equal(await d.tile('Windows', 'orders_1h').count(), 0);
            assert.deepEqual((await d.control('Top dimension sets', 'Counter').locator('option').allTextContents()).sort(), ['looks', 'orders_1h (frozen)', 'sales_1h', 'views (frozen)']);
            await d.close();
        } finally {
            await server.stop();
        }
    });
});
