// events.mjs -- sending events and reading what became of them.

import assert from 'node:assert/strict';

/** The two counters of seed 001 as it writes them, and others for what it only talks about. */
export const RULES = `
counters:
  - counterName: active_connections
    mode: persistent
    dimensions: [masterAccountId]
    floorAtZero: true
    rules:
      - on: account.connected
        op: increment
      - on: account.disconnected
        op: decrement
    idempotency:
      requireEventId: true
      scope: globalEventId
  - counterName: connects_total
    mode: persistent
    dimensions: [masterAccountId]
    floorAtZero: false
    rules:
      - on: account.connected
        op: increment
    idempotency:
      requireEventId: true
      scope: globalEventId
  - counterName: balance
    rules:
      - { on: account.connected, op: increment }
      - { on: account.disconnected, op: decrement }
  - counterName: present
    transition: { entity: [accountId] }
    rules:
      - { on: account.connected, op: increment }
      - { on: account.disconnected, op: decrement }
  - counterName: bytes
    rules:
      - { on: note.stored, op: increment, amount: payload.size }
  - counterName: notes
    rules:
      - { on: note.stored, op: increment }
`;

export function event(eventId, type = 'account.connected', more = {}) {
    return { eventId, type, dimensions: { masterAccountId: 'm1', accountId: 'a1' }, ...more };
}

/** POST of one event, an array, or text that is sent as it is. */
export function send(t, body, { query = '', type, headers = {} } = {}) {
    const all = type === undefined ? headers : { 'Content-Type': type, ...headers };
    return t.call('POST', `/api/events/${t.id}${query}`, { body, headers: all });
}

export async function applied(t, body, options) {
    const reply = await send(t, body, options);
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.body.result, 'APPLIED', reply.text);
    return reply.body;
}

export async function dropped(t, body, options) {
    const reply = await send(t, body, options);
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.body.result, 'DROPPED_DUPLICATE', reply.text);
    return reply.body;
}

/** What a rule counter of one dimension set stands at, as a number. */
export async function value(t, name, dimensions = {}) {
    const query = new URLSearchParams(Object.entries(dimensions).map(([key, text]) => [`dim.${key}`, text]));
    const reply = await t.call('GET', `${t.path(name, 'get')}?${query}`);
    assert.equal(reply.status, 200, reply.text);
    return Number(reply.body.net);
}

function history(t, what, query) {
    return t.call('GET', `/api/${what}/${t.id}?${new URLSearchParams(query)}`);
}

export const events = (t, query = {}) => history(t, 'events', query);
export const duplicates = (t, query = {}) => history(t, 'duplicates', query);

export function eventById(t, id) {
    return t.call('GET', `/api/events/${t.id}/${encodeURIComponent(id)}`);
}

async function all(read, member, t, query) {
    const records = [];
    let after;
    do {
        const page = await read(t, after ? { ...query, after } : query);
        assert.equal(page.status, 200, page.text);
        assert.deepEqual(Object.keys(page.body), [member, 'next']);
        records.push(...page.body[member]);
        after = page.body.next;
    } while (after);
    return records;
}

/** Every record, page by page. */
export const allEvents = (t, query = {}) => all(events, 'events', t, query);
export const allDuplicates = (t, query = {}) => all(duplicates, 'duplicates', t, query);

/** One figure of /metrics, of all lanes together. */
export async function metric(server, name) {
    const { text } = await server.call('GET', '/metrics');
    const found = [...text.matchAll(new RegExp(`^${name.replace(/[{}]/g, '\\$&')}(?:\\{lane="\\d+"\\})? (\\S+)$`, 'gm'))];
    assert.ok(found.length > 0, `no metric ${name}`);
    return found.reduce((sum, [, value]) => sum + Number(value), 0);
}

/** The window of `length` ms that a log leaves behind, by the rule itself: an event opens it, and so does the first at or after its end. */
function windowOf(log, length) {
    let window = { start: -Infinity, count: 0 };
    for (const { receivedAt } of log) {
        const at = Date.parse(receivedAt);
        if (at >= window.start + length) window = { start: at, count: 0 };
        window.count++;
    }
    return window;
}

/** A window that was read after the last event of the log: what it must show, however slow everything is (S0-20 to S0-23, S0-26, S0-29). */
export function expectWindow(window, log, length) {
    const { start, count } = windowOf(log, length);
    assert.deepEqual([window.windowStart, window.windowEnd], [start, start + length]);
    const over = window.currentValue === 0 && Date.now() >= window.windowEnd;
    if (!over) assert.equal(window.currentValue, count);
}
