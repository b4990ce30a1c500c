// rules.mjs -- servers with rules, and tenants that send events and read what the rules make of them.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';

import { serverFor, Tenant } from './server.mjs';
import { tokenFor } from './tokens.mjs';

let ids = 0;

/** An id that no other event of the run has. */
export function newId(label = 'e') {
    return `${label}-${process.pid}-${++ids}`;
}

/** dim.<key> parameters from a plain object. */
export function dim(dimensions) {
    return Object.fromEntries(Object.entries(dimensions).map(([key, value]) => [`dim.${key}`, value]));
}

/** What a dimensionKey is, worked out by other means (SPEC 7). */
export function dimensionKey(dimensions) {
    const sorted = Object.fromEntries(Object.keys(dimensions).sort().map((key) => [key, String(dimensions[key])]));
    return createHash('sha256').update(JSON.stringify(sorted)).digest('hex');
}

export class RuleTenant extends Tenant {
    constructor(server, id, claims = {}) {
        super(server, id, tokenFor(id, claims));
    }

    events(body, headers = {}) {
        return this.call('POST', `/api/events/${this.id}`, { body, headers });
    }

    /** One event that must be taken. */
    async send(type, dimensions, { payload, ...rest } = {}) {
        const reply = await this.events({ eventId: newId(), type, dimensions, payload, ...rest });
        assert.equal(reply.status, 200, reply.text);
        assert.equal(reply.body.result, 'APPLIED', reply.text);
        return reply.body;
    }

    /** The net of a rule counter's present value under exactly these dimensions. */
    async net(name, dimensions = {}) {
        const reply = await this.get(name, dim(dimensions));
        assert.equal(reply.status, 200, reply.text);
        return Number(reply.body.net);
    }

    windows(dimensions = {}) {
        return this.call('GET', `/api/windows/${this.id}?${new URLSearchParams(dim(dimensions))}`);
    }

    /** The windows by their counter's name. */
    async windowsByName(dimensions) {
        const reply = await this.windows(dimensions);
        assert.equal(reply.status, 200, reply.text);
        return Object.fromEntries(reply.body.windows.map((window) => [window.counterType, window]));
    }

    usage() {
        return this.call('GET', `/api/usage/${this.id}`);
    }

    health() {
        return this.call('GET', `/api/usage/${this.id}/health`);
    }

    cells(name, query = {}) {
        return this.call('GET', `${this.path(name, 'cells')}?${new URLSearchParams(query)}`);
    }

    /** Every row, page by page. */
    async allCells(name, query = {}) {
        const rows = [];
        let after;
        do {
            const page = await this.cells(name, after ? { ...query, after } : query);
            assert.equal(page.status, 200, page.text);
            rows.push(...page.body.cells);
            assert.ok(rows.length < 100000, 'the pages never end');
            after = page.body.next;
        } while (after);
        return rows;
    }
}

/** A server for the enclosing describe() with these rules, and tenants of its own kind. */
export function rulesServer(config, options = {}) {
    const server = serverFor({ config, ...options });
    let tenants = 0;
    return {
        server,
        tenant: (id = `rules-${++tenants}`, claims) => new RuleTenant(server, id, claims),
        admin: () => new RuleTenant(server, 'operator', { scope: 'admin' }),
    };
}
