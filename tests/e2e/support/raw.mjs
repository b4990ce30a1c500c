// raw.mjs -- HTTP/1.1 over a plain socket, for what fetch would tidy up or forbid: odd framing,
// odd paths, pipelining, half requests. It is also the fast client for concurrency tests.
//
// Replies are parsed strictly: a reply that is not well framed fails the test that reads it.

import net from 'node:net';

import { within } from './pace.mjs';

const CRLF = '\r\n';

/** The text of one request. `headers` is a list of [name, value] or an object; a body gets its length. */
export function requestText(method, path, { token, headers = {}, body, version = 'HTTP/1.1' } = {}) {
    const lines = [`${method} ${path} ${version}`];
    const pairs = Array.isArray(headers) ? [...headers] : Object.entries(headers);
    const has = (name) => pairs.some(([n]) => n.toLowerCase() === name);
    if (!has('host')) lines.push('Host: tally.test');
    if (token) lines.push(`Authorization: Bearer ${token}`);
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    if (text !== undefined && !has('content-type')) lines.push('Content-Type: application/json');
    if (text !== undefined && !has('content-length') && !has('transfer-encoding')) {
        lines.push(`Content-Length: ${Buffer.byteLength(text)}`);
    }
    for (const [name, value] of pairs) lines.push(`${name}: ${value}`);
    return lines.join(CRLF) + CRLF + CRLF + (text ?? '');
}

/** `text` cut into HTTP chunks of `size` bytes, with the last chunk. */
export function chunked(text, size = 7) {
    const bytes = Buffer.from(text);
    const parts = [];
    for (let at = 0; at < bytes.length; at += size) {
        const part = bytes.subarray(at, at + size);
        parts.push(Buffer.from(part.length.toString(16) + CRLF), part, Buffer.from(CRLF));
    }
    parts.push(Buffer.from('0' + CRLF + CRLF));
    return Buffer.concat(parts);
}

function parseHead(text) {
    const [statusLine, ...lines] = text.split(CRLF);
    const match = /^(HTTP\/1\.[01]) (\d{3}) ?(.*)$/.exec(statusLine);
    if (!match) throw new Error(`bad status line ${JSON.stringify(statusLine)}`);
    const headers = new Map();
    for (const line of lines) {
        const colon = line.indexOf(':');
        if (colon < 1) throw new Error(`bad header line ${JSON.stringify(line)}`);
        headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
    }
    return { version: match[1], status: Number(match[2]), reason: match[3], headers };
}

/** How many bytes of `buffer` one chunked body takes, and its data; null while it is incomplete. */
function parseChunks(buffer) {
    const parts = [];
    let at = 0;
    for (;;) {
        const line = buffer.indexOf(CRLF, at);
        if (line < 0) return null;
        const size = parseInt(buffer.toString('latin1', at, line), 16);
        const next = line + 2 + size + 2;
        if (buffer.length < next) return null;
        if (size === 0) return { body: Buffer.concat(parts), used: next };
        parts.push(buffer.subarray(line + 2, line + 2 + size));
        at = next;
    }
}

export class RawConnection {
    #socket;
    #buffer = Buffer.alloc(0);
    #ended = false;
    #wake = null;

    static open(port, host = '127.0.0.1') {
        return within(10000, 'a connection', new Promise((resolve, reject) => {
            const socket = net.connect({ port, host, noDelay: true, allowHalfOpen: true });
            socket.once('error', reject);
            socket.once('connect', () => {
                socket.off('error', reject);
                resolve(new RawConnection(socket));
            });
        }));
    }

    constructor(socket) {
        this.#socket = socket;
        const over = () => {
            this.#ended = true;
            this.#notify();
        };
        socket.on('data', (data) => {
            this.#buffer = this.#buffer.length ? Buffer.concat([this.#buffer, data]) : data;
            this.#notify();
        });
        socket.on('end', over);
        socket.on('error', over);
        socket.on('close', over);
    }

    #notify() {
        const wake = this.#wake;
        this.#wake = null;
        if (wake) wake();
    }

    #more() {
        return new Promise((resolve) => {
            this.#wake = resolve;
        });
    }

    get isClosed() {
        return this.#ended;
    }

    write(bytes) {
        if (!this.#socket.destroyed) this.#socket.write(bytes);
    }

    /** Says that nothing more will be sent, and goes on reading. */
    finish() {
        this.#socket.end();
    }

    destroy() {
        this.#socket.destroy();
    }

    /** Stops taking bytes from the peer, until `listen`. */
    deafen() {
        this.#socket.pause();
    }

    listen() {
        this.#socket.resume();
    }

    /** The next reply, or null if the peer closed first. `head`: the reply to a HEAD has no body. */
    reply({ head = false, ms = 15000 } = {}) {
        return within(ms, 'a reply', this.#parse(head));
    }

    async #parse(head) {
        for (;;) {
            const found = this.#take(head);
            if (found) return found;
            if (this.#ended) {
                if (this.#buffer.length) throw new Error(`closed inside a reply: ${JSON.stringify(this.#buffer.toString('latin1', 0, 200))}`);
                return null;
            }
            await this.#more();
        }
    }

    #take(head) {
        const blank = this.#buffer.indexOf(CRLF + CRLF);
        if (blank < 0) return null;
        const reply = parseHead(this.#buffer.toString('latin1', 0, blank));
        const rest = this.#buffer.subarray(blank + 4);
        const framed = this.#frame(reply, rest, head);
        if (!framed) return null;
        this.#buffer = rest.subarray(framed.used);
        reply.text = framed.body.toString('utf8');
        try {
            reply.body = JSON.parse(reply.text);
        } catch {
            reply.body = undefined;
        }
        return reply;
    }

    #frame(reply, rest, head) {
        const empty = { body: Buffer.alloc(0), used: 0 };
        if (head || reply.status < 200 || reply.status === 204 || reply.status === 304) return empty;
        if (/chunked/i.test(reply.headers.get('transfer-encoding') ?? '')) return parseChunks(rest);
        const length = reply.headers.get('content-length');
        if (length === undefined) throw new Error(`reply ${reply.status} has neither a length nor chunks`);
        if (!/^\d+$/.test(length)) throw new Error(`bad Content-Length ${length}`);
        if (rest.length < Number(length)) return null;
        return { body: rest.subarray(0, Number(length)), used: Number(length) };
    }

    async replies(count, options) {
        const list = [];
        for (let i = 0; i < count; i++) {
            const reply = await this.reply(options);
            if (!reply) throw new Error(`closed after ${i} of ${count} replies`);
            list.push(reply);
        }
        return list;
    }

    async call(method, path, options = {}) {
        this.write(requestText(method, path, options));
        const reply = await this.reply({ head: method === 'HEAD' });
        if (!reply) throw new Error(`${method} ${path}: closed without a reply`);
        return reply;
    }

    /** Waits until the peer has closed, and returns what it sent before and nobody has read. */
    async closed({ ms = 15000 } = {}) {
        await within(ms, 'the peer to close', (async () => {
            while (!this.#ended) await this.#more();
        })());
        return this.#buffer.toString('utf8');
    }
}
