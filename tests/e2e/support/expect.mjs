// expect.mjs -- the fixed replies of the contract, said once.

import assert from 'node:assert/strict';

export const MAX = 9223372036854775807n;

export const NEGATIVE = {
    error: 'Operation failed due to constraint violation (e.g., counter cannot be negative)',
    code: 'constraint_violation',
};
export const OVERFLOW = {
    error: 'Operation resulted in an overflow (exceeded BIGINT capacity)',
    code: 'overflow',
};
export const QUEUE_FULL = {
    error: 'Service overloaded (Queue Full). Please retry later.',
    code: 'queue_full',
};
export const NOT_FOUND = { error: 'not found', code: 'not_found' };
export const UNAUTHORIZED = { error: 'unauthorized', code: 'unauthorized' };

export function triple(added, subbed = 0) {
    return { net: String(BigInt(added) - BigInt(subbed)), added: String(added), subbed: String(subbed) };
}

/** The sequence in a reply's Tally-Sequence, whose form is that of a server without a group. */
export function sequenceOf(reply) {
    const text = reply.headers.get('Tally-Sequence') ?? 'absent';
    assert.match(text, /^0-\d+$/, reply.text);
    return BigInt(text.slice(2));
}

/** 200 and exactly the three fields. */
export function expectTriple(reply, added, subbed = 0) {
    assert.equal(reply.status, 200, reply.text);
    assert.deepEqual(reply.body, triple(added, subbed));
}

/** A JSON error: a sentence and a stable code, nothing sent as anything else. */
export function expectError(reply, status, code) {
    assert.equal(reply.status, status, reply.text);
    assert.equal(typeof reply.body?.error, 'string', `no error sentence: ${reply.text}`);
    assert.ok(reply.body.error.length > 0);
    assert.match(reply.body.code, /^[a-z][a-z0-9_]*$/);
    if (code) assert.equal(reply.body.code, code, reply.text);
}

/** Exactly this error body. */
export function expectExactly(reply, status, body) {
    assert.equal(reply.status, status, reply.text);
    assert.deepEqual(reply.body, body);
}
