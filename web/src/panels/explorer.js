// explorer.js -- any counter: its value, and its series as a plot with granularity, range and dimensions.

import { Chart } from '../chart.js';
import { serverTime } from '../clock.js';
import { card, el, emptyState, field, setOptions, setText, show } from '../dom.js';
import { duration, grouped, moment } from '../format.js';

const NAMES_MAX = 50;
const BARS_MAX = 180;
const SPANS = [60, 360, 1440]; // ranges, in buckets
const TABLE_ROWS = 100;
const FIRST = 'hello'; // what the first click counts

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
        this.counter = null;
        this.found = []; // names that the listing brought last
        this.chose = false; // a name was typed: none is chosen in its place
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
        this.details.addEventListener('toggle', () => this.#fillTable());
        this.flat = el('p', { class: 'muted foot', textContent: 'One value, without time buckets: there is nothing to plot.' });
        this.empty = this.#emptyState();
        this.again = el('div', { class: 'again' }, ...this.#countButton());
        this.shown = el('div', { class: 'shown' }, el('div', { class: 'headline' }, this.number, this.caption), this.again, this.problem, this.flat, this.plot);
        this.element = card('Counter', { wide: true }, this.form, this.empty, this.shown);
        for (const part of [this.problem, this.flat, this.values, this.again]) show(part, false);
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
        return el('div', { class: 'empty' },
            el('p', { textContent: `Nothing counted yet. Count one into ${FIRST}, this minute:` }), ...this.#countButton(),
            emptyState('Or from a terminal, with the token in TALLY_TOKEN:', this.#curl()));
    }

    /** Counts one into FIRST, into the buckets that are shown, as often as it is pressed. */
    #countButton() {
        const button = el('button', { type: 'button', class: 'primary', textContent: 'Count one now' });
        const refused = el('p', { class: 'error', role: 'alert', hidden: true });
        button.addEventListener('click', async () => {
            const seconds = this.counter ? Number(this.granularity.value) : 60;
            const error = await this.api.count(FIRST, seconds, serverTime()).then(() => null, (reason) => reason);
            setText(refused, error ? `That did not work: ${error.message}` : '');
            show(refused, Boolean(error));
            if (error) return;
            this.name.value = FIRST;
            this.reload();
        });
        return [button, refused];
    }

    #curl() {
        return `curl -X POST ${location.origin}/api/counters/${encodeURIComponent(this.api.tenant)}/${FIRST}/increment \\\n` +
            '  -H "Authorization: Bearer $TALLY_TOKEN" -H "Content-Type: application/json" \\\n' +
            `  -d '{"durationSeconds":60,"timestamp":"${new Date(serverTime()).toISOString()}"}'`;
    }

    #listen() {
        this.name.addEventListener('input', () => this.#choose(200));
        this.name.addEventListener('change', () => this.#choose());
        this.granularity.addEventListener('change', () => this.#lay());
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

    rules({ counters }) {
        this.ruled = new Map(counters.map((counter) => [counter.name, counter]));
        const now = this.ruled.get(this.counter?.name);
        if (now) this.#take(now);
        else if (this.counter && this.counter.mode !== 'direct') this.#leave(); // the config has it no more
        this.#offer();
    }

    /** The first names that begin with `prefix`. A page may be empty while others follow. */
    async #list(prefix, limit, options) {
        let page = {};
        do page = await this.api.counters({ prefix: prefix || undefined, limit, after: page.next }, options);
        while (page.counters.length === 0 && page.next);
        return page.counters;
    }

    #offer() {
        const names = [...new Set([...this.found, ...this.ruled.keys()])].sort().slice(0, 4 * NAMES_MAX);
        if (names.join('\n') === this.offered) return;
        this.offered = names.join('\n');
        this.names.replaceChildren(...names.map((value) => el('option', { value })));
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

    /** The name that stands there, at once if the rules have it; else the server is asked, after a pause while typing. */
    #choose(pauseMs = 0) {
        clearTimeout(this.typing);
        this.chose = true;
        const name = this.name.value;
        if (this.counter?.name === name) return;
        if (this.ruled.has(name)) this.#take(this.ruled.get(name));
        else this.#leave();
        if (pauseMs) this.typing = setTimeout(() => this.reload(), pauseMs);
        else this.reload();
    }

    /** No counter is shown, and nothing that one had. */
    #leave() {
        this.counter = null;
        this.#blank('\u00a0');
        show(this.again, false);
    }

    #blank(caption) {
        this.round = {}; // whatever is still being read is of something else
        setText(this.number, '\u2013');
        setText(this.caption, caption);
        show(this.problem, false);
        this.buckets = [];
        this.nothing = false;
        this.#point(null);
        this.chart.setData([[], []]);
        this.#fillTable();
    }

    #take(counter) {
        const same = this.counter?.name === counter.name;
        if (!same) this.#blank('\u00a0');
        this.#hold(true);
        this.counter = counter;
        setOptions(this.set, counter.sets.map((keys) => ({ value: JSON.stringify(keys), label: keys.join(', ') || 'whole tenant' })),
            same ? this.set.value : JSON.stringify(counter.sets.find((keys) => keys.length === 0) ?? counter.sets[0]));
        show(this.setField, counter.sets.length > 1 || counter.sets[0].length > 0);
        if (!same || [...this.values.querySelectorAll('input')].map(({ name }) => name).join() !== this.#keys.join()) this.#askValues();
        const choices = counter.granularities.filter((seconds) => seconds > 0);
        // A rule's total stands above its plot. A direct counter's buckets of all time are others than those of a minute.
        if (counter.mode === 'direct' && counter.granularities.includes(0)) choices.push(0);
        setOptions(this.granularity, choices.map((seconds) => ({ value: String(seconds), label: duration(seconds) })));
        show(this.granularityField, choices.length > 0);
        show(this.again, counter.mode === 'direct' && counter.name === FIRST);
        this.#lay();
    }

    get #keys() {
        return JSON.parse(this.set.value || '[]');
    }

    /** What the chosen granularity has to show. */
    #lay() {
        const plotted = Number(this.granularity.value) > 0;
        for (const part of [this.rangeField, this.plot]) show(part, plotted);
        show(this.flat, !plotted);
        if (plotted) this.#ranges();
    }

    #ranges() {
        const seconds = Number(this.granularity.value);
        setOptions(this.range, SPANS.map((count) => ({ value: String(count), label: `last ${duration(seconds * count)}` })));
    }

    #askValues(given = {}) {
        this.values.replaceChildren(...this.#keys.map((key) => field(key, valueInput(key, given[key]))));
        show(this.values, this.#keys.length > 0);
    }

    get #dimensions() {
        return Object.fromEntries([...this.values.querySelectorAll('input')].map(({ name, value, exact }) => [name, exact ?? value]));
    }

    /** Dimensions whose value nobody has said. */
    get #missing() {
        return [...this.values.querySelectorAll('input')].filter(({ value, exact }) => (exact ?? value) === '' && exact === undefined).map(({ name }) => name);
    }

    /** At once, because somebody asked. */
    reload() {
        this.refresh().catch(() => {});
    }

    async refresh(options) {
        const round = (this.round = {});
        try {
            const found = await this.#find(options);
            if (round !== this.round) return;
            if (!found) return this.#miss();
            if (found !== this.counter) this.#take(found);
            this.round = round;
            if (this.#missing.length) return this.#blank(`Fill in ${this.#missing.join(', ')} to see its counts.`);
            const [buckets, value] = await this.#read(options);
            if (round !== this.round) return;
            show(this.problem, false);
            this.#draw(value, buckets);
        } catch (error) {
            if (round !== this.round || error.name === 'AbortError') return;
            if (!error.status) throw error; // the stream will say that the server is away
            this.#blank('\u00a0');
            setText(this.problem, error.message);
            show(this.problem, true);
        }
    }

    /** The counter of the name that stands there, as the server has it now; undefined: there is none. */
    async #find(options) {
        const name = this.name.value;
        if (this.ruled.has(name)) return this.ruled.get(name);
        if (!name && this.chose) return undefined;
        const listed = await this.#list(name, this.counter ? 1 : NAMES_MAX, options);
        if (name === this.counter?.name) {
            const [now] = listed;
            const known = now?.name === name && now.granularities.join() === this.counter.granularities.join();
            return known ? this.counter : listed.filter((each) => each.name === name).map(directCounter)[0];
        }
        this.found = listed.map((each) => each.name);
        this.#offer();
        return name ? listed.filter((each) => each.name === name).map(directCounter)[0] : this.#first(listed);
    }

    /** Without a choice a counter that can be plotted, best one of the rules, or else the first. */
    #first(listed) {
        const counters = listed.map((each) => this.ruled.get(each.name) ?? directCounter(each));
        const plotted = counters.filter(({ granularities }) => granularities.some((seconds) => seconds > 0));
        const first = plotted.find(({ name }) => this.ruled.has(name)) ?? plotted[0] ?? counters[0];
        if (first) this.name.value = first.name;
        return first;
    }

    #miss() {
        const name = this.name.value;
        this.#leave();
        this.#hold(Boolean(name) || this.chose);
        setText(this.caption, name ? `There is no counter named ${name}.` : 'Choose or type a name.');
    }

    /** The buckets are read before the total, so that what is counted in between cannot make them more than it. */
    async #read(options) {
        const { name, mode, granularities } = this.counter;
        const seconds = Number(this.granularity.value);
        const where = { name, ...(mode !== 'direct' && { dimensions: this.#dimensions }) };
        const queries = [];
        if (seconds) {
            const now = Math.floor(serverTime() / 1000 / seconds) * seconds;
            const startTime = now - seconds * (Number(this.range.value) - 1);
            queries.push({ series: { ...where, durationSeconds: seconds, startTime, endTime: now, fill: 'zero' } });
        }
        const total = mode === 'direct' ? !seconds : mode === 'windowed' || granularities.includes(0);
        if (total) queries.push({ get: { ...where, ...(mode !== 'windowed' && { durationSeconds: 0, timestamp: 0 }) } });
        const results = await this.api.query(queries, options);
        return [seconds ? results[0].buckets : [], total ? results.at(-1) : null];
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
        if (buckets.length) parts.push(`${value ? `${grouped(sum)} ` : ''}in the ${range}`);
        if (this.counter.frozen) parts.push('frozen: no rule counts into it any more');
        setText(this.caption, parts.join(' \u00b7 ') || '\u00a0');
        this.buckets = buckets;
        if (!buckets.length) return;
        this.nothing = buckets.every(({ added, subbed }) => added === '0' && subbed === '0');
        this.#point(this.pointed ?? null);
        this.chart.setSeries(this.#series(buckets.length));
        this.chart.setData([buckets.map(({ timeStart }) => Date.parse(timeStart) / 1000), buckets.map((bucket) => Number(bucket[measure]))]);
        this.#fillTable();
    }

    #point(index) {
        this.pointed = index;
        const idle = this.nothing ? `Nothing was counted in the ${this.range.selectedOptions[0]?.text}: choose a longer range or a coarser granularity.` : '\u00a0';
        const bucket = index === null ? undefined : this.buckets[index];
        setText(this.readout, bucket ? `${moment(bucket.timeStart)}: net ${grouped(bucket.net)}, added ${grouped(bucket.added)}, taken away ${grouped(bucket.subbed)}` : idle);
    }

    #fillTable() {
        if (!this.details.open) return;
        this.table.replaceChildren(...this.buckets.slice(-TABLE_ROWS).toReversed().map((bucket) => el('tr', {},
            el('td', { class: 'when', textContent: moment(bucket.timeStart) }),
            ...['net', 'added', 'subbed'].map((name) => el('td', { class: 'value', textContent: grouped(bucket[name]) })))));
    }

    destroy() {
        this.chart.destroy();
    }
}
