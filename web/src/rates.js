// rates.js -- from totals to rates. Pure: tested without a browser in tests/browser/rates.test.mjs.
//
// The server says how much there was since it was first watched; every few hundred milliseconds, or not at
// all while nothing happens. A rate is what was added over the last few seconds, divided by them.

export const FIGURES = ['applied', 'duplicates', 'refused', 'throttled'];
export const BUCKETS = 25; // of a histogram: up to 10 µs * 2^k, the last one beyond
const UNIT_SECONDS = 1e-5;

/** Totals over time, as far back as `keepMs`. */
export class History {
    #samples = []; // {at, totals, buckets}, oldest first
    #since = null;

    constructor(keepMs) {
        this.keepMs = keepMs;
    }

    /** Takes totals (decimal strings) and a histogram. Another `since` is another count: it starts afresh. */
    add(at, { since, writeSeconds = [], ...totals }) {
        if (since !== this.#since) this.#samples = [];
        this.#since = since;
        this.#samples.push({
            at,
            totals: FIGURES.map((name) => BigInt(totals[name] ?? 0)),
            buckets: writeSeconds.map(BigInt),
        });
        // One older than what is kept stays: the rate at the edge needs something to start from.
        while (this.#samples.length > 2 && this.#samples[1].at < at - this.keepMs) this.#samples.shift();
    }

    /** The newest sample at or before `at`; the oldest there is, if all are later. */
    #before(at) {
        let low = 0;
        let high = this.#samples.length - 1;
        while (low < high) {
            const middle = (low + high + 1) >> 1;
            if (this.#samples[middle].at <= at) low = middle;
            else high = middle - 1;
        }
        return this.#samples[low];
    }

    get isEmpty() {
        return this.#samples.length === 0;
    }

    /** How many a second, over the `spanMs` that end at `at`, in the order of FIGURES. */
    rates(at, spanMs) {
        if (this.isEmpty) return FIGURES.map(() => 0);
        const [from, to] = [this.#before(at - spanMs), this.#before(at)];
        return to.totals.map((total, i) => Number(total - from.totals[i]) / (spanMs / 1000));
    }

    /** The histogram of what came in that span, for quantile(). */
    buckets(at, spanMs) {
        if (this.isEmpty) return [];
        const [from, to] = [this.#before(at - spanMs), this.#before(at)];
        return to.buckets.map((count, i) => Number(count - (from.buckets[i] ?? 0n)));
    }
}

/** The value below which the share `q` lies, or null of nothing; within a bucket by interpolation. */
export function quantile(buckets, q) {
    const total = buckets.reduce((sum, count) => sum + count, 0);
    if (total === 0) return null;
    let left = q * total;
    for (let k = 0; k < buckets.length; k++) {
        if (left <= buckets[k] && buckets[k] > 0) {
            const low = k === 0 ? 0 : UNIT_SECONDS * 2 ** (k - 1);
            const high = UNIT_SECONDS * 2 ** Math.min(k, BUCKETS - 2);
            return low + (Math.max(high, low) - low) * (left / buckets[k]);
        }
        left -= buckets[k];
    }
    return UNIT_SECONDS * 2 ** (buckets.length - 1);
}
