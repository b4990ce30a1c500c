// The usage examples of seed 003, as a reader of that document would paste them. Only the base URL
// and the token differ: `fetch` below prefixes the server's address to a path.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { serverFor, TOTAL } from './support/server.mjs';
import { tokenFor } from './support/tokens.mjs';

describe('seed 003, worked examples', () => {
    const server = serverFor();
    const fetch = (path, options) => globalThis.fetch(server.url + path, options);
    const userId = 'user-42';
    const tenantId = userId;
    const token = tokenFor(userId);

    test('S3-91: tracking page views per hour', async () => {
        const trackPageView = async (userId) => {
            return await fetch(`/api/counters/${userId}/page_views/increment`, {
                method: 'POST',
                headers: {
                    'Authorization': `Bearer ${token}`,
                    'Content-Type': 'application/json'
                },
                body: JSON.stringify({
                    durationSeconds: 3600, // Hour granularity
                    timestamp: new Date().toISOString(),
                    amount: 1
                })
            });
        };
        const before = Date.now();
        for (let i = 0; i < 3; i++) assert.equal((await trackPageView(userId)).status, 200);
        const response = await fetch(
            `/api/counters/${userId}/page_views/sumRange?durationSeconds=3600&startTime=${before}&endTime=${Date.now()}`,
            { headers: { 'Authorization': `Bearer ${token}` } }
        );
        assert.deepEqual(await response.json(), { net: '3', added: '3', subbed: '0' });
    });

    test('S3-62: checking API usage in the current minute', async () => {
        let now = new Date('2024-03-15T10:30:20.500Z');
        const checkRateLimit = async (userId, limit = 100) => {
            const response = await fetch(
                `/api/counters/${userId}/api_calls/get?` +
                `durationSeconds=60&timestamp=${now.toISOString()}`,
                {
                    headers: { 'Authorization': `Bearer ${token}` }
                }
            );

            if (response.status === 404) {
                return { allowed: true, used: 0 };
            }

            const { net } = await response.json();
            return {
                allowed: parseInt(net) < limit,
                used: parseInt(net)
            };
        };
        assert.deepEqual(await checkRateLimit(userId, 3), { allowed: true, used: 0 });
        const t = server.tenant(userId);
        for (let used = 1; used <= 3; used++) {
            await t.increment('api_calls', { durationSeconds: 60, timestamp: now.toISOString() });
            assert.deepEqual(await checkRateLimit(userId, 3), { allowed: used < 3, used });
        }
        now = new Date('2024-03-15T10:31:00.000Z');
        assert.deepEqual(await checkRateLimit(userId, 3), { allowed: true, used: 0 });
    });

    test('S3-92: daily active users over a week', async () => {
        const getDailyActiveUsers = async (startDate, endDate) => {
            const response = await fetch(
                `/api/counters/${tenantId}/daily_active_users/sumRange?` +
                `durationSeconds=86400&` +
                `startTime=${startDate.toISOString()}&` +
                `endTime=${endDate.toISOString()}`,
                {
                    headers: { 'Authorization': `Bearer ${token}` }
                }
            );

            const { net } = await response.json();
            return parseInt(net);
        };
        const t = server.tenant(userId);
        for (let day = 10; day <= 20; day++) {
            await t.increment('daily_active_users', { durationSeconds: 86400, timestamp: `2024-03-${day}T13:00:00Z`, amount: 10 ** (day - 10 > 6 ? 6 : day - 10) });
        }
        assert.equal(await getDailyActiveUsers(new Date('2024-03-10'), new Date('2024-03-16')), 1111111);
        assert.equal(await getDailyActiveUsers(new Date('2024-03-10'), new Date('2024-03-17')), 2111111);
        assert.equal(await getDailyActiveUsers(new Date('2023-03-10'), new Date('2023-03-16')), 0);
    });

    test('S3-93: setting a monthly quota', async () => {
        const firstOfMonth = new Date();
        const setMonthlyQuota = async (userId, resource, quota) => {
            firstOfMonth.setDate(1);
            firstOfMonth.setHours(0, 0, 0, 0);

            return await fetch(`/api/counters/${userId}/${resource}_quota/set`, {
                method: 'PUT',
                headers: {
                    'Authorization': `Bearer ${token}`,
                    'Content-Type': 'application/json'
                },
                body: JSON.stringify({
                    durationSeconds: 2592000, // ~30 days
                    timestamp: firstOfMonth.toISOString(),
                    targetValue: quota.toString(),
                    expiresAt: new Date(Date.now() + 90 * 86400000).toISOString()
                })
            });
        };
        for (let i = 0; i < 2; i++) {
            const response = await setMonthlyQuota(userId, 'storage', 5000);
            assert.equal(response.status, 200);
            assert.deepEqual(await response.json(), { net: '5000', added: '5000', subbed: '0' });
        }
        const { body } = await server.tenant(userId).get('storage_quota', { durationSeconds: 2592000, timestamp: firstOfMonth.toISOString() });
        assert.equal(body.net, '5000');
    });

    test('S3-88: retrying with exponential backoff passes a success through and does not retry a 409', async () => {
        const waits = [];
        const sleep = async (ms) => waits.push(ms);
        let answers;
        const increment = async (params) => {
            const forced = answers.shift();
            if (forced) throw Object.assign(new Error(String(forced)), { status: forced });
            const response = await fetch(`/api/counters/${userId}/${params.name}/${params.action}`, {
                method: 'POST',
                headers: { 'Authorization': `Bearer ${token}`, 'Content-Type': 'application/json' },
                body: JSON.stringify(TOTAL)
            });
            if (!response.ok) throw Object.assign(new Error(await response.text()), { status: response.status });
            return await response.json();
        };
        const incrementWithRetry = async (params, maxRetries = 3) => {
            for (let i = 0; i < maxRetries; i++) {
                try {
                    return await increment(params);
                } catch (error) {
                    if (error.status === 429 && i < maxRetries - 1) {
                        await sleep(Math.pow(2, i) * 1000);
                        continue;
                    }
                    throw error;
                }
            }
        };
        answers = [429, 429];
        assert.deepEqual(await incrementWithRetry({ name: 'retried', action: 'increment' }), { net: '1', added: '1', subbed: '0' });
        assert.deepEqual(waits, [1000, 2000]);
        answers = [];
        await assert.rejects(incrementWithRetry({ name: 'never', action: 'decrement' }), { status: 409 });
        assert.equal(waits.length, 2);
    });
});
