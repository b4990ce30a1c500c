// SPEC 12: databases that cannot be used, or not now: a clear sentence, an exit code or 503, nothing half made, and
// work goes on when it is over. No message holds the password.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { appendFileSync, chownSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { expectError, expectTriple } from './support/expect.mjs';
import { eventually } from './support/pace.mjs';
import { Database } from './support/postgres.mjs';
import { newDirectory, removeDirectory, runTally, Server, TOTAL } from './support/server.mjs';
import { SECRET } from './support/tokens.mjs';

const PASSWORD = 'pw/that@nobody:may see';
let database;
before(async () => (database = await Database.make()));
after(() => database?.stop());

const settingsOf = (dsn, schema, more = {}) => ({
    'store.kind': 'postgres', 'store.postgres.dsn': dsn, 'store.postgres.schema': schema, 'store.lanes': 2, 'store.postgres.unsafe': true, ...more });
const sets = (settings) => Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${value}`]);
const as = (role, dsn = database.dsn) => dsn.replace(`postgres:${Database.PASSWORD}`, `${role}:${encodeURIComponent(PASSWORD)}`);

/** What both commands that open a database say; both end with 1. */
async function refusal(settings) {
    const said = [];
    for (const args of [['migrate'], ['serve', '--listen', '127.0.0.1:0', '--set', `auth.jwtSecret=${SECRET}`]]) {
        const end = await runTally([...args, ...sets(settings)]);
        assert.equal(end.code, 1, end.stdout + end.stderr);
        for (const secret of [PASSWORD, encodeURIComponent(PASSWORD), Database.PASSWORD, 'nobody', 'may see'])
            assert.ok(!(end.stdout + end.stderr).includes(secret), end.stderr);
        said.push(end.stderr);
    }
    return said.join('\n');
}

const schemas = async () => (await database.sql("SELECT count(*) FROM pg_namespace WHERE nspname !~ '^pg_|^information|^public'")).trim();

/** A psql that does nothing but keep a connection. */
const hold = (at) => spawn('psql', ['-h', '127.0.0.1', '-p', String(at.port), '-U', 'many', '-d', 'postgres', '-X', '-c', 'SELECT pg_sleep(120)'], { stdio: 'ignore' });

/** Counts up to 1, does something to the database that is to be refused, undoes it, and counts on. */
async function interrupted(node, { hurt, heal, reads = 503 }) {
    const t = node.tenant('acme');
    expectTriple(await t.increment('views', TOTAL), 1);
    await hurt();
    try {
        await eventually('writes to be refused', async () => (await t.increment('probe', TOTAL)).status !== 200);
        for (let i = 0; i < 3; i++) expectError(await t.increment('views', TOTAL), 503, 'storage_unavailable');
        assert.equal((await t.get('views', TOTAL)).status, reads);
    } finally {
        await heal();
    }
    await eventually('writes to be taken', async () => (await t.increment('probe', TOTAL)).status === 200, { ms: 30000 });
    expectTriple(await t.increment('views', TOTAL), 2);
    assert.ok(!node.stderr.includes(PASSWORD) && !node.stderr.includes(Database.PASSWORD), 'the log has no password');
}

describe('a database that cannot be used', () => {
    test('SPEC 12: an address that cannot be read, and one that leads nowhere', async () => {
        const before = await schemas();
        assert.match(await refusal(settingsOf(`postgresql://u:${PASSWORD}@127.0.0.1:1/x`, 'a')), /store\.postgres\.dsn is not a connection string/);
        assert.match(await refusal(settingsOf(`postgresql://u:nobody@may@127.0.0.1/x`, 'a')), /store\.postgres\.dsn is not a connection string/);
        assert.match(await refusal(settingsOf(`password='nobody hst=127.0.0.1`, 'a')), /store\.postgres\.dsn is not a connection string/);
        assert.match(await refusal(settingsOf(`hst=127.0.0.1 password=nobody`, 'a')), /store\.postgres\.dsn is not a connection string/);
        assert.match(await refusal(settingsOf(database.dsn.replace(/:\d+\/postgres/, ':1/postgres'), 'a')), /cannot reach the database: .*refused/);
        assert.match(await refusal(settingsOf(database.dsn.replace(/postgres$/, 'nowhere'), 'a')), /database "nowhere" does not exist/);
        assert.equal(await schemas(), before);
    });

    test('SPEC 12: a wrong password, at the start and while it serves', async () => {
        await database.sql("CREATE ROLE locked LOGIN BYPASSRLS PASSWORD 'right'; GRANT CREATE ON DATABASE postgres TO locked");
        const hba = path.join(database.directory, 'data/pg_hba.conf');
        const open = readFileSync(hba, 'utf8');
        writeFileSync(hba, `host all locked 127.0.0.1/32 scram-sha-256\n${open}`);
        await database.sql('SELECT pg_reload_conf()');
        assert.match(await refusal(settingsOf(as('locked'), 'locked')), /cannot reach the database: .*password authentication failed for user "locked"/);
        await database.sql(`ALTER ROLE locked PASSWORD '${PASSWORD}'`);
        const node = new Server({ settings: settingsOf(as('locked'), 'locked') });
        try {
            await node.start();
            await interrupted(node, {
                hurt: () => database.sql("ALTER ROLE locked PASSWORD 'other'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'locked'"),
                heal: () => database.sql(`ALTER ROLE locked PASSWORD '${PASSWORD}'`),
            });
        } finally {
            await node.stop();
            writeFileSync(hba, open);
            await database.sql('SELECT pg_reload_conf()');
        }
    });

    test('SPEC 12: a role that may not make a schema; a schema that it was given is enough', async () => {
        await database.sql('CREATE ROLE guest LOGIN BYPASSRLS');
        assert.match(await refusal(settingsOf(as('guest'), 'guest')), /cannot make the schema: permission denied for database postgres/);
        await database.sql('CREATE SCHEMA guest AUTHORIZATION guest');
        const end = await runTally(['migrate', ...sets(settingsOf(as('guest'), 'guest'))]);
        assert.equal(end.code, 0, end.stderr);
        await database.sql('CREATE SCHEMA theirs');
        assert.match(await refusal(settingsOf(as('guest'), 'theirs')), /permission denied for schema theirs/);
    });

    test('SPEC 12: a role that lost a right while it serves', async () => {
        await database.sql('CREATE ROLE loser LOGIN BYPASSRLS; CREATE SCHEMA loser AUTHORIZATION loser');
        const node = new Server({ settings: settingsOf(as('loser'), 'loser') });
        try {
            await node.start();
            await interrupted(node, {
                hurt: () => database.sql('REVOKE USAGE ON SCHEMA loser FROM loser'),
                heal: () => database.sql('GRANT USAGE ON SCHEMA loser TO loser'),
            });
        } finally {
            await node.stop();
        }
    });

    test('SPEC 12: a table that is missing is said, and nothing is counted past it', async () => {
        const node = new Server({ settings: settingsOf(database.dsn, 'lost') });
        try {
            await node.start();
            await interrupted(node, {
                hurt: () => database.sql('ALTER TABLE lost.cells RENAME TO cells_away'),
                heal: () => database.sql('ALTER TABLE lost.cells_away RENAME TO cells'),
            });
            assert.match(node.stderr, /relation .*cells.* does not exist/);
        } finally {
            await node.stop();
        }
        await database.sql('CREATE SCHEMA other; CREATE TABLE other.meta (key text, value bytea)');
        assert.match(await refusal(settingsOf(database.dsn, 'other')), /the schema other is not one that tally made/);
    });

    test('SPEC 12: a server that is read-only, at the start and while it serves', async () => {
        const readOnly = (on) => database.sql(`ALTER ROLE reader_only SET default_transaction_read_only = ${on};
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader_only'`);
        await database.sql('CREATE ROLE reader_only LOGIN BYPASSRLS; CREATE SCHEMA reader_only AUTHORIZATION reader_only');
        await readOnly('on');
        assert.match(await refusal(settingsOf(as('reader_only'), 'reader_only')), /takes no writes of this role: default_transaction_read_only is on/);
        await readOnly('off');
        const node = new Server({ settings: settingsOf(as('reader_only'), 'reader_only') });
        try {
            await node.start();
            await interrupted(node, { hurt: () => readOnly('on'), heal: () => readOnly('off'), reads: 200 });
            assert.match(node.stderr, /read-only transaction/);
        } finally {
            await node.stop();
        }
    });

    test('SPEC 12: another encoding is refused; another collation changes no order', async () => {
        await database.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
        assert.match(await refusal(settingsOf(database.dsn.replace(/postgres$/, 'latin'), 'a')), /encoding is LATIN1; tally needs UTF8/);
        await database.sql("CREATE DATABASE sorted ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-u-ks-level1-kn' TEMPLATE template0");
        const node = new Server({ settings: settingsOf(database.dsn.replace(/postgres$/, 'sorted'), 'tally') });
        try {
            await node.start();
            const t = node.tenant('acme');
            const names = ['b', 'B', 'a10', 'a9', 'A', '_', '~', 'a', '-', '.x'];
            for (const name of names) expectTriple(await t.increment(name, TOTAL), 1);
            const { body } = await t.call('GET', '/api/counters/acme?limit=1000');
            assert.deepEqual(body.counters.map(({ name }) => name), [...names].sort());
            const shown = await database.sql('SELECT name FROM tally.counters ORDER BY name', 60, 'sorted');
            assert.deepEqual(shown.trim().split('\n'), [...names].sort());
        } finally {
            await node.stop();
        }
    });
});

describe('a server without room', () => {
    test('SPEC 12: max_connections reached, at the start and while it serves', async () => {
        const small = await Database.make({ settings: { max_connections: 8, superuser_reserved_connections: 3 } });
        const held = [];
        try {
            await small.sql('CREATE ROLE many LOGIN BYPASSRLS; CREATE ROLE few LOGIN BYPASSRLS; CREATE SCHEMA few AUTHORIZATION few');
            const full = async () => {
                for (let i = 0; i < 8; i++) held.push(hold(small));
                await eventually('all connections to be taken', async () => {
                    const taken = Number(await small.sql("SELECT count(*) FROM pg_stat_activity WHERE usename IN ('many', 'few')"));
                    if (taken < 5) held.push(hold(small));
                    return taken >= 5;
                });
            };
            const free = async () => {
                for (const each of held.splice(0)) each.kill();
                await small.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'many'");
            };
            await full();
            assert.match(await refusal(settingsOf(as('few', small.dsn), 'few')), /cannot reach the database: .*(remaining connection slots|too many clients)/);
            await free();
            const node = new Server({ settings: settingsOf(as('few', small.dsn), 'few', { 'store.postgres.connections': 2, 'store.postgres.readConnections': 1 }) });
            try {
                await node.start();
                await interrupted(node, {
                    hurt: async () => {
                        await full();
                        await small.sql("ALTER ROLE few CONNECTION LIMIT 0; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'few'");
                        await full();
                        await small.sql('ALTER ROLE few CONNECTION LIMIT -1');
                    },
                    heal: free,
                });
            } finally {
                await node.stop();
            }
        } finally {
            for (const each of held) each.kill();
            await small.stop();
        }
    });

    const mountPoint = newDirectory('pgdisk');
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=40m', 'tmpfs', mountPoint]).status === 0;
    after(() => {
        if (mounted) spawnSync('umount', [mountPoint]);
        removeDirectory(mountPoint);
    });

    test('SPEC 12: a full disk', { skip: !mounted && 'cannot mount a tmpfs here' }, async () => {
        const { uid, gid } = statSync(path.join(database.directory, 'data'));
        const filler = path.join(mountPoint, 'filler');
        chownSync(mountPoint, uid, gid);
        await database.sql(`CREATE TABLESPACE small LOCATION '${mountPoint}'`);
        await database.sql('CREATE DATABASE narrow TABLESPACE small TEMPLATE template0');
        const dsn = database.dsn.replace(/postgres$/, 'narrow');
        const fill = () => {
            try {
                for (;;) appendFileSync(filler, Buffer.alloc(1 << 16));
            } catch (error) {
                assert.equal(error.code, 'ENOSPC');
            }
        };
        await database.sql('SELECT 1', 60, 'narrow'); // its first session writes a file
        fill();
        assert.match(await refusal(settingsOf(dsn, 'full')), /cannot make the schema: .*No space left on device/);
        rmSync(filler);
        assert.equal((await database.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'full'", 60, 'narrow')).trim(), '0');
        const node = new Server({ settings: settingsOf(dsn, 'full') });
        try {
            await node.start();
            const t = node.tenant('acme');
            let counted = 0;
            const write = async () => {
                const ops = Array.from({ length: 500 }, (_, i) => ({ op: 'increment', name: `c${counted}-${i}-${'x'.repeat(200)}`, ...TOTAL }));
                const reply = await t.call('POST', '/api/counters/acme/batch', { body: { ops, atomic: true } });
                if (reply.status === 200) counted++;
                return reply;
            };
            assert.equal((await write()).status, 200);
            fill();
            let reply;
            for (let i = 0; i < 200 && (reply = await write()).status === 200;);
            expectError(reply, 503, 'storage_unavailable');
            assert.equal((await t.get(`c0-0-${'x'.repeat(200)}`, TOTAL)).status, 200, 'reads go on');
            rmSync(filler);
            await eventually('writes to be taken', async () => (await write()).status === 200, { ms: 30000 });
            const cells = await database.sql('SELECT count(*), count(DISTINCT name) FROM "full".counters', 60, 'narrow');
            assert.equal(cells.trim(), `${counted * 500}|${counted * 500}`, 'each batch that was acknowledged is there, and no part of another');
        } finally {
            rmSync(filler, { force: true });
            await node.stop();
            await database.sql('DROP DATABASE narrow');
            await database.sql('DROP TABLESPACE small');
        }
    });
});

describe('texts that PostgreSQL does not take', () => {
    let node;
    before(async () => {
        node = new Server({
            settings: settingsOf(database.dsn, 'texts'),
            config: 'counters:\n  - { counterName: noted, dimensions: [note], rules: [{ on: note, op: increment }] }\n',
        });
        await node.start();
    });
    after(() => node?.stop());

    const TEXTS = ['\u0000', 'a\u0000b\u0000', '\u007f\u0001\u001f', '\\u0000', '\\', '"', "'); DROP SCHEMA texts; --", 'é\u{10ffff}\ufffe', '\u2028', 'x'.repeat(9600)];

    test('SPEC 12: ids, types, dimensions and payloads of any text come back as they were sent', async () => {
        const t = node.tenant('acme');
        for (const [i, text] of TEXTS.entries()) {
            const small = text.slice(0, 240);
            const sent = { eventId: `${i}${small}`, type: 'note', dimensions: { note: text }, payload: { [small]: [small, 1.0e5] } };
            const reply = await t.call('POST', '/api/events/acme', { body: sent });
            assert.equal(reply.status, 200, reply.text);
            assert.equal((await t.call('POST', '/api/events/acme', { body: sent })).body.result, 'DROPPED_DUPLICATE');
            assert.equal((await t.call('POST', '/api/events/acme', { body: { ...sent, payload: {} } })).body.conflict, true);
        }
        const { events } = (await t.call('GET', '/api/events/acme?limit=1000')).body;
        assert.deepEqual(events.map((event) => [event.eventId, event.dimensions.note, event.payload]),
            TEXTS.map((text, i) => [`${i}${text.slice(0, 240)}`, text, { [text.slice(0, 240)]: [text.slice(0, 240), 1e5] }]));
        const { cells } = (await t.call('GET', '/api/counters/acme/noted/cells?limit=1000')).body;
        assert.deepEqual(new Set(cells.map((cell) => cell.dimensions.note)), new Set(TEXTS));
        for (const text of TEXTS) {
            const query = new URLSearchParams({ 'dim.note': text });
            expectTriple(await t.call('GET', `/api/counters/acme/noted/get?${query}`), 1);
        }
    });

    test('SPEC 6, 12: a payload is kept and compared in the order in which it was sent, which jsonb would change', async () => {
        const t = node.tenant('exact');
        const send = (payload) => t.call('POST', '/api/events/exact', { body: `{"eventId":"e","type":"t","occurredAt":"2026-01-01T00:00:00Z","payload":${payload}}` });
        const kept = '{"b":1.0,"a":2,"text":"\\u0000"}';
        assert.equal((await send(kept)).status, 200);
        assert.equal((await send(kept.replaceAll(',', ' , '))).body.conflict, undefined, 'white space aside');
        assert.equal((await send('{"a":2,"b":1.0,"text":"\\u0000"}')).body.conflict, true);
        const reply = await t.call('GET', '/api/events/exact');
        assert.ok(reply.text.includes(kept), reply.text);
    });

    test('SPEC 12: dimensions of almost 16 KiB are kept', async () => {
        const t = node.tenant('large');
        const note = 'é\u0001'.repeat(1400) + 'y'.repeat(4000);
        assert.equal((await t.call('POST', '/api/events/large', { body: { eventId: 'e', type: 'note', dimensions: { note } } })).status, 200);
        assert.deepEqual((await t.call('GET', '/api/counters/large/noted/cells')).body.cells.map((cell) => cell.dimensions.note), [note]);
        assert.equal((await t.call('GET', '/api/events/large')).body.events[0].dimensions.note, note);
    });
});
