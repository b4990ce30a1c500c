// story.mjs -- what the example shows, step by step. `show(title, counts)` is called after each.

import { setTimeout as sleep } from 'node:timers/promises';

/** Waits until the counters are as they should be: reconciling takes its time, and is in no hurry. */
async function heals(app, slug, wanted, seconds = 60) {
    const same = (counts) => Object.keys(wanted).every((key) => counts[key] === wanted[key]);
    let counts;
    for (const end = Date.now() + seconds * 1000; Date.now() < end; await sleep(50)) {
        counts = await app.counts(slug);
        if (same(counts)) return counts;
    }
    throw new Error(`still ${JSON.stringify(counts)}, not ${JSON.stringify(wanted)}`);
}

/** Waits until nothing is marked any more: events mark, too. */
async function settles(app, seconds = 60) {
    for (const end = Date.now() + seconds * 1000; Date.now() < end; await sleep(50)) {
        if ((await app.pending()) === 0) return;
    }
    throw new Error('marks are still waiting');
}

export async function story(app, show) {
    const slug = 'parks';
    await app.open(slug, 'What should our parks be like?');
    const people = await Promise.all(['Ada', 'Ben', 'Cem', 'Dia', 'Eva'].map((name) => app.join(name)));
    const opinions = [await app.say(slug, people[0]), await app.say(slug, people[1]), await app.say(slug, people[2])];
    const votes = [];
    for (const opinion of opinions)
        for (const person of people) votes.push(await app.vote(slug, opinion, person, true));
    await show('Events count at once: 3 opinions, 15 votes', await heals(app, slug, { opinions: 3, votes: 15 }));
    await show('Who took part is known once the records were counted', await heals(app, slug, { participants: 5 }));

    await app.cancel(slug, votes[0]);
    await show('A cancelled vote has its event', await heals(app, slug, { opinions: 3, votes: 14, participants: 5 }));

    await settles(app);
    await app.sql`UPDATE opinion SET current_content_id = NULL WHERE id = ${opinions[2]}`;
    await show('An opinion soft-deleted behind everybody\'s back: nothing has told tally', await app.counts(slug));
    await show(`...but anybody can look: ${JSON.stringify((await app.drift()).map((row) => row.drift))}`, await app.counts(slug));
    await app.request(slug);
    await show('...and one request heals it, with the votes on that opinion', await heals(app, slug, { opinions: 2, votes: 9, participants: 5 }));

    await app.moderate(opinions[1]);
    await show('Moderation hides an opinion and all votes on it', await heals(app, slug, { opinions: 1, votes: 4, participants: 4 }));

    await app.leave(people[4]);
    await show('Eva deletes her account', await heals(app, slug, { opinions: 1, votes: 3, participants: 3 }));

    if ((await app.drift()).length > 0) throw new Error('something is still wrong');
    await show('Nothing is wrong any more', await app.counts(slug));
}
