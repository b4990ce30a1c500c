// tokens.mjs -- makes bearer tokens, good and bad, with node:crypto alone.

import { createHmac, sign as signWithKey } from 'node:crypto';

/** At least 32 bytes, as the server demands. */
export const SECRET = 'e2e-secret-0123456789abcdef0123456789abcdef';

export function base64url(value) {
    return Buffer.from(value).toString('base64url');
}

function signature(alg, input, key) {
    const bits = alg.slice(2);
    if (alg.startsWith('HS')) return createHmac(`sha${bits}`, key).update(input).digest('base64url');
    if (alg.startsWith('RS')) return signWithKey(`sha${bits}`, Buffer.from(input), key).toString('base64url');
    if (alg.startsWith('ES')) {
        return signWithKey(`sha${bits}`, Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url');
    }
    return '';
}

export function nowSeconds() {
    return Math.floor(Date.now() / 1000);
}

/** A compact JWS over exactly the text `payload`; `header` adds to or replaces the usual header fields. */
export function jws(payload, { alg = 'HS256', key = SECRET, header = {} } = {}) {
    const input = `${base64url(JSON.stringify({ alg, typ: 'JWT', ...header }))}.${base64url(payload)}`;
    return `${input}.${signature(alg, input, key)}`;
}

/** A signed token with exactly these claims. */
export function jwt(claims, options) {
    return jws(JSON.stringify(claims), options);
}

/** A valid token for `tenant`, good for an hour unless `claims` say otherwise. */
export function tokenFor(tenant, claims = {}, options = {}) {
    return jwt({ sub: tenant, exp: nowSeconds() + 3600, ...claims }, options);
}
