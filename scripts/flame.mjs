#!/usr/bin/env node
// flame.mjs -- a flame graph of a CPU profile, as an SVG on standard output.
//
//     perf script -i FILE --no-inline | scripts/flame.mjs > flame.svg
//
// One column a stack: threads by name at the bottom, what they call above them, as wide as the samples
// in which it was there. tally's own functions are orange, libraries blue, the kernel grey. A browser
// shows a box's whole name and share when the pointer rests on it.

import { createInterface } from 'node:readline';

const WIDTH = 1400;
const ROW = 17;
const LEAST = 0.4; // narrower boxes are not drawn
const COLOURS = [[/\/tally\)$/, '#f5a35c'], [/kernel|\[unknown\]/, '#c9c9c9'], [/./, '#8fb8de']];

const node = () => ({ count: 0, colour: '#e0e0e0', below: new Map() });
const root = node();

/** Adds one sample, outermost function first. */
function add(stack) {
    let at = root;
    at.count++;
    for (const { name, colour } of stack) {
        if (!at.below.has(name)) at.below.set(name, Object.assign(node(), { colour }));
        at = at.below.get(name);
        at.count++;
    }
}

/** Samples are stretches of lines: `thread 123 45.678: ..`, then innermost first `address name+0x1 (file)`. */
let stack = null;
for await (const line of createInterface({ input: process.stdin })) {
    const frame = /^\s+[0-9a-f]+ (.+) (\(.*\))$/.exec(line);
    if (frame && stack) {
        const colour = COLOURS.find(([pattern]) => pattern.test(frame[2]))[1];
        stack.frames.unshift({ name: frame[1].replace(/\+0x[0-9a-f]+$/, ''), colour });
    } else if (line.trim() === '') {
        if (stack) add([{ name: stack.thread, colour: '#d8c690' }, ...stack.frames]);
        stack = null;
    } else {
        stack = { thread: /^\s*(.+?)\s+\d+(?:\/\d+)?\s/.exec(line)?.[1] ?? line, frames: [] };
    }
}
if (stack) add([{ name: stack.thread, colour: '#d8c690' }, ...stack.frames]);
if (root.count === 0) {
    process.stderr.write('flame: there are no samples on standard input\n');
    process.exit(1);
}

const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const depthOf = (at) => 1 + Math.max(0, ...[...at.below.values()].map(depthOf));
const height = depthOf(root) * ROW + 8;
const boxes = [];

function draw(name, at, x, depth) {
    const width = (at.count / root.count) * WIDTH;
    if (width < LEAST) return;
    const y = height - (depth + 1) * ROW - 4;
    const shown = width > 30 ? name.slice(0, Math.floor(width / 7)) : '';
    boxes.push(`<g><title>${escape(name)}: ${at.count} of ${root.count} samples, ${((100 * at.count) / root.count).toFixed(1)} %</title>`
        + `<rect x="${x.toFixed(1)}" y="${y}" width="${Math.max(width - 0.5, 0.1).toFixed(1)}" height="${ROW - 1}" fill="${at.colour}"/>`
        + `${shown && `<text x="${(x + 3).toFixed(1)}" y="${y + 12}">${escape(shown)}</text>`}</g>`);
    let from = x;
    for (const [below, child] of [...at.below].sort(([a], [b]) => (a < b ? -1 : 1))) {
        draw(below, child, from, depth + 1);
        from += (child.count / root.count) * WIDTH;
    }
}

draw('all', root, 0, 0);
process.stdout.write(`<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" `
    + `font-family="monospace" font-size="11">\n${boxes.join('\n')}\n</svg>\n`);
