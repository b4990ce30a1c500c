// relay.mjs -- a TCP relay with an address that stays while the server behind it comes and goes.
//
// It can also lose replies: the request arrives, the answer does not, as when a connection breaks.

import net from 'node:net';

export class Relay {
    #server;
    #sockets = new Set();
    #target;
    #losing = 0;
    #watching = null;
    lost = 0;
    delay = 0; // of each reply, in milliseconds

    /** `target` returns the port to relay to. */
    constructor(target) {
        this.#target = target;
        this.#server = net.createServer((near) => this.#join(near));
    }

    #join(near) {
        const far = net.connect(this.#target(), '127.0.0.1');
        for (const socket of [near, far]) {
            this.#sockets.add(socket);
            socket.setNoDelay(true);
            socket.on('error', () => {});
            socket.on('close', () => {
                this.#sockets.delete(socket);
                near.destroy();
                far.destroy();
            });
        }
        let losing = false; // the next reply of this connection
        near.on('data', (data) => {
            if (this.#watching?.(data)) {
                this.#watching = null;
                losing = true;
            }
            far.write(data);
        });
        far.on('data', (data) => {
            if (losing || this.#losing > 0) {
                if (!losing) this.#losing--;
                this.lost++;
                near.destroy();
            } else if (this.delay) {
                setTimeout(() => near.write(data), this.delay);
            } else {
                near.write(data);
            }
        });
    }

    /** The next `count` replies are lost, each with its connection. */
    lose(count) {
        this.#losing = count;
    }

    /** The reply to the next request for which `test` is true is lost, with its connection. */
    loseAfter(test) {
        this.#watching = test;
    }

    get port() {
        return this.#server.address().port;
    }

    async start() {
        await new Promise((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
        this.url = `http://127.0.0.1:${this.port}`;
        return this;
    }

    async stop() {
        for (const socket of this.#sockets) socket.destroy();
        await new Promise((resolve) => this.#server.close(resolve));
    }
}
