// spread.mjs -- tenants of every lane, for the worlds of crash.mjs and powercut.mjs.
//
// XXH3_64bits of their names, modulo 4, is 0, 1, 2 and 3, so the first tenants of a list are one for
// each lane where there are one, two or four of them.

export const TENANTS = ['t1', 't0', 't5', 't4'];
export const ROOMS = ['rooms', 'rooms-a', 'rooms-c', 'rooms-b']; // those that event_model.mjs has reconciled

/** Of `--lanes 1,4`: the numbers of lanes to be lived with, one after the other. */
export function lanesOfFlag(text) {
    const all = text.split(',').map(Number);
    if (!all.every((lanes) => [1, 2, 4].includes(lanes))) throw new Error(`--lanes ${text}: the tests know tenants for 1, 2 and 4 lanes`);
    return all;
}

/** `count` divided among the lanes, at least one for each: [[0, how many], [1, ..], ..]. */
export function shares(count, lanes) {
    return Array.from({ length: lanes }, (_, lane) => [lane, Math.max(1, Math.floor((count + lanes - 1 - lane) / lanes))]);
}
