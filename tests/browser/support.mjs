// support.mjs -- a real Chromium looking at a real tally.
//
// Every page is watched: an error in the console, a violated policy or a request to anywhere but the server
// fails the test that caused it.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before } from 'node:test';

import { chromium } from 'playwright-core';

import { patience } from '../e2e/support/pace.mjs';

const EXECUTABLE = process.env.CHROMIUM ?? '/usr/bin/chromium';
const ARGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** How long anything may take, on a busy machine too. */
export const PATIENCE_MS = patience(30000);

/** A browser of its own, with a profile that is thrown away. */
export async function launch(options = {}) {
    const profile = mkdtempSync(path.join(tmpdir(), 'tally-browser-'));
    const context = await chromium.launchPersistentContext(profile, {
        executablePath: EXECUTABLE, args: ARGS, viewport: { width: 1240, height: 900 }, ...options,
    });
    context.setDefaultTimeout(PATIENCE_MS);
    return {
        context,
        close: async () => {
            await context.close();
            rmSync(profile, { recursive: true, force: true });
        },
    };
}

/** The dashboard in a tab, and what went wrong in it. */
export class Dashboard {
    problems = [];
    outside = [];

    static async open(context, server, { expectErrors = false } = {}) {
        const dashboard = new Dashboard();
        dashboard.server = server;
        dashboard.expectErrors = expectErrors;
        dashboard.page = await context.newPage();
        dashboard.#watch();
        await dashboard.page.goto(`${server.url}/`);
        return dashboard;
    }

    #watch() {
        const { page, problems } = this;
        page.on('pageerror', (error) => problems.push(`error: ${error.message}`));
        page.on('console', (message) => {
            // A reply that is not 200, or none, is told in the console too; tests that provoke it say so.
            const network = /Failed to load resource|net::ERR/.test(message.text());
            if (message.type() === 'error' && !(network && this.expectErrors)) problems.push(message.text());
        });
        page.on('request', (request) => {
            if (!request.url().startsWith(this.server.url)) this.outside.push(request.url());
            if (/eyJ/.test(request.url())) problems.push('a token in an address');
        });
    }

    async signIn(token, tenant = '') {
        await this.page.fill('#token', token);
        if (tenant) await this.page.fill('#tenant', tenant);
        await this.page.press('#token', 'Enter');
    }

    async signInAs(t) {
        await this.signIn(t.token);
        await this.live();
    }

    /** Connected, and the first state is shown. */
    live() {
        return this.page.locator('#status.live').waitFor();
    }

    card(title) {
        return this.page.locator('section.card').filter({ has: this.page.locator(`h2:text-is("${title}")`) });
    }

    /** A tile of a card, by its title. */
    tile(card, title) {
        return this.card(card).locator('.tile').filter({ has: this.page.locator(`.tile-title:text-is("${title}")`) });
    }

    control(card, label) {
        return this.card(card).getByLabel(label, { exact: true });
    }

    /** The text of `locator`, once it is what is wanted. */
    async text(locator, wanted) {
        const matches = (text) => (wanted instanceof RegExp ? wanted.test(text) : text === wanted);
        const end = Date.now() + PATIENCE_MS;
        for (;;) {
            const text = (await locator.textContent()).replace(/\u202f/g, ' ').trim();
            if (matches(text)) return text;
            if (Date.now() > end) assert.fail(`waited for ${wanted}, and it says ${JSON.stringify(text)}`);
            await this.page.waitForTimeout(20);
        }
    }

    /** Closes the tab; nothing may have gone wrong in it. */
    async close() {
        await this.page.close();
        assert.deepEqual(this.problems, [], 'errors in the console');
        assert.deepEqual(this.outside, [], 'requests to elsewhere');
    }
}

/** A browser for the enclosing describe(). */
export function browserFor(options) {
    const browser = {};
    before(async () => Object.assign(browser, await launch(options)));
    after(() => browser.close?.());
    return browser;
}
