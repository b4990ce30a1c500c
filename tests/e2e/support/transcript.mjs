// transcript.mjs -- the shell blocks of a Markdown file, run as a reader would.
//
// A block is fenced with ```sh. All blocks of a file run in one bash, in order, so that variables and
// background jobs stay. Lines beginning with "# " right after a command are its expected output, stdout and
// stderr together, line by line; ".." in them stands for anything, a line of only ".." for any number of
// lines. A command without such lines must exit with 0. A block whose first line is
// "# not run: <reason>" is skipped, and counted; one whose first line is "# needs: <command>" is run where
// that command exits with 0.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';

import { patience } from './pace.mjs';

/** [{line, skipped} or {line, needs, steps: [{command, expected}]}] */
export function blocksOf(markdown) {
    const blocks = [];
    let open = null;
    markdown.split('\n').forEach((text, index) => {
        if (open && text.startsWith('```')) {
            blocks.push(parse(open));
            open = null;
        } else if (open) {
            open.lines.push(text);
        } else if (/^```sh$/.test(text)) {
            open = { line: index + 2, lines: [] };
        }
    });
    return blocks;
}

function parse({ line, lines }) {
    const skip = /^# not run: (.+)$/.exec(lines[0]);
    if (skip) return { line, skipped: skip[1] };
    const needs = /^# needs: (.+)$/.exec(lines[0])?.[1];
    const steps = [];
    let step = null;
    lines.forEach((text, index) => {
        if (needs && index === 0) return;
        const isExpected = text.startsWith('# ') && step?.command.length > 0;
        if (isExpected) step.expected.push(text.slice(2));
        else if (!step || step.expected.length) steps.push((step = { line: line + index, command: [text], expected: [] }));
        else step.command.push(text);
    });
    return { line, needs, steps: steps.map((one) => ({ ...one, command: one.command.join('\n') })) };
}

const escape = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
const lineToRegExp = (line) => `${line.split('..').map(escape).join('.*')}\\n`;

/** The expected lines as one expression over the whole output. */
export function expectation(lines) {
    return new RegExp(`^${lines.map((line) => (line.trim() === '..' ? '(.*\\n)*' : lineToRegExp(line.replace(/\s+$/, '')))).join('')}$`);
}

export class Shell {
    #child;
    #said = '';
    #wake = () => {};
    #count = 0;

    constructor({ cwd, env }) {
        this.#child = spawn('bash', ['--noprofile', '--norc'], { cwd, env, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
        for (const stream of [this.#child.stdout, this.#child.stderr]) {
            stream.setEncoding('utf8').on('data', (text) => {
                this.#said += text;
                this.#wake();
            });
        }
        this.#child.on('exit', () => this.#wake());
        this.#child.stdin.write('exec 2>&1\n');
    }

    /** Runs one command: {output, status}. Output lines have no trailing blanks. */
    async run(command, ms = 60000) {
        const mark = `--done-${process.pid}-${++this.#count}-`;
        const pattern = new RegExp(`${mark}(\\d+)\\n`);
        this.#said = '';
        this.#child.stdin.write(`${command}\nprintf '\\n${mark}%s\\n' $?\n`);
        const end = Date.now() + patience(ms);
        let found;
        while (!(found = pattern.exec(this.#said))) {
            assert.ok(this.#child.exitCode === null, `the shell ended in\n${command}\n${this.#said}`);
            assert.ok(Date.now() < end, `this takes too long:\n${command}\n${this.#said}`);
            await new Promise((resolve) => {
                this.#wake = resolve;
                setTimeout(resolve, 1000);
            });
        }
        const output = this.#said.slice(0, found.index).replace(/\n$/, '');
        return { status: Number(found[1]), output: output.split('\n').map((line) => line.trimEnd()).join('\n') };
    }

    /** Ends it and everything it has started. */
    async close() {
        const gone = new Promise((resolve) => this.#child.on('exit', resolve));
        await this.run('for job in $(jobs -p); do kill $job; done; wait', 30000).catch(() => {});
        this.#child.stdin.end();
        const late = setTimeout(() => process.kill(-this.#child.pid, 'SIGKILL'), 5000);
        await gone;
        clearTimeout(late);
    }
}

export async function runStep(shell, { command, expected, line }, file) {
    const { status, output } = await shell.run(command);
    const about = `${file}:${line}\n${command}\n--- said (exit ${status})\n${output}`;
    if (!expected.length) {
        assert.equal(status, 0, about);
        return;
    }
    const text = output === '' ? '' : `${output.replace(/\n+$/, '')}\n`;
    assert.match(text, expectation(expected), `${about}\n--- expected\n${expected.join('\n')}`);
}
