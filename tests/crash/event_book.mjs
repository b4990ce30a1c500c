// event_book.mjs -- the books of all workers of one tenant that send events.
//
// Every delivery is noted before it is sent and every answer is held against what is known: an id
// is applied once, by a delivery that nobody else's can have preceded, and is a duplicate of that one
// for ever. An event counts in the model once it is answered, whichever of its deliveries that was;
// workers retry everything that was not answered.

import { Model } from './event_model.mjs';

/** Its sentences are cut: one bug is usually seen a thousand times. */
const SENTENCES_MAX = 12;

export class EventBook {
    entries = new Map(); // id -> {event, deliveries, duplicates, applied, counted, sequence, receivedAt, sentAt}
    order = []; // entries, as they were first answered
    model = new Model();
    made = new Map(); // region -> {sent, answered}: distinct events of `thing.made`
    #wrong = [];

    complain(sentence) {
        if (this.#wrong.length < SENTENCES_MAX) this.#wrong.push(sentence);
    }

    takeWrong() {
        return this.#wrong.splice(0);
    }

    #bounds({ type, dimensions }) {
        const region = type === 'thing.made' ? dimensions.region : '';
        if (!this.made.has(region)) this.made.set(region, { sent: 0, answered: 0 });
        return this.made.get(region);
    }

    #entry(event) {
        if (!this.entries.has(event.eventId)) {
            this.entries.set(event.eventId, { event, deliveries: 0, duplicates: 0, applied: false, counted: false, sequence: null, receivedAt: null, sentAt: Date.now() });
            this.#bounds(event).sent++;
        }
        return this.entries.get(event.eventId);
    }

    /** Notes that an event goes out now, and returns it. With `differs` it is not what was first sent under its id. */
    sending({ event }) {
        this.#entry(event).deliveries++;
        return event;
    }

    #same(entry, field, value, where) {
        if (entry[field] !== null && entry[field] !== value) {
            this.complain(`${entry.event.eventId}: ${field} is ${value} in ${where}, and was ${entry[field]}`);
        }
        entry[field] ??= value;
    }

    /** The record of the event that the server shows or speaks of. */
    seen(entry, sequence, receivedAt, where) {
        this.#same(entry, 'sequence', sequence, where);
        if (receivedAt !== undefined) this.#same(entry, 'receivedAt', receivedAt, where);
    }

    /** Takes one result. True: the delivery is decided, else it is to be sent again. */
    answer({ event, differs = false }, result) {
        const entry = this.entries.get(event.eventId);
        if (result.status === 429 || result.status === 503) return false;
        if (result.eventId !== event.eventId || !['APPLIED', 'DROPPED_DUPLICATE'].includes(result.result)) {
            this.complain(`${event.eventId} was answered ${JSON.stringify(result)}`);
            return true;
        }
        const text = JSON.stringify(result);
        this.seen(entry, result.id, result.firstSeenAt, `the answer ${text}`);
        if (result.result === 'APPLIED') {
            if (entry.applied || differs) this.complain(`${event.eventId} was applied again: ${text}`);
            entry.applied = true;
        } else {
            if (entry.deliveries === 1) this.complain(`${event.eventId} was sent once and is a duplicate: ${text}`);
            if ((result.conflict === true) !== differs) this.complain(`${event.eventId} ${differs ? 'differs' : 'does not differ'}: ${text}`);
            entry.duplicates++;
        }
        if (!entry.counted) this.#count(entry);
        return true;
    }

    #count(entry) {
        entry.counted = true;
        this.model.apply(entry.event);
        this.order.push(entry);
        this.#bounds(entry.event).answered++;
    }

    /** Distinct `thing.made` of a region, or of all: {sent, answered}. */
    bounds(region) {
        const some = region ? [this.made.get(region)] : [...this.made].filter(([name]) => name).map(([, bounds]) => bounds);
        return some.reduce((sum, one) => ({ sent: sum.sent + (one?.sent ?? 0), answered: sum.answered + (one?.answered ?? 0) }), { sent: 0, answered: 0 });
    }
}
