// options.js -- the names that calls take. A misspelt one is refused: dropped, it would count
// something else than was meant.

const CHANGE = ['durationSeconds', 'bucket', 'zone', 'timestamp', 'expiresAt', 'key'];
const CALL = ['signal'];
const READ = ['durationSeconds', 'bucket', 'zone', 'dimensions', ...CALL];
const RANGE = ['startTime', 'endTime', ...READ];

const TAKEN = {
    Tally: ['url', 'token', 'tenant', 'timeoutMs', 'attempts', 'fetch', 'consistency'],
    increment: [...CHANGE, 'amount', 'max', 'sync', ...CALL],
    decrement: [...CHANGE, 'amount', 'sync', ...CALL],
    set: [...CHANGE, ...CALL],
    'batcher.increment': [...CHANGE, 'amount', 'max'],
    'batcher.decrement': [...CHANGE, 'amount'],
    'batcher.set': CHANGE,
    delete: ['key', ...CALL],
    get: ['timestamp', ...READ],
    sum: RANGE,
    series: [...RANGE, 'fill', 'limit'],
    list: ['prefix', ...CALL],
    event: CALL,
    'an event': ['eventId', 'type', 'occurredAt', 'dimensions', 'payload'],
    batcher: ['maxOps', 'maxDelayMs', ...CALL],
    call: ['body', 'type', 'key', 'repeatable', ...CALL],
};

/** What they were called before they had HTTP's names. */
const OLDER = { at: ['timestamp', 'occurredAt'], expires: ['expiresAt'], from: ['startTime'], to: ['endTime'], id: ['eventId'] };

/** How many letters to put in, leave out, change or swap with a neighbour. */
function distance(a, b) {
    let [before, above] = [[], Array.from({ length: b.length + 1 }, (_, j) => j)];
    for (let i = 1; i <= a.length; i++) {
        const row = [i];
        for (let j = 1; j <= b.length; j++) {
            row[j] = Math.min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] !== b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) row[j] = Math.min(row[j], before[j - 2] + 1);
        }
        [before, above] = [above, row];
    }
    return above[b.length];
}

/** "expires" and expiresAt, "maximum" and max. */
const isPart = (a, b) => a.length >= 3 && (b.startsWith(a) || b.endsWith(a));

/** What was probably meant; undefined if nothing is near. A third of the letters may be wrong. */
function nearest(name, names) {
    const typed = name.toLowerCase().slice(0, 64);
    const far = (known) => (isPart(typed, known) || isPart(known, typed) ? Math.min(1, distance(typed, known)) : distance(typed, known));
    const [best] = names.map((each) => [each, far(each.toLowerCase())]).sort((a, b) => a[1] - b[1]);
    return best && best[1] <= Math.ceil(typed.length / 3) ? best[0] : undefined;
}

/** The options under the names of `what`; any other name is a TypeError that says what is near. */
export function take(what, options = {}) {
    const names = TAKEN[what];
    if (options === null || typeof options !== 'object') throw new TypeError(`the options of ${what} must be an object`);
    const taken = {};
    for (const [name, value] of Object.entries(options)) {
        const known = names.includes(name) ? name : OLDER[name]?.find((each) => names.includes(each));
        if (known === undefined) {
            const meant = nearest(name, names);
            throw new TypeError(`${what} has no option "${name}"${meant === undefined ? '' : `: did you mean "${meant}"?`}`);
        }
        if (known !== name && options[known] !== undefined) throw new TypeError(`"${name}" and "${known}" of ${what} are the same`);
        taken[known] = value;
    }
    return taken;
}
