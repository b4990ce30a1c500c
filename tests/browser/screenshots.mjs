// screenshots.mjs DIR -- the pictures in the README: a server with the demo's rules and an hour that looks
// like one, in light, dark and on a phone. Run by `make screenshots`.

import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { RuleTenant } from '../e2e/support/rules.mjs';
import { Server } from '../e2e/support/server.mjs';
import { Dashboard, launch } from './support.mjs';

const directory = process.argv[2];
const PAGES = ['/', '/pricing', '/docs', '/docs/api', '/blog/exactly-once', '/about'];
const TRAFFIC_MS = 170000; // the plot of what happens now shows three minutes

/** The same numbers each time. */
let seed = 7;
const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
const pick = (list) => list[Math.floor(random() ** 1.7 * list.length)];

const demo = readFileSync(new URL('../../etc/demo.yaml', import.meta.url), 'utf8');
const config = `${demo.slice(demo.indexOf('counters:'))}
  - counterName: views_5m
    mode: windowed
    window: 5m
    trailing: true
    rules: [{ on: page.viewed, op: increment }]
  - counterName: files
    group: usage
    limit: 1000
    rules: [{ on: file.stored, op: increment }]
`;

let ids = 0;
const view = (occurredAt) => ({ eventId: `view-${++ids}`, type: 'page.viewed', occurredAt, dimensions: { page: pick(PAGES) } });

/** Page views of the last hour, with a tide in them. */
async function past(t) {
    const now = Date.now();
    for (let minute = 60; minute >= 0; minute--) {
        const count = Math.round(3600 + 1300 * Math.sin(minute / 9) + 500 * random());
        const at = new Date(now - minute * 60000).toISOString();
        await t.events(Array.from({ length: count }, () => view(at)));
    }
    await t.events(Array.from({ length: 240 }, (_, i) => ({
        eventId: `file-${i}`, type: 'file.stored', payload: { size: 3450 },
    })));
}

/** A little of everything, again and again. */
async function present(t) {
    const tide = 8 + 4 * Math.sin(Date.now() / 9000);
    const events = Array.from({ length: Math.round(tide + 5 * random()) }, () => {
        if (random() < 0.25) return { eventId: `account-${++ids}`, type: 'account.connected', dimensions: { masterAccountId: `m${Math.floor(random() * 9)}` } };
        return view();
    });
    await t.events([...events, ...(random() < 0.7 ? events.slice(0, 1 + 3 * random()) : [])]);
    if (random() < 0.12) await t.decrement('credits', { durationSeconds: 0, timestamp: 0 });
}

async function open(server, t, options) {
    const browser = await launch(options);
    const dashboard = await Dashboard.open(browser.context, server);
    await dashboard.page.emulateMedia({ colorScheme: options.colorScheme, reducedMotion: 'reduce' });
    await dashboard.signInAs(t);
    return { ...browser, dashboard };
}

mkdirSync(directory, { recursive: true });
const server = await new Server({ config }).start();
const t = new RuleTenant(server, 'demo');
await past(t);
const shots = {
    light: await open(server, t, { colorScheme: 'light', viewport: { width: 1200, height: 1180 } }),
    dark: await open(server, t, { colorScheme: 'dark', viewport: { width: 1200, height: 1180 } }),
    phone: await open(server, t, { colorScheme: 'light', viewport: { width: 375, height: 812 }, isMobile: true, deviceScaleFactor: 2 }),
};
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let over = false;
const traffic = (async () => {
    while (!over) {
        await present(t);
        await pause(100);
    }
})();
try {
    await pause(TRAFFIC_MS);
    for (const [name, { dashboard: { page } }] of Object.entries(shots)) await page.screenshot({ path: path.join(directory, `${name}.png`) });
} finally {
    over = true;
    await traffic;
    for (const { close } of Object.values(shots)) await close();
    await server.stop();
}
