// wire.mjs -- a relay between a node and its database that knows PostgreSQL's messages and can break off between two.
//
// PostgreSQL's protocol is messages: a type, a length, a body; only the first one of a client has no type. The relay
// counts them from the beginning of a commit on, in either direction, and breaks the connection before or after the
// nth one. Or it falls silent there and keeps both ends open, as a network that swallows everything does.

import net from 'node:net';

/** The same database, through the wire at that port. */
export const through = (dsn, port) => dsn.replace(/@[^/]*\/postgres/, `@127.0.0.1:${port}/postgres`);

const STARTUP = ''; // the type of a client's first message

/** Cuts a stream into messages. */
class Messages {
    #rest = Buffer.alloc(0);
    #first;

    constructor({ startup }) {
        this.#first = startup;
    }

    /** The messages that are whole by now: {type, bytes}. */
    take(data) {
        this.#rest = this.#rest.length ? Buffer.concat([this.#rest, data]) : data;
        const found = [];
        for (;;) {
            const head = this.#first ? 0 : 1;
            if (this.#rest.length < head + 4) return found;
            const size = head + this.#rest.readUInt32BE(head);
            if (this.#rest.length < size) return found;
            found.push({ type: head ? String.fromCharCode(this.#rest[0]) : STARTUP, bytes: this.#rest.subarray(0, size) });
            this.#rest = this.#rest.subarray(size);
            this.#first = false;
        }
    }
}

/** One connection: what it has prepared, and, while it is the one, how far the commit has come. */
class Thread {
    #near;
    #far;
    #wire;
    #names = new Map(); // statement -> text
    #plan = null;
    #silent = false;
    #counts = { up: 0, down: 0 };

    constructor(wire, near, far) {
        this.#wire = wire;
        this.#near = near;
        this.#far = far;
        const up = new Messages({ startup: true });
        const down = new Messages({ startup: false });
        near.on('data', (data) => this.#relay('up', up.take(data), far));
        far.on('data', (data) => this.#relay('down', down.take(data), near));
        for (const [socket, other] of [[near, far], [far, near]]) {
            socket.setNoDelay(true);
            socket.on('error', () => {});
            socket.on('close', () => this.#silent || other.destroy());
        }
    }

    #relay(direction, messages, to) {
        if (direction === 'up') this.#look(messages);
        for (const message of messages) {
            if (this.#silent) return;
            if (message.begins) this.#follow();
            const n = this.#plan && ++this.#counts[direction];
            const here = n && this.#plan.direction === direction && n === this.#plan.n;
            if (here && this.#plan.side === 'before') return this.#break();
            to.write(message.bytes);
            if (here) return this.#break();
        }
    }

    /** Marks where a commit begins: a transaction that takes a lane's lock or appends to its commits. */
    #look(messages) {
        const uses = messages.map(({ type, bytes }) => {
            const [first, second] = bytes.toString('latin1', 5).split('\0');
            if (type === 'P') this.#names.set(first, second);
            return type === 'B' ? this.#names.get(second) ?? '' : '';
        });
        const begin = uses.findIndex((text) => text.startsWith('BEGIN'));
        if (begin >= 0 && uses.some((text) => /FOR UPDATE|commits \(/.test(text))) messages[begin].begins = true;
    }

    /** A plan is for the first commit that begins. */
    #follow() {
        if (!this.#wire.plan) return;
        this.#plan = this.#wire.plan;
        this.#wire.plan = null;
        this.#wire.counted = this.#counts = { up: 0, down: 0 };
    }

    #break() {
        this.#wire.broken++;
        if (this.#plan.silent) {
            this.#silent = true;
            return;
        }
        // What was written goes out before the end of the stream does.
        this.#far.end();
        this.#near.end();
        setTimeout(() => this.close(), 20);
        this.#silent = true;
    }

    /** Swallows what comes from now on. */
    fallSilent() {
        this.#silent = true;
    }

    close() {
        this.#near.destroy();
        this.#far.destroy();
    }
}

export class Wire {
    #server;
    #silent = false;
    #threads = new Set();
    plan = null;
    broken = 0;
    counted = { up: 0, down: 0 }; // messages of the last commit that was counted

    constructor(port, host = '127.0.0.1') {
        this.#server = net.createServer((near) => {
            const thread = new Thread(this, near, net.connect(port, host));
            if (this.#silent) thread.fallSilent();
            this.#threads.add(thread);
        });
    }

    /** The next commit is broken off `side` ('before' or 'after') the nth message that goes `direction` ('up' to the
     * database, 'down' from it). Without an n it is only counted. `silent`: both ends stay open. */
    arm({ direction = 'up', n = 0, side = 'before', silent = false } = {}) {
        this.plan = { direction, n, side, silent };
    }

    /** True: the commit was over before its nth message. */
    disarm() {
        const idle = this.plan !== null;
        this.plan = null;
        return idle;
    }

    /** What comes from now on is swallowed, of every connection that there is or will be, until `heal`. */
    fallSilent() {
        this.#silent = true;
        for (const thread of this.#threads) thread.fallSilent();
    }

    heal() {
        this.#silent = false;
        this.closeAll();
    }

    closeAll() {
        for (const thread of this.#threads) thread.close();
        this.#threads.clear();
    }

    get port() {
        return this.#server.address().port;
    }

    async start() {
        await new Promise((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
        return this;
    }

    async stop() {
        this.closeAll();
        await new Promise((resolve) => this.#server.close(resolve));
    }
}
