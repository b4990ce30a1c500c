// The API as it describes itself (SPEC 10): the document is valid and the committed one,
// every documented request is sent, every documented status is provoked, and every reply is what the
// document says. A call that is not tried here fails the last test.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { checkDocument, Contract, exampleRequest, FILE } from './support/contract.mjs';
import { onDisk } from './support/exceptions.mjs';
import { eventually } from './support/pace.mjs';
import { requestText } from './support/raw.mjs';
import { newDirectory, removeDirectory, runTally, serverFor, TOTAL } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const contract = new Contract();

const RULES = `
counters:
  - counterName: page_views
    mode: series
    granularities: [0, 3600]
    dimensions: [page]
    rollups: [[]]
    rules: [{ on: page.viewed, op: increment }]
  - counterName: views_1h
    mode: windowed
    window: 1h
    trailing: true
    dimensions: [page]
    rollups: [[]]
    rules: [{ on: page.viewed, op: increment }]
  - counterName: views_total
    group: usage
    limit: 10
    rules: [{ on: page.viewed, op: increment }]
  - { counterName: views_by_page, dimensions: [page], rules: [{ on: page.viewed, op: increment }] }
statuses:
  Provisioned: active
reconcile:
  - { name: by_page, tenants: all, entity: [page], source: { events: true }, counters: [views_by_page] }
`;
const RETIRED = `
  - counterName: retired
    rules: [{ on: page.viewed, op: increment }]
`;
const withRetired = RULES.replace('statuses:', `${RETIRED.slice(1)}statuses:`);

const TENANT = 'contract';
const admin = tokenFor('operator', { scope: 'admin' });
const replica = tokenFor('operator', { scope: 'replica' });
const tokenOf = (call) => ({ none: undefined, admin, replica })[call['x-scope']] ?? (call['x-scope'] === 'none' ? undefined : tokenFor(TENANT));
/** What followers ask can only succeed with a store's own hashes: follow.test.mjs tries it. */
const isFollowing = (call) => call.tags[0] === 'Following';

const ops = newDirectory('ops');
after(() => removeDirectory(ops));
const server = serverFor({ config: withRetired, settings: { 'limits.bodyBytes': '64KiB', 'limits.tenantCells': 100, 'ops.dir': ops } });

/** Sends, and holds the reply against what the call describes. A stream is let go after its first words. */
async function send(call, { method, target, headers = {}, body }, token = tokenOf(call)) {
    const all = { ...headers, ...(token && { Authorization: `Bearer ${token}` }) };
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    const aborter = new AbortController();
    const reply = await fetch(server.url + target, { method, headers: all, body: text, signal: aborter.signal });
    let said;
    if (reply.headers.get('content-type')?.startsWith('text/event-stream')) {
        const reader = reply.body.getReader();
        said = Buffer.from((await reader.read()).value).toString();
        aborter.abort();
    } else {
        said = await reply.text();
    }
    const parsed = reply.headers.get('content-type')?.startsWith('application/json') ? JSON.parse(said) : undefined;
    return contract.checkReply(call, { status: reply.status, headers: reply.headers, text: said, body: parsed });
}

async function expect(status, operationId, over = {}, token) {
    const call = contract.find(operationId);
    const request = { ...exampleRequest(call, TENANT, { all: over.all ?? false, over: over.parameters }), ...over };
    const reply = await send(call, request, token);
    assert.equal(reply.status, status, `${operationId}: ${reply.text}`);
    return reply;
}

const reload = () => expect(200, 'reload');

/** Until no job of that type is under way. */
const jobDone = (type) => eventually(`every ${type} to end`, async () => {
    const jobs = await Promise.all(Array.from({ length: 16 }, (_, i) => i + 1).map((id) => server.call('GET', `/api/admin/jobs/${id}`, { token: admin })));
    return jobs.every(({ body }) => body.type !== type || body.state === 'done');
}, { ms: 30000 });

/** What has to be there before a call's example can succeed. */
const BEFORE = {
    forget: async () => {
        server.writeConfig(RULES);
        await reload();
    },
    duplicates: () => expect(200, 'events'),
    import: async () => {
        await server.call('POST', '/api/admin/exports', { token: admin, body: { name: 'all.ndjson.zst' } }); // unless it is there
        await jobDone('export');
    },
    exportRemove: async () => {
        await expect(202, 'export', { body: { name: 'taken' } });
        await jobDone('import');
        await jobDone('export');
    },
    backupList: () => jobDone('backup'),
    backupRemove: async () => {
        await expect(202, 'backup', { body: { name: 'taken' } });
        await jobDone('backup');
    },
};

describe('the document', () => {
    test('is valid OpenAPI 3.1, and its examples are what its schemas say', async () => {
        await checkDocument(contract.api);
        for (const call of contract.calls) contract.checkExamples(call);
    });

    test('is what the server serves, what `tally help openapi` prints and what is committed; so is docs/http.md', async () => {
        const committed = readFileSync(FILE, 'utf8');
        const { text } = await server.call('GET', '/openapi.json');
        const { stdout } = await runTally(['help', 'openapi']);
        const stale = 'docs/openapi.json is stale: run `make docs`';
        assert.ok(text === committed, stale);
        assert.ok(stdout === committed, stale);
        const reference = execFileSync(`${ROOT}scripts/http-reference.mjs`, { input: committed, encoding: 'utf8' });
        assert.ok(reference === readFileSync(`${ROOT}docs/http.md`, 'utf8'), 'docs/http.md is stale: run `make docs`');
    });
});

const leftOut = (operationId) => ['backup', 'backupRemove'].includes(operationId) && onDisk('backups');

describe('every documented request', () => {
    for (const call of contract.calls.filter((one) => !isFollowing(one))) {
        const medias = Object.keys(call.requestBody?.content ?? { none: {} });
        test(`${call.method} ${call.path} (${call.operationId})`, { skip: leftOut(call.operationId) }, async () => {
            await BEFORE[call.operationId]?.();
            for (const media of medias) {
                const reply = await send(call, exampleRequest(call, TENANT, { media }));
                assert.ok(reply.status < 300, `${call.operationId} ${media}: ${reply.text}`);
            }
            if (call.method === 'get') await send(call, exampleRequest(call, TENANT, { all: false }));
        });
    }
});

const change = { durationSeconds: 0, timestamp: 0 };
const managed = { parameters: { name: 'page_views' } };

/** [status, call, what differs from its example] */
const PROVOKED = [
    [400, 'increment', { body: { ...change, amount: 0 } }],
    [400, 'decrement', { body: { ...change, amount: '1.5' } }],
    [400, 'incrementSync', { body: [] }],
    [400, 'decrementSync', { body: '{' }],
    [400, 'set', { body: change }],
    [409, 'increment', { body: { ...change, amount: 2, max: 1 } }],
    [409, 'increment', managed],
    [409, 'decrement', { body: { ...change, timestamp: 0, durationSeconds: 7 } }],
    [409, 'incrementSync', managed],
    [409, 'decrementSync', { body: { ...change, durationSeconds: 7 } }],
    [409, 'set', managed],
    [400, 'get', { target: `/api/counters/${TENANT}/visits/get?durationSeconds=x&timestamp=0` }],
    [404, 'get', { target: `/api/counters/${TENANT}/nothing/get?durationSeconds=0&timestamp=0` }],
    [400, 'sumRange', { target: `/api/counters/${TENANT}/visits/sumRange?durationSeconds=60&startTime=2&endTime=1` }],
    [400, 'series', { target: `/api/counters/${TENANT}/views_total/series?durationSeconds=0&startTime=0&endTime=1` }],
    [400, 'batch', { body: { ops: 1 } }],
    [409, 'batch', { body: { atomic: true, ops: [{ op: 'decrement', name: 'nothing', ...change }] } }],
    [400, 'query', { body: [] }],
    [400, 'list', { target: `/api/counters/${TENANT}?limit=0` }],
    [400, 'delete', { target: `/api/counters/${TENANT}/a%20b` }],
    [404, 'delete', { parameters: { name: 'nothing' } }],
    [409, 'delete', managed],
    [400, 'cells', { target: `/api/counters/${TENANT}/page_views/cells?sort=x` }],
    [404, 'cells', { parameters: { name: 'nothing' } }],
    [400, 'events', { body: { type: 'page.viewed' } }],
    [413, 'events', { body: { eventId: 'large', type: 'page.viewed', payload: 'x'.repeat(20000) } }],
    [400, 'eventList', { target: `/api/events/${TENANT}?after=!` }],
    [400, 'event', { target: `/api/events/${TENANT}/%zz` }],
    [404, 'event', { parameters: { eventId: 'nobody' } }],
    [400, 'busiest', { target: `/api/busiest/${TENANT}?limit=0` }],
    [400, 'duplicates', { target: `/api/duplicates/${TENANT}?from=x` }],
    [400, 'windows', { target: `/api/windows/${TENANT}?dim.nobody=1` }],
    [400, 'stream', { target: `/api/stream/${TENANT}?dim.a=%zz` }],
    [404, 'asset', { parameters: { name: 'nothing.js' } }],
    [400, 'reconcileRequest', { body: { page: null } }],
    [400, 'backupList', { target: '/api/admin/backups?limit=0' }],
    [400, 'exportList', { target: '/api/admin/exports?after=!' }],
    [404, 'reconcileRequest', { parameters: { name: 'nothing' } }],
    [400, 'reconcileRun', { body: [] }],
    [404, 'reconcileRun', { parameters: { name: 'nothing' } }],
    [400, 'reconcileDrift', { target: `/api/reconcile/${TENANT}/by_page/drift?limit=0` }],
    [404, 'reconcileDrift', { parameters: { name: 'nothing' } }],
    [404, 'reconcileStatus', { parameters: { name: 'nothing' } }],
    [400, 'lanes', { target: '/api/admin/lanes?limit=0' }],
    [400, 'tenants', { target: '/api/admin/tenants?limit=0' }],
    [400, 'rebuild', { body: [] }],
    [404, 'rebuild', { parameters: { name: 'nothing' } }],
    [400, 'forget', { target: '/api/admin/counters/a%20b' }],
    [404, 'forget', { parameters: { name: 'nothing' } }],
    [409, 'forget', managed],
    [404, 'job', { parameters: { id: '999' } }],
    [400, 'backup', { body: { name: '.hidden' } }],
    [409, 'backup', { body: { name: 'taken' } }],
    [400, 'export', { body: { name: 'a/b' } }],
    [409, 'export', { body: { name: 'taken' } }],
    [404, 'exportRemove', { parameters: { name: 'nothing' } }],
    [400, 'import', { body: {} }],
    [404, 'import', { body: { name: 'nothing' } }],
    [404, 'backupRemove', { parameters: { name: 'nothing' } }],
];

/** Documented, and tried elsewhere: [call, status, where]. */
const ELSEWHERE = [
    ['readyz', 503, 'disk-full.test.mjs'],
    ...(onDisk('backups') ? [['backup', 202, 'with files'], ['backup', 400, 'with files'], ['backupRemove', 200, 'with files']] : []),
    ['reconcileRequest', 409, 'unit/test_reconcile.c: a tenant has so many marks and no more'],
    ['reconcileRun', 409, 'reconcile.test.mjs: once retention has dropped events'],
    ['reconcileDrift', 409, 'reconcile.test.mjs: once retention has dropped events'],
    ['rebuild', 409, 'retention.test.mjs: what was counted must be older than the retention'],
];

const described = (call, status) => call.responses[status] !== undefined;

describe('every documented refusal', () => {
    for (const [status, operationId, over] of PROVOKED) {
        const skip = status === 400 && leftOut(operationId);
        test(`${operationId} ${status} ${JSON.stringify(over).slice(0, 60)}`, { skip }, () => expect(status, operationId, over));
    }

    test('401 without a token, 403 without the scope, 404 for a foreign tenant: every call that has them', async () => {
        for (const call of contract.calls) {
            const request = exampleRequest(call, TENANT, { all: false });
            const lesser = { read: 'write', write: 'read', admin: 'read write', replica: 'admin' }[call['x-scope']];
            const ask = async (status, token) => {
                if (!described(call, status)) return;
                const reply = await send(call, request, token);
                if (call.operationId !== 'metrics') assert.equal(reply.status, status, `${call.operationId}: ${reply.text}`);
            };
            await ask(401, 'nobody');
            await ask(403, tokenFor(TENANT, { scope: lesser }));
            if (call.path.includes('{tenantId}')) await ask(404, tokenFor('somebody-else'));
        }
    });

    test('409 for a position that this history does not contain: every read of a tenant', async () => {
        const reads = contract.calls.filter((call) => call.parameters.some(({ name }) => name === 'minSequence'));
        assert.ok(reads.length > 10);
        for (const call of reads) {
            assert.ok(described(call, 409), call.operationId);
            const asked = (minSequence) => send(call, exampleRequest(call, TENANT, { over: { minSequence } }));
            const lost = await asked('0-9223372036854775807');
            assert.deepEqual([lost.status, lost.body.code], [409, 'position_lost'], `${call.operationId}: ${lost.text}`);
            assert.equal((await asked('9')).status, 400, call.operationId);
            const reached = await asked('0-1');
            if (reached.status === 200) assert.match(reached.headers.get('Tally-Sequence'), /^0-\d+$/, call.operationId);
            else assert.notEqual(reached.body.code, 'position_lost', `${call.operationId}: the example may be gone by now`);
        }
    });

    test('413 for a body over limits.bodyBytes, 415 for its coding, 422 for a key used for something else', async () => {
        for (const call of contract.calls) {
            if (described(call, 415)) await expect(415, call.operationId, { body: '{}', headers: { 'Content-Encoding': 'br' } });
            if (described(call, 413)) await expect(413, call.operationId, { body: ' '.repeat(65537) });
            if (!described(call, 422)) continue;
            const headers = { 'Idempotency-Key': `twice-${call.operationId}` };
            const request = exampleRequest(call, TENANT, { all: false });
            await send(call, { ...request, headers });
            await expect(422, call.operationId, { headers, target: `${request.target}?_again=1` });
        }
    });

    test('400 for a parameter that nobody knows: every call but pages, whose address may carry what it likes', async () => {
        for (const call of contract.calls) {
            if (['page', 'asset'].includes(call.operationId)) continue;
            const request = exampleRequest(call, TENANT, { all: false });
            const target = `${request.target}${request.target.includes('?') ? '&' : '?'}nobody=1`;
            const reply = await expect(400, call.operationId, { target });
            assert.equal(reply.body.code, 'unknown_field');
        }
    });

    test('400 for a field that nobody knows: every call that takes an object of its own', async () => {
        for (const call of contract.calls) {
            if (!call.requestBody?.content['application/json']) continue;
            const { body } = exampleRequest(call, TENANT, { all: false });
            const reply = await expect(400, call.operationId, { body: { ...body, nobody: 1 } });
            assert.equal(reply.body.code, 'unknown_field');
        }
    });

    test('409 cell_limit for an event that would need a cell too many', async () => {
        const token = tokenFor('crowded');
        const call = contract.find('events');
        for (let page = 0; ; page++) {
            const body = { eventId: `p${page}`, type: 'page.viewed', dimensions: { page: `/${page}` } };
            const reply = await send(call, { method: 'POST', target: '/api/events/crowded', headers: { 'Content-Type': 'application/json' }, body }, token);
            if (reply.status === 409) break;
            assert.ok(page < 100);
        }
    });

    test('400 for a config that does not load', async () => {
        server.writeConfig('counters: [{ mode: nonsense }]');
        await expect(400, 'reload');
        server.writeConfig(RULES);
        await reload();
    });
});

describe('HEAD', () => {
    // Read again within a call, these say another thing.
    const CHANGING = ['metrics', 'usageHealth', 'lanes'];

    test('SPEC 3: works wherever GET does: the same head, no body, and the connection goes on', async () => {
        const raw = await server.raw();
        for (const call of contract.calls.filter((one) => one.method === 'get' && one.operationId !== 'stream')) {
            for (const token of [tokenOf(call), 'x']) {
                for (const accept of ['gzip', 'identity']) {
                    const { target } = exampleRequest(call, TENANT, { all: false });
                    const headers = { 'Accept-Encoding': accept };
                    for (const method of ['HEAD', 'GET', 'HEAD']) raw.write(requestText(method, target, { token, headers }));
                    const [first, get, last] = [await raw.reply({ head: true }), await raw.reply(), await raw.reply({ head: true })];
                    for (const head of [first, last]) {
                        assert.equal(head.status, get.status, target);
                        for (const one of [head, get]) for (const name of ['date', 'tally-sequence']) one.headers.delete(name);
                        if (CHANGING.includes(call.operationId)) for (const one of [head, get]) one.headers.delete('content-length');
                        assert.deepEqual(head.headers, get.headers, target);
                    }
                }
            }
        }
        raw.destroy();
    });

    test('SPEC 3: HEAD of a stream is its head, and ends', async () => {
        const raw = await server.raw();
        raw.write(requestText('HEAD', `/api/stream/${TENANT}`, { token: tokenFor(TENANT), headers: { Connection: 'close' } }));
        const said = await raw.closed();
        assert.match(said, /^HTTP\/1\.1 200 OK\r\n/);
        assert.match(said, /\r\nContent-Type: text\/event-stream/);
        assert.ok(said.endsWith('\r\n\r\n') && said.indexOf('\r\n\r\n') === said.length - 4);
    });
});

describe('too much at once', () => {
    const crowded = serverFor({ settings: { 'limits.tenantConnections': 1 } });
    const small = serverFor({
        config: RULES,
        settings: { 'limits.queueOps': 64, 'limits.tenantQueueOps': 32, 'limits.batchOps': 6, 'journal.segmentBytes': '1MiB' },
    });

    test('503 for a connection too many of one tenant', async () => {
        const held = { [TENANT]: await crowded.raw(), operator: await crowded.raw() };
        for (const [tenant, connection] of Object.entries(held)) {
            connection.write(requestText('GET', `/api/counters/${tenant}`, { token: tokenFor(tenant, { scope: 'admin' }) }));
            assert.equal((await connection.reply()).status, 200);
        }
        for (const call of contract.calls) {
            if (!described(call, 503) || call['x-scope'] === 'none' || call.operationId === 'metrics') continue;
            const request = exampleRequest(call, TENANT, { all: false });
            const reply = await crowded.call(request.method, request.target, { ...request, token: tokenOf(call) });
            assert.equal(reply.status, 503, reply.text);
            contract.checkReply(call, reply);
        }
        for (const connection of Object.values(held)) connection.destroy();
    });

    for (const call of contract.calls.filter((one) => described(one, 429))) {
        test(`429 for a full queue: ${call.operationId}`, async () => {
            const request = exampleRequest(call, TENANT, { all: false });
            const token = tokenFor(TENANT);
            const ops = Array.from({ length: 31 }, () => ({ op: 'increment', name: 'hog', ...TOTAL }));
            const hog = requestText('POST', `/api/counters/${TENANT}/batch?results=errors`, { token, body: { ops } });
            const mine = requestText(request.method, request.target, { ...request, token });
            await eventually('a 429', async () => {
                const connections = await Promise.all([small.raw(), small.raw(), small.raw()]);
                connections.forEach((one, index) => one.write((index ? hog : mine).repeat(100)));
                const replies = (await Promise.all(connections.map((one) => one.replies(100))))[0];
                connections.forEach((one) => one.destroy());
                for (const reply of replies) contract.checkReply(call, reply);
                return replies.some((reply) => reply.status === 429);
            }, { ms: 30000 });
        });
    }
});

describe('afterwards', () => {
    test('metrics asks for an admin token where it is told to', async () => {
        const call = contract.find('metrics');
        const { Server } = await import('./support/server.mjs');
        const shut = new Server({ settings: { 'metrics.public': false, 'limits.tenantConnections': 1 } });
        await shut.start();
        const ask = async (status, token) => {
            const reply = await shut.call('GET', '/metrics', { token });
            assert.equal(reply.status, status, reply.text);
            contract.checkReply(call, reply);
        };
        try {
            await ask(401);
            await ask(403, tokenFor(TENANT));
            const held = await shut.raw();
            held.write(requestText('GET', '/metrics', { token: admin }));
            assert.equal((await held.reply()).status, 200);
            await ask(503, admin);
            held.destroy();
        } finally {
            await shut.stop();
        }
    });

    test('nothing that is documented was left untried, but for what is tried elsewhere', () => {
        const elsewhere = ELSEWHERE.map(([operationId, status]) => `${operationId} ${status}`);
        const following = contract.calls.filter(isFollowing).map((call) => `${call.operationId} `);
        const tried = (one) => elsewhere.includes(one) || following.some((start) => one.startsWith(start));
        assert.deepEqual(contract.unseen().filter((one) => !tried(one)), []);
    });
});
