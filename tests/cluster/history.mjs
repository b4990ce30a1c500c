// history.mjs -- what clients asked and what they were told, and whether one counter could have said it.
//
// An operation is {kind, begin, end, ..}: it was asked for at `begin` and answered at `end`; `end` is Infinity where
// no answer ever came. It took effect, whole, at some moment between the two, or, without an answer, later or never.
//
//     add     `amount` was added. `net`: the value right after it, if the answer says so
//     read    the value was `net`
//     set     the value was made `net`
//     get     the value was `net`; for registers, which are set
//
// checkCounter is for adds and reads, in time n log n: their values say in which order they took effect. checkRegister
// is for sets and gets, and searches: Wing and Gong's algorithm in Lowe's form, which keeps every state that the counter
// can be in and at each answer only those in which that operation has taken effect.
// Both return sentences, one for each thing that is wrong; none: there is an order that explains all.

/** `list` sorted by `of`, and the sum of the amounts up to each place: how much was added up to a moment. */
function runningSum(list, of) {
    const sorted = [...list].sort((a, b) => of(a) - of(b));
    const sums = [0n];
    for (const op of sorted) sums.push(sums.at(-1) + op.amount);
    return (moment) => {
        let low = 0;
        let high = sorted.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (of(sorted[middle]) < moment) low = middle + 1;
            else high = middle;
        }
        return sums[low];
    };
}

const told = (op) => `${op.kind} ${op.amount ?? ''} of ${op.client ?? 'a client'} (${op.begin.toFixed(1)} to ${op.end.toFixed(1)} ms, net ${op.net})`;

/** Each value is at least what had been acknowledged before, and at most what had been asked for by then. */
function outOfBounds(answered, adds) {
    const acknowledgedBefore = runningSum(adds, (op) => op.end);
    const askedBefore = runningSum(adds, (op) => op.begin);
    return answered.flatMap((op) => {
        const least = acknowledgedBefore(op.begin) + (op.kind === 'add' ? op.amount : 0n);
        const most = askedBefore(op.end);
        return op.net >= least && op.net <= most ? [] : [`${told(op)} is not from ${least} to ${most}`];
    });
}

/** No two additions made the same step, and no read saw half of one. */
function overlapping(answered) {
    const wrong = [];
    const sorted = [...answered].sort((a, b) => (a.net < b.net ? -1 : a.net > b.net ? 1 : (a.kind === 'add' ? 0 : 1) - (b.kind === 'add' ? 0 : 1)));
    let last = null;
    for (const op of sorted) {
        const from = op.kind === 'add' ? op.net - op.amount : op.net;
        if (last && from < last.net) wrong.push(`${told(op)} and ${told(last)} do not follow each other`);
        last = op;
    }
    return wrong;
}

/** What began after an answer was given comes after what it told. */
function backInTime(answered) {
    const wrong = [];
    const byEnd = [...answered].sort((a, b) => a.end - b.end);
    let ended = 0;
    let newest = null;
    for (const op of [...answered].sort((a, b) => a.begin - b.begin)) {
        for (; byEnd[ended].end < op.begin; ended++) if (!newest || byEnd[ended].net > newest.net) newest = byEnd[ended];
        const from = op.kind === 'add' ? op.net - op.amount : op.net;
        if (newest && from < newest.net) wrong.push(`${told(op)} began after the end of ${told(newest)}`);
    }
    return wrong;
}

export function checkCounter(ops) {
    const adds = ops.filter((op) => op.kind === 'add');
    const answered = ops.filter((op) => op.end !== Infinity && op.net !== undefined);
    return [...outOfBounds(answered, adds), ...overlapping(answered), ...backInTime(answered)];
}

/** States are {value, done}: `done` are the operations under way that have taken effect already. */
function keyOf({ value, done }) {
    return `${value}|${[...done].sort((a, b) => a - b).join()}`;
}

/** All states in which operation `wanted` has taken effect, reached from `states` by what is under way. */
function statesWith(states, wanted, open) {
    const found = new Map();
    const seen = new Map(states.map((state) => [keyOf(state), state]));
    for (const state of seen.values()) { // a map also visits what is added meanwhile
        if (state.done.has(wanted.number)) {
            found.set(keyOf(state), state);
            continue;
        }
        for (const op of open.values()) {
            if (state.done.has(op.number) || (op.kind === 'get' && op.net !== state.value)) continue;
            const next = { value: op.kind === 'set' ? op.net : state.value, done: new Set(state.done).add(op.number) };
            if (!seen.has(keyOf(next))) seen.set(keyOf(next), next);
        }
    }
    return [...found.values()];
}

/** A set without an answer whose value nobody saw may as well not have happened: the search is spared it. */
function withoutUnseen(ops) {
    const seen = new Set(ops.filter((op) => op.kind === 'get' && op.end !== Infinity).map((op) => op.net));
    return ops.filter((op) => op.end !== Infinity || (op.kind === 'set' && seen.has(op.net)));
}

/** `initial`: the value before the first set. */
export function checkRegister(ops, initial = 0n) {
    const all = withoutUnseen(ops).map((op, number) => ({ ...op, number }));
    const moments = all.flatMap((op) => [{ at: op.begin, op }, ...(op.end === Infinity ? [] : [{ at: op.end, op, answer: true }])]);
    moments.sort((a, b) => a.at - b.at || (a.answer ? 1 : 0) - (b.answer ? 1 : 0));
    const open = new Map();
    let states = [{ value: initial, done: new Set() }];
    for (const { op, answer } of moments) {
        if (!answer) {
            open.set(op.number, op);
            continue;
        }
        const before = states;
        states = statesWith(states, op, open);
        if (!states.length) return [`${told(op)} fits none of the values it can have had: ${[...new Set(before.map((state) => state.value))].join(', ')}`];
        open.delete(op.number);
        for (const state of states) state.done.delete(op.number);
    }
    return [];
}

/** Keeps operations counter by counter, with times of this process's clock. */
export class History {
    #ops = new Map(); // counter -> operations

    begin(counter, op) {
        const begun = { ...op, begin: performance.now(), end: Infinity };
        if (!this.#ops.has(counter)) this.#ops.set(counter, []);
        this.#ops.get(counter).push(begun);
        return begun;
    }

    /** The answer has come, and says that the value is `net`. */
    end(op, net) {
        op.end = performance.now();
        if (net !== undefined) op.net = BigInt(net);
    }

    /** It was refused for good and has had no effect. */
    forget(counter, op) {
        const list = this.#ops.get(counter);
        list.splice(list.indexOf(op), 1);
    }

    of(counter) {
        return this.#ops.get(counter) ?? [];
    }

    get counters() {
        return [...this.#ops.keys()];
    }

    get count() {
        return [...this.#ops.values()].reduce((sum, list) => sum + list.length, 0);
    }

    /** Every counter by itself; one sentence each is enough to look for the cause. */
    check() {
        return this.counters.flatMap((counter) => {
            const ops = this.of(counter);
            const wrong = ops.some((op) => op.kind === 'set' || op.kind === 'get') ? checkRegister(ops) : checkCounter(ops);
            return wrong.slice(0, 3).map((sentence) => `${counter}: ${sentence}`);
        });
    }
}
