// position.js -- how far a tenant's history goes that this client has seen, so that it reads its own writes.
//
// A position is what the server says in `Tally-Sequence`, and goes back to it as `minSequence`. It may be answered by
// a standby that lags: only one that has come so far will do.

import { invalid } from './transport.js';

const KINDS = ['session', 'any', 'primary'];

/** "0-12" as ["0", 12n]. */
function parse(position) {
    const [, history, sequence] = /^(.*)-(\d+)$/.exec(position) ?? [];
    return [history, BigInt(sequence ?? 0)];
}

export class Position {
    #kind;
    #last;

    constructor(kind = 'session') {
        if (!KINDS.includes(kind)) throw invalid(`consistency must be one of ${KINDS.join(', ')}`);
        this.#kind = kind;
    }

    /** What a read adds to its query. */
    get query() {
        if (this.#kind !== 'session') return { consistency: this.#kind };
        return this.#last === undefined ? {} : { minSequence: this.#last };
    }

    /** Replies may come in another order than they were made: of one history the furthest counts. */
    hear(headers) {
        const position = headers?.get('Tally-Sequence');
        if (!position) return;
        const [history, sequence] = parse(position);
        const [known, reached] = this.#last === undefined ? [] : parse(this.#last);
        if (history !== known || sequence > reached) this.#last = position;
    }

    /** A position that was lost is told once; then this client goes on from what there is. */
    fail(error) {
        if (error?.code === 'position_lost') this.#last = undefined;
    }
}
