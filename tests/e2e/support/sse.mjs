// sse.mjs -- reads a stream of server-sent events with fetch, as the dashboard does.

import { eventually, within } from './pace.mjs';

export class EventStream {
    events = [];
    comments = 0;
    ended = false;
    #abort = new AbortController();

    /** Opens GET /api/stream/{tenant}; `reply` is the fetch response, `body` of a refusal its JSON. */
    static async open(server, tenant, token, query = '') {
        const stream = new EventStream();
        stream.reply = await fetch(`${server.url}/api/stream/${tenant}${query}`, {
            headers: token ? { Authorization: `Bearer ${token}` } : {},
            signal: stream.#abort.signal,
        });
        if (stream.reply.status === 200) stream.over = stream.#read();
        else stream.body = await stream.reply.json();
        return stream;
    }

    async #read() {
        let text = '';
        try {
            for await (const piece of this.reply.body.pipeThrough(new TextDecoderStream())) {
                text += piece;
                const blocks = text.split('\n\n');
                text = blocks.pop();
                blocks.forEach((block) => this.#take(block));
            }
        } catch (error) {
            this.error = error; // the connection broke, or close() was called
        }
        this.ended = true;
    }

    #take(block) {
        if (block.startsWith(':')) this.comments++;
        const fields = Object.fromEntries(block.split('\n').map((line) => line.split(/: ?(.*)/s).slice(0, 2)));
        if (fields.event) this.events.push({ event: fields.event, data: JSON.parse(fields.data) });
    }

    get states() {
        return this.events.filter(({ event }) => event === 'state').map(({ data }) => data);
    }

    get rules() {
        return this.events.findLast(({ event }) => event === 'rules')?.data;
    }

    /** The first state for which `wanted` holds. */
    state(what, wanted = () => true) {
        return eventually(what, () => this.states.find(wanted), { ms: 30000, every: 10 });
    }

    end() {
        return within(30000, 'the stream to end', this.over);
    }

    close() {
        this.#abort.abort();
        return this.over;
    }
}
