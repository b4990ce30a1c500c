// nodes.js -- the processes that share the database, for administrators; nothing where the store is not shared.

import { serverTime } from '../clock.js';
import { card, el, show } from '../dom.js';
import { moment } from '../format.js';

const COLUMNS = [['Address', 'name'], ['State', ''], ['Leads lanes', 'name'], ['Last seen', 'when roomy']];
const EVERY_MS = 5000;
const AWAY_MS = 20000; // each says every five seconds that it is there

/** 0 to 3, 7 */
function spans(numbers) {
    const found = [];
    for (const number of numbers) {
        const last = found.at(-1);
        if (last && last[1] === number - 1) last[1] = number;
        else found.push([number, number]);
    }
    return found.map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`)).join(', ');
}

export class Nodes {
    constructor(api) {
        this.api = api;
        this.askedAt = 0;
        this.abort = new AbortController();
        this.body = el('tbody');
        this.element = card('Nodes', {}, el('div', { class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Nodes' },
            el('table', {}, el('thead', {}, el('tr', {}, ...COLUMNS.map(([text, kind]) => el('th', { scope: 'col', class: kind, textContent: text })))), this.body)));
        show(this.element, false);
    }

    state({ admin }) {
        if (!admin || document.hidden || Date.now() - this.askedAt < EVERY_MS) return;
        this.askedAt = Date.now();
        this.api.nodes({ signal: this.abort.signal }).then(({ nodes }) => this.#draw(nodes), () => {});
    }

    #draw(nodes) {
        show(this.element, nodes.length > 0);
        this.body.replaceChildren(...nodes.map((node) => el('tr', {},
            el('td', { class: 'name', textContent: node.address, title: node.address }),
            el('td', { textContent: serverTime() - Date.parse(node.seenAt) > AWAY_MS ? 'not seen' : node.self ? 'this one' : 'there' }),
            el('td', { class: 'name', textContent: spans(node.lanes) || '\u2013' }),
            el('td', { class: 'when roomy', textContent: moment(node.seenAt) }))));
    }

    destroy() {
        this.abort.abort();
    }
}
