// clock.js -- what the server means by now: buckets, windows and what it says it did are dated by its clock.

let ahead = 0; // its time minus ours, in milliseconds

/** It has just said that it is `at`. */
export function setServerTime(at) {
    ahead = Date.parse(at) - Date.now();
}

/** Its time when ours is `time`; in milliseconds, as ours. */
export function serverTime(time = Date.now()) {
    return time + ahead;
}
