// The JavaScript client where its README says it runs: in a browser.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { build } from '../../web/node_modules/esbuild/lib/main.js';
import { Server, serverFor } from '../e2e/support/server.mjs';
import { browserFor } from './support.mjs';

const CONFIG = 'counters:\n  - counterName: paid\n    dimensions: [shop]\n    rules: [{ on: order.paid, op: increment }]\n';
const FILES = new URL('../../clients/js/', import.meta.url);
const SITES = { 'on this machine': null, 'on a site without https, where browsers offer less': 'http://shop.test' };

/** A page of `origin` with the client's files below /client/; what it asks of /api/ reaches the server. */
async function openPage(context, server, origin) {
    const page = await context.newPage();
    await page.route(`${origin}/**`, async (route) => {
        const { pathname, search } = new URL(route.request().url());
        if (pathname === '/app') return route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>app</title>' });
        if (pathname.startsWith('/client/')) {
            return route.fulfill({ contentType: 'text/javascript', body: readFileSync(new URL(pathname.slice('/client/'.length), FILES)) });
        }
        return route.fulfill({ response: await route.fetch({ url: `${server.url}${pathname}${search}` }) });
    });
    await page.goto(`${origin}/app`);
    return page;
}

for (const [where, site] of Object.entries(SITES)) {
    describe(`the JavaScript client in Chromium, ${where}`, () => {
        const server = serverFor({ config: CONFIG });
        const browser = browserFor();
        const open = () => openPage(browser.context, server, site ?? server.url);

        test('clients/js: counts with a key, reads, sends events and batches', async () => {
            const t = server.tenant();
            const page = await open();
            const said = await page.evaluate(async ({ token }) => {
                const { Tally } = await import('/client/tally.js');
                const tally = new Tally({ url: location.origin, token });
                const plain = (value) => JSON.parse(JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? `${each}n` : each)));
                const order = { amount: 5, key: 'order 17' };
                const event = { eventId: 'order-17', type: 'order.paid', dimensions: { shop: 'berlin' } };
                const batcher = tally.batcher();
                for (let i = 0; i < 3; i++) batcher.increment('views', { durationSeconds: 60, timestamp: '2026-01-01T00:00:00Z' });
                return plain({
                    first: await tally.increment('sales', order),
                    again: await tally.increment('sales', order),
                    own: (await tally.increment('sales')).net,
                    events: [(await tally.event(event)).duplicate, (await tally.event(event)).duplicate],
                    paid: (await tally.get('paid', { dimensions: { shop: 'berlin' } })).net,
                    batch: await batcher.flush(),
                    series: await tally.series('views', { durationSeconds: 60, startTime: '2026-01-01T00:00:00Z', endTime: '2026-01-01T00:01:00Z' }),
                    refused: await tally.decrement('none').catch(({ code, outcome }) => ({ code, outcome })),
                    missing: await tally.get('nobody'),
                });
            }, { token: t.token });
            const sales = { net: '5n', added: '5n', subbed: '0n' };
            assert.deepEqual(said, {
                first: { ...sales, replayed: false },
                again: { ...sales, replayed: true },
                own: '6n',
                events: [false, true],
                paid: '1n',
                batch: { applied: 3, duplicates: 0, refused: 0, failed: 0 },
                series: [{ start: '2026-01-01T00:00:00.000Z', net: '3n', added: '3n', subbed: '0n' }],
                refused: { code: 'constraint_violation', outcome: 'refused' },
                missing: null,
            });
            await page.close();
        });

        test('clients/js: a lost reply is asked for again and counts once', async () => {
            const t = server.tenant();
            const page = await open();
            let sent = 0;
            await page.route('**/increment', async (route) => {
                if (sent++ > 0) return route.fallback();
                const { pathname } = new URL(route.request().url());
                assert.equal((await route.fetch({ url: `${server.url}${pathname}` })).status(), 200);
                return route.abort('connectionreset');
            });
            const said = await page.evaluate(async ({ token }) => {
                const { Tally } = await import('/client/tally.js');
                const { net, replayed } = await new Tally({ url: location.origin, token }).increment('once');
                return { net: String(net), replayed };
            }, { token: t.token });
            assert.deepEqual([said, sent], [{ net: '1', replayed: true }, 2]);
            await page.close();
        });

        test('clients/js: a server that cannot be reached is said, and a signal stops the waiting', async () => {
            const t = server.tenant();
            const page = await open();
            await page.route('**/increment', (route) => route.abort('connectionrefused'));
            const said = await page.evaluate(async ({ token }) => {
                const { Tally } = await import('/client/tally.js');
                const once = new Tally({ url: location.origin, token, attempts: 1 });
                const stops = AbortSignal.abort(new Error('stopped'));
                return [
                    await once.increment('away').catch(({ code, outcome }) => `${code} ${outcome}`),
                    await once.increment('away', { signal: stops }).catch(({ message }) => message),
                ];
            }, { token: t.token });
            assert.deepEqual(said, ['unreachable unknown', 'stopped']);
            await page.close();
        });
    });
}

describe('the JavaScript client in Chromium, on a page of another origin', () => {
    // Real servers on this machine: browsers keep pages from elsewhere away from what listens here.
    const sites = [0, 1].map(() => http.createServer(({ url }, reply) => {
        const client = url.startsWith('/client/');
        reply.setHeader('Content-Type', client ? 'text/javascript' : 'text/html');
        reply.end(client ? readFileSync(new URL(url.slice('/client/'.length), FILES)) : '<!doctype html><link rel="icon" href="data:,">');
    }));
    const originOf = (site) => `http://127.0.0.1:${site.address().port}`;
    const browser = browserFor();
    let server;
    before(async () => {
        for (const site of sites) await new Promise((resolve) => site.listen(0, '127.0.0.1', resolve));
        server = await new Server({ config: `cors: { origins: ["${originOf(sites[0])}"] }\n${CONFIG}` }).start();
    });
    after(async () => {
        await server?.stop();
        for (const site of sites) site.close().closeAllConnections();
    });

    /** What a page of the site comes to. */
    async function countFrom(site) {
        const page = await browser.context.newPage();
        await page.goto(`${originOf(site)}/app`);
        const said = await page.evaluate(async (options) => {
            const { Tally } = await import('/client/tally.js');
            const tally = new Tally({ ...options, attempts: 1 });
            try {
                const { replayed } = await tally.increment('sales', { key: 'order 17' });
                const again = await tally.increment('sales', { key: 'order 17' });
                const refused = await tally.decrement('none').catch(({ code }) => code);
                return [replayed, again.replayed, refused, String((await tally.get('sales')).net), await tally.get('nobody')];
            } catch ({ code }) {
                return code;
            }
        }, { url: server.url, token: server.tenant().token });
        await page.close();
        return said;
    }

    test('clients/js: with its origin in cors.origins it works the same, and without it says that it cannot', async () => {
        assert.deepEqual(await countFrom(sites[0]), [false, true, 'constraint_violation', '1', null]);
        assert.equal(await countFrom(sites[1]), 'unreachable');
    });
});

describe('the JavaScript client in a bundle', () => {
    const browser = browserFor();

    test('clients/js: bundles for browsers, with nothing of Node.js in it', async () => {
        const { outputFiles } = await build({ entryPoints: [fileURLToPath(new URL('tally.js', FILES))], bundle: true, minify: true, write: false, format: 'esm', logLevel: 'silent' });
        const page = await browser.context.newPage();
        await page.route('http://shop.test/**', (route) => route.fulfill(route.request().url().endsWith('.js')
            ? { contentType: 'text/javascript', body: outputFiles[0].text }
            : { contentType: 'text/html', body: '<!doctype html><title>app</title>' }));
        await page.goto('http://shop.test/app');
        assert.match(await page.evaluate(async () => (await import('/bundle.js')).randomKey()), /^[0-9a-f]{32}$/);
        await page.close();
    });
});
