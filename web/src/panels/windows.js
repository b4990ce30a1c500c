// windows.js -- windowed counters as big numbers: what the window holds, when it ends, and the trailing count.

import { serverTime } from '../clock.js';
import { card, el, emptyState, field, setOptions, setText, show } from '../dom.js';
import { duration, grouped } from '../format.js';

const WHOLE = '[]';

function describe({ windowEnd }, seconds, now) {
    const length = `${duration(seconds)} window`;
    if (windowEnd === null) return `${length}, not begun`;
    const left = Math.ceil((Number(windowEnd) - now) / 1000);
    return left > 0 ? `${length}, ends in ${duration(left)}` : `${length}, over`;
}

export class Windows {
    /** `choose(dimensions)` is called when another dimension set is wanted. */
    constructor(choose) {
        this.choose = choose;
        this.rulesByName = new Map();
        this.tiles = new Map();
        this.last = null;
        this.missing = ''; // dimensions without a value
        this.grid = el('div', { class: 'tiles' });
        this.empty = emptyState('No windowed counters. Give a counter in tally.yaml a mode and a window:',
            '- counterName: signups_1h\n  mode: windowed\n  window: 1h\n  trailing: true\n  rules: [{ on: account.connected, op: increment }]');
        this.none = el('p', { class: 'empty muted' });
        this.set = el('select');
        this.values = el('div', { class: 'fields' });
        this.form = el('form', { class: 'fields', 'aria-label': 'Which windows' }, field('Per', this.set), this.values);
        this.set.addEventListener('change', () => this.#askValues());
        this.form.addEventListener('submit', (event) => {
            event.preventDefault();
            this.#choose();
        });
        this.element = card('Windows', { note: this.form }, this.grid, this.empty, this.none);
        show(this.none, false);
        show(this.form, false);
        this.timer = setInterval(() => this.last && this.#foot(this.last), 1000);
    }

    rules({ counters }) {
        const windowed = counters.filter(({ mode, frozen }) => mode === 'windowed' && !frozen);
        this.rulesByName = new Map(windowed.map((counter) => [counter.name, counter]));
        const sets = new Set(windowed.flatMap((counter) => counter.sets.map((keys) => JSON.stringify(keys))));
        const options = [...sets].sort((a, b) => a.length - b.length).map((value) => ({ value, label: JSON.parse(value).join(', ') || 'whole tenant' }));
        if (!sets.has(WHOLE) && options.length) options.unshift({ value: WHOLE, label: 'whole tenant' });
        const chosen = this.set.value;
        setOptions(this.set, options);
        if (chosen && chosen !== this.set.value) this.#askValues();
        show(this.form, options.length > 1);
        show(this.empty, windowed.length === 0);
    }

    #askValues() {
        const keys = JSON.parse(this.set.value || WHOLE);
        this.values.replaceChildren(...keys.map((key) => field(key, el('input', { name: key, autocomplete: 'off', spellcheck: false }))));
        if (keys.length) this.values.append(el('button', { type: 'submit', textContent: 'Show' }));
        this.#choose();
    }

    /** Numbers of other dimensions are not shown under these: they go at once, and the new ones come with the stream. */
    #choose() {
        const values = [...this.values.querySelectorAll('input')].map(({ name, value }) => [name, value]);
        this.missing = values.filter(([, value]) => value === '').map(([name]) => name).join(', ');
        this.last = null;
        this.tiles.clear();
        this.grid.replaceChildren();
        setText(this.none, this.missing && `Fill in ${this.missing} to see its windows.`);
        show(this.none, this.missing !== '');
        if (!this.missing) this.choose(Object.fromEntries(values));
    }

    #tile(name) {
        const number = el('span', { class: 'number' });
        const foot = el('div', { class: 'foot muted', textContent: '\u00a0' });
        const trailing = el('div', { class: 'foot', textContent: '\u00a0' });
        const element = el('div', { class: 'tile' }, el('div', { class: 'tile-title name', textContent: name }), el('div', {}, number), trailing, foot);
        return { element, number, foot, trailing };
    }

    state(state) {
        if (this.missing) return;
        this.last = state;
        const names = state.windows.map(({ counterType }) => counterType);
        if (names.join('\n') !== [...this.tiles.keys()].join('\n')) {
            this.tiles = new Map(names.map((name) => [name, this.tiles.get(name) ?? this.#tile(name)]));
            this.grid.replaceChildren(...[...this.tiles.values()].map(({ element }) => element));
        }
        for (const window of state.windows) setText(this.tiles.get(window.counterType).number, grouped(window.currentValue));
        setText(this.none, 'No windowed counter keeps these dimensions.');
        show(this.none, names.length === 0 && this.rulesByName.size > 0);
        this.#foot(state);
    }

    #foot({ windows }) {
        const now = serverTime();
        for (const window of windows) {
            const { foot, trailing } = this.tiles.get(window.counterType);
            const seconds = this.rulesByName.get(window.counterType)?.windowSeconds ?? 0;
            setText(foot, describe(window, seconds, now));
            setText(trailing, window.trailing === undefined ? '\u00a0' : `${grouped(window.trailing)} in the last ${duration(seconds)}`);
        }
    }

    destroy() {
        clearInterval(this.timer);
    }
}
