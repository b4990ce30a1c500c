// api.js -- the HTTP API, as the signed-in tenant.

export class ApiError extends Error {
    constructor(status, { error, code } = {}) {
        super(error ?? `The server answered ${status}.`);
        this.status = status;
        this.code = code;
    }
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
        const reply = await this.request(path, query, options);
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
        return this.get(this.#counter(name, 'get'), query, options);
    }

    series(name, query, options) {
        return this.get(this.#counter(name, 'series'), query, options);
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
