// duplicates.js -- the newest deliveries that were dropped because their id had been seen.

import { card, el, emptyState, show } from '../dom.js';
import { moment } from '../format.js';

const SHOWN = 8;
const COLUMNS = [['Event id', 'name'], ['Type', 'name'], ['Seen again', 'when'], ['First seen', 'when roomy']];
const PAGES_MAX = 5;
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
        show(this.table, false);
    }

    state({ activity }) {
        this.changed = `${activity.since} ${activity.duplicates}` !== this.seen;
        this.seen = `${activity.since} ${activity.duplicates}`;
        this.wanted ||= this.changed;
    }

    /** The list is in the order of arrival, so it is read from the last one known. */
    async refresh(options) {
        if (!this.wanted) return;
        this.wanted = false;
        const from = this.newest.at(-1)?.duplicate_seen_at ?? new Date(Date.now() - BACK_MS).toISOString();
        let after;
        for (let page = 0; page < PAGES_MAX; page++) {
            const { duplicates, next } = await this.api.duplicates({ from, after, limit: 1000 }, options);
            const known = page === 0 ? this.newest.filter(({ duplicate_seen_at: at }) => at < from) : this.newest;
            this.newest = [...known, ...duplicates].slice(-SHOWN);
            if (!next) break;
            after = next;
        }
        this.#draw();
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
