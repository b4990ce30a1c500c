// top.js -- the dimension sets of a counter with the largest values.

import { card, el, emptyState, field, setOptions, setText, show, showProblem } from '../dom.js';
import { grouped } from '../format.js';

const SHOWN = 8;

/** A set as words; every value as it is. */
export function dimensionText(dimensions) {
    const pairs = Object.entries(dimensions);
    return pairs.length ? pairs.map(([key, value]) => `${key} = ${value}`).join(', ') : 'whole tenant';
}

export class Top {
    /** `open(name, dimensions)` shows a set's series. */
    constructor(api, open) {
        this.api = api;
        this.open = open;
        this.counters = new Map();
        this.select = el('select');
        this.select.addEventListener('change', () => {
            this.#clear();
            this.refresh().then(() => showProblem(this.element), (error) => showProblem(this.element, error));
        });
        this.list = el('ol', { class: 'bars' });
        this.empty = emptyState('No counters with dimensions yet. They come from the config: give a counter dimensions, and send events that have them.');
        this.none = el('p', { class: 'empty' });
        this.form = el('div', { class: 'fields' }, field('Counter', this.select));
        this.element = card('Top dimension sets', { note: this.form }, this.list, this.empty, this.none);
        this.element.classList.add('listing');
        show(this.none, false);
    }

    rules({ counters }) {
        const able = counters.filter(({ sets, mode, granularities }) =>
            sets.some((keys) => keys.length) && (mode !== 'series' || granularities.includes(0)));
        this.counters = new Map(able.map((counter) => [counter.name, counter]));
        const chosen = this.select.value;
        setOptions(this.select, able.map(({ name, frozen }) => ({ value: name, label: frozen ? `${name} (frozen)` : name })));
        if (this.select.value !== chosen) this.#clear();
        show(this.empty, able.length === 0);
        show(this.form, able.length > 0);
    }

    /** What another counter had is not shown under this one's name. */
    #clear() {
        this.list.replaceChildren();
        show(this.none, false);
    }

    async refresh(options) {
        const counter = this.counters.get(this.select.value);
        if (!counter) return;
        const { cells } = await this.api.cells(counter.name, { sort: 'net', order: 'desc', limit: SHOWN + 1 }, options);
        if (counter.name !== this.select.value) return;
        const rows = cells.filter(({ dimensions }) => Object.keys(dimensions).length).slice(0, SHOWN);
        const most = rows.reduce((largest, { net }) => (BigInt(net) > largest ? BigInt(net) : largest), 1n);
        const keys = [...new Set(counter.sets.flat())].join(', ');
        setText(this.none, `Nothing yet. Send an event that ${counter.name} counts, with a value for ${keys}.`);
        show(this.none, rows.length === 0);
        const focused = [...this.list.querySelectorAll('button')].indexOf(document.activeElement);
        this.list.replaceChildren(...rows.map((row) => this.#row(counter.name, row, most)));
        if (focused >= 0) this.list.querySelectorAll('button')[focused]?.focus();
    }

    #row(name, { dimensions, net }, most) {
        const share = Number(BigInt(net) * 1000n / most) / 10;
        const button = el('button', { type: 'button', class: 'link name', textContent: dimensionText(dimensions) });
        button.addEventListener('click', () => this.open(name, dimensions));
        return el('li', { class: 'bar' },
            el('div', { class: 'bar-head' }, button, el('span', { class: 'value', textContent: grouped(net) })),
            el('meter', { min: 0, max: 100, value: Math.max(0, share), 'aria-hidden': 'true', class: 'plain' }));
    }
}
