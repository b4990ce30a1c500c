// history_cases.mjs -- histories that are right, and some that are wrong in one way each: the checker is checked.

import { checkCounter, checkRegister } from './history.mjs';
import { between, randomFrom } from '../crash/random.mjs';

const op = (kind) => (begin, end, net, amount) => ({ kind, begin, end, ...(net === undefined ? {} : { net: BigInt(net) }), ...(amount && { amount: BigInt(amount) }) });
const add = op('add');
const read = op('read');
const set = op('set');
const get = op('get');
const NEVER = Infinity;

const COUNTERS = [
    ['additions one after the other', true, [add(0, 1, 1, 1), add(2, 3, 3, 2), read(4, 5, 3)]],
    ['a read beside an addition may see it', true, [add(0, 4, 1, 1), read(1, 2, 1)]],
    ['a read beside an addition may not have seen it', true, [add(0, 4, 1, 1), read(1, 2, 0)]],
    ['an addition that was never answered may have happened', true, [add(0, NEVER, undefined, 1), read(5, 6, 0), read(7, 8, 1)]],
    ['a read that has forgotten what was acknowledged', false, [add(0, 1, 1, 1), read(2, 3, 0)]],
    ['a read of more than was ever asked for', false, [add(0, 1, 1, 1), read(2, 3, 2)]],
    ['an addition that was counted twice', false, [add(0, 1, 1, 1), add(2, 3, 3, 1), read(4, 5, 3)]],
    ['two additions that were told the same value', false, [add(0, 3, 1, 1), add(1, 4, 1, 1), add(0, NEVER, undefined, 1)]],
    ['a read of half an addition', false, [add(0, 9, 4, 4), add(0, NEVER, undefined, 2), read(5, 6, 2)]],
    ['a read that goes back behind another one', false, [add(0, 9, 1, 1), read(1, 2, 1), read(3, 4, 0)]],
    ['additions that were told values in the wrong order', false, [add(0, 1, 2, 1), add(2, 3, 1, 1), add(0, NEVER, undefined, 1)]],
];

const REGISTERS = [
    ['sets and gets one after the other', true, [set(0, 1, 5), get(2, 3, 5), set(4, 5, 7), get(6, 7, 7)]],
    ['two sets at once leave either', true, [set(0, 5, 5), set(1, 4, 7), get(6, 7, 5), get(8, 9, 5)]],
    ['a set without an answer that is seen much later', true, [set(0, NEVER, 5), get(2, 3, 0), set(4, 5, 7), get(6, 7, 7), get(8, 9, 5)]],
    ['a get of what was replaced', false, [set(0, 1, 5), set(2, 3, 7), get(4, 5, 5)]],
    ['a get of what nobody set', false, [set(0, 1, 5), get(2, 3, 6)]],
    ['two sets at once, of which gets see first one, then the other, then the first again', false, [set(0, 9, 5), set(0, 9, 7), get(1, 2, 5), get(3, 4, 7), get(5, 6, 5)]],
    ['a set without an answer that is seen, replaced and seen again', false, [set(0, NEVER, 5), get(1, 2, 5), set(3, 4, 7), get(5, 6, 5)]],
];

/** A true history of a register with several clients at once, made by giving each operation a moment of its own. */
function trueHistory(random, count) {
    let value = 0n;
    return Array.from({ length: count }, (_, i) => {
        const at = i * 10;
        const [begin, end] = [at - between(random, 1, 40), at + between(random, 1, 40)];
        if (random() < 0.5) return { kind: 'get', begin, end, net: value };
        value = BigInt(i + 1);
        return { kind: 'set', begin, end: random() < 0.1 ? Infinity : end, net: value };
    });
}

/** One get tells what was long replaced by then. */
function spoil(ops, random) {
    const early = ops.find((each) => each.kind === 'set' && each.end !== Infinity);
    const late = ops.filter((each) => each.kind === 'get' && each.begin > 300);
    late[between(random, 0, late.length - 1)].net = early.net;
    return ops;
}

export function checkTheChecker(seed) {
    const random = randomFrom(seed);
    const wrong = [];
    const judge = (what, right, sentences) => {
        if ((sentences.length === 0) !== right) wrong.push(`the checker ${right ? 'refuses' : 'accepts'} ${what}${right ? `: ${sentences[0]}` : ''}`);
    };
    for (const [what, right, ops] of COUNTERS) judge(what, right, checkCounter(ops));
    for (const [what, right, ops] of REGISTERS) judge(what, right, checkRegister(ops));
    for (let i = 0; i < 50; i++) {
        judge(`a true history of many operations (${i})`, true, checkRegister(trueHistory(random, 200)));
        judge(`one in which a get is spoilt (${i})`, false, checkRegister(spoil(trueHistory(random, 200), random)));
    }
    return { wrong, note: `${COUNTERS.length + REGISTERS.length + 100} histories` };
}
