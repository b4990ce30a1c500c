// client-c.test.mjs -- libtally against the real server, also one that breaks; its README's example.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { eventually } from './support/pace.mjs';
import { Relay } from './support/relay.mjs';
import { newDirectory, removeDirectory, Server, TALLY_BIN, TOTAL } from './support/server.mjs';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SCENARIOS = path.join(path.dirname(TALLY_BIN), 'tests/libtally');
const CONFIG = 'counters:\n  - counterName: views\n    dimensions: [page]\n    rules: [{ on: page.viewed, op: increment }]\n';

describe('libtally', () => {
    const server = new Server({ config: CONFIG });
    const relay = new Relay(() => server.port);
    before(async () => {
        await server.start();
        await relay.start();
    });
    after(async () => {
        await relay.stop();
        await server.stop();
    });

    test('changes, reads, events, batches, errors: every call does what tally.h says', async () => {
        const { stdout } = await run(SCENARIOS, ['all', server.url, server.tenant().token]).catch((error) => error);
        assert.equal(stdout, 'all holds\n');
    });

    test('lost replies and a killed server: counted exactly once', async () => {
        const t = server.tenant();
        const count = 300;
        relay.delay = 2;
        const counting = run(SCENARIOS, ['count', relay.url, t.token, String(count)]).catch((error) => error);
        const net = async (name) => Number((await t.get(name, TOTAL)).body?.net ?? 0);
        await eventually('some counts', async () => (await net('single')) > 5, { every: 5 });
        relay.lose(3);
        await eventually('replies to be lost', () => relay.lost === 3, { every: 5 });
        await server.restart({ hard: true });
        relay.lose(3);
        relay.delay = 0;
        assert.equal((await counting).stdout, 'all holds\n');
        assert.deepEqual([await net('single'), await net('batched')], [count, count]);
    });

    test('the example of its README', { skip: process.env.TALLY_VARIANT !== 'release' && 'built once is enough' }, async () => {
        const folder = newDirectory('libtally');
        try {
            const [, example] = /```c\n([^]*?)```/.exec(readFileSync(path.join(ROOT, 'clients/c/README.md'), 'utf8'));
            writeFileSync(path.join(folder, 'example.c'), example);
            const root = path.join(folder, 'root');
            await run('make', ['-s', 'install', `DESTDIR=`, `PREFIX=${root}`, `SYSCONFDIR=${root}`], { cwd: ROOT });
            const env = { ...process.env, PKG_CONFIG_PATH: path.join(root, 'lib/pkgconfig'), LD_LIBRARY_PATH: path.join(root, 'lib') };
            await run('sh', ['-c', 'cc -Wall -Werror -o example example.c $(pkg-config --cflags --libs tally)'], { cwd: folder, env });
            await run('sh', ['-c', 'cc -o static example.c $(pkg-config --cflags tally) '
                + '$(pkg-config --variable=libdir tally)/libtally.a -lcurl -ljansson'], { cwd: folder, env });
            const t = server.tenant();
            for (const program of ['example', 'static', 'example', 'static']) {
                const { stdout } = await run(path.join(folder, program), [],
                    { env: { ...env, TALLY_URL: server.url, TALLY_TOKEN: t.token } });
                assert.match(stdout, /^(login \d of 3 this minute|not now: limit_exceeded)\n5000 counted\n$/);
            }
            assert.equal((await t.get('page-views', TOTAL)).body.net, '20000');
        } finally {
            removeDirectory(folder);
        }
    });
});
