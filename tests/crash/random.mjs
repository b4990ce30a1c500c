// random.mjs -- numbers from a seed, so that a failing run can be told again.

/** A generator of numbers in [0, 1) that gives the same sequence for the same seed (mulberry32). */
export function randomFrom(seed) {
    let state = seed >>> 0;
    return () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let t = state;
        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

/** An integer from `least` to `most`, both included. */
export function between(random, least, most) {
    return least + Math.floor(random() * (most - least + 1));
}
