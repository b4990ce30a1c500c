// What the dashboard works out by itself: rates, quantiles, numbers as text, tokens. No browser needed.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { bytes, duration, grouped, latency, short } from '../../web/src/format.js';
import { History, quantile } from '../../web/src/rates.js';
import { claimsOf, sessionFrom } from '../../web/src/session.js';
import { tokenFor } from '../e2e/support/tokens.mjs';

const totals = (applied, more = {}) => ({ since: 'then', applied: String(applied), duplicates: '0', refused: '0', throttled: '0', ...more });

describe('rates', () => {
    test('a rate is what was added over the span, also while nothing is said', () => {
        const history = new History(60000);
        history.add(1000, totals(0));
        history.add(2000, totals(10));
        history.add(3000, totals(30));
        assert.equal(history.rates(3000, 2000)[0], 15);
        assert.equal(history.rates(4000, 2000)[0], 10);
        assert.equal(history.rates(9000, 2000)[0], 0);
    });

    test('nothing is known of the time before the first sample, and little is no rate', () => {
        const history = new History(60000);
        assert.equal(history.rates(1000, 2000), null);
        history.add(10000, totals(500));
        assert.equal(history.rates(9999, 2000), null, 'before the first');
        assert.equal(history.rates(10100, 2000), null, 'just after it');
        history.add(11000, totals(510));
        assert.equal(history.rates(11000, 2000)[0], 10, 'over the one second that is known');
    });

    test('what came while nobody listened is no rate, neither zero nor a peak', () => {
        const history = new History(60000);
        history.add(1000, totals(0));
        history.add(5000, totals(8));
        history.lose(6000);
        history.add(20000, totals(9000));
        history.add(22000, totals(9010));
        assert.equal(history.rates(6000 - 1, 2000)[0] > 0, true, 'known until the loss');
        assert.equal(history.rates(6000, 2000), null);
        assert.equal(history.rates(19000, 2000), null);
        assert.equal(history.rates(20000, 2000), null);
        assert.equal(history.rates(22000, 2000)[0], 5);
        assert.deepEqual(history.buckets(19000, 2000), []);
    });

    test('totals beyond 2^53 lose nothing in between', () => {
        const history = new History(60000);
        history.add(1000, totals('9223372036854775800'));
        history.add(3000, totals('9223372036854775807'));
        assert.equal(history.rates(3000, 2000)[0], 3.5);
    });

    test('a server that counts anew makes no negative rate', () => {
        const history = new History(60000);
        history.add(1000, totals(500));
        history.add(2000, totals(3, { since: 'now' }));
        history.add(4000, totals(7, { since: 'now' }));
        assert.equal(history.rates(2000, 2000), null);
        assert.equal(history.rates(4000, 2000)[0], 2);
    });

    test('what is too old goes, but for one to start from', () => {
        const history = new History(5000);
        for (let at = 0; at <= 100000; at += 1000) history.add(at, totals(at / 1000));
        assert.equal(history.rates(100000, 4000)[0], 1);
        assert.equal(history.rates(100000, 90000)[0], 1, 'over the few seconds that are known');
    });
});

describe('quantiles', () => {
    test('none of nothing; within the bucket that holds it', () => {
        assert.equal(quantile([], 0.5), null);
        assert.equal(quantile([0, 0], 0.5), null);
        assert.ok(Math.abs(quantile([0, 0, 0, 4], 0.5) - 6e-5) < 1e-9, 'half way from 40 to 80 us');
        assert.ok(quantile([90, 0, 0, 0, 0, 10], 0.99) > 1.6e-4);
        assert.ok(Number.isFinite(quantile([...Array(24).fill(0), 1], 0.5)), 'beyond the last');
    });
});

describe('text', () => {
    test('numbers are grouped without being rounded', () => {
        assert.equal(grouped('9223372036854775807'), '9\u202f223\u202f372\u202f036\u202f854\u202f775\u202f807');
        assert.equal(grouped(-1234), '\u22121\u202f234');
        assert.equal(grouped('12'), '12');
        assert.deepEqual([0, 0.5, 42, 999, 1000, 12345, 999999, 4.5e6].map(short), ['0', '0.5', '42', '999', '1.0k', '12.3k', '1.0M', '4.5M']);
        assert.deepEqual(['0', '1023', '1024', '402653184'].map(bytes), ['0 B', '1023 B', '1.0 KiB', '384 MiB']);
    });

    test('lengths of time', () => {
        assert.deepEqual([0, 45, 60, 3600, 4800, 216000].map(duration), ['all time', '45 s', '1 min', '1 h', '1 h 20 min', '2 d 12 h']);
        assert.deepEqual([null, 0.00042, 0.0034, 0.25, 3].map(latency), ['\u2013', '420 \u00b5s', '3.4 ms', '250 ms', '3.0 s']);
    });
});

describe('tokens', () => {
    test('the tenant is the sub; anything but a token is told apart', () => {
        const token = tokenFor('t~1');
        assert.equal(sessionFrom(`  Bearer ${token}\n`, '').tenant, 't~1');
        assert.equal(sessionFrom(token, 'other').tenant, 'other');
        assert.equal(sessionFrom(tokenFor('t', { scope: 'read admin' }), '').admin, true);
        assert.match(sessionFrom('  ', '').error, /Paste/);
        assert.match(sessionFrom('two words', '').error, /not a token/);
        assert.match(sessionFrom('api-key', '').error, /tenant/);
        assert.equal(sessionFrom('api-key', 'mine').tenant, 'mine');
        for (const bad of ['', 'a.b.c', 'a..c', '...', 'a.bnVsbA.c']) assert.equal(claimsOf(bad), null, bad);
    });
});
