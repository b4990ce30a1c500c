// board.js -- the page of one signed-in tenant: panels, the stream that moves them, and what they fetch.
//
// The stream brings what changes all the time. What is larger (a plot, a table) is fetched when the stream
// says that something happened, at most once a second, one round at a time.

import { Api, dimQuery } from './api.js';
import { setServerTime } from './clock.js';
import { showProblem } from './dom.js';
import { Duplicates } from './panels/duplicates.js';
import { Explorer } from './panels/explorer.js';
import { Health } from './panels/health.js';
import { Live } from './panels/live.js';
import { Nodes } from './panels/nodes.js';
import { Top } from './panels/top.js';
import { Usage } from './panels/usage.js';
import { Windows } from './panels/windows.js';
import { Stream } from './stream.js';

const REFRESH_MS = 1000;

function waiting(ms, problem) {
    const when = ms >= 1000 ? ` in ${Math.round(ms / 1000)} s` : '';
    return problem ? `${problem} Asking again${when}` : `Reconnecting${when}`;
}

export class Board {
    #stream = null;
    #before = null; // the stream that this one follows, until it has begun
    #abort = new AbortController();
    #seen = '';
    #due = true;
    #busy = false;
    #timer = null;

    /** `on` has status(kind, text) and refused(ApiError). */
    constructor(root, session, on) {
        this.api = new Api(session);
        this.on = on;
        const explorer = new Explorer(this.api);
        this.panels = [
            new Live(),
            new Windows((dimensions) => this.#listen(dimQuery(dimensions))),
            new Usage(this.api),
            explorer,
            new Top(this.api, (name, dimensions) => explorer.open(name, dimensions)),
            new Duplicates(this.api),
            new Health(this.api),
            new Nodes(this.api),
        ];
        root.replaceChildren(...this.panels.map(({ element }) => element));
        root.classList.add('stale');
        this.root = root;
        this.#listen({});
        this.#timer = setInterval(() => this.#refresh(), REFRESH_MS / 4);
    }

    /** The stream of before goes when the next one is there, so that the server goes on counting. */
    #listen(query) {
        this.#before?.stop();
        const before = (this.#before = this.#stream);
        this.on.status('wait', 'Connecting');
        const stream = new Stream(this.api, query, {
            event: (name, data) => this.#stream === stream && this.#event(name, data),
            open: () => before?.stop(),
            wait: (ms, heard, problem) => {
                before?.stop();
                this.root.classList.add('stale');
                this.#tell('lost', heard);
                this.on.status('wait', waiting(ms, problem));
            },
            refused: (error) => this.on.refused(error),
        });
        this.#stream = stream;
    }

    #event(name, data) {
        if (name === 'rules') {
            this.#tell('rules', data);
            this.#due = true;
        }
        if (name !== 'state') return;
        setServerTime(data.at);
        this.root.classList.remove('stale');
        this.on.status('live', 'Live', data);
        this.#tell('state', data);
        const seen = JSON.stringify(data.activity);
        if (seen !== this.#seen) this.#due = true;
        this.#seen = seen;
        this.#refresh();
    }

    #tell(what, data) {
        for (const panel of this.panels) panel[what]?.(data);
    }

    /** Plots move on with time too, so there is a round every minute in any case. */
    async #refresh() {
        const now = Date.now();
        const late = now - (this.refreshedAt ?? 0);
        if (this.#busy || document.hidden || late < REFRESH_MS || (!this.#due && late < 60000)) return;
        if (this.#seen === '') return;
        this.#busy = true;
        this.#due = false;
        this.refreshedAt = now;
        const rounds = this.panels.map((panel) => panel.refresh?.({ signal: this.#abort.signal }));
        const results = await Promise.allSettled(rounds);
        if (results.some(({ status }) => status === 'rejected')) this.#due = true;
        results.forEach(({ reason }, i) => showProblem(this.panels[i].element, reason));
        this.#busy = false;
    }

    /** The tab is looked at again, or the network is back. */
    wake() {
        this.#stream.hurry();
        this.#due = true;
    }

    destroy() {
        clearInterval(this.#timer);
        this.#abort.abort();
        this.#before?.stop();
        this.#stream.stop();
        for (const panel of this.panels) panel.destroy?.();
        this.root.replaceChildren();
    }
}
