// rates.js -- from totals to rates. Pure: tested without a browser in tests/browser/rates.test.mjs.
//
// The server says how much there was since it was first watched; every few hundred milliseconds, or not at
// all while nothing happens. A rate is what was added over the last few seconds, divided by them.

export const FIGURES = ['applied', 'duplicates', 'refused', 'throttled'];
export const BUCKETS = 25; // of a histogram: up to 10 µs * 2^k, the last one beyond
const UNIT_SECONDS = 1e-5;
const KNOWN_MS = 1000; // over less than this a rate is chance

/** Totals over time, as far back as `keepMs`: in stretches, for what nobody listened to is not known. */
export class History {
    #samples = []; // {at, begun, totals, buckets}, oldest first; `begun` is when its stretch began, or null after a loss
    #since = null;

    constructor(keepMs) {
        this.keepMs = keepMs;
    }

    /** Takes totals (decimal strings) and a histogram. Another `since` is another count: no rate reaches across. */
    add(at, { since, writeSeconds = [], ...totals }) {
        const last = this.#samples.at(-1);
        this.#push({
            at,
            begun: since === this.#since && last?.begun ? last.begun : at,
            totals: FIGURES.map((name) => BigInt(totals[name] ?? 0)),
            buckets: writeSeconds.map(BigInt),
        });
        this.#since = since;
    }

    /** From `at` on nothing is known, until the next sample. */
    lose(at) {
        const last = this.#samples.at(-1);
        if (last?.begun) this.#push({ ...last, at: Math.max(at, last.at), begun: null });
    }

    /** One older than what is kept stays: the rate at the edge needs something to start from. */
    #push(sample) {
        this.#samples.push(sample);
        while (this.#samples.length > 2 && this.#samples[1].at < sample.at - this.keepMs) this.#samples.shift();
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

    /** The samples at both ends of the `spanMs` that end at `at`, or of what is known of them; null of too little. */
    #ends(at, spanMs) {
        if (this.isEmpty || at < this.#samples[0].at) return null;
        const to = this.#before(at);
        if (!to.begun) return null;
        const start = Math.max(at - spanMs, to.begun, this.#samples[0].at);
        return at - start < Math.min(spanMs, KNOWN_MS) ? null : { from: this.#before(start), to, seconds: (at - start) / 1000 };
    }

    /** How many a second, over the `spanMs` that end at `at`, in the order of FIGURES; null if that is not known. */
    rates(at, spanMs) {
        const ends = this.#ends(at, spanMs);
        return ends && ends.to.totals.map((total, i) => Number(total - ends.from.totals[i]) / ends.seconds);
    }

    /** The histogram of what came in that span, for quantile(). */
    buckets(at, spanMs) {
        const ends = this.#ends(at, spanMs);
        return ends ? ends.to.buckets.map((count, i) => Number(count - (ends.from.buckets[i] ?? 0n))) : [];
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
