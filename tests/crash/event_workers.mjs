// event_workers.mjs -- clients that send events, and those who look on (see workers.mjs for their life).
//
//     EventWorker     new events, one or many, as an object, an array or NDJSON; among them ids of the
//                     past, its own and the others', some with another content; and ids that all
//                     workers send at the same time
//     OwnerWorker     the events of one owner, one after the other, for counters that clamp or know
//                     states
//     RoomWorker      events of a reconciled counter, and requests to count it: passes come and go
//                     while it sends; with nothing under way, the next one sets the counter right
//     RebuildWorker   has one counter after the other rebuilt, and sees every job to its end. Where
//                     events are let go of it may be refused, or overtaken, for that reason
//     EventWatcher    only reads: a count of increments never falls, is never below what was
//                     answered before the question and never above what was sent before the answer
//     HistoryReader   only reads, page by page and over restarts, while others send and files are
//                     made of what they sent: each event once, in order, and all that were answered
//
// They share one EventBook. What was not answered is sent again, in the same order, until it is.

import { COUNTERS, EPOCH_S, KINDS, PERSISTENT, REGIONS, SPAN_S } from './event_model.mjs';
import { between } from './random.mjs';
import { Worker } from './workers.mjs';
import { sleep } from '../e2e/support/pace.mjs';

const NDJSON = { 'Content-Type': 'application/x-ndjson' };
const pick = (random, list) => list[between(random, 0, list.length - 1)];

/** Whatever sends events: keeps a list of deliveries until each has its answer. */
class Sender extends Worker {
    static PAUSE_MS = 4;
    #pending = [];
    #count = 0;

    constructor(tenant, name, random, book) {
        super(tenant, name, random);
        this.book = book;
    }

    newId() {
        return `${this.name}-${++this.#count}`;
    }

    async step(connection) {
        if (!this.#pending.length) this.#pending = this.choose();
        await this.#send(connection);
        await sleep(Sender.PAUSE_MS);
    }

    async settle(connection) {
        while (this.#pending.length) await this.#send(connection);
    }

    /** Sends these now and wants each answered. */
    async deliver(connection, list) {
        await this.settle(connection);
        this.#pending = list;
        await this.settle(connection);
    }

    async #send(connection) {
        const list = this.#pending;
        const reply = await this.#post(connection, list.map((delivery) => this.book.sending(delivery)));
        if (reply.status === 429 || reply.status === 503) return;
        if (reply.status !== 200) throw new Error(`${this.name}: ${reply.status} ${reply.text.slice(0, 300)}`);
        const results = reply.body.results ?? [reply.body];
        if (results.length !== list.length) throw new Error(`${this.name}: ${list.length} events, ${results.length} results`);
        this.#pending = list.filter((delivery, index) => !this.book.answer(delivery, results[index]));
        this.acknowledgedOps += list.length - this.#pending.length;
    }

    #post(connection, events) {
        const { token } = this.tenant;
        const path = `/api/events/${this.tenant.id}`;
        const form = between(this.random, events.length === 1 ? 0 : 1, 2);
        if (form === 0) return connection.call('POST', path, { token, body: events[0] });
        if (form === 1) return connection.call('POST', path, { token, body: events });
        return connection.call('POST', path, { token, body: events.map((event) => JSON.stringify(event)).join('\n'), headers: NDJSON });
    }
}

export class EventWorker extends Sender {
    static MANY = 40;
    static #shared = new WeakMap(); // book -> the event that all send at the moment, and how often

    choose() {
        const many = this.random() < 0.6;
        return Array.from({ length: many ? between(this.random, 2, EventWorker.MANY) : 1 }, () => this.#chooseOne());
    }

    #chooseOne() {
        const kind = this.random();
        const past = this.book.order;
        if (kind < 0.08 && past.length) return { event: this.#past(past).event };
        if (kind < 0.12 && past.length) return this.#conflicting(this.#past(past).event);
        if (kind < 0.25) return { event: this.#sharedEvent() };
        return { event: this.#newEvent(this.newId()) };
    }

    /** Half of them from just now, which may not be on the disk's quiet side yet. */
    #past(list) {
        const least = this.random() < 0.5 ? 0 : Math.max(0, list.length - 50);
        return list[between(this.random, least, list.length - 1)];
    }

    #conflicting(event) {
        const payload = { ...event.payload, size: (event.payload.size ?? 0) + 1 };
        return { event: { ...event, payload }, differs: true };
    }

    #sharedEvent() {
        let shared = EventWorker.#shared.get(this.book);
        if (!shared || shared.left === 0) {
            shared = { event: this.#newEvent(`shared-${this.newId()}`), left: between(this.random, 2, 6) };
            EventWorker.#shared.set(this.book, shared);
        }
        shared.left--;
        return shared.event;
    }

    #newEvent(eventId) {
        const type = this.random() < 0.8 ? 'thing.made' : 'thing.lost';
        const at = (EPOCH_S + between(this.random, 0, SPAN_S - 1)) * 1000 + between(this.random, 0, 999);
        return {
            eventId, type, occurredAt: new Date(at).toISOString(),
            dimensions: { region: pick(this.random, REGIONS), kind: pick(this.random, KINDS) },
            payload: { size: between(this.random, 1, 9), note: 'x'.repeat(between(this.random, 0, 200)) },
        };
    }

    /** Ids of the past, from everywhere in it, are duplicates still. */
    async verify(connection) {
        const past = this.book.order;
        const some = Array.from({ length: Math.min(30, past.length) }, () => ({ event: this.#past(past).event }));
        const before = some.map(({ event }) => this.book.entries.get(event.eventId).duplicates);
        if (some.length) await this.deliver(connection, some);
        some.forEach(({ event }, index) => {
            if (this.book.entries.get(event.eventId).duplicates === before[index]) this.book.complain(`${event.eventId} is no duplicate any more`);
        });
        return this.book.takeWrong();
    }
}

export class OwnerWorker extends Sender {
    choose() {
        return Array.from({ length: this.random() < 0.5 ? 1 : between(this.random, 2, 12) }, () => ({ event: this.#newEvent() }));
    }

    #newEvent() {
        const type = pick(this.random, ['level.up', 'level.down', 'item.on', 'item.off']);
        const own = { owner: this.name };
        const some = { item: `i${between(this.random, 1, 12)}`, place: `p${between(this.random, 1, 3)}` };
        return {
            eventId: this.newId(), type, occurredAt: new Date().toISOString(),
            dimensions: type.startsWith('level') ? own : { ...own, ...some },
            payload: { size: between(this.random, 1, 20) },
        };
    }

    async verify() {
        return this.book.takeWrong();
    }
}

export class RoomWorker extends Sender {
    static ROOMS = Array.from({ length: 20 }, (_, index) => `r${index}`);
    #room = 'r0';
    #at = `/api/reconcile/${this.tenant.id}/rooms`;

    choose() {
        return Array.from({ length: between(this.random, 1, 6) }, () => ({ event: this.#chooseEvent() }));
    }

    #chooseEvent() {
        const past = this.book.order;
        if (this.random() < 0.1 && past.length) return pick(this.random, past).event;
        return {
            eventId: this.newId(), type: 'seat.taken', occurredAt: new Date().toISOString(),
            dimensions: { room: this.#room },
            payload: { size: between(this.random, 1, 9) },
        };
    }

    /** A room for a while, then another: what a pass left wrong is not marked again by chance. */
    async step(connection) {
        if (this.random() < 0.15) this.#room = pick(this.random, RoomWorker.ROOMS);
        await super.step(connection);
        if (this.random() > 0.05) return;
        const room = pick(this.random, RoomWorker.ROOMS);
        const reply = await this.ask(connection, 'POST', `${this.#at}/request`, { body: { room } });
        if (reply.status !== 200) this.book.complain(`a request was answered ${reply.status} ${reply.text}`);
    }

    /** Marks that a dead worker left are taken up by the next. */
    async #awaitMarks(connection) {
        const end = Date.now() + 30000;
        for (;;) {
            const { body } = await this.ask(connection, 'GET', `${this.#at}/status`);
            if (body?.pending === 0) return;
            if (Date.now() > end) throw new Error(`marks are stuck: ${JSON.stringify(body)}`);
            await sleep(20);
        }
    }

    async #checkRoom(connection, room) {
        const taken = this.book.order.filter(({ event }) => event.dimensions.room === room).reduce((sum, { event }) => sum + event.payload.size, 0);
        const { net } = await this.triple(connection, 'seats', `?dim.room=${room}`);
        if (net !== BigInt(taken)) this.book.complain(`${room} has ${net} seats taken after a pass, the events say ${taken}`);
        const reply = await this.ask(connection, 'POST', `${this.#at}/run`, { body: { room } });
        if (reply.body?.diff?.seats !== '0') this.book.complain(`a pass of ${room} with nothing to do is answered ${reply.text}`);
    }

    async verify(connection) {
        await this.#awaitMarks(connection);
        for (const room of RoomWorker.ROOMS) await this.#checkRoom(connection, room);
        return this.book.takeWrong();
    }
}

export class RebuildWorker extends Worker {
    #admin;
    #first = 1; // the first job that was not seen done
    #promised = 0;
    #forgetful;
    #wrong = [];

    constructor(tenant, name, random, adminToken, { forgetful = false } = {}) {
        super(tenant, name, random);
        this.#admin = { token: adminToken };
        this.#forgetful = forgetful;
    }

    /** The job's id; undefined if it is rightly refused. */
    async #ask(connection) {
        const counter = pick(this.random, this.#forgetful ? PERSISTENT : COUNTERS);
        const reply = await this.ask(connection, 'POST', `/api/admin/counters/${counter}/rebuild`, this.#admin);
        if (this.#forgetful && reply.body?.code === 'history_incomplete') return undefined;
        if (reply.status !== 202) this.#wrong.push(`a rebuild of ${counter} was answered ${reply.status} ${reply.text}`);
        else this.#promised = Number(reply.body.job);
        return reply.body.job;
    }

    /** True once the job is over; absent if there is none, as when its asking was cut off. */
    async #isOver(connection, id) {
        const reply = await this.ask(connection, 'GET', `/api/admin/jobs/${id}`, this.#admin);
        if (reply.status === 404) return undefined;
        const overtaken = this.#forgetful && /no longer retained/.test(reply.body?.error);
        if (reply.body?.state === 'failed' && !overtaken) this.#wrong.push(`job ${id} failed: ${reply.text}`);
        return reply.body?.state === 'done' || reply.body?.state === 'failed';
    }

    async #await(connection, id) {
        const end = Date.now() + 20000;
        for (;;) {
            const over = await this.#isOver(connection, id);
            if (over !== false) return over;
            if (Date.now() > end) throw new Error(`job ${id} does not come to its end`);
            await sleep(5);
        }
    }

    async step(connection) {
        const id = await this.#ask(connection);
        if (id) await this.#await(connection, id);
        this.acknowledgedOps++;
        await sleep(between(this.random, 0, 60));
    }

    /** Whatever was asked for goes on by itself after a restart. */
    async settle(connection) {
        while (await this.#await(connection, this.#first)) this.#first++;
        if (this.#first <= this.#promised) this.#wrong.push(`job ${this.#promised} was promised, and there is no job ${this.#first}`);
    }

    async verify() {
        return this.#wrong.splice(0);
    }

    /** One more, with nothing else going on. */
    async rebuildNow(connection) {
        const id = await this.#ask(connection);
        if (id) await this.#await(connection, id);
    }
}

export class EventWatcher extends Worker {
    #book;
    #seen = new Map();

    constructor(tenant, name, random, book) {
        super(tenant, name, random);
        this.#book = book;
    }

    async step(connection) {
        for (const region of [...REGIONS, '']) {
            for (const name of ['made', 'views']) await this.#look(connection, name, region);
        }
        await sleep(2);
    }

    async #look(connection, name, region) {
        const { answered } = this.#book.bounds(region);
        const query = `?durationSeconds=0&timestamp=0${region && `&dim.region=${region}`}`;
        const reply = await this.ask(connection, 'GET', this.tenant.path(name, 'get') + query);
        const { sent } = this.#book.bounds(region);
        const key = `${name} ${region}`;
        const least = Math.max(answered, this.#seen.get(key) ?? 0);
        const count = Number(reply.body?.net);
        if (!(count >= least && count <= sent)) this.#book.complain(`${name} of ${region || 'all'} is ${reply.text}; ${answered} were answered, ${sent} sent, ${this.#seen.get(key) ?? 0} seen before`);
        this.#seen.set(key, count);
    }

    async verify(connection) {
        await this.step(connection);
        return this.#book.takeWrong();
    }
}

export class HistoryReader extends Worker {
    #book;
    #retentionMs;
    #after = ''; // a cursor, as old as its page
    #last = 0n; // the sequence up to which everything was seen
    #read = 0; // of the book's order

    /** With a retention it reads all that is retained, each time; else it goes on where it was. */
    constructor(tenant, name, random, book, { retentionMs = Infinity } = {}) {
        super(tenant, name, random);
        this.#book = book;
        this.#retentionMs = retentionMs;
    }

    async step(connection) {
        const answered = this.#book.order.length;
        const seen = await this.#readOn(connection);
        const now = Date.now();
        const least = this.#retentionMs === Infinity ? this.#read : Math.max(0, answered - 500);
        for (const { event, sequence, sentAt } of this.#book.order.slice(least, answered)) {
            const old = sentAt < now - this.#retentionMs && this.#retentionMs < Infinity;
            const before = this.#retentionMs === Infinity && BigInt(sequence) <= this.#last;
            if (!old && !before && !seen.has(event.eventId)) this.#book.complain(`${event.eventId} was answered with ${sequence} and is not in history, read after ${this.#last}`);
        }
        this.#read = answered;
        for (const sequence of seen.values()) if (this.#retentionMs === Infinity && sequence > this.#last) this.#last = sequence;
        await sleep(5);
    }

    /** Event ids with their sequences, from the cursor to the end. Cut off, it begins where it began. */
    async #readOn(connection) {
        const seen = new Map();
        let last = 0n;
        let cursor = this.#after;
        let after = cursor;
        do {
            const reply = await this.ask(connection, 'GET', `/api/events/${this.tenant.id}?limit=100${after && `&after=${after}`}`);
            if (reply.status !== 200) throw this.#failed(reply);
            for (const one of reply.body.events) {
                if (BigInt(one.id) <= last) this.#book.complain(`history, read page by page: ${one.id} comes after ${last}`);
                last = BigInt(one.id);
                if (seen.has(one.eventId)) this.#book.complain(`history, read page by page, has ${one.eventId} twice`);
                seen.set(one.eventId, last);
                this.#check(one);
            }
            after = reply.body.next;
            if (after && this.#retentionMs === Infinity) cursor = after;
        } while (after);
        this.#after = cursor;
        return seen;
    }

    #check({ id, eventId, receivedAt }) {
        const entry = this.#book.entries.get(eventId);
        if (entry) this.#book.seen(entry, id, receivedAt, 'history, read page by page');
        else this.#book.complain(`history has ${eventId}, which nobody sent`);
    }

    #failed(reply) {
        this.#book.complain(`history was answered ${reply.status} ${reply.text}`);
        return new Error('no history');
    }

    async verify(connection) {
        await this.step(connection);
        return this.#book.takeWrong();
    }
}
