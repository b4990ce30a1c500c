// cli-help.test.mjs -- help, completions in the real shells, the man page, and what gets installed.

import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { eventually } from './support/pace.mjs';
import { newDirectory, removeDirectory, runTally, TALLY_BIN } from './support/server.mjs';

const run = promisify(execFile);
const has = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;

/** The commands that `tally help` lists. */
async function commands() {
    const { stdout } = await runTally(['help']);
    const listed = stdout.split('\nHelp\n')[0];
    return [...listed.matchAll(/^ {2}([a-z-]+) /gm)].map((match) => match[1]);
}

describe('help', () => {
    test('SPEC 2: every command explains itself, and lists every option of its usage', async () => {
        const names = await commands();
        for (const name of ['serve', 'inc', 'get', 'series', 'event', 'completion']) assert.ok(names.includes(name));
        for (const name of names) {
            const asked = await runTally([name, '--help']);
            assert.equal(asked.code, 0, name);
            assert.equal((await runTally(['help', name])).stdout, asked.stdout);
            const usage = asked.stdout.slice(0, asked.stdout.indexOf('\n\n'));
            assert.match(usage, new RegExp(`^usage: tally ${name}`));
            const listed = new Set([...asked.stdout.matchAll(/^ {2}(--[a-z-]+)/gm)].map((match) => match[1]));
            for (const [option] of usage.matchAll(/--[a-z][a-z-]*/g)) assert.ok(listed.has(option), `${name}: ${option}`);
        }
    });

    test('unknown commands, topics and shells are exit 2', async () => {
        for (const args of [[], ['nothing'], ['help', 'nothing'], ['completion'], ['completion', 'csh']]) {
            assert.equal((await runTally(args)).code, 2, args.join(' '));
        }
    });
});

describe('standard output', () => {
    const shell = (script) => spawnSync('sh', ['-c', script, 'sh', TALLY_BIN], { encoding: 'utf8' });

    test('SPEC 2: output that could not be written is a failure, and says so', () => {
        for (const command of ['help', 'help settings', 'completion bash', '--version']) {
            const { status, stderr } = shell(`"$1" ${command} >/dev/full`);
            assert.deepEqual([status, stderr], [1, 'tally: the output could not be written: No space left on device\n'], command);
        }
    });

    test('a closed one is nobody who listens: nothing else takes its place', () => {
        assert.deepEqual(shell('"$1" help settings >&-').status, 0);
        const away = shell('"$1" get x --url http://127.0.0.1:1 --token x --tenant t --timeout 100ms >&- 2>&- <&-');
        assert.equal(away.status, 1);
    });
});

describe('completion', () => {
    let home;
    let env;
    before(() => {
        home = newDirectory('home');
        writeFileSync(path.join(home, 'events.ndjson'), '');
        env = { ...process.env, HOME: home, XDG_CONFIG_HOME: home, XDG_DATA_HOME: home,
            PATH: `${path.dirname(TALLY_BIN)}:${process.env.PATH}` };
    });
    after(() => removeDirectory(home));

    test('bash', async () => {
        const script = `source <(tally completion bash)
            try() { COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _tally; echo "\${COMPREPLY[*]}"; }
            try tally compl; try tally inc --ma; try tally inc --url ''; try tally check-config ev
            try tally completion ''; try tally help sett; try tally serve --config ev`;
        const { stdout } = await run('bash', ['--norc', '-c', script], { env, cwd: home });
        assert.deepEqual(stdout.split('\n'),
            ['completion', '--max', '', 'events.ndjson', 'bash zsh fish', 'settings', 'events.ndjson', '']);
        const all = await run('bash', ['-c', 'source <(tally completion bash); COMP_WORDS=(tally ""); COMP_CWORD=1; _tally; echo "${COMPREPLY[*]}"'], { env });
        for (const name of await commands()) assert.ok(all.stdout.split(/\s/).includes(name), name);
    });

    test('fish', { skip: !has('fish') && 'no fish here' }, async () => {
        writeFileSync(path.join(home, 'tally.fish'), (await runTally(['completion', 'fish'])).stdout);
        const complete = async (line) => {
            const script = `source ${home}/tally.fish; complete -C '${line}'`;
            return (await run('fish', ['--no-config', '-c', script], { env, cwd: home })).stdout;
        };
        assert.match(await complete('tally compl'), /^completion\ta script/);
        assert.match(await complete('tally inc --ma'), /^--max\trefuse/);
        assert.match(await complete('tally completion '), /^bash\t.*\nfish\t.*\nzsh\t/s);
        assert.match(await complete('tally check-config ev'), /^events.ndjson/);
        assert.doesNotMatch(await complete('tally get ev'), /events.ndjson/);
    });

    test('zsh', { skip: !(has('zsh') && has('tmux')) && 'no zsh or tmux here' }, async () => {
        writeFileSync(path.join(home, '_tally'), (await runTally(['completion', 'zsh'])).stdout);
        writeFileSync(path.join(home, '.zshrc'),
            `PS1='> '; fpath=(${home} $fpath); autoload -Uz compinit; compinit -u -d ${home}/dump; echo ready\n`);
        const socket = path.join(home, 'tmux');
        const tmux = (...args) => run('tmux', ['-S', socket, '-f', '/dev/null', ...args], { env: { ...env, ZDOTDIR: home } });
        const screen = async () => (await tmux('capture-pane', '-p', '-t', 'z')).stdout;
        await tmux('new-session', '-d', '-s', 'z', '-x', '120', '-y', '40', `cd ${home} && exec zsh -i`);
        try {
            await eventually('zsh', async () => /ready\n/.test(await screen()), { ms: 30000 });
            const type = async (keys, wanted) => {
                await tmux('send-keys', '-t', 'z', '-l', keys);
                await tmux('send-keys', '-t', 'z', 'Tab');
                await eventually(`${wanted} after ${keys}`, async () => (await screen()).includes(wanted), { ms: 30000 });
                await tmux('send-keys', '-t', 'z', 'C-u');
                await eventually('an empty line', async () => /(^|\n)>\n*$/.test(await screen()), { ms: 30000 });
            };
            await type('tally compl', '> tally completion');
            await type('tally inc --ma', '> tally inc --max');
            await type('tally check-config ev', 'tally check-config events.ndjson');
            await type('tally completion f', 'tally completion fish');
        } finally {
            await tmux('kill-server');
        }
    });
});

describe('the man page', () => {
    test('is made of every command, and mandoc finds nothing to say', { skip: !has('mandoc') && 'no mandoc here' }, async () => {
        const { stdout } = await runTally(['help', 'man']);
        for (const name of await commands()) assert.ok(stdout.includes(`.Ss tally ${name}\n`), name);
        const lint = spawnSync('mandoc', ['-Tlint', '-Wstyle'], { input: stdout, encoding: 'utf8' });
        assert.equal(lint.stdout + lint.stderr, '');
        const shown = spawnSync('mandoc', ['-Tascii'], { input: stdout, encoding: 'utf8' }).stdout.replace(/.\x08/g, '');
        assert.match(shown, /--max N\n\s+refuse, and exit 1/);
    });
});

const ROOT = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '../..');

describe('make install', { skip: process.env.TALLY_VARIANT !== 'release' && 'installs the release build' }, () => {
    test('puts program, library, header, pc file, man page and completions in place', async () => {
        const root = newDirectory('install');
        try {
            await run('make', ['-s', 'install', `DESTDIR=${root}`, 'PREFIX=/usr', 'SYSCONFDIR=/etc'], { cwd: ROOT });
            for (const file of ['bin/tally', 'include/tally.h', 'lib/libtally.a', 'lib/libtally.so', 'lib/pkgconfig/tally.pc',
                'share/man/man1/tally.1', 'share/bash-completion/completions/tally', 'share/zsh/site-functions/_tally',
                'share/fish/vendor_completions.d/tally.fish']) assert.ok(existsSync(path.join(root, 'usr', file)), file);
            assert.match(readFileSync(path.join(root, 'usr/share/zsh/site-functions/_tally'), 'utf8'), /^#compdef tally/);
        } finally {
            removeDirectory(root);
        }
    });
});
