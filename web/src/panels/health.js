// health.js -- whether the server can do its work: storage for everybody, the rest for those who may see it.

import { serverTime } from '../clock.js';
import { card, el, setText, show } from '../dom.js';
import { bytes, counted, duration, grouped } from '../format.js';

/** What only a store in files of its own has: in PostgreSQL these are the database's. */
const FILES = new Set(['Journal', 'Written back', 'Id registry', 'Disk free']);
const hasFiles = ({ server }) => Number(server.journalSegments) > 0;

const ROWS = [
    ['Storage', ({ storage }) => (storage === 'ok' ? 'ok: writes are durable' : 'cannot write now: writes are answered 503'), ({ storage }) => storage === 'ok'],
    ['Queue', ({ server }) => `${grouped(server.queueDepth)} of ${grouped(server.queueLimit)}`, ({ server }) => Number(server.queueDepth) < 0.8 * Number(server.queueLimit)],
    ['Journal', ({ server }) => `${bytes(server.journalBytes)} in ${counted(server.journalSegments, 'file')}`],
    ['Durable up to', ({ server }) => `sequence ${grouped(server.durableSequence)}`],
    ['Written back', ({ server }) => `${grouped(BigInt(server.durableSequence) - BigInt(server.appliedSequence))} behind, ${counted(server.checkpoints, 'checkpoint')}`],
    ['Id registry', ({ server }) => `${counted(server.registryIds, 'id')} remembered, filters ${bytes(server.registryFilterBytes)}`],
    ['Memory for cells', ({ server }) => `${bytes(server.cacheBytes)}, ${grouped(server.dirtyCells)} changed`],
    ['Disk free', ({ server }) => bytes(server.diskFreeBytes), ({ server }) => Number(server.diskFreeBytes) > 2 ** 30],
    ['Storage errors', ({ server }) => grouped(server.storageErrors), ({ server }) => server.storageErrors === '0'],
    ['Connections', ({ server }) => grouped(server.connections)],
    ['Clock', ({ server }) => (server.clockSuspect === '0' ? 'steady' : 'stepped, and is not believed: nothing expires early; if it is right, tally clock accept'), ({ server }) => server.clockSuspect === '0'],
];

const RECONCILE_MS = 3000; // it looks through what waits, so not with every change

function reconcileText({ pending, failing, oldestMarkAt, source, retryInSeconds }) {
    const waits = pending ? `${grouped(pending)} to recount, oldest for ${duration(Math.floor((serverTime() - Date.parse(oldestMarkAt)) / 1000))}` : 'nothing to recount';
    const failed = failing ? `, ${grouped(failing)} failed` : '';
    return source === 'ok' ? waits + failed : `source is down, asked again in ${retryInSeconds} s; ${waits}${failed}`;
}

function row(title) {
    const value = el('dd', { textContent: '\u2013' });
    return { value, element: el('div', { class: 'row' }, el('dt', { class: 'name', textContent: title }), value) };
}

export class Health {
    constructor(api) {
        this.api = api;
        this.reconciles = new Map();
        this.askedAt = 0;
        this.rows = ROWS.map(([title, text, good]) => ({ title, text, good, ...row(title) }));
        this.hidden = el('p', { class: 'muted foot', textContent: 'Figures of the whole server are shown to administrators (metrics.public is off).' });
        this.none = row('Reconcile');
        setText(this.none.value, 'not set up for this tenant');
        this.list = el('dl', { class: 'rows columns' }, ...this.rows.map(({ element }) => element), this.none.element);
        this.element = card('Health', { wide: true }, this.list, this.hidden);
        show(this.hidden, false);
    }

    state(state) {
        show(this.hidden, !state.server);
        for (const { title, text, good, value, element } of this.rows) {
            const visible = title === 'Storage' || (Boolean(state.server) && (!FILES.has(title) || hasFiles(state)));
            show(element, visible);
            if (!visible) continue;
            const fine = good ? good(state) : null;
            setText(value, text(state));
            value.className = fine === null ? '' : fine ? 'good' : 'bad';
        }
    }

    rules({ reconciles = [] }) {
        for (const [name, { element }] of this.reconciles) if (!reconciles.includes(name)) element.remove();
        this.reconciles = new Map(reconciles.map((name) => [name, this.reconciles.get(name) ?? row(`Reconcile ${name}`)]));
        this.list.append(...[...this.reconciles.values()].map(({ element }) => element));
        show(this.none.element, reconciles.length === 0);
        this.askedAt = 0;
    }

    async refresh(options) {
        const now = Date.now();
        if (now - this.askedAt < RECONCILE_MS) return;
        await Promise.all([...this.reconciles].map(async ([name, { value }]) => {
            const status = await this.api.reconcileStatus(name, options);
            setText(value, reconcileText(status));
            value.className = status.source === 'ok' && !status.failing ? 'good' : 'bad';
        }));
        this.askedAt = now;
    }
}
