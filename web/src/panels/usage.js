// usage.js -- the counters of group `usage` against their limits.

import { card, el, emptyState, setText, show } from '../dom.js';
import { grouped } from '../format.js';

const WORDS = { ok: 'ok', warning: 'near the limit', at_limit: 'at the limit' };

export class Usage {
    constructor(api) {
        this.api = api;
        this.list = el('div', { class: 'bars' });
        this.status = el('span', { class: 'badge' });
        this.empty = emptyState('No usage counters. Give counters in tally.yaml a group and a limit:', 'group: usage\nlimit: 10000');
        this.element = card('Usage and limits', { note: this.status }, this.list, this.empty);
        show(this.empty, false);
        show(this.status, false);
    }

    async refresh(options) {
        const { metrics, status } = await this.api.usageHealth(options);
        const names = Object.keys(metrics ?? {});
        show(this.empty, names.length === 0);
        show(this.status, names.length > 0);
        setText(this.status, status);
        this.status.className = `badge ${status}`;
        this.list.replaceChildren(...names.map((name) => this.#bar(name, metrics[name])));
    }

    #bar(name, { current, limit, usage_pct: percent, status }) {
        const share = Math.max(0, Math.min(100, Number(percent ?? 0)));
        const meter = el('meter', { min: 0, max: 100, value: share, 'aria-label': `${name}: ${Math.round(share)} percent of its limit`, class: status });
        const words = limit === null || limit === undefined
            ? `${grouped(current)}, no limit`
            : `${grouped(current)} of ${grouped(limit)} (${percent} %)${status === 'ok' ? '' : `, ${WORDS[status] ?? status}`}`;
        return el('div', { class: 'bar' },
            el('div', { class: 'bar-head' }, el('span', { class: 'name', textContent: name }), el('span', { class: 'muted', textContent: words })),
            meter);
    }
}
