// health.js -- whether the server can do its work: storage for everybody, the rest for those who may see it.

import { card, el, setText, show } from '../dom.js';
import { bytes, grouped } from '../format.js';

const ROWS = [
    ['Storage', ({ storage }) => (storage === 'ok' ? 'ok: writes are durable' : 'cannot write now: writes are answered 503'), ({ storage }) => storage === 'ok'],
    ['Queue', ({ server }) => `${grouped(server.queueDepth)} of ${grouped(server.queueLimit)}`, ({ server }) => Number(server.queueDepth) < 0.8 * Number(server.queueLimit)],
    ['Journal', ({ server }) => `${bytes(server.journalBytes)} in ${grouped(server.journalSegments)} files`],
    ['Durable up to', ({ server }) => `sequence ${grouped(server.durableSequence)}`],
    ['Written back', ({ server }) => `${grouped(BigInt(server.durableSequence) - BigInt(server.appliedSequence))} behind, ${grouped(server.checkpoints)} checkpoints`],
    ['Ids remembered', ({ server }) => `${grouped(server.registryIds)}, filters ${bytes(server.registryFilterBytes)}`],
    ['Memory for cells', ({ server }) => `${bytes(server.cacheBytes)}, ${grouped(server.dirtyCells)} changed`],
    ['Disk free', ({ server }) => bytes(server.diskFreeBytes), ({ server }) => Number(server.diskFreeBytes) > 2 ** 30],
    ['Storage errors', ({ server }) => grouped(server.storageErrors), ({ server }) => server.storageErrors === '0'],
    ['Connections', ({ server }) => grouped(server.connections)],
    ['Clock', ({ server }) => (server.clockSuspect === '0' ? 'steady' : 'jumped: nothing expires until SIGHUP confirms it'), ({ server }) => server.clockSuspect === '0'],
];

export class Health {
    constructor() {
        this.rows = ROWS.map(([title, text, good]) => {
            const value = el('dd', { textContent: '\u2013' });
            return { title, text, good, value, element: el('div', { class: 'row' }, el('dt', { textContent: title }), value) };
        });
        this.hidden = el('p', { class: 'muted foot', textContent: 'Figures of the whole server are shown to administrators (metrics.public is off).' });
        this.element = card('Health', { wide: true }, el('dl', { class: 'rows columns' }, ...this.rows.map(({ element }) => element)), this.hidden);
        show(this.hidden, false);
    }

    state(state) {
        show(this.hidden, !state.server);
        for (const { title, text, good, value, element } of this.rows) {
            const visible = title === 'Storage' || Boolean(state.server);
            show(element, visible);
            if (!visible) continue;
            const fine = good ? good(state) : null;
            setText(value, text(state));
            value.className = fine === null ? '' : fine ? 'good' : 'bad';
        }
    }
}
