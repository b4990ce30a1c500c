// The dashboard in Chromium (SPEC 10).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { newId, RuleTenant } from '../e2e/support/rules.mjs';
import { newDirectory, removeDirectory, Server, serverFor, TOTAL } from '../e2e/support/server.mjs';
import { nowSeconds, tokenFor } from '../e2e/support/tokens.mjs';
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
    granularities: [0, 60, 3600]
    dimensions: [page]
    rollups: [[]]
    rules: [{ on: viewed, op: increment }]
  - counterName: storage_bytes
    floorAtZero: true
    group: usage
    limit: 1000
    rules: [{ on: stored, op: increment, amount: payload.size }]
  - { counterName: views_by_page, dimensions: [page], rules: [{ on: viewed, op: increment }] }
reconcile:
  - { name: by_page, tenants: [reconciled], entity: [page], source: { events: true }, counters: [views_by_page], scanEvery: 50ms, minInterval: 0s }
`;
const minute = () => ({ durationSeconds: 60, timestamp: new Date().toISOString() });

describe('dashboard', () => {
    const server = serverFor({ config: CONFIG });
    const browser = browserFor();
    let tenants = 0;
    const newTenant = (id = `browser-${++tenants}`) => new RuleTenant(server, id);
    const open = (options) => Dashboard.open(browser.context, server, options);

    test('SPEC 10: signs in with a token; a number moves soon after an increment', async (context) => {
        const t = newTenant();
        const d = await open();
        await d.signInAs(t);
        assert.equal(await d.page.title(), `${t.id} \u2013 tally`);
        const total = d.tile('Now', 'Applied').locator('.foot');
        await d.text(total, '0 in all');
        const times = [];
        for (let i = 1; i <= 5; i++) {
            const began = Date.now();
            await t.increment('hello', TOTAL);
            await d.text(total, `${i} in all`);
            times.push(Date.now() - began);
        }
        context.diagnostic(`a number moved ${times.join(', ')} ms after the increment was sent`);
        await d.text(d.tile('Now', 'Write latency').locator('.number'), /[0-9] (µs|ms|s)$/);
        await d.close();
    });

    test('SPEC 10: the token stays in the tab: not in the address, not in another tab, gone after signing out', async () => {
        const t = newTenant();
        const d = await open();
        await d.signInAs(t);
        assert.equal(d.page.url(), `${server.url}/`);
        await d.page.reload();
        await d.live();
        const other = await open();
        await other.page.locator('#sign-in').waitFor();
        await other.close();
        await d.page.getByRole('button', { name: 'Sign out' }).click();
        await d.page.locator('#sign-in').waitFor();
        assert.equal(await d.page.evaluate(() => sessionStorage.length + localStorage.length), 0);
        assert.equal(await d.page.evaluate(() => document.cookie), '');
        await d.page.reload();
        await d.page.locator('#sign-in').waitFor();
        await d.close();
    });

    test('a link signs in, and its token leaves the address at once; another one signs in anew', async () => {
        const [t, other] = [newTenant(), newTenant()];
        const d = await open();
        await d.page.goto('about:blank'); // else it is the same document, and nothing is loaded
        await d.page.goto(`${server.url}/#token=${t.token}`);
        await d.live();
        assert.equal(d.page.url(), `${server.url}/`);
        await d.text(d.page.locator('#who'), t.id);
        const seen = await d.page.evaluate(() => ({ referrer: document.referrer, cookie: document.cookie, state: history.state, kept: localStorage.length }));
        assert.deepEqual(seen, { referrer: '', cookie: '', state: null, kept: 0 });
        await d.page.evaluate((token) => (location.hash = `#token=${token}`), other.token);
        await d.text(d.page.locator('#who'), other.id);
        assert.equal(d.page.url(), `${server.url}/`);
        await d.page.evaluate(() => (location.hash = '#token=two words'));
        await d.text(d.page.getByRole('alert').first(), /^That is not a token/);
        await d.close();
        assert.ok(!server.stderr.includes(t.token.slice(0, 30)));
    });

    test('who has no token is shown a command that makes one', async () => {
        const d = await open();
        await d.text(d.page.locator('#token-command'), 'tally token --tenant NAME');
        await d.page.route('**/assets/token-command.txt', (route) => route.fulfill({ contentType: 'text/plain', body: '/opt/tally token --tenant demo --data /srv\n' }));
        await d.page.reload();
        await d.text(d.page.locator('#token-command'), '/opt/tally token --tenant demo --data /srv');
        await d.close();
    });

    test('SPEC 8: windows are big numbers, with their end and the trailing count, per dimension set', async () => {
        const t = newTenant();
        const d = await open();
        await d.signInAs(t);
        const tile = d.tile('Windows', 'orders_1h');
        await d.text(tile.locator('.number'), '0');
        await d.text(tile, /not begun/);
        for (let i = 0; i < 3; i++) await t.send('ordered', { shop: i ? 'north' : 'south & <b>co</b>' });
        await d.text(tile.locator('.number'), '3');
        await d.text(tile, /3 in the last 1 h1 h window, ends in \d+ min/);
        await d.control('Windows', 'Per').selectOption({ label: 'shop' });
        await d.control('Windows', 'shop').fill('south & <b>co</b>');
        await d.card('Windows').getByRole('button', { name: 'Show' }).click();
        await d.text(tile.locator('.number'), '1');
        await d.control('Windows', 'Per').selectOption({ label: 'whole tenant' });
        await d.text(tile.locator('.number'), '3');
        await d.close();
    });

    test('SPEC 5, 7: any counter is plotted, by granularity, range and dimensions, and moves', async () => {
        const t = newTenant();
        const d = await open();
        await t.increment('clicks', { ...minute(), amount: 7 });
        await t.increment('clicks', { ...minute(), durationSeconds: 3600, amount: 9 });
        for (let i = 0; i < 5; i++) await t.send('viewed', { page: i < 2 ? '/a' : '/b' });
        await d.signInAs(t);
        const number = d.card('Counter').locator('.headline .number');
        await d.control('Counter', 'Name').fill('clicks');
        await d.text(number, '7');
        await d.control('Counter', 'Granularity').selectOption({ label: '1 h' });
        await d.text(number, '9');
        assert.deepEqual(await d.control('Counter', 'Range').locator('option').allTextContents(), ['last 2 d 12 h', 'last 15 d', 'last 60 d']);
        await d.control('Counter', 'Granularity').selectOption({ label: '1 min' });
        await t.increment('clicks', minute());
        await d.text(number, '8');

        await d.control('Counter', 'Name').fill('views');
        await d.text(number, '5');
        await d.control('Counter', 'Per').selectOption({ label: 'page' });
        await d.control('Counter', 'page').fill('/a');
        await d.control('Counter', 'page').press('Enter');
        await d.text(number, '2');
        await d.card('Counter').getByText('As a table').click();
        await d.text(d.card('Counter').locator('tbody td').filter({ hasText: /^2$/ }).first(), '2'); // perhaps not in the newest minute
        const drawn = await d.card('Counter').locator('canvas').evaluate((canvas) =>
            canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value));
        assert.ok(drawn, 'something is drawn');
        await d.close();
    });

    test('SPEC 3: values beyond what a JavaScript number holds are shown exactly', async () => {
        const t = newTenant();
        const d = await open();
        await t.increment('huge', { ...TOTAL, amount: '9223372036854775807' });
        await d.signInAs(t);
        await d.text(d.card('Counter').locator('.headline .number'), '9 223 372 036 854 775 807');
        await d.close();
    });

    test('SPEC 7: the top dimension sets; a set opens as a plot', async () => {
        const t = newTenant();
        const d = await open();
        for (const page of ['/b', '/b', '/b', '/a']) await t.send('viewed', { page });
        await d.signInAs(t);
        await d.control('Top dimension sets', 'Counter').selectOption('views');
        const rows = d.card('Top dimension sets').locator('li');
        await d.text(rows.nth(0), 'page = /b3');
        await d.text(rows.nth(1), 'page = /a1');
        await rows.nth(1).getByRole('button').click();
        await d.text(d.card('Counter').locator('.headline .number'), '1');
        assert.equal(await d.control('Counter', 'page').inputValue(), '/a');
        await d.close();
    });

    test('SPEC 6: duplicates are listed, newest first, as soon as they come', async () => {
        const t = newTenant();
        const d = await open();
        await d.signInAs(t);
        await d.text(d.card('Recent duplicates'), /No duplicates in the last 24 hours/);
        for (const name of ['first', 'second']) {
            const event = { eventId: newId(name), type: 'ordered', dimensions: { shop: 's' } };
            await t.events(event);
            await t.events(event);
        }
        const rows = d.card('Recent duplicates').locator('tbody tr');
        await d.text(rows.nth(1), /^first-/);
        await d.text(rows.nth(0), /^second-/);
        await d.text(d.tile('Now', 'Duplicates').locator('.foot'), '2 in all');
        await d.close();
    });

    test('SPEC 8, 10: usage against limits, and the health of the server', async () => {
        const t = newTenant();
        const d = await open();
        await t.send('stored', {}, { payload: { size: 850 } });
        await d.signInAs(t);
        await d.text(d.card('Usage and limits').locator('.bar'), /storage_bytes850 of 1 000 \(85 %\), near the limit/);
        await d.text(d.card('Health'), /Storageok: writes are durableQueue\d+ of 500 000Journal/);
        await d.close();
    });

    test('SPEC 9: how reconciling stands, for a tenant that has it', async () => {
        const t = newTenant('reconciled');
        const d = await open();
        await d.signInAs(t);
        await t.send('viewed', { page: '/a' });
        await d.text(d.card('Health'), /Reconcile by_page(nothing|1) to recount/);
        await d.close();
        const other = await open();
        await other.signInAs(newTenant());
        await other.text(other.card('Health'), /Reconcilenot set up for this tenant/);
        await other.close();
    });

    test('SPEC 1: a tenant sees nothing of another', async () => {
        const [mine, other] = [newTenant(), newTenant()];
        await other.increment('secret-name', TOTAL);
        await other.send('viewed', { page: '/secret-page' });
        const d = await open();
        await d.signInAs(mine);
        for (let i = 0; i < 3; i++) await other.send('ordered', { shop: 'secret-shop' });
        await mine.increment('own', TOTAL);
        await d.text(d.tile('Now', 'Applied').locator('.foot'), '1 in all');
        await d.text(d.card('Counter').locator('.headline .number'), '1');
        const page = await d.page.content();
        assert.ok(!/secret-|browser-\d+/.test(page.replaceAll(mine.id, '')), 'no word of the other');
        await d.close();
    });

    test('SPEC 4: a wrong token, one for another tenant and no token are refused in words', async () => {
        const t = newTenant();
        const d = await open({ expectErrors: true });
        const error = d.page.getByRole('alert');
        await d.signIn('');
        await d.text(error, 'Paste a token first.');
        await d.signIn(tokenFor(t.id, {}, { key: 'another secret, of 32 bytes at least' }));
        await d.text(error, /^This server did not sign this token/);
        await d.signIn(tokenFor(t.id, { nbf: nowSeconds() + 3600 }));
        await d.text(error, 'This token is not valid yet.');
        await d.signIn(tokenFor(t.id, { exp: nowSeconds() - 60 }));
        await d.text(error, /^This token expired at/);
        await d.signIn(t.token, 'somebody-else');
        await d.text(error, 'This token may not see the tenant somebody-else.');
        await d.page.fill('#tenant', '');
        await d.signIn(tokenFor(t.id, { scope: 'write' }));
        await d.text(error, /no read scope/);
        await d.signIn('an-api-key-of-nobody');
        await d.text(error, /does not name a tenant/);
        assert.equal(await d.page.evaluate(() => sessionStorage.length), 0);
        await d.close();
    });

    test('SPEC 10: when the token expires the page asks for a new one, and goes on with it', async () => {
        const t = newTenant();
        const d = await open({ expectErrors: true });
        await d.signIn(tokenFor(t.id, { exp: nowSeconds() + 6 }));
        await d.live();
        await d.text(d.page.getByRole('alert').first(), /^This token expired at .*Paste a new one\.$/);
        await d.signInAs(t);
        await d.close();
    });

    test('SPEC 4: an administrator chooses the tenant', async () => {
        const [t, other] = [newTenant(), newTenant()];
        const d = await open();
        await d.signIn(tokenFor(t.id, { scope: 'admin' }));
        await d.live();
        await d.page.getByLabel('Tenant', { exact: true }).fill(other.id);
        await d.page.locator('#tenant-form button').click();
        await d.live();
        await d.text(d.tile('Now', 'Applied').locator('.foot'), '0 in all');
        await other.increment('watched', TOTAL);
        await d.text(d.tile('Now', 'Applied').locator('.foot'), '1 in all');
        await d.page.getByLabel('Tenant', { exact: true }).fill('no tenant');
        await d.page.locator('#tenant-form button').click();
        await other.increment('watched', TOTAL);
        await d.text(d.tile('Now', 'Applied').locator('.foot'), '2 in all'); // a slip does not sign out
        await d.close();
    });

    test('names with every allowed character, and hostile values, are shown as they are', async () => {
        const name = 'AZaz09_.~-'.repeat(25);
        const hostile = '<img src=x onerror=alert(1)>"\'&amp;\u202e\u0000\n{{}}';
        const t = newTenant('AZaz09_.~-tenant');
        const d = await open();
        let dialogs = 0;
        d.page.on('dialog', (dialog) => (dialogs++, dialog.dismiss()));
        await t.increment(name, minute());
        await t.send('viewed', { page: hostile });
        const event = { eventId: `${hostile}${newId()}`, type: 'ordered', dimensions: { shop: hostile } };
        await t.events(event);
        await t.events(event);
        await d.signInAs(t);
        await d.text(d.page.locator('#who'), t.id);
        await d.control('Counter', 'Name').fill(name);
        await d.text(d.card('Counter').locator('.headline .number'), '1');
        await d.control('Top dimension sets', 'Counter').selectOption('views');
        const row = d.card('Top dimension sets').getByRole('button').first();
        await d.text(row, /onerror=alert/);
        assert.ok((await row.textContent()).includes(hostile), 'character by character');
        await row.click();
        await d.text(d.card('Counter').locator('.headline .number'), '1');
        await d.text(d.card('Recent duplicates').locator('tbody tr').first(), /onerror=alert/);
        assert.equal(await d.page.locator('main img').count(), 0);
        assert.equal(dialogs, 0);
        assert.equal(await d.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
        await d.close();
    });

    test('names that browsers take for folders are plotted like any other; such a tenant is told so', async () => {
        const t = newTenant();
        const ops = ['.', '..'].flatMap((name) => [
            { op: 'increment', name, ...minute(), amount: name.length },
            { op: 'increment', name, ...TOTAL, amount: 7 * name.length },
        ]);
        assert.equal((await t.call('POST', `/api/counters/${t.id}/batch`, { body: { ops } })).status, 200);
        const d = await open();
        await d.signInAs(t);
        const number = d.card('Counter').locator('.headline');
        for (const [name, wanted] of [['.', '1in the last 1 h'], ['..', '2in the last 1 h']]) {
            await d.control('Counter', 'Name').fill(name);
            await d.text(number, wanted);
        }
        await d.page.getByRole('button', { name: 'Sign out' }).click();
        await d.signIn(t.token, '..');
        await d.text(d.page.getByRole('alert'), /cannot ask for a tenant named \.\./);
        await d.close();
    });

    test('one click counts the first one, and says so if the token may not', async () => {
        const t = newTenant();
        const d = await open({ expectErrors: true });
        await d.signIn(tokenFor(t.id, { scope: 'read' }));
        const first = d.card('Counter').getByRole('button', { name: 'Count one now' });
        await first.click();
        await d.text(d.card('Counter').getByRole('alert').first(), /^That did not work: The token's scope/);
        await d.page.getByRole('button', { name: 'Sign out' }).click();
        await d.signInAs(t);
        await first.click();
        await d.text(d.card('Counter').locator('.headline .number'), '1');
        await d.text(d.tile('Now', 'Applied').locator('.foot'), '1 in all');
        await d.close();
    });

    test('a range without counts says what to do', async () => {
        const t = newTenant();
        await t.increment('old', { durationSeconds: 60, timestamp: '2020-01-01T00:00:00Z' });
        const d = await open();
        await d.signInAs(t);
        await d.text(d.card('Counter').locator('.readout'), /^Nothing was counted in the last 1 h: choose a longer range/);
        await d.close();
    });

    test('an empty tenant is told what to do, with a command that works', async () => {
        const t = newTenant();
        const d = await open();
        await d.signInAs(t);
        const command = await d.text(d.card('Counter').locator('code'), /^curl -X POST/);
        assert.ok(!command.includes(t.token), 'the token is not in it');
        const body = JSON.parse(/-d '(.*)'/.exec(command)[1]);
        const [, target] = /(\/api\S+)/.exec(command);
        assert.equal((await t.call('POST', target, { body })).status, 200);
        await d.text(d.card('Counter').locator('.headline .number'), '1');
        await d.close();
    });

    test('usable with the keyboard alone, focus in sight', async () => {
        const t = newTenant();
        await t.increment('clicks', { ...minute(), amount: 4 });
        await t.increment('clicks', { ...minute(), durationSeconds: 3600, amount: 5 });
        const d = await open();
        const { page } = d;
        const focused = () => page.evaluate(() => {
            const { activeElement: element } = document;
            const style = getComputedStyle(element);
            return { id: element.id, text: element.textContent.slice(0, 40), label: element.labels?.[0]?.textContent ?? '', outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 };
        });
        const tabTo = async (wanted, key = 'Tab') => {
            for (let i = 0; i < 60; i++) {
                await page.keyboard.press(key);
                const at = await focused();
                if (at.id !== '' || at.label || at.text) assert.ok(at.outline, `focus is in sight at ${JSON.stringify(at)}`);
                if (wanted(at)) return;
            }
            assert.fail('never got there');
        };
        assert.equal((await focused()).id, 'token', 'the token is asked for first');
        await page.keyboard.press('Shift+Tab');
        assert.equal((await focused()).text, 'Skip to content');
        await page.keyboard.press('Enter');
        assert.equal((await focused()).id, 'main');
        await tabTo(({ id }) => id === 'token');
        await page.keyboard.insertText(t.token);
        await page.keyboard.press('Enter');
        await d.live();
        assert.equal((await focused()).id, 'main', 'signing in leads to the content');
        await tabTo(({ label }) => label === 'Granularity');
        await d.text(d.card('Counter').locator('.headline .number'), '4');
        await page.keyboard.press('ArrowDown');
        await d.text(d.card('Counter').locator('.headline .number'), '5');
        await tabTo(({ text }) => text === 'As a table');
        await page.keyboard.press('Enter');
        await d.text(d.card('Counter').locator('tbody tr').first(), /5/);
        await tabTo(({ id }) => id === 'sign-out', 'Shift+Tab');
        await page.keyboard.press('Enter');
        await page.locator('#sign-in').waitFor();
        await d.close();
    });

    test('every control has a name, every heading its level, and nothing is said aloud all the time', async () => {
        const t = newTenant();
        const d = await open();
        await d.signInAs(t);
        const nameless = await d.page.evaluate(() => [...document.querySelectorAll('input, select, button, meter')]
            .filter((e) => e.checkVisibility() && !e.labels?.length && !e.textContent.trim() && !e.getAttribute('aria-label') && e.getAttribute('aria-hidden') !== 'true')
            .map((e) => e.outerHTML));
        assert.deepEqual(nameless, []);
        assert.equal(await d.page.locator('h1').count(), 1);
        assert.equal(await d.page.locator('.card output, .card [aria-live], .card [role=status]').count(), 0, 'numbers that move are quiet');
        await d.close();
    });
});

describe('dashboard on a phone', () => {
    const server = serverFor({ config: CONFIG });
    const browser = browserFor({ viewport: { width: 375, height: 812 }, isMobile: true, hasTouch: true });

    test('375 pixels are enough: nothing is wider than the screen, and fingers fit', async () => {
        const t = new RuleTenant(server, 'phone');
        for (const page of ['/a', `/${'long'.repeat(60)}`]) await t.send('viewed', { page });
        const event = { eventId: 'x'.repeat(200), type: 'ordered', dimensions: { shop: 's' } };
        await t.events(event);
        await t.events(event);
        const d = await Dashboard.open(browser.context, server);
        const narrow = () => d.page.evaluate(() => document.documentElement.scrollWidth);
        assert.equal(await narrow(), 375);
        await d.signInAs(t);
        await d.text(d.card('Recent duplicates').locator('tbody tr').first(), /^x{200}/);
        await d.text(d.card('Counter').locator('.headline .number'), /\d/);
        assert.equal(await narrow(), 375);
        const small = await d.page.evaluate(() => [...document.querySelectorAll('input, select, button:not(.link)')]
            .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 36).map((e) => e.outerHTML));
        assert.deepEqual(small, []);
        await d.close();
    });
});

describe('dashboard by day and by night', () => {
    const server = serverFor({ config: CONFIG });
    const browser = browserFor();

    /** WCAG contrast of the text against what is behind it. */
    const contrasts = () => {
        const parse = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
        const channel = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
        const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
        const behind = (element) => {
            for (let e = element; e; e = e.parentElement) {
                const colour = parse(getComputedStyle(e).backgroundColor);
                if (colour.length === 3 || colour[3] > 0) return colour;
            }
            return [255, 255, 255];
        };
        return [...document.querySelectorAll('h1, h2, p, dt, dd, td, th, label, output, summary, button, .foot, .muted')]
            .filter((e) => e.checkVisibility() && e.textContent.trim() && e.closest('.stale') === null)
            .map((e) => {
                const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
                return { text: e.textContent.slice(0, 30), ratio: (a + 0.05) / (b + 0.05) };
            })
            .filter(({ ratio }) => ratio < 4.5);
    };

    for (const colorScheme of ['light', 'dark']) {
        test(`${colorScheme}: text can be read (contrast of 4.5 at least)`, async () => {
            const t = new RuleTenant(server, `tenant-${colorScheme}`);
            await t.send('stored', {}, { payload: { size: 990 } });
            const d = await Dashboard.open(browser.context, server);
            await d.page.emulateMedia({ colorScheme });
            const [red] = await d.page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
            assert.equal(red < 60, colorScheme === 'dark');
            await d.signInAs(t);
            await d.text(d.card('Usage and limits').locator('.bar'), /990 of 1 000/);
            assert.deepEqual(await d.page.evaluate(contrasts), []);
            await d.close();
        });
    }
});

describe('dashboard in the long run', () => {
    const server = serverFor({ config: CONFIG });
    const browser = browserFor();

    test('SPEC 10: it survives a restart: says that it reconnects, and goes on by itself', async () => {
        const data = newDirectory('browser');
        const first = await new Server({ config: CONFIG, data }).start();
        const second = new Server({ config: CONFIG, data, listen: `127.0.0.1:${first.port}` });
        const t = new RuleTenant(first, 'restarts');
        const d = await Dashboard.open(browser.context, first, { expectErrors: true });
        const number = d.tile('Windows', 'orders_1h').locator('.number');
        try {
            await d.signInAs(t);
            await t.send('ordered', { shop: 's' });
            await d.text(number, '1');
            await first.stop();
            await d.text(d.page.locator('#status'), /^Reconnecting/);
            await second.start();
            await d.live();
            await d.text(number, '1');
            await t.send('ordered', { shop: 's' });
            await d.text(number, '2');
            await d.text(d.tile('Now', 'Applied').locator('.foot'), '1 in all');
            await d.close();
        } finally {
            await first.stop();
            await second.stop();
            removeDirectory(data);
        }
    });

    test('nothing jumps: cards keep their places while numbers come in', async () => {
        const t = new RuleTenant(server, 'still');
        await t.send('viewed', { page: '/a' });
        const d = await Dashboard.open(browser.context, server);
        await d.signInAs(t);
        await d.text(d.card('Counter').locator('.headline .number'), '1');
        const places = () => d.page.locator('section.card h2').evaluateAll((all) => all.map((e) => Math.round(e.getBoundingClientRect().top)));
        await d.text(d.card('Usage and limits').locator('.bar'), /^storage_bytes/);
        const before = await places();
        for (let i = 0; i < 20; i++) await t.send('viewed', { page: `/${i % 4}` });
        await d.text(d.card('Counter').locator('.headline .number'), '21');
        const event = { eventId: newId(), type: 'ordered', dimensions: { shop: 's' } };
        for (let i = 0; i < 9; i++) await t.events(event);
        await d.text(d.tile('Now', 'Duplicates').locator('.foot'), '8 in all');
        await d.card('Recent duplicates').locator('tbody tr').nth(7).waitFor();
        await d.control('Top dimension sets', 'Counter').selectOption('views');
        await d.card('Top dimension sets').locator('li').nth(4).waitFor();
        assert.deepEqual(await places(), before);
        await d.close();
    });
});
