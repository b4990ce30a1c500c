// api.js -- the HTTP API, as the signed-in tenant.

export class ApiError extends Error {
    constructor(status, { error, code } = {}) {
        super(error ?? `The server answered ${status}.`);
        this.status = status;
        this.code = code;
    }

    /** What a reply that is not 200 says; of a token, in the header, also what is wrong with it. */
    static async of(reply) {
        const error = new ApiError(reply.status, await reply.json().catch(() => ({})));
        error.flaw = /error_description="([^"]*)"/.exec(reply.headers.get('WWW-Authenticate'))?.[1];
        return error;
    }
}

/** Names like any other, but browsers resolve such parts of a path away, encoded or not. */
export const isDots = (name) => name === '.' || name === '..';

function result(part) {
    if (part.status !== 200) throw new ApiError(part.status, part);
    return part;
}

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
        if (!reply.ok) throw await ApiError.of(reply);
        return reply.json();
    }

    #counter(name, action) {
        return `/api/counters/${encodeURIComponent(this.tenant)}/${encodeURIComponent(name)}/${action}`;
    }

    counters(query, options) {
        return this.get(`/api/counters/${encodeURIComponent(this.tenant)}`, query, options);
    }

    /** One result for each of `queries`, in order. Names are in the body, where browsers leave "." and ".." alone. */
    async query(queries, options) {
        const { results } = await this.post('query', { queries }, options);
        return results.map(result);
    }

    /** Adds one to the bucket of `name` in which `timestamp` lies. */
    async count(name, durationSeconds, timestamp) {
        const { results } = await this.post('batch', { ops: [{ op: 'increment', name, durationSeconds, timestamp }] });
        return result(results[0]);
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

    nodes(options) {
        return this.get('/api/admin/nodes', {}, options);
    }
}

/** {"dim.key": value} of a plain object. */
export function dimQuery(dimensions) {
    return Object.fromEntries(Object.entries(dimensions).map(([key, value]) => [`dim.${key}`, value]));
}
