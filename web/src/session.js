// session.js -- who is signed in, for as long as this tab lives. The token is never put into an address, a
// log line or anything that outlives the tab.

import { isDots } from './api.js';

const KEY = 'tally.session';

/** The claims of a JWT, or null of anything else, such as an API key. Nothing is verified here. */
export function claimsOf(token) {
    const parts = token.split('.');
    if (parts.length !== 3) return null;
    try {
        const text = atob(parts[1].replaceAll('-', '+').replaceAll('_', '/'));
        const claims = JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0))));
        return claims && typeof claims === 'object' ? claims : null;
    } catch {
        return null;
    }
}

/** {token, tenant, admin, expiresAt} of what was pasted, or {error} in words. */
export function sessionFrom(pasted, wantedTenant) {
    const token = pasted.trim().replace(/^bearer\s+/i, '');
    if (!token) return { error: 'Paste a token first.' };
    if (/[^\x21-\x7e]/.test(token)) return { error: 'That is not a token: it has spaces or special characters in it.' };
    const claims = claimsOf(token);
    const sub = typeof claims?.sub === 'string' ? claims.sub : '';
    const tenant = wantedTenant.trim() || sub;
    if (!tenant) return { error: 'This token does not name a tenant: fill in the tenant below.' };
    if (isDots(tenant)) return { error: `Browsers cannot ask for a tenant named ${tenant}; curl --path-as-is and the tally commands can.` };
    const admin = typeof claims?.scope === 'string' && claims.scope.split(' ').includes('admin');
    const expiresAt = typeof claims?.exp === 'number' ? claims.exp * 1000 : null;
    return { token, tenant, admin, expiresAt };
}

export function saveSession(session) {
    sessionStorage.setItem(KEY, JSON.stringify(session));
}

export function savedSession() {
    try {
        const session = JSON.parse(sessionStorage.getItem(KEY));
        return session?.token && session.tenant ? session : null;
    } catch {
        return null;
    }
}

export function forgetSession() {
    sessionStorage.removeItem(KEY);
}
