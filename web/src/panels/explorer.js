// explorer.js -- any counter: its value, and its series as a plot with granularity, range and dimensions.

import { dimQuery } from '../api.js';
import { Chart } from '../chart.js';
import { card, el, emptyState, field, setOptions, setText, show } from '../dom.js';
import { duration, grouped, moment } from '../format.js';

const NAMES_MAX = 50;
const BARS_MAX = 180;
const SPANS = [60, 360, 1440]; // ranges, in buckets
const TABLE_ROWS = 100;

/** What is known of a counter: from the rules, or of a direct one from the listing. */
function directCounter({ name, granularities }) {
    return { name, mode: 'direct', granularities, sets: [[]] };
}

/** Values may hold what an input cannot, such as a line's end: those it was given are kept until it is edited. */
function valueInput(key, given) {
    const input = el('input', { name: key, value: given ?? '', exact: given, autocomplete: 'off', spellcheck: false });
    input.addEventListener('input', () => delete input.exact);
    return input;
}

export class Explorer {
    constructor(api) {
        this.api = api;
        this.ruled = new Map();
        this.listed = new Map();
        this.counter = null;
        this.found = []; // names that the listing brought last
        this.buckets = [];
        this.#build();
    }

    #build() {
        this.names = el('datalist', { id: 'counter-names' });
        this.name = el('input', { autocomplete: 'off', autocapitalize: 'off', spellcheck: false, list: 'counter-names', placeholder: 'choose or type a name', maxLength: 255 });
        this.granularity = el('select');
        this.range = el('select');
        this.set = el('select');
        this.measure = el('select');
        setOptions(this.measure, [['net', 'net'], ['added', 'added'], ['subbed', 'taken away']].map(([value, label]) => ({ value, label })));
        this.values = el('div', { class: 'fields' });
        this.granularityField = field('Granularity', this.granularity);
        this.rangeField = field('Range', this.range);
        this.setField = field('Per', this.set);
        this.nameField = field('Name', this.name);
        this.nameField.classList.add('large');
        this.measureField = field('Show', this.measure);
        this.form = el('form', { class: 'fields', 'aria-label': 'What to plot' }, this.nameField, this.names,
            this.setField, this.values, this.granularityField, this.rangeField, this.measureField);
        this.#listen();

        this.number = el('span', { class: 'number', textContent: '\u2013' });
        this.caption = el('div', { class: 'foot muted', textContent: '\u00a0' });
        this.readout = el('div', { class: 'readout muted', textContent: '\u00a0' });
        this.place = el('div', { class: 'chart', role: 'img', 'aria-label': 'Plot of the counter; the table below has its numbers.' });
        this.table = el('tbody');
        this.details = el('details', {}, el('summary', { textContent: 'As a table' }),
            el('div', { class: 'scroll tall', tabIndex: 0, role: 'region', 'aria-label': 'The plot as a table' },
                el('table', {}, el('thead', {}, el('tr', {}, ...['From', 'Net', 'Added', 'Taken away'].map((text) => el('th', { scope: 'col', textContent: text })))), this.table)));
        this.problem = el('p', { class: 'error', role: 'alert' });
        this.plot = el('div', { class: 'plot' }, this.place, this.readout, this.details);
        this.flat = el('p', { class: 'muted foot', textContent: 'This counter has no time buckets to plot: it keeps one value.' });
        this.empty = this.#emptyState();
        this.shown = el('div', { class: 'shown' }, el('div', { class: 'headline' }, this.number, this.caption), this.problem, this.flat, this.plot);
        this.element = card('Counter', { wide: true }, this.form, this.empty, this.shown);
        for (const part of [this.problem, this.flat, this.values]) show(part, false);
        this.#hold(false);
        show(this.empty, false);
        this.element.classList.add('waiting');
        this.chart = new Chart(this.place, { height: 240, series: this.#series(60), cursor: (index) => this.#point(index) });
    }

    /** There is a counter to show, or not yet. */
    #hold(any) {
        this.element.classList.remove('waiting');
        show(this.empty, !any);
        show(this.shown, any);
        show(this.measureField, any);
        if (!any) for (const part of [this.setField, this.granularityField, this.rangeField]) show(part, false);
    }

    /** A first count, by one click or by one command. */
    #emptyState() {
        const button = el('button', { type: 'button', class: 'primary', textContent: 'Count one now' });
        const refused = el('p', { class: 'error', role: 'alert', hidden: true });
        button.addEventListener('click', async () => {
            const error = await this.api.count('hello').then(() => null, (reason) => reason);
            setText(refused, error ? `That did not work: ${error.message}` : '');
            show(refused, Boolean(error));
            if (!error) this.reload();
        });
        return el('div', { class: 'empty' },
            el('p', { textContent: 'Nothing counted yet. Count one into hello, this minute:' }), button, refused,
            emptyState('Or from a terminal, with the token in TALLY_TOKEN:', this.#curl()));
    }

    #curl() {
        return `curl -X POST ${location.origin}/api/counters/${encodeURIComponent(this.api.tenant)}/hello/increment \\\n` +
            '  -H "Authorization: Bearer $TALLY_TOKEN" -H "Content-Type: application/json" \\\n' +
            `  -d '{"durationSeconds":60,"timestamp":"${new Date().toISOString()}"}'`;
    }

    #listen() {
        let typing;
        this.name.addEventListener('input', () => {
            clearTimeout(typing);
            if (this.#known(this.name.value)) this.#choose();
            else typing = setTimeout(() => this.#search(), 200);
        });
        this.name.addEventListener('change', () => this.#choose());
        this.granularity.addEventListener('change', () => this.#ranges());
        for (const select of [this.granularity, this.range, this.measure]) select.addEventListener('change', () => this.reload());
        this.set.addEventListener('change', () => {
            this.#askValues();
            this.reload();
        });
        this.form.addEventListener('change', (event) => event.target.closest('.fields') === this.values && this.reload());
        this.form.addEventListener('submit', (event) => {
            event.preventDefault();
            this.#choose();
            this.reload();
        });
    }

    #known(name) {
        return this.ruled.get(name) ?? this.listed.get(name);
    }

    rules({ counters }) {
        this.ruled = new Map(counters.map((counter) => [counter.name, counter]));
        if (this.counter && this.ruled.has(this.counter.name)) this.#take(this.ruled.get(this.counter.name));
        this.#offer();
    }

    /** The first names that begin with what was typed. */
    async #search(options) {
        const { counters } = await this.api.counters({ prefix: this.name.value || undefined, limit: NAMES_MAX }, options);
        for (const counter of counters) if (!this.ruled.has(counter.name)) this.listed.set(counter.name, directCounter(counter));
        this.found = counters.map(({ name }) => name);
        this.#offer(this.found);
    }

    #offer(found = []) {
        const names = new Set([...found, ...this.ruled.keys(), ...this.listed.keys()]);
        const options = [...names].sort().slice(0, 4 * NAMES_MAX);
        if (options.join('\n') === this.offered) return;
        this.offered = options.join('\n');
        this.names.replaceChildren(...options.map((value) => el('option', { value })));
    }

    /** Shows one counter under these dimensions, from elsewhere on the page. */
    open(name, dimensions) {
        this.name.value = name;
        this.#choose();
        this.set.value = JSON.stringify(this.counter.sets.find((keys) => keys.length === Object.keys(dimensions).length && keys.every((key) => key in dimensions)) ?? []);
        this.#askValues(dimensions);
        this.reload();
        this.element.scrollIntoView({ block: 'start' });
        this.name.focus({ preventScroll: true });
    }

    #choose() {
        const counter = this.#known(this.name.value);
        if (!counter || counter === this.counter) return;
        this.#take(counter);
        this.reload();
    }

    #take(counter) {
        const same = this.counter?.name === counter.name;
        this.#hold(true);
        this.counter = counter;
        setOptions(this.set, counter.sets.map((keys) => ({ value: JSON.stringify(keys), label: keys.join(', ') || 'whole tenant' })),
            same ? this.set.value : JSON.stringify(counter.sets.find((keys) => keys.length === 0) ?? counter.sets[0]));
        show(this.setField, counter.sets.length > 1 || counter.sets[0].length > 0);
        if (!same) this.#askValues();
        const plotted = counter.granularities.filter((seconds) => seconds > 0);
        setOptions(this.granularity, plotted.map((seconds) => ({ value: String(seconds), label: duration(seconds) })));
        for (const part of [this.granularityField, this.rangeField, this.plot]) show(part, plotted.length > 0);
        show(this.flat, plotted.length === 0);
        if (plotted.length) this.#ranges();
    }

    #ranges() {
        const seconds = Number(this.granularity.value);
        setOptions(this.range, SPANS.map((count) => ({ value: String(count), label: `last ${duration(seconds * count)}` })));
    }

    #askValues(given = {}) {
        const keys = JSON.parse(this.set.value || '[]');
        this.values.replaceChildren(...keys.map((key) => field(key, valueInput(key, given[key]))));
        show(this.values, keys.length > 0);
    }

    get #dimensions() {
        return Object.fromEntries([...this.values.querySelectorAll('input')].map(({ name, value, exact }) => [name, exact ?? value]));
    }

    /** At once, because somebody asked. */
    reload() {
        this.refresh().catch(() => {});
    }

    async refresh(options) {
        if (!this.counter) await this.#first(options);
        if (!this.counter) return;
        const round = (this.round = {});
        try {
            const [value, buckets] = await this.#read(options);
            if (round !== this.round) return;
            show(this.problem, false);
            this.#draw(value, buckets);
        } catch (error) {
            if (round !== this.round || error.name === 'AbortError') return;
            if (!error.status) throw error; // the stream will say that the server is away
            setText(this.problem, error.message);
            show(this.problem, true);
        }
    }

    /** Without a choice a counter that can be plotted, best one of the rules, or else the first. */
    async #first(options) {
        await this.#search(options);
        const plotted = this.found.filter((name) => this.#known(name)?.granularities.some((seconds) => seconds > 0));
        const name = this.name.value || (plotted.find((each) => this.ruled.has(each)) ?? plotted[0] ?? this.found[0]);
        this.#hold(Boolean(name));
        if (!name || !this.#known(name)) return;
        this.name.value = name;
        this.#take(this.#known(name));
    }

    #read(options) {
        const { name, mode, granularities } = this.counter;
        const dim = mode === 'direct' ? {} : dimQuery(this.#dimensions);
        const seconds = Number(this.granularity.value);
        const hasTotal = mode === 'windowed' || granularities.includes(0);
        const point = mode === 'windowed' ? dim : { durationSeconds: 0, timestamp: 0, ...dim };
        const value = hasTotal ? this.api.value(name, point, options) : null;
        if (!seconds) return Promise.all([value, []]);
        const now = Math.floor(Date.now() / 1000 / seconds) * seconds;
        const range = { startTime: now - seconds * (Number(this.range.value) - 1), endTime: now, fill: 'zero', durationSeconds: seconds };
        return Promise.all([value, this.api.series(name, { ...range, ...dim }, options).then(({ buckets }) => buckets)]);
    }

    #series(count) {
        return [{ label: 'value', colour: 'accent', fill: true, bars: count <= BARS_MAX }];
    }

    #draw(value, buckets) {
        const measure = this.measure.value;
        const sum = buckets.reduce((total, bucket) => total + BigInt(bucket[measure]), 0n);
        const range = this.range.selectedOptions[0]?.text ?? '';
        setText(this.number, grouped(value ? value[measure] : sum));
        const parts = value ? [`added ${grouped(value.added)}, taken away ${grouped(value.subbed)}`] : [];
        if (buckets.length) parts.push(value ? `${grouped(sum)} in the ${range}` : range);
        setText(this.caption, parts.join(' \u00b7 ') || '\u00a0');
        this.buckets = buckets;
        if (!buckets.length) return;
        this.nothing = buckets.every(({ added, subbed }) => added === '0' && subbed === '0');
        this.#point(this.pointed ?? null);
        this.chart.setSeries(this.#series(buckets.length));
        this.chart.setData([buckets.map(({ timeStart }) => Date.parse(timeStart) / 1000), buckets.map((bucket) => Number(bucket[measure]))]);
        if (this.details.open) this.#fillTable();
        else this.details.addEventListener('toggle', () => this.#fillTable(), { once: true });
    }

    #point(index) {
        this.pointed = index;
        const idle = this.nothing ? `Nothing was counted in the ${this.range.selectedOptions[0]?.text}: choose a longer range or a coarser granularity.` : '\u00a0';
        const bucket = index === null ? null : this.buckets[index];
        setText(this.readout, bucket ? `${moment(bucket.timeStart)}: net ${grouped(bucket.net)}, added ${grouped(bucket.added)}, taken away ${grouped(bucket.subbed)}` : idle);
    }

    #fillTable() {
        this.table.replaceChildren(...this.buckets.slice(-TABLE_ROWS).toReversed().map((bucket) => el('tr', {},
            el('td', { class: 'when', textContent: moment(bucket.timeStart) }),
            ...['net', 'added', 'subbed'].map((name) => el('td', { class: 'value', textContent: grouped(bucket[name]) })))));
    }

    destroy() {
        this.chart.destroy();
    }
}
