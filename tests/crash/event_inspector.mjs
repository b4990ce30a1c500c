// event_inspector.mjs -- everything the server has of a tenant's events, held against the workers' books.
//
// With nothing under way any more,
//
//     history     has each answered event once, as it was sent, under the number and the time that
//                 the answers spoke of, in the order of the numbers; with a retention only a head of
//                 it may be missing, and only what is old enough
//     duplicates  as many records of an id as it has had duplicates for an answer, or more, but not
//                 as many as deliveries
//     counters    persistent ones and series are what one clean pass makes of the answered events,
//                 and have no other cells; the whole is the sum of its parts
//     windows     count the events received since they began, and the last ones for `trailing`
//     a rebuild   changes none of that

import { EPOCH_S, GRANULARITIES, PERSISTENT, REGIONS, SPAN_S, WINDOWS, word } from './event_model.mjs';
import { Worker } from './workers.mjs';

const PAGE = 2000;

export class EventInspector extends Worker {
    #book;
    #retentionMs;
    #rebuilder;

    /** `rebuilder` is asked to rebuild one more counter before the counters are read. */
    constructor(tenant, name, random, book, { retentionMs = Infinity, rebuilder = null } = {}) {
        super(tenant, name, random);
        this.#book = book;
        this.#retentionMs = retentionMs;
        this.#rebuilder = rebuilder;
    }

    async step() {
        throw new Error('an inspector comes when the work is done');
    }

    async run() {}

    async #get(connection, path) {
        const reply = await this.ask(connection, 'GET', path);
        if (reply.status !== 200) throw new Error(`${path}: ${reply.status} ${reply.text}`);
        return reply.body;
    }

    async #pages(connection, path, member) {
        const records = [];
        let after = '';
        do {
            const page = await this.#get(connection, `${path}?limit=${PAGE}${after && `&after=${after}`}`);
            records.push(...page[member]);
            after = page.next;
        } while (after);
        return records;
    }

    async verify(connection) {
        if (this.#rebuilder) await this.#rebuilder.rebuildNow(connection);
        const events = await this.#pages(connection, `/api/events/${this.tenant.id}`, 'events');
        this.#checkHistory(events, Date.now());
        await this.#checkSomeById(connection, events);
        this.#checkDuplicates(await this.#pages(connection, `/api/duplicates/${this.tenant.id}`, 'duplicates'));
        for (const name of PERSISTENT) await this.#checkPersistent(connection, name);
        for (const region of ['', ...REGIONS]) await this.#checkSeries(connection, region);
        if (this.#retentionMs === Infinity) for (const region of ['', ...REGIONS]) await this.#checkWindows(connection, region, events);
        return this.#book.takeWrong();
    }

    #checkHistory(events, now) {
        const listed = new Set();
        let last = 0n;
        for (const one of events) {
            if (BigInt(one.id) <= last) this.#book.complain(`history: ${one.id} comes after ${last}`);
            last = BigInt(one.id);
            if (listed.has(one.eventId)) this.#book.complain(`history has ${one.eventId} twice`);
            listed.add(one.eventId);
            this.#checkEvent(one);
        }
        this.#checkMissing(this.#book.order.filter(({ event }) => !listed.has(event.eventId)), events, now);
    }

    #checkEvent({ id, eventId, type, occurredAt, receivedAt, dimensions, payload }) {
        const entry = this.#book.entries.get(eventId);
        if (!entry?.counted) {
            this.#book.complain(`history has ${eventId}, which nobody was told of`);
            return;
        }
        this.#book.seen(entry, id, receivedAt, 'history');
        const sent = entry.event;
        const same = type === sent.type && occurredAt === sent.occurredAt && word(dimensions) === word(sent.dimensions);
        if (!same || JSON.stringify(payload) !== JSON.stringify(sent.payload)) this.#book.complain(`${eventId} is not as it was sent in history`);
    }

    #checkMissing(missing, events, now) {
        const first = BigInt(events[0]?.id ?? 0);
        for (const { event, sequence, sentAt } of missing) {
            if (sentAt >= now - this.#retentionMs || this.#retentionMs === Infinity) this.#book.complain(`${event.eventId} is missing from history`);
            else if (first && BigInt(sequence) > first) this.#book.complain(`${event.eventId} is missing from the middle of history`);
        }
    }

    async #checkSomeById(connection, events) {
        for (const one of [events[0], events[Math.floor(events.length / 2)], events.at(-1)]) {
            if (!one) return;
            const reply = await this.ask(connection, 'GET', `/api/events/${this.tenant.id}/${one.eventId}`);
            const gone = reply.status === 404 && this.#retentionMs < Infinity;
            if (!gone && JSON.stringify(reply.body) !== JSON.stringify(one)) this.#book.complain(`${one.eventId} alone is ${reply.text}`);
        }
    }

    #checkDuplicates(records) {
        const counts = new Map();
        for (const record of records) counts.set(record.event_id, (counts.get(record.event_id) ?? 0) + 1);
        for (const [id, { deliveries, duplicates, counted }] of this.#book.entries) {
            const count = counts.get(id) ?? 0;
            if (count < duplicates && this.#retentionMs === Infinity) this.#book.complain(`${id} was answered as a duplicate ${duplicates} times, and is audited ${count} times`);
            if (counted && count >= deliveries) this.#book.complain(`${id} was sent ${deliveries} times, and ${count} duplicates of it are audited`);
            counts.delete(id);
        }
        for (const id of counts.keys()) this.#book.complain(`a duplicate of ${id} is audited, which nobody sent`);
    }

    async #checkPersistent(connection, name) {
        const { cells } = await this.#get(connection, `${this.tenant.path(name, 'cells')}?limit=10000`);
        const stored = new Map(cells.map((cell) => [word(cell.dimensions), cell]));
        if (stored.size !== cells.length) this.#book.complain(`${name} lists a set twice`);
        for (const { dimensions, added, subbed } of this.#book.model.cells(name)) {
            const cell = stored.get(word(dimensions)) ?? { net: '0', added: '0', subbed: '0' };
            stored.delete(word(dimensions));
            await this.#checkCell(connection, name, dimensions, cell);
            if (Number(cell.added) !== added || Number(cell.subbed) !== subbed || Number(cell.net) !== added - subbed) {
                this.#book.complain(`${name} ${JSON.stringify(dimensions)}: stored ${cell.net} = ${cell.added} - ${cell.subbed}, a clean pass gives ${added} - ${subbed}`);
            }
        }
        for (const [key, cell] of stored) if (cell.added !== '0' || cell.subbed !== '0') this.#book.complain(`${name} ${key} has ${cell.added} - ${cell.subbed}, out of nothing`);
        if (name === 'made' || name === 'present') this.#checkSum(name, cells);
    }

    async #checkCell(connection, name, dimensions, { net, added, subbed }) {
        const query = new URLSearchParams(Object.entries(dimensions).map(([key, value]) => [`dim.${key}`, value]));
        const body = await this.#get(connection, `${this.tenant.path(name, 'get')}?${query}`);
        if (body.net !== net || body.added !== added || body.subbed !== subbed) this.#book.complain(`${name}?${query} is ${JSON.stringify(body)}, but listed with ${added} - ${subbed}`);
    }

    #checkSum(name, cells) {
        const isWhole = ({ dimensions }) => Object.keys(dimensions).length === 0;
        const whole = Number(cells.find(isWhole)?.net ?? 0);
        const sum = cells.filter((cell) => !isWhole(cell)).reduce((total, cell) => total + Number(cell.net), 0);
        if (whole !== sum) this.#book.complain(`${name} is ${whole} for the whole tenant, its parts add up to ${sum}`);
    }

    async #checkSeries(connection, region) {
        for (const seconds of GRANULARITIES) {
            const range = `durationSeconds=${seconds}&startTime=${seconds && EPOCH_S}&endTime=${EPOCH_S + SPAN_S}${region && `&dim.region=${region}`}`;
            const { buckets } = await this.#get(connection, `${this.tenant.path('views', 'series')}?${range}`);
            const expected = this.#book.model.series(seconds, region ? { region } : {});
            const stored = new Map(buckets.map((bucket) => [Date.parse(bucket.timeStart) / 1000, Number(bucket.net)]));
            const starts = [...new Set([...expected.keys(), ...stored.keys()])];
            const wrong = starts.filter((start) => expected.get(start) !== stored.get(start));
            if (wrong.length) this.#book.complain(`views of ${region || 'all'} by ${seconds}: bucket ${wrong[0]} has ${stored.get(wrong[0])}, a clean pass gives ${expected.get(wrong[0])}; ${wrong.length} differ`);
        }
    }

    /** The server reads its clock somewhere between the question and the answer. */
    async #checkWindows(connection, region, events) {
        const asked = Date.now();
        const { windows } = await this.#get(connection, `/api/windows/${this.tenant.id}${region && `?dim.region=${region}`}`);
        const answered = Date.now();
        const times = events.filter(({ type, dimensions }) => type === 'thing.made' && (!region || dimensions.region === region)).map(({ receivedAt }) => Date.parse(receivedAt));
        const since = (time) => times.filter((one) => one >= time).length;
        for (const { counterType: name, currentValue, windowStart, trailing } of windows) {
            const { ms, bucketMs } = WINDOWS[name];
            const text = `${name} of ${region || 'all'}`;
            const lastStart = startOfLast(times, ms);
            if (windowStart !== null && windowStart !== lastStart) this.#book.complain(`${text} began at ${windowStart}, and not at ${lastStart}`);
            if (windowStart === null && times.length) this.#book.complain(`${text} has never begun`);
            const value = since(windowStart);
            const may = [...(answered >= windowStart + ms ? [0] : []), ...(asked < windowStart + ms ? [value] : [])];
            if (windowStart !== null && !may.includes(currentValue)) this.#book.complain(`${text} is ${currentValue}, since it began at ${windowStart} there were ${value} events`);
            const [most, least] = [asked, answered].map((now) => since(Math.floor((now - ms) / bucketMs) * bucketMs));
            if (trailing < least || trailing > most) this.#book.complain(`${text}: trailing is ${trailing}, there were ${least} to ${most} events`);
        }
    }
}

/** When the last window began: each begins with the first event after the one before is over. */
function startOfLast(times, ms) {
    let start = null;
    for (const time of times) if (start === null || time >= start + ms) start = time;
    return start;
}
