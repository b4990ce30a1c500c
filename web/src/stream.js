// stream.js -- server-sent events with an Authorization header, which EventSource cannot send. Comes again
// after every end, waiting longer each time it fails.

import { ApiError } from './api.js';

const WAIT_MS = [250, 500, 1000, 2000, 4000, 8000];
const SILENCE_MS = 30000; // the server says something every ten seconds; after three it is gone

/** Calls `each(event, data)` for every event that `body` brings. */
async function readEvents(body, each, alive) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        alive();
        text += value;
        const blocks = text.split('\n\n');
        text = blocks.pop();
        for (const block of blocks) {
            const event = /^event: (.*)$/m.exec(block);
            const data = /^data: (.*)$/m.exec(block);
            if (event && data) each(event[1], JSON.parse(data[1]));
        }
    }
}

export class Stream {
    #stopped = false;
    #abort = null;
    #failures = 0;
    #wakeUp = null;

    #heard = Date.now(); // when there was a sign of life last
    #problem = null; // what the server said in place of a stream

    /** `on` has: event(name, data), open(), wait(ms, heard, problem), refused(ApiError). */
    constructor(api, query, on) {
        this.api = api;
        this.query = query;
        this.on = on;
        this.run();
    }

    stop() {
        this.#stopped = true;
        this.#abort?.abort();
        this.#wakeUp?.();
    }

    /** Tries now rather than at the end of the wait. */
    hurry() {
        this.#wakeUp?.();
    }

    async run() {
        while (!this.#stopped) {
            await this.#once();
            if (this.#stopped) return;
            const wait = WAIT_MS[Math.min(this.#failures, WAIT_MS.length - 1)];
            this.#failures++;
            this.on.wait(wait, this.#heard, this.#problem);
            await new Promise((resolve) => {
                this.#wakeUp = resolve;
                setTimeout(resolve, wait * (0.8 + 0.4 * Math.random()));
            });
        }
    }

    async #once() {
        const abort = new AbortController();
        this.#abort = abort;
        let silence;
        const wait = () => {
            clearTimeout(silence);
            silence = setTimeout(() => abort.abort(), SILENCE_MS);
        };
        const alive = () => {
            this.#heard = Date.now();
            wait();
        };
        this.#problem = null;
        wait();
        try {
            const path = `/api/stream/${encodeURIComponent(this.api.tenant)}`;
            const reply = await this.api.request(path, this.query, { signal: abort.signal });
            if (!reply.ok) return this.#refused(await ApiError.of(reply));
            this.on.open();
            await readEvents(reply.body, (event, data) => this.#take(event, data), alive);
            this.#heard = Date.now(); // it was told that this is the end
        } catch {
            // Whatever broke, it is tried again.
        } finally {
            clearTimeout(silence);
        }
    }

    #take(event, data) {
        if (this.#stopped) return;
        this.#failures = 0;
        this.on.event(event, data);
    }

    /** What will not change by trying again ends it. */
    #refused(error) {
        this.#problem = error.message;
        if (this.#stopped || ![400, 401, 403, 404].includes(error.status)) return;
        this.#stopped = true;
        this.on.refused(error);
    }
}
