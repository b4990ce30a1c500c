// event_model.mjs -- rules of every kind, and what one clean pass over events makes of them.
//
//     RULES                     the config's `counters:`, given to every server of the crash tests
//     new Model().apply(event)  each distinct event once; those of one owner in their order
//
// Everything but windows, which go by the server's clock (event_inspector.mjs works them out from the
// times the server says it received the events at). Nothing here depends on the order in which
// events of different owners arrive: counters that clamp or know states belong to one owner, and
// what they add up to is asked for only where that does not matter.

import { ROOMS } from './spread.mjs';

export const RULES = `counters:
  - counterName: made
    dimensions: [region]
    rollups: [[]]
    rules: [{ on: thing.made, op: increment }]
  - counterName: weight
    dimensions: [region, kind]
    rollups: [[], [region]]
    rules:
      - { on: thing.made, op: increment, amount: payload.size }
      - { on: thing.lost, op: decrement, amount: payload.size }
  - counterName: level
    dimensions: [owner]
    floorAtZero: true
    rules:
      - { on: level.up, op: increment, amount: payload.size }
      - { on: level.down, op: decrement, amount: payload.size }
  - counterName: present
    dimensions: [place]
    rollups: [[]]
    transition: { entity: [owner, item] }
    rules:
      - { on: item.on, op: increment }
      - { on: item.off, op: decrement }
  - counterName: views
    mode: series
    granularities: [0, 60, 3600]
    dimensions: [region]
    rollups: [[]]
    rules: [{ on: thing.made, op: increment }]
  - counterName: recent
    mode: windowed
    window: 1h
    trailing: true
    dimensions: [region]
    rollups: [[]]
    rules: [{ on: thing.made, op: increment }]
  - counterName: burst
    mode: windowed
    window: 3s
    trailing: true
    dimensions: [region]
    rollups: [[]]
    rules: [{ on: thing.made, op: increment }]
  - counterName: seats
    dimensions: [room]
    rules: [{ on: seat.taken, op: increment, amount: payload.size }]
reconcile:
  - name: rooms
    tenants: [${ROOMS.join(', ')}]
    entity: [room]
    source: { events: true }
    counters: [seats]
    scanEvery: 10ms
    minInterval: 1ms
    singleFlight: [{ every: 0s }]
`;

export const REGIONS = ['north', 'east', 'south', 'west'];
export const KINDS = ['book', 'film', 'song'];
export const PERSISTENT = ['made', 'weight', 'level', 'present'];
export const COUNTERS = [...PERSISTENT, 'views', 'recent', 'burst'];
export const WINDOWS = { recent: { ms: 3600000, bucketMs: 60000 }, burst: { ms: 3000, bucketMs: 1000 } };
export const GRANULARITIES = [0, 60, 3600];
export const EPOCH_S = 1767225600; // 2026-01-01, from where on things are said to have happened
export const SPAN_S = 7200;

/** Dimensions as one word, whatever the order of their keys. */
export function word(dimensions) {
    return JSON.stringify(Object.entries(dimensions).sort(([a], [b]) => (a < b ? -1 : 1)));
}

export class Model {
    #cells = new Map(PERSISTENT.map((name) => [name, new Map()])); // counter -> word -> {dimensions, added, subbed}
    #buckets = new Map(); // `granularity start word` -> count
    #places = new Map(); // of items that are on: `owner item` -> place

    #add(name, dimensions, amount) {
        const cells = this.#cells.get(name);
        const key = word(dimensions);
        if (!cells.has(key)) cells.set(key, { dimensions, added: 0, subbed: 0 });
        const cell = cells.get(key);
        if (amount > 0) cell.added += amount;
        else cell.subbed -= amount;
    }

    #made({ dimensions: { region }, occurredAt }) {
        for (const set of [{ region }, {}]) {
            this.#add('made', set, 1);
            for (const seconds of GRANULARITIES) {
                const start = seconds ? Math.floor(Date.parse(occurredAt) / 1000 / seconds) * seconds : 0;
                const key = `${seconds} ${start} ${word(set)}`;
                this.#buckets.set(key, (this.#buckets.get(key) ?? 0) + 1);
            }
        }
    }

    #weighed({ region, kind }, amount) {
        for (const set of [{ region, kind }, { region }, {}]) this.#add('weight', set, amount);
    }

    #lowered(owner, amount) {
        const { added = 0, subbed = 0 } = this.#cells.get('level').get(word({ owner })) ?? {};
        this.#add('level', { owner }, -Math.min(amount, added - subbed));
    }

    #switched(type, { owner, item, place }) {
        const key = `${owner} ${item}`;
        const on = this.#places.get(key);
        if ((type === 'item.on') === (on !== undefined)) return;
        if (on === undefined) this.#places.set(key, place);
        else this.#places.delete(key);
        for (const set of [{ place: on ?? place }, {}]) this.#add('present', set, on === undefined ? 1 : -1);
    }

    apply(event) {
        const { type, dimensions, payload } = event;
        if (type === 'thing.made') this.#made(event);
        if (type === 'thing.made') this.#weighed(dimensions, payload.size);
        else if (type === 'thing.lost') this.#weighed(dimensions, -payload.size);
        else if (type === 'level.up') this.#add('level', { owner: dimensions.owner }, payload.size);
        else if (type === 'level.down') this.#lowered(dimensions.owner, payload.size);
        else this.#switched(type, dimensions);
    }

    /** Every cell of a persistent counter that was ever touched: [{dimensions, added, subbed}]. */
    cells(name) {
        return [...this.#cells.get(name).values()];
    }

    /** The series of one set: start in seconds -> count. */
    series(seconds, dimensions) {
        const head = `${seconds} `;
        const tail = ` ${word(dimensions)}`;
        const keys = [...this.#buckets.keys()].filter((key) => key.startsWith(head) && key.endsWith(tail));
        return new Map(keys.map((key) => [Number(key.split(' ')[1]), this.#buckets.get(key)]));
    }
}
