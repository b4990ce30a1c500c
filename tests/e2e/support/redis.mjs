// redis.mjs -- a redis-server of a test's own.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { eventually } from './pace.mjs';
import { RespClient } from './resp.mjs';

function freePort() {
    return new Promise((resolve, reject) => {
        const probe = net.createServer();
        probe.once('error', reject);
        probe.listen(0, '127.0.0.1', () => {
            const { port } = probe.address();
            probe.close(() => resolve(port));
        });
    });
}

/** A running server: `port`, `connect()`, `stop()`. `args` go to it as they are. */
export async function startRedis(...args) {
    const folder = mkdtempSync(join(tmpdir(), 'tally-redis-'));
    const port = await freePort();
    const child = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...args], { stdio: 'ignore' });
    const connect = () => RespClient.open(port);
    await eventually('redis-server to answer', async () => {
        try {
            const client = await connect();
            client.destroy();
            return true;
        } catch {
            return false;
        }
    });
    return {
        port,
        connect,
        stop: () => new Promise((resolve) => {
            child.once('exit', () => {
                rmSync(folder, { recursive: true, force: true });
                resolve();
            });
            child.kill('SIGKILL');
        }),
    };
}
