// shapes.js -- what is sent and what comes back, as JavaScript values.

import { take } from './options.js';
import { invalid } from './transport.js';

const OF_NODE_18 = 'node:crypto'; // not a literal below: bundlers for browsers would look for it
const crypto = globalThis.crypto ?? (await import(OF_NODE_18)).webcrypto;

/** A random idempotency key, of 128 bits. Not randomUUID(): browsers have that only on pages that came by https. */
export const randomKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/** 64-bit values travel as decimal strings. */
function integer(value, what) {
    if (typeof value === 'bigint') return value.toString();
    if (Number.isSafeInteger(value)) return String(value);
    throw invalid(`${what} must be a bigint or a safe integer`);
}

export function time(value) {
    if (value === undefined) return new Date().toISOString();
    if (value instanceof Date) {
        if (Number.isNaN(value.getTime())) throw invalid('the date is not valid');
        return value.toISOString();
    }
    if (typeof value === 'string') return value;
    throw invalid('a time must be a Date or a string');
}

export const triple = ({ net, added, subbed }) => ({ net: BigInt(net), added: BigInt(added), subbed: BigInt(subbed) });

/** Which buckets: a duration, or a calendar's in a zone. The server says what is wrong with both. */
export function granularity({ durationSeconds, bucket, zone }) {
    if (bucket === undefined && zone === undefined) return { durationSeconds: durationSeconds ?? 0 };
    return Object.fromEntries(Object.entries({ durationSeconds, bucket, zone }).filter(([, value]) => value !== undefined));
}

/** The beginning of the bucket that it is now: a repeat with its key is then the same request. A calendar's is the
 *  server's to know. */
function bucketNow({ durationSeconds, bucket, zone }) {
    if (bucket !== undefined || zone !== undefined) return new Date().toISOString();
    if (!Number.isInteger(durationSeconds) || durationSeconds < 0) throw invalid('durationSeconds must be a whole number');
    const ms = durationSeconds * 1000;
    return new Date(ms ? Math.floor(Date.now() / ms) * ms : 0).toISOString();
}

/** A change as the body of its call. */
export function changeBody(op, value, { timestamp, expiresAt, max, ...where } = {}) {
    const kept = granularity(where);
    const body = { ...kept, timestamp: timestamp === undefined ? bucketNow(kept) : time(timestamp) };
    body[op === 'set' ? 'targetValue' : 'amount'] = integer(value, op === 'set' ? 'the value' : 'amount');
    if (expiresAt !== undefined) body.expiresAt = time(expiresAt);
    if (max !== undefined) body.max = integer(max, 'max');
    return body;
}

export function eventBody(event) {
    const { eventId = randomKey(), type, occurredAt, dimensions, payload } = take('an event', event);
    if (typeof type !== 'string' || !type) throw invalid('an event needs a type');
    const body = { eventId, type };
    if (occurredAt !== undefined) body.occurredAt = time(occurredAt);
    if (dimensions !== undefined) body.dimensions = dimensions;
    if (payload !== undefined) body.payload = payload;
    return body;
}

/** What a change or an event came to, from its result. */
export const readValue = (body, replayed) => ({ ...triple(body), replayed });
export const readEvent = (body) => ({
    id: body.id === undefined ? undefined : BigInt(body.id),
    eventId: body.eventId,
    duplicate: body.result === 'DROPPED_DUPLICATE',
    conflict: body.conflict === true,
    firstSeenAt: body.firstSeenAt === undefined ? undefined : new Date(body.firstSeenAt),
    counters: body.counters ?? 0,
});
