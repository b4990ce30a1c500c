// api.js -- the HTTP API, as the signed-in tenant.

export class ApiError extends Error {
    constructor(status, { error, code } = {}) {
        super(error ?? `The server answered ${status}.`);
        this.status = status;
        this.code = code;
    }
}

/** Names like any other, but browsers resolve such parts of a path away, encoded or not. */
export const isDots = (name) => name === '.' || name === '..';

export class Api {
    constructor({ token, tenant }) {
        this.tenant = tenant;
        this.headers = { Authorization: `Bearer ${token}` };
    }

    /** A fetch with the token; `path` is made of encoded segments. */
    request(path, query = {}, options = {}) {
        const parameters = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined));
        const tail = parameters.size ? `?${parameters}` : '';
        return fetch(path + tail, { ...options, headers: this.headers, cache: 'no-store', credentials: 'omit' });
    }

    async get(path, query, options) {
        return this.#body(await this.request(path, query, options));
    }

    async post(what, body, options) {
        const path = `/api/counters/${encodeURIComponent(this.tenant)}/${what}`;
        return this.#body(await this.request(path, {}, { ...options, method: 'POST', body: JSON.stringify(body) }));
    }

    async #body(reply) {
        const body = await reply.json().catch(() => ({}));
        if (!reply.ok) throw new ApiError(reply.status, body);
        return body;
    }

    #counter(name, action) {
        return `/api/counters/${encodeURIComponent(this.tenant)}/${encodeURIComponent(name)}/${action}`;
    }

    counters(query, options) {
        return this.get(`/api/counters/${encodeURIComponent(this.tenant)}`, query, options);
    }

    value(name, query, options) {
        return this.#read(name, 'get', query, options);
    }

    series(name, query, options) {
        return this.#read(name, 'series', query, options);
    }

    #read(name, action, query, options) {
        return isDots(name) ? this.#ask(name, action, query, options) : this.get(this.#counter(name, action), query, options);
    }

    /** The same with the name in a body. */
    async #ask(name, action, query, options) {
        const parameters = Object.entries(query).filter(([, value]) => value !== undefined);
        const isDim = ([key]) => key.startsWith('dim.');
        const dimensions = Object.fromEntries(parameters.filter(isDim).map(([key, value]) => [key.slice(4), value]));
        const asked = { name, dimensions, ...Object.fromEntries(parameters.filter((pair) => !isDim(pair))) };
        return this.#only(await this.post('query', { queries: [{ [action]: asked }] }, options));
    }

    #only({ results: [result] }) {
        if (result.status !== 200) throw new ApiError(result.status, result);
        return result;
    }

    /** Adds one to this minute of `name`. */
    async count(name) {
        return this.#only(await this.post('batch', { ops: [{ op: 'increment', name, durationSeconds: 60, timestamp: Date.now() }] }));
    }

    cells(name, query, options) {
        return this.get(this.#counter(name, 'cells'), query, options);
    }

    duplicates(query, options) {
        return this.get(`/api/duplicates/${encodeURIComponent(this.tenant)}`, query, options);
    }

    usageHealth(options) {
        return this.get(`/api/usage/${encodeURIComponent(this.tenant)}/health`, {}, options);
    }

    reconcileStatus(name, options) {
        return this.get(`/api/reconcile/${encodeURIComponent(this.tenant)}/${encodeURIComponent(name)}/status`, {}, options);
    }

    tenants(query, options) {
        return this.get('/api/admin/tenants', query, options);
    }
}

/** {"dim.key": value} of a plain object. */
export function dimQuery(dimensions) {
    return Object.fromEntries(Object.entries(dimensions).map(([key, value]) => [`dim.${key}`, value]));
}
