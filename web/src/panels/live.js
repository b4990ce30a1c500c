// live.js -- what happens now: rates, how long writes take, and the last three minutes as lines.

import { Chart } from '../chart.js';
import { serverTime } from '../clock.js';
import { card, el, setText } from '../dom.js';
import { grouped, latency, moment, short } from '../format.js';
import { FIGURES, History, quantile } from '../rates.js';

const SPAN_S = 180;
const RATE_MS = 2000;
const LATENCY_MS = 10000;
const NONE = '\u2013';
const KINDS = {
    applied: { title: 'Applied', colour: 'accent', about: 'operations and events that took effect' },
    duplicates: { title: 'Duplicates', colour: 'blue', about: 'seen before, not counted again' },
    refused: { title: 'Refused', colour: 'amber', about: 'answered with an error' },
    throttled: { title: '429s', colour: 'red', about: 'turned away because the queue was full; nothing was applied' },
};

function tile(title, { colour, about } = {}) {
    const number = el('span', { class: 'number', textContent: NONE });
    const unit = el('span', { class: 'unit' });
    const foot = el('div', { class: 'foot muted', textContent: '\u00a0' });
    const head = el('div', { class: 'tile-title', title: about ?? '' }, title);
    if (colour) head.prepend(el('span', { class: `key ${colour}`, 'aria-hidden': 'true' }));
    return { element: el('div', { class: 'tile' }, head, el('div', {}, number, unit), foot), number, unit, foot };
}

export class Live {
    constructor() {
        this.history = new History((SPAN_S + 5) * 1000);
        this.commits = new History(60000);
        this.tiles = FIGURES.map((name) => tile(KINDS[name].title, KINDS[name]));
        this.tiles.forEach(({ unit }) => setText(unit, '/s'));
        this.write = tile('Write latency', { about: 'from the first byte of a request until its reply is out, last 10 s' });
        this.commit = tile('Commit latency', { about: 'from taking a batch off the queue until it is durable, last 10 s' });
        const place = el('div', { class: 'chart live-chart', role: 'img', 'aria-label': 'Rates over the last three minutes; the numbers above say the same of now.' });
        this.since = el('span', { class: 'muted foot' });
        this.element = card('Now', { wide: true, note: this.since },
            el('div', { class: 'tiles' }, ...[...this.tiles, this.write, this.commit].map(({ element }) => element)), place);
        this.chart = new Chart(place, {
            height: 160,
            series: FIGURES.map((name) => ({ label: KINDS[name].title, colour: KINDS[name].colour, fill: name === 'applied' })),
        });
        this.timer = setInterval(() => this.draw(), 1000);
    }

    state({ at, activity, server }) {
        const time = Date.parse(at);
        this.history.add(time, activity);
        this.commits.add(time, { since: activity.since, writeSeconds: server?.commitSeconds });
        FIGURES.forEach((name, i) => setText(this.tiles[i].foot, `${grouped(activity[name])} in all`));
        setText(this.since, `counted since ${moment(activity.since)}`);
        this.commit.element.hidden = !server;
        this.draw();
    }

    /** Nothing was heard since `time`, by our clock. */
    lost(time) {
        for (const history of [this.history, this.commits]) history.lose(serverTime(time));
        this.draw();
    }

    draw() {
        if (this.history.isEmpty || document.hidden) return;
        const now = serverTime();
        const rates = this.history.rates(now, RATE_MS);
        this.tiles.forEach(({ number }, i) => setText(number, rates ? short(rates[i]) : NONE));
        for (const [shown, history] of [[this.write, this.history], [this.commit, this.commits]]) {
            const buckets = history.buckets(now, LATENCY_MS);
            setText(shown.number, latency(quantile(buckets, 0.5)));
            setText(shown.foot, buckets.some((count) => count > 0) ? `99 % within ${latency(quantile(buckets, 0.99))}` : 'nothing lately');
        }
        this.#plot(Math.floor(now / 1000));
    }

    #plot(until) {
        const times = Array.from({ length: SPAN_S }, (_, i) => until - SPAN_S + 1 + i);
        const points = times.map((time) => this.history.rates(time * 1000, RATE_MS));
        // Only work done is drawn at zero too: a red or amber line there would look like trouble.
        const busy = (i, at) => [at - 1, at, at + 1].some((near) => points[near]?.[i] > 0);
        const lines = FIGURES.map((_, i) => points.map((rates, at) => (rates && (i === 0 || busy(i, at)) ? rates[i] : null)));
        this.chart.setData([times, ...lines]);
    }

    destroy() {
        clearInterval(this.timer);
        this.chart.destroy();
    }
}
