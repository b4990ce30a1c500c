// Reloading rules: POST /api/admin/reload and SIGHUP (SPEC 2 and 7).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { expectError, expectExactly } from './support/expect.mjs';
import { eventually, together } from './support/pace.mjs';
import { newId, rulesServer } from './support/rules.mjs';

const counter = (name, on, more = '') => `
  - counterName: ${name}
    rules: [{ on: ${on}, op: increment }]${more}`;
const config = (...counters) => `counters:${counters.length ? counters.join('') : ' []'}\n`;

describe('reload', () => {
    const { server, tenant, admin } = rulesServer(config(counter('first', 'a')));

    const post = () => admin().call('POST', '/api/admin/reload');
    async function reload(...counters) {
        server.writeConfig(config(...counters));
        expectExactly(await post(), 200, { reloaded: true });
    }

    test('SPEC 7: new counters count from then on, and are there after a restart', async () => {
        const t = tenant();
        await reload(counter('first', 'a'));
        await t.send('a', {});
        await reload(counter('first', 'a'), counter('second', 'a'));
        assert.equal(await t.net('second'), 0);
        await t.send('a', {});
        assert.deepEqual([await t.net('first'), await t.net('second')], [2, 1]);
    });

    test('SPEC 7: changed rules apply from the next batch', async () => {
        const t = tenant();
        await reload(counter('first', 'a'));
        await t.send('a', {});
        await reload(counter('first', 'b'));
        await t.send('a', {});
        await t.send('b', {});
        await t.send('b', {});
        assert.equal(await t.net('first'), 3);
    });

    test('SPEC 2: SIGHUP reloads too', async () => {
        const t = tenant();
        await reload(counter('first', 'a'));
        server.writeConfig(config(counter('first', 'a'), counter('by_signal', 'a')));
        server.signal('SIGHUP');
        await eventually('the new counter', async () => (await t.get('by_signal', {})).status === 200);
        await t.send('a', {});
        assert.equal(await t.net('by_signal'), 1);
    });

    test('a reload is logged the same whether it is asked for over HTTP or by SIGHUP, and so is one that fails', async () => {
        const good = counter('first', 'a');
        const lines = () => server.stderr.split('\n').filter((line) => /"msg":"(reloaded the config|the config was not reloaded)/.test(line)).map((line) => {
            const { level, msg, why } = JSON.parse(line);
            return { level, msg, why };
        });
        const asked = async (ask) => {
            const before = lines().length;
            await ask();
            await eventually('a line', () => lines().length > before);
            return lines().slice(before);
        };
        for (const text of [config(good), 'counters:\n  - counterName: broken\n    mode: sideways\n']) {
            server.writeConfig(text);
            const byHttp = await asked(post);
            assert.equal(byHttp.length, 1);
            assert.deepEqual(await asked(() => server.signal('SIGHUP')), byHttp);
        }
        await reload(good);
    });

    test('SPEC 7: a config that is not valid is 400 with line and column, and the rules stay', async () => {
        const t = tenant();
        await reload(counter('first', 'a'));
        server.writeConfig('counters:\n  - counterName: broken\n    mode: sideways\n');
        const reply = await post();
        expectError(reply, 400, 'invalid_config');
        assert.match(reply.body.error, /3:\d+/, reply.text);
        await t.send('a', {});
        assert.equal(await t.net('first'), 1);
        server.writeConfig('counters: [');
        expectError(await post(), 400, 'invalid_config');
    });

    test('SPEC 7: keys that cannot be read leave the rules as they were, too', async () => {
        const t = tenant();
        await reload(counter('first', 'a'));
        server.writeConfig(`${config(counter('first', 'a'), counter('sneaked', 'a'))}auth: { jwtPublicKeyFile: /nonexistent.pem }\n`);
        const reply = await post();
        expectError(reply, 400, 'invalid_config');
        assert.match(reply.body.error, /nonexistent\.pem/, reply.text);
        await t.send('a', {});
        assert.equal(await t.net('first'), 1);
        assert.notEqual((await t.get('sneaked', {})).status, 200);
    });

    test('SPEC 7: a name whose cells are of another mode is refused', async () => {
        const t = tenant();
        await reload(counter('first', 'a'), counter('moded', 'a'));
        await t.send('a', {});
        server.writeConfig(config(counter('first', 'a'), counter('moded', 'a', '\n    mode: windowed\n    window: 1h')));
        expectError(await post(), 400, 'invalid_config');
        assert.equal(await t.net('moded'), 1);
    });

    test('SPEC 7: a batch never sees two rule sets: both counters or one, for every event', async () => {
        const t = tenant();
        const pair = (a, b) => [counter('left', a), counter('right', b)];
        await reload(...pair('x', 'x'));
        let stop = false;
        let sent = 0;
        const senders = together(4, async () => {
            while (!stop) {
                const reply = await t.events({ eventId: newId(), type: 'x', dimensions: {} });
                assert.equal(reply.status, 200, reply.text);
                assert.ok([0, 2].includes(reply.body.counters), reply.text);
                sent += reply.body.counters / 2;
            }
        });
        for (let i = 0; i < 10; i++) await reload(...(i % 2 ? pair('x', 'x') : pair('y', 'y')));
        stop = true;
        await senders;
        assert.deepEqual([await t.net('left'), await t.net('right')], [sent, sent]);
    });

    test('SPEC 4: only an admin may', async () => {
        expectError(await tenant().call('POST', '/api/admin/reload'), 403, 'forbidden');
        assert.equal((await server.call('POST', '/api/admin/reload')).status, 401);
        assert.equal((await admin().call('GET', '/api/admin/reload')).status, 405);
    });

    test('SPEC 7: a removed counter stays readable after a restart, and counts on when it comes back', async () => {
        const t = tenant();
        await reload(counter('first', 'a'), counter('comes_back', 'a'));
        await t.send('a', {});
        await reload(counter('first', 'a'));
        await t.send('a', {});
        assert.equal(await t.net('comes_back'), 1);
        await reload(counter('first', 'a'), counter('comes_back', 'a'));
        await t.send('a', {});
        assert.equal(await t.net('comes_back'), 2);
    });
});
