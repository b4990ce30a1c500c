// app.mjs -- a small application: people talk in conversations, and vote on what others say.
//
// Its records are in PostgreSQL, its counters in tally. Each write commits its record first and then posts an
// event with an id made from the record, so that posting it again after a crash or a time-out counts nothing
// twice. Writes that have no event of their own ask for the conversation to be counted anew.
//
// psql is its database driver, so that this example needs nothing but PostgreSQL and Node.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** sql`SELECT ${value}` with psql's own quoting of values; gives the rows as lists of texts. */
function database(dsn) {
    return async (parts, ...values) => {
        const text = parts.reduce((before, part, index) => `${before}:'v${index - 1}'${part}`);
        const variables = values.flatMap((value, index) => ['-v', `v${index}=${value}`]);
        const child = run('psql', [dsn, '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', ...variables]);
        child.child.stdin.end(text);
        const { stdout } = await child;
        return stdout.split('\n').filter(Boolean).map((line) => line.split('|'));
    };
}

export class App {
    /** `tally` is {url, token, tenant}; `dsn` says where the records are. */
    constructor(tally, dsn) {
        this.tally = tally;
        this.sql = database(dsn);
    }

    async #call(method, path, body) {
        const reply = await fetch(`${this.tally.url}${path}`, {
            method,
            headers: { Authorization: `Bearer ${this.tally.token}`, ...(body && { 'Content-Type': 'application/json' }) },
            body: body && JSON.stringify(body),
        });
        const answer = await reply.json();
        if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${answer.error}`);
        return answer;
    }

    /** Tells tally what happened. The id is the record's, so a repeat is no second count. */
    #post(type, conversation, record) {
        return this.#call('POST', `/api/events/${this.tally.tenant}`,
            { eventId: `${type}-${record}`, type, dimensions: { conversation } });
    }

    // ---- what people do: a record, then an event ----

    async join(name) {
        const [[id]] = await this.sql`INSERT INTO person (name) VALUES (${name}) RETURNING id`;
        return id;
    }

    async open(slug, title) {
        await this.sql`INSERT INTO conversation VALUES (${slug}, ${title})`;
    }

    async say(slug, author) {
        const [[id]] = await this.sql`INSERT INTO opinion (conversation_slug, author_id, current_content_id)
            VALUES (${slug}, ${author}, 1) RETURNING id`;
        await this.#post('opinion.created', slug, id);
        return id;
    }

    async vote(slug, opinion, author, agrees) {
        const [[id]] = await this.sql`INSERT INTO vote (opinion_id, author_id, agrees)
            VALUES (${opinion}, ${author}, ${agrees}) RETURNING id`;
        await this.#post('vote.cast', slug, id);
        return id;
    }

    async cancel(slug, vote) {
        await this.sql`UPDATE vote SET cancelled_at = now() WHERE id = ${vote}`;
        await this.#post('vote.cancelled', slug, vote);
    }

    // ---- what happens behind the counters: many records, no event ----

    async moderate(opinion) {
        const [[slug]] = await this.sql`UPDATE opinion SET moderated_at = now() WHERE id = ${opinion}
            RETURNING conversation_slug`;
        await this.request(slug);
    }

    async leave(author) {
        await this.sql`UPDATE person SET deleted_at = now() WHERE id = ${author}`;
        const touched = await this.sql`SELECT DISTINCT conversation_slug FROM opinion WHERE author_id = ${author}
            UNION SELECT o.conversation_slug FROM vote v JOIN opinion o ON o.id = v.opinion_id WHERE v.author_id = ${author}`;
        for (const [slug] of touched) await this.request(slug);
    }

    /** "Count this conversation anew when you get to it." Durable once it returns. */
    request(slug) {
        return this.#call('POST', `/api/reconcile/${this.tally.tenant}/conversation/request`, { conversation: slug });
    }

    // ---- what a page shows: stored counters, never a COUNT(*) ----

    async counts(slug) {
        const queries = ['opinion_count', 'vote_count', 'participant_count']
            .map((name) => ({ get: { name, dimensions: { conversation: slug } } }));
        const { results } = await this.#call('POST', `/api/counters/${this.tally.tenant}/query`, { queries });
        const [opinions, votes, participants] = results.map((result) => Number(result.net));
        return { opinions, votes, participants };
    }

    /** How many conversations wait to be counted anew. */
    async pending() {
        return (await this.#call('GET', `/api/reconcile/${this.tally.tenant}/conversation/status`)).pending;
    }

    async drift() {
        return (await this.#call('GET', `/api/reconcile/${this.tally.tenant}/conversation/drift`)).drift;
    }
}
