// transport.js -- one call over HTTP, sent again until there is an answer or the time is over.
//
// Sent again: what certainly had no effect (429), and what may have had one (no answer, 502 to 504) if
// it is safe to repeat: a GET, something with a key, or something whose parts have keys or ids of
// their own. The bytes are the same each time.

const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 5000;

/** Why a call failed. `outcome` says what that means for its effect. */
export class TallyError extends Error {
    constructor(message, { code, status = 0, outcome, body, cause }) {
        super(message, cause === undefined ? undefined : { cause });
        this.name = 'TallyError';
        this.code = code;
        this.status = status;
        this.outcome = outcome;
        this.body = body;
    }
}

export function invalid(message) {
    return new TallyError(message, { code: 'invalid_argument', outcome: 'invalid' });
}

export const unknown = (message, code, cause) => new TallyError(message, { code, outcome: 'unknown', cause });

/** An error of the server, from {"error":..,"code":..}. */
export function refusal(status, body) {
    const refused = status >= 400 && status < 500;
    return new TallyError(body?.error ?? `The server answered with status ${status} and no reason.`, {
        code: body?.code ?? 'http_error', status, outcome: refused ? 'refused' : 'unknown', body,
    });
}

const mayPass = (error) => error.outcome === 'unknown' || error.status === 429;
const isTemporary = (error) => error.status === 0 || error.status === 429 || (error.status >= 502 && error.status <= 504);

/** Resolves after `ms`, or rejects with the signal's reason. */
function pause(ms, signal) {
    return new Promise((resolve, reject) => {
        const done = () => {
            signal?.removeEventListener('abort', stop);
            resolve();
        };
        const timer = setTimeout(done, ms);
        const stop = () => {
            clearTimeout(timer);
            reject(signal.reason);
        };
        if (signal?.aborted) stop();
        else signal?.addEventListener('abort', stop, { once: true });
    });
}

/** Half of the pause is chance, so that clients that failed together do not come back together. */
function pauseMs(attempt, retryAfter) {
    const most = Math.min(PAUSE_FIRST_MS * 2 ** (attempt - 1), PAUSE_MAX_MS);
    return Math.max(most / 2 + (Math.random() * most) / 2, (Number(retryAfter) || 0) * 1000);
}

export class Transport {
    #url;
    #token;
    #fetch;
    #timeoutMs;
    #attempts;

    constructor({ url, token, fetch: own, timeoutMs = 30000, attempts = 5 }) {
        let parsed;
        try {
            parsed = new URL(url);
        } catch {
            throw invalid('url must look like http://127.0.0.1:8787'); // not repeated: it may hold a password
        }
        if (!/^https?:$/.test(parsed.protocol)) throw invalid('url must look like http://127.0.0.1:8787');
        if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) throw invalid('the token has characters that no token has');
        this.#url = `${parsed.origin}${parsed.pathname.replace(/\/+$/, '')}`;
        this.#token = token;
        this.#fetch = own ?? globalThis.fetch;
        this.#timeoutMs = timeoutMs;
        this.#attempts = attempts;
    }

    /** Where the server is, without user and password. */
    get address() {
        return this.#url;
    }

    /** {status, headers, body}, with the body parsed; throws a TallyError, or the signal's reason. */
    async call(method, path, { body, type = 'application/json', key, repeatable = false, signal } = {}) {
        if (key !== undefined && !/^[\x20-\x7e]{1,255}$/.test(key)) {
            throw invalid('an idempotency key is 1 to 255 printable ASCII characters');
        }
        const headers = {};
        if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
        if (body !== undefined) headers['Content-Type'] = type;
        if (key !== undefined) headers['Idempotency-Key'] = key;
        const safe = repeatable || key !== undefined || method === 'GET';
        const until = Date.now() + this.#timeoutMs;
        for (let attempt = 1; ; attempt++) {
            signal?.throwIfAborted();
            const reply = await this.#once(method, path, { headers, body }, until, signal);
            if (!reply.error) return reply;
            const again = isTemporary(reply.error) && (safe ? mayPass(reply.error) : reply.error.status === 429);
            const wait = pauseMs(attempt, reply.retryAfter);
            if (!again || attempt >= this.#attempts || Date.now() + wait >= until) throw reply.error;
            await pause(wait, signal);
        }
    }

    async #once(method, path, request, until, signal) {
        const control = new AbortController();
        const stop = () => control.abort(signal.reason);
        const late = setTimeout(() => control.abort(unknown(`No answer from ${this.#url} in time.`, 'timeout')),
            Math.max(until - Date.now(), 1));
        signal?.addEventListener('abort', stop, { once: true });
        try {
            const send = this.#fetch; // as a function, not a method: browsers refuse theirs with another `this`
            const reply = await send(this.#url + path, { method, ...request, redirect: 'manual', signal: control.signal });
            const text = await reply.text();
            return this.#read(reply, text);
        } catch (error) {
            if (signal?.aborted) throw signal.reason;
            if (error instanceof TallyError) return { error };
            const why = error?.cause?.message ?? error?.message ?? String(error);
            return { error: unknown(`Cannot reach tally at ${this.#url}: ${why}`, 'unreachable', error) };
        } finally {
            clearTimeout(late);
            signal?.removeEventListener('abort', stop);
        }
    }

    #read(reply, text) {
        let body;
        try {
            body = text ? JSON.parse(text) : undefined;
        } catch {
            body = undefined;
        }
        if (!reply.ok) return { error: refusal(reply.status, body), retryAfter: reply.headers.get('Retry-After') };
        if (body === null || typeof body !== 'object') {
            return { error: Object.assign(unknown('The reply is not what tally would say.', 'bad_reply'), { status: reply.status }) };
        }
        return { status: reply.status, headers: reply.headers, body };
    }
}
