// terminal.mjs -- a real terminal, by way of tmux: type keys, look at the screen, change its size.

import { execFile, spawnSync } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

import { eventually } from './pace.mjs';
import { newDirectory, removeDirectory } from './server.mjs';

const run = promisify(execFile);

export const hasTmux = spawnSync('tmux', ['-V']).status === 0;

export class Terminal {
    #folder = newDirectory('tmux');
    #env;

    constructor(env = {}) {
        this.#env = { ...process.env, LC_ALL: 'C.UTF-8', ...env };
    }

    #tmux(...args) {
        const socket = path.join(this.#folder, 'socket');
        return run('tmux', ['-S', socket, '-f', '/dev/null', ...args], { env: this.#env });
    }

    /** Starts a shell command; the screen stays when it ends. */
    async start(command, { columns = 100, rows = 30 } = {}) {
        await this.#tmux('new-session', '-d', '-s', 't', '-x', String(columns), '-y', String(rows),
            `${command}; echo "ended with $?"; sleep 600`);
    }

    async screen() {
        return (await this.#tmux('capture-pane', '-p', '-t', 't')).stdout;
    }

    async type(keys) {
        await this.#tmux('send-keys', '-t', 't', '-l', keys);
    }

    async press(key) {
        await this.#tmux('send-keys', '-t', 't', key);
    }

    async resize(columns, rows) {
        await this.#tmux('resize-window', '-t', 't', '-x', String(columns), '-y', String(rows));
    }

    /** The screen once it matches. */
    async shows(pattern, what = String(pattern)) {
        let last = '';
        try {
            return await eventually(what, async () => {
                last = await this.screen();
                return pattern.test(last) && last;
            }, { ms: 30000 });
        } catch (error) {
            throw new Error(`${error.message}; the screen is:\n${last}`);
        }
    }

    async close() {
        await this.#tmux('kill-server').catch(() => {});
        removeDirectory(this.#folder);
    }
}
