// pace.mjs -- how long and how much: the one place that knows about slow builds.
//
// Sanitizer builds are several times slower. With TALLY_SLOW=1 counts shrink and patience grows, so
// the same tests mean the same thing there. Nothing waits for a fixed time where it can wait for a fact.

const FACTOR = process.env.TALLY_SLOW ? 5 : 1;

/** A count of repetitions: as asked on a release build, fewer on a slow one, never below `least`. */
export function times(count, least = 4) {
    return Math.max(Math.min(count, least), Math.ceil(count / FACTOR));
}

/** A time limit in milliseconds: as asked on a release build, longer on a slow one. */
export function patience(ms) {
    return ms * FACTOR;
}

export function sleep(ms) {
    return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Resolves as `promise` does, or fails after `ms` saying what was awaited. */
export async function within(ms, what, promise) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`waited ${patience(ms)} ms for ${what}`)), patience(ms));
    });
    try {
        return await Promise.race([promise, late]);
    } finally {
        clearTimeout(timer);
    }
}

/** Calls `probe` until it returns something truthy, and returns that. */
export async function eventually(what, probe, { ms = 15000, every = 50 } = {}) {
    const end = Date.now() + patience(ms);
    for (;;) {
        const found = await probe();
        if (found) return found;
        if (Date.now() > end) throw new Error(`waited ${patience(ms)} ms for ${what}`);
        await sleep(every);
    }
}

/** Runs `work(index)` for every index below `count`, all at once, and returns the results in order. */
export function together(count, work) {
    return Promise.all(Array.from({ length: count }, (_, index) => work(index)));
}
