// resp.mjs -- a client of Redis's protocol over a plain socket, strict about what it reads: a reply that is
// not well framed fails the test.

import net from 'node:net';

import { eventually, within } from './pace.mjs';
import { serverFor } from './server.mjs';

/** Settings with which a server speaks the protocol, on a free port. */
export const RESP = { 'resp.listen': '127.0.0.1:0' };

/** Where such a server does so: it says it in its log. */
export async function respPort(server) {
    const found = await eventually('the port to be logged', () =>
        [...server.stderr.matchAll(/"speaking Redis's protocol","address":"[^"]*","port":(\d+)/g)].at(-1));
    return Number(found[1]);
}

/** A list of `count` things, each made of its place. */
export const many = (count, make) => Array.from({ length: count }, (_, i) => make(i));

export class ReplyError extends Error {}

/** One command as an array of strings. */
export function encode(args) {
    const parts = args.map((one) => Buffer.from(String(one)));
    return Buffer.concat([
        Buffer.from(`*${parts.length}\r\n`),
        ...parts.flatMap((part) => [Buffer.from(`$${part.length}\r\n`), part, Buffer.from('\r\n')]),
    ]);
}

/** Reads one value at `at`: {value, next}, or null while it is incomplete. */
function parse(buffer, at) {
    const end = buffer.indexOf('\r\n', at);
    if (end < 0) return null;
    const kind = String.fromCharCode(buffer[at]);
    const line = buffer.toString('utf8', at + 1, end);
    const next = end + 2;
    const values = (count, make) => {
        const list = [];
        let from = next;
        for (let i = 0; i < count; i++) {
            const one = parse(buffer, from);
            if (!one) return null;
            list.push(one.value);
            from = one.next;
        }
        return { value: make(list), next: from };
    };
    if (kind === '+') return { value: line, next };
    if (kind === '-') return { value: new ReplyError(line), next };
    if (kind === '_' && line === '') return { value: null, next };
    if (kind === ':') {
        if (!/^-?\d+$/.test(line)) throw new Error(`bad integer ${line}`);
        const value = BigInt(line);
        return { value: Number.isSafeInteger(Number(value)) ? Number(value) : value, next };
    }
    if (!/^-?\d+$/.test(line)) throw new Error(`bad reply ${JSON.stringify(buffer.toString('latin1', at, at + 60))}`);
    const count = Number(line);
    if (kind === '$' && count === -1) return { value: null, next };
    if (kind === '$') {
        if (buffer.length < next + count + 2) return null;
        if (buffer.toString('latin1', next + count, next + count + 2) !== '\r\n') throw new Error('a string of another length');
        return { value: buffer.toString('utf8', next, next + count), next: next + count + 2 };
    }
    if (kind === '*' && count === -1) return { value: null, next };
    if (kind === '*') return values(count, (list) => list);
    if (kind === '~') return values(count, (list) => new Set(list));
    if (kind === '%') {
        return values(2 * count, (list) => Object.fromEntries(many(count, (i) => [list[2 * i], list[2 * i + 1]])));
    }
    throw new Error(`bad reply ${JSON.stringify(buffer.toString('latin1', at, at + 60))}`);
}

export class RespClient {
    #socket;
    #buffer = Buffer.alloc(0);
    #closed = false;
    #wake = null;

    static open(port) {
        return within(10000, 'a connection', new Promise((resolve, reject) => {
            const socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
            socket.once('error', reject);
            socket.once('connect', () => {
                socket.off('error', reject);
                resolve(new RespClient(socket));
            });
        }));
    }

    constructor(socket) {
        this.#socket = socket;
        const notify = () => {
            const wake = this.#wake;
            this.#wake = null;
            wake?.();
        };
        const over = () => {
            this.#closed = true;
            notify();
        };
        socket.on('data', (data) => {
            this.#buffer = this.#buffer.length ? Buffer.concat([this.#buffer, data]) : data;
            notify();
        });
        for (const event of ['end', 'error', 'close']) socket.on(event, over);
    }

    write(bytes) {
        if (!this.#socket.destroyed) this.#socket.write(bytes);
    }

    destroy() {
        this.#socket.destroy();
    }

    deafen() {
        this.#socket.pause();
    }

    /** The next reply; `undefined` once the peer has closed. Errors are values. */
    reply() {
        return within(15000, 'a reply', this.#next());
    }

    async #next() {
        for (;;) {
            const found = this.#buffer.length ? parse(this.#buffer, 0) : null;
            if (found) {
                this.#buffer = this.#buffer.subarray(found.next);
                return found.value;
            }
            if (this.#closed && this.#buffer.length) throw new Error('closed inside a reply');
            if (this.#closed) return undefined;
            await new Promise((resolve) => (this.#wake = resolve));
        }
    }

    /** Sends a command and gives its reply; an error's text as `{ error }`. */
    async call(...args) {
        return (await this.pipeline([args]))[0];
    }

    /** Sends all commands at once. */
    async pipeline(commands) {
        this.write(Buffer.concat(commands.map(encode)));
        const replies = [];
        for (let i = 0; i < commands.length; i++) {
            const reply = await this.reply();
            replies.push(reply instanceof ReplyError ? { error: reply.message } : reply);
        }
        return replies;
    }
}

/** A server of the test file that speaks the protocol, and ways to connect to it. */
export function respServerFor(options = {}) {
    const server = serverFor({ ...options, settings: { ...RESP, ...options.settings } });
    return Object.assign(server, {
        /** A connection that has shown no token. */
        stranger: async () => RespClient.open(await respPort(server)),
        /** A connection of a tenant (`t` from server.tenant()). */
        connect: async (t) => {
            const client = await RespClient.open(await respPort(server));
            const said = await client.call('AUTH', t.token);
            if (said !== 'OK') throw new Error(JSON.stringify(said));
            return client;
        },
    });
}
