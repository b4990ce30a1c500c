// duplicates.js -- the newest deliveries that were dropped because their id had been seen.

import { serverTime } from '../clock.js';
import { card, el, emptyState, show } from '../dom.js';
import { moment } from '../format.js';

const SHOWN = 8;
const COLUMNS = [['Event id', 'name'], ['Type', 'name'], ['Seen again', 'when'], ['First seen', 'when roomy']];
const PAGE = 1000;
const BACK_MS = 24 * 3600 * 1000;

export class Duplicates {
    constructor(api) {
        this.api = api;
        this.newest = [];
        this.seen = null;
        this.body = el('tbody');
        this.table = el('table', {},
            el('thead', {}, el('tr', {}, ...COLUMNS.map(([text, kind]) => el('th', { scope: 'col', class: kind, textContent: text })))), this.body);
        this.empty = emptyState('No duplicates in the last 24 hours. An event sent twice is counted once and listed here.');
        this.element = card('Recent duplicates', {}, el('div', { class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Recent duplicates' }, this.table), this.empty);
        this.element.classList.add('listing');
        for (const part of [this.table, this.empty]) show(part, false);
    }

    state({ activity }) {
        this.changed = `${activity.since} ${activity.duplicates}` !== this.seen;
        this.seen = `${activity.since} ${activity.duplicates}`;
        this.wanted ||= this.changed;
    }

    async refresh(options) {
        if (!this.wanted) return;
        this.wanted = false;
        try {
            this.newest = (await this.#since(this.newest.at(-1)?.duplicate_seen_at, options)) ?? (await this.#afresh(options));
        } catch (error) {
            this.wanted = true;
            throw error;
        }
        this.#draw();
    }

    /** What is known and what came after it; null of nothing, or if that is more than a page. */
    async #since(from, options) {
        if (!from) return null;
        const { duplicates, next } = await this.api.duplicates({ from, limit: PAGE }, options);
        const known = this.newest.filter(({ duplicate_seen_at: at }) => at < from);
        return next ? null : [...known, ...duplicates].slice(-SHOWN);
    }

    /** The list is in the order of arrival, so its end is looked for: how far back is neither too few nor too many? */
    async #afresh(options) {
        let [few, many, back] = [0, Infinity, 2000];
        const now = serverTime(); // one moment for all of the search
        for (;;) {
            const from = new Date(now - back).toISOString();
            const { duplicates, next } = await this.api.duplicates({ from, limit: PAGE }, options);
            if (!next && (duplicates.length >= SHOWN || back === BACK_MS)) return duplicates.slice(-SHOWN);
            if (next && back - few <= 1) return this.#last(from, duplicates, next, options);
            if (next) many = back;
            else few = back;
            back = Math.min(many === Infinity ? 20 * few : Math.ceil((few + many) / 2), BACK_MS);
        }
    }

    /** So many in one instant that they have to be walked through. */
    async #last(from, first, after, options) {
        let rows = first;
        for (let next = after; next;) {
            const page = await this.api.duplicates({ from, after: next, limit: PAGE }, options);
            rows = [...rows, ...page.duplicates].slice(-SHOWN);
            next = page.next;
        }
        return rows;
    }

    #draw() {
        show(this.table, this.newest.length > 0);
        show(this.empty, this.newest.length === 0);
        this.body.replaceChildren(...this.newest.toReversed().map((row) => el('tr', {},
            el('td', { class: 'name', textContent: row.event_id, title: row.event_id }),
            el('td', { class: 'name', textContent: row.event_type }),
            el('td', { class: 'when', textContent: moment(row.duplicate_seen_at) }),
            el('td', { class: 'when roomy', textContent: row.first_seen_at ? moment(row.first_seen_at) : '\u2013' }))));
    }
}
