// contract.mjs -- the server's own description (docs/openapi.json) as something to test with: requests
// made from its examples, and replies held against its schemas.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { Validator } from '@seriousme/openapi-schema-validator';
import Ajv2020 from 'ajv/dist/2020.js';

export const FILE = fileURLToPath(new URL('../../../docs/openapi.json', import.meta.url));

/** Objects without "additionalProperties" may grow for clients; what this server sends has no more. */
function closed(api) {
    const copy = structuredClone(api);
    for (const shape of Object.values(copy.components.schemas)) {
        if (shape.type === 'object') shape.additionalProperties ??= false;
    }
    return copy;
}

const pointer = (...parts) => parts.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');

export class Contract {
    #ajv = new Ajv2020({ strict: false, allErrors: true });
    /** "operationId status" of every reply that was checked. */
    seen = new Set();

    constructor(text = readFileSync(FILE, 'utf8')) {
        this.api = JSON.parse(text);
        this.#ajv.addSchema(closed(this.api), 'api:');
        this.calls = Object.entries(this.api.paths).flatMap(([path, methods]) =>
            Object.entries(methods).map(([method, call]) => ({ path, method, ...call })));
    }

    find(operationId) {
        const call = this.calls.find((one) => one.operationId === operationId);
        assert.ok(call, `no call ${operationId} is described`);
        return call;
    }

    #validate(place, value, what) {
        const check = this.#ajv.compile({ $ref: `api:#${encodeURI(place)}` });
        assert.ok(check(value), `${what}\n${JSON.stringify(value)?.slice(0, 600)}\n${this.#ajv.errorsText(check.errors)}`);
    }

    /** Every documented media type's example is what its schema says. */
    checkExamples(call) {
        for (const [media, { example }] of Object.entries(call.requestBody?.content ?? {})) {
            this.#validate(`/paths${pointer(call.path, call.method)}/requestBody/content${pointer(media)}/schema`, example, `example of ${call.operationId}`);
        }
        call.parameters.forEach(({ name, example }, index) => {
            if (example === undefined) return;
            this.#validate(`/paths${pointer(call.path, call.method)}/parameters/${index}/schema`, example, `${name} of ${call.operationId}`);
        });
    }

    /** A documented status, its media type, and a body as its schema says. */
    checkReply(call, reply) {
        const about = `${call.operationId}: ${reply.status} ${reply.text.slice(0, 300)}`;
        const described = call.responses[reply.status];
        assert.ok(described, `a status that is not described\n${about}`);
        const [[media]] = Object.entries(described.content);
        const type = reply.headers.get('content-type');
        assert.equal(type.split(';')[0], media.split(';')[0], about);
        if (media === 'application/json') {
            this.#validate(`/paths${pointer(call.path, call.method)}/responses/${reply.status}/content${pointer(media)}/schema`, reply.body, about);
        }
        for (const name of Object.keys(described.headers ?? {})) {
            if (name === 'Tally-Sequence') assert.match(reply.headers.get(name) ?? '', /^(0-\d+)?$/, about);
        }
        this.seen.add(`${call.operationId} ${reply.status}`);
        return reply;
    }

    /** What is described and has not been seen. */
    unseen() {
        return this.calls.flatMap((call) => Object.keys(call.responses)
            .filter((status) => status !== 'default')
            .map((status) => `${call.operationId} ${status}`)
            .filter((one) => !this.seen.has(one)));
    }
}

/** The document against OpenAPI's own schema. */
export async function checkDocument(api) {
    const { valid, errors } = await new Validator().validate(structuredClone(api));
    assert.ok(valid, JSON.stringify(errors));
}

/** A request made from a call's examples. `all` sends optional parameters too; `over` replaces parts. */
export function exampleRequest(call, tenant, { all = true, media, over = {} } = {}) {
    const query = new URLSearchParams();
    const headers = {};
    let target = call.path.replace('{tenantId}', tenant);
    for (const one of call.parameters) {
        const value = over[one.name] ?? one.example;
        if (one.in === 'path' && one.name !== 'tenantId') target = target.replace(`{${one.name}}`, encodeURIComponent(value));
        if (value === undefined || (!one.required && !all && over[one.name] === undefined)) continue;
        if (one.in === 'query') query.set(one.name, value);
        if (one.in === 'header') headers[one.name] = `${value}-${call.operationId}-${media}`;
    }
    const bodies = Object.entries(call.requestBody?.content ?? {});
    const [type, content] = bodies.find(([name]) => name === media) ?? bodies[0] ?? [];
    if (type) headers['Content-Type'] = type;
    return {
        method: call.method.toUpperCase(),
        target: query.size ? `${target}?${query}` : target,
        headers,
        body: content?.example,
    };
}
