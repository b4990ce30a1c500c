// resp-hold.test.mjs -- Redis's protocol under those who break things: bytes that are none of it, and kills.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { sleep, times, together } from './support/pace.mjs';
import { encode, many, ReplyError, RespClient, respPort, respServerFor } from './support/resp.mjs';
import { LARGE_COMMITS } from './support/server.mjs';

/** The same numbers in every run (mulberry32). */
function dice(seed) {
    let state = seed;
    const next = () => {
        state = (state + 0x6d2b79f5) | 0;
        let t = Math.imul(state ^ (state >>> 15), 1 | state);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    return (below) => Math.floor(next() * below);
}

const SECRET = '81985529216486895'; // what another tenant's counter holds
const LINES = ['GET secret', 'MGET secret n', 'TTL secret', 'SCAN 0 MATCH *', 'SET n 5 EX', 'EXPIRE n', 'INCREX n BYINT', 'MULTI', 'EXEC', 'TALLY.EVENT e t DIM',
    'TALLY.INCR n 1 ONCE', 'HELLO 3', 'AUTH other x', 'CLIENT INFO', 'COMMAND DOCS', 'INFO', 'RESET', 'SELECT 1', 'TALLY.SUM secret BUCKET 0 FROM 0 TO 0'];

/** A frame that began as a good one: bytes changed, cut out, doubled, lengths that lie. */
function malformed(roll) {
    const good = encode(LINES[roll(LINES.length)].split(' '));
    const bytes = [...(roll(4) === 0 ? Buffer.from(`${LINES[roll(LINES.length)]}\r\n`) : good)];
    for (let i = 1 + roll(4); i > 0; i--) {
        const at = roll(bytes.length);
        const way = roll(5);
        if (way === 0) bytes[at] = roll(256);
        else if (way === 1) bytes.splice(at, 1 + roll(5));
        else if (way === 2) bytes.splice(at, 0, ...bytes.slice(at, at + 1 + roll(9)));
        else if (way === 3) bytes.splice(at, 0, ...Buffer.from(['-1', '*0\r\n', '$-1\r\n', '99999999999', '\r\n', '\0', '"'][roll(7)]));
        else bytes[at] = 48 + roll(10);
        if (bytes.length === 0) bytes.push(13);
    }
    return Buffer.from(bytes);
}

describe('Redis\'s protocol holds', () => {
    const server = respServerFor({ settings: LARGE_COMMITS });

    test('SPEC 14: 10,000 malformed frames are errors or a close, never a crash, never another tenant\'s data', async () => {
        const victim = server.tenant();
        const t = server.tenant();
        const theirs = await server.connect(victim);
        await theirs.call('SET', 'secret', SECRET);
        const port = await respPort(server);
        const frames = times(10000);
        let closes = 0;
        await together(16, async (worker) => {
            const roll = dice(4711 + worker);
            let client = null;
            for (let i = 0; i < frames / 16; i++) {
                if (!client) {
                    client = await RespClient.open(port);
                    if (roll(8)) assert.equal(await client.call('AUTH', t.token), 'OK');
                }
                client.write(malformed(roll));
                if (roll(3)) continue;
                /* What is unfinished swallows this; then the connection is given up. */
                client.write(encode(['ECHO', `mark ${i}`]));
                for (let replies = 0; client; replies++) {
                    const reply = await Promise.race([client.reply().catch((error) => error), sleep(200).then(() => 'silence')]);
                    assert.ok(!JSON.stringify(reply instanceof ReplyError ? reply.message : String(reply)).includes(SECRET), 'another tenant\'s value');
                    if (reply === `mark ${i}`) break;
                    const over = reply === undefined || reply === 'silence' || reply instanceof Error;
                    if (over && !(reply instanceof ReplyError)) {
                        closes += reply === undefined;
                        client.destroy();
                        client = null;
                    }
                }
            }
            client?.destroy();
        });
        assert.ok(closes > 20, `${closes} connections were closed`);
        assert.equal(await theirs.call('GET', 'secret'), SECRET);
        assert.equal(await theirs.call('TTL', 'secret'), -1);
        assert.equal((await server.call('GET', '/readyz')).status, 200);
    });
});

describe('Redis\'s protocol over kills', () => {
    const server = respServerFor({ settings: LARGE_COMMITS });

    /** Sends commands until all are answered, again and again after each break, over as many connections as it takes. */
    async function insist(t, commands, stats) {
        let left = commands;
        while (left.length) {
            const client = await server.connect(t).catch(() => null);
            const replies = client ? await client.pipeline(left).catch(() => null) : null;
            client?.destroy();
            if (!replies) {
                stats.breaks++;
                await sleep(50);
                continue;
            }
            left = left.filter((_, i) => replies[i] === undefined || /^(BUSY|UNAVAILABLE)/.test(replies[i]?.error ?? ''));
            if (left.length) stats.breaks++;
        }
    }

    test('SPEC 14: kill -9 under load, with ONCE keys and retries, counts each once', async () => {
        const t = server.tenant();
        const stats = { breaks: 0 };
        const rounds = times(60, 20);
        const load = together(8, async (worker) => {
            for (let round = 0; round < rounds; round++) {
                await insist(t, many(50, (i) => ['TALLY.INCR', `n${i % 5}`, 1, 'ONCE', `${worker}/${round}/${i}`]), stats);
            }
        });
        for (let kills = 0; kills < 4; kills++) {
            await sleep(150);
            await server.restart({ hard: true });
        }
        await load;
        const client = await server.connect(t);
        assert.deepEqual(await client.call('MGET', ...many(5, (i) => `n${i}`)), many(5, () => String(8 * rounds * 10)));
        assert.ok(stats.breaks > 0, 'some connection broke under way');
    });

    test('SPEC 14: a stop answers the pipelines that are under way, and counts what it answered and nothing else', async () => {
        const t = server.tenant();
        const clients = await Promise.all(many(8, () => server.connect(t)));
        const bytes = Buffer.concat(many(500, () => encode(['INCR', 'n'])));
        let answered = 0;
        const readers = clients.map(async (client) => {
            for (let said; (said = await client.reply()) !== undefined; answered++) assert.equal(typeof said, 'number');
        });
        let stopping = false;
        const load = Promise.all(clients.map(async (client) => {
            for (; !stopping; await sleep(5)) client.write(bytes);
        }));
        await sleep(200);
        await server.restart();
        stopping = true;
        await Promise.all([load, ...readers]);
        assert.ok(answered > 0);
        assert.equal((await t.get('n')).body.net, String(answered));
    });
});

describe('Redis\'s protocol where a tenant may have little in the queue', () => {
    const server = respServerFor({
        settings: { 'limits.queueOps': 1000, 'limits.tenantQueueOps': 100, 'limits.batchOps': 100, 'limits.atomicOps': 100, 'limits.requestOps': 40 },
    });

    test('SPEC 14: a pipeline that is longer than the share goes in parts that fit', async () => {
        const client = await server.connect(server.tenant());
        assert.deepEqual(await client.pipeline(many(900, () => ['INCR', 'n'])), many(900, (i) => i + 1));
    });
});
