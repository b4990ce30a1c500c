// chart.js -- uPlot in the page's colours, as wide as its place and of a fixed height, so that nothing
// jumps. It is made anew when the colours change.

import uPlot from 'uplot';

import { axisTimes, short } from './format.js';

/** Steps of an axis that counts whole things: 1, 2, 5, 10, .. */
const WHOLE = Array.from({ length: 57 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));

const dark = matchMedia('(prefers-color-scheme: dark)');

function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function withAlpha(value, alpha) {
    return `color-mix(in srgb, ${value} ${alpha}%, transparent)`;
}

function axes(whole) {
    const common = {
        stroke: colour('muted'),
        grid: { stroke: colour('line'), width: 1 },
        ticks: { show: false },
        font: '12px system-ui, sans-serif',
    };
    return [
        { ...common, grid: { show: false }, space: 66, size: 30, values: (_, splits, axis, space, step) => axisTimes(splits, step) },
        { ...common, size: 48, space: 36, incrs: whole ? WHOLE : undefined, values: (_, splits) => splits.map((split) => (split === null ? '' : short(split))) },
    ];
}

/** Zero is always in sight, and a flat nothing is drawn at the bottom rather than in the middle. */
function rangeWithZero(_, low, high) {
    if (low === null) return [0, 1];
    const top = Math.max(high, 0);
    const bottom = Math.min(low, 0);
    const room = (top - bottom) * 0.08;
    return top === bottom ? [0, 1] : [bottom < 0 ? bottom - room : 0, top > 0 ? top + room : 0];
}

/** Half a bar more at both ends, so that none is cut. */
function rangeWithBars(plot, low, high) {
    const times = plot.data[0];
    const half = times.length > 1 ? (times[1] - times[0]) / 2 : 0;
    return [low - half, high + half];
}

export class Chart {
    #plot = null;
    #data;

    /** `series` are {label, colour, fill, bars}; `cursor(index)` hears which point the pointer is at. */
    constructor(place, { height, series, cursor }) {
        this.place = place;
        this.height = height;
        this.series = series;
        this.cursor = cursor;
        this.#data = [[], ...series.map(() => [])];
        this.observer = new ResizeObserver(() => this.#resize());
        this.observer.observe(place);
        dark.addEventListener('change', this.#remake);
    }

    #remake = () => {
        this.#plot?.destroy();
        this.#plot = null;
        this.#resize();
    };

    #make(width) {
        const lines = this.series.map(({ label, colour: name, fill, bars }) => ({
            label,
            stroke: colour(name),
            width: bars ? 0 : 1.75,
            fill: fill ? withAlpha(colour(name), bars ? 85 : 14) : undefined,
            paths: bars ? uPlot.paths.bars({ size: [0.78, 48], radius: 0.15 }) : undefined,
            points: { show: false },
        }));
        this.#plot = new uPlot({
            width,
            height: this.height,
            padding: [10, 32, 0, 0],
            legend: { show: false },
            cursor: { drag: { x: false, y: false }, y: false, points: { show: !this.series[0].bars } },
            scales: { x: { time: true, range: this.series[0].bars ? rangeWithBars : undefined }, y: { range: rangeWithZero } },
            axes: axes(this.series[0].bars),
            series: [{}, ...lines],
            hooks: { setCursor: [(plot) => this.cursor?.(plot.cursor.idx ?? null)] },
        }, this.#data, this.place);
    }

    #resize() {
        const width = Math.floor(this.place.clientWidth);
        if (width === 0) return;
        if (!this.#plot) this.#make(width);
        else if (this.#plot.width !== width) this.#plot.setSize({ width, height: this.height });
    }

    /** Other kinds of series, such as bars in place of a line. */
    setSeries(series) {
        if (JSON.stringify(series) === JSON.stringify(this.series)) return;
        this.series = series;
        this.#remake();
    }

    setData(data) {
        this.#data = data;
        this.#plot?.setData(data);
    }

    destroy() {
        this.observer.disconnect();
        dark.removeEventListener('change', this.#remake);
        this.#plot?.destroy();
    }
}
