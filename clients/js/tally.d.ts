/**
 * A client for tally. Writes carry an idempotency key, yours or a random one made for the call, and are
 * sent again with the same bytes and key when a connection breaks, the server is overloaded (429) or
 * cannot write (502 to 504). So whatever happened to the first reply, they count once.
 *
 * Options have the names of HTTP's fields. One that a call does not take is a TypeError that names it and
 * what was probably meant; nothing is sent then.
 */

/** A 64-bit integer: numbers must be safe integers. */
export type Integer = bigint | number;

/** A Date, or text: ISO 8601, or an epoch number in digits. Absent: now. */
export type Time = Date | string;

export interface TallyOptions {
    /** http://host:port; a path before /api is kept, a user and password are dropped. */
    url: string | URL;
    /** A JWT or an API key. Without one only what is public can be called. */
    token?: string;
    /** Default: the `sub` of the JWT. An API key says nothing, so needs it. */
    tenant?: string;
    /** One call with all its retries, in milliseconds (30000). */
    timeoutMs?: number;
    /** How often to try at most (5). */
    attempts?: number;
    /**
     * How new reads are where standbys answer them too. `session`, the default: what this client wrote or read before is
     * in every answer; it sends the last `Tally-Sequence` as `minSequence`. `any`: whatever a standby has. `primary`: no
     * standby is asked. A position that a failover lost is refused once (409 `position_lost`) and then forgotten.
     */
    consistency?: 'session' | 'any' | 'primary';
    /** Another fetch than the global one. */
    fetch?: typeof globalThis.fetch;
}

/** What a cell holds; net = added - subbed. */
export interface Value {
    net: bigint;
    added: bigint;
    subbed: bigint;
}

export interface ChangedValue extends Value {
    /** This is the first answer to the same key again: nothing was counted now. */
    replayed: boolean;
}

export interface Bucket extends Value {
    start: Date;
    /** Of a calendar's bucket: the local date it begins with. */
    date?: string;
}

export interface Cancel {
    /** Ends the call early, with the signal's reason. */
    signal?: AbortSignal;
}

export interface SetOptions {
    /** The bucket's length; 0 (default): one for ever. */
    durationSeconds?: number;
    /** In place of it: a local day, week, month or year, */
    bucket?: 'day' | 'week' | 'month' | 'year';
    /** in this time zone (UTC). */
    zone?: string;
    /** Which bucket (now). */
    timestamp?: Time;
    /** When the bucket may be removed. */
    expiresAt?: Time;
    /** @deprecated the older name of `timestamp` */
    at?: Time;
    /** @deprecated the older name of `expiresAt` */
    expires?: Time;
    /** Idempotency key, 1 to 255 printable ASCII characters (random). */
    key?: string;
}

export interface ChangeOptions extends SetOptions {
    /** Default 1. */
    amount?: Integer;
}

export interface IncrementOptions extends ChangeOptions {
    /** Refuse with code `limit_exceeded` if net would pass it. */
    max?: Integer;
}

export interface Lane {
    /** Ahead of queued work. */
    sync?: boolean;
}

export interface Where extends Cancel {
    durationSeconds?: number;
    /** In place of it: a local day, week, month or year, */
    bucket?: 'day' | 'week' | 'month' | 'year';
    /** in this time zone (UTC). */
    zone?: string;
    /** For counters kept by rules. */
    dimensions?: Record<string, string>;
}

export interface When extends Where {
    /** Which bucket (now). */
    timestamp?: Time;
    /** @deprecated the older name of `timestamp` */
    at?: Time;
}

export interface RangeOfTime extends Where {
    startTime: Time;
    /** Its bucket belongs to the range (now). */
    endTime?: Time;
}

/** @deprecated RangeOfTime by its older names */
export interface RangeFromTo extends Where {
    from: Time;
    to?: Time;
}

export type Range = RangeOfTime | RangeFromTo;

export interface TallyEvent {
    /** 1 to 255 bytes; an event takes effect at most once by it, for ever (random). */
    eventId?: string;
    type: string;
    occurredAt?: Time;
    /** @deprecated the older name of `eventId` */
    id?: string;
    /** @deprecated the older name of `occurredAt` */
    at?: Time;
    dimensions?: Record<string, string | number | boolean | null>;
    payload?: unknown;
}

export interface EventResult {
    /** Where it stands in the journal; of a duplicate, the first one. */
    id: bigint | undefined;
    eventId: string;
    duplicate: boolean;
    /** A duplicate whose first delivery said something else. */
    conflict: boolean;
    firstSeenAt: Date | undefined;
    /** How many cells changed. */
    counters: number;
}

export interface CallOptions extends Cancel {
    body?: string;
    type?: string;
    key?: string;
    /** Safe to send again though it is no GET and has no key. */
    repeatable?: boolean;
}

export class Tally {
    constructor(options: TallyOptions);
    readonly tenant: string | undefined;
    readonly address: string;

    increment(name: string, options?: IncrementOptions & Lane & Cancel): Promise<ChangedValue>;
    /** Refused with code `constraint_violation` if it would fall below zero. */
    decrement(name: string, options?: ChangeOptions & Lane & Cancel): Promise<ChangedValue>;
    set(name: string, value: Integer, options?: SetOptions & Cancel): Promise<ChangedValue>;
    /** With all its buckets, at once. Not for counters named `.` or `..`: fetch cannot name them in a path. */
    delete(name: string, options?: { key?: string } & Cancel): Promise<void>;

    /** null: nothing was ever counted there. */
    get(name: string, options?: When): Promise<Value | null>;
    /** Exact, past 64 bits too. */
    sum(name: string, options: Range): Promise<Value>;
    series(name: string, options: Range & { fill?: boolean; limit?: number }): Promise<Bucket[]>;
    list(options?: { prefix?: string } & Cancel): AsyncGenerator<{ name: string; granularities: number[] }>;

    event(event: TallyEvent, options?: Cancel): Promise<EventResult>;
    batcher(options?: BatcherOptions): Batcher;

    /** /api/<kind>/<tenant>/<part>..., percent-encoded. */
    path(kind: string, ...parts: string[]): string;
    /** Any call, with this client's retries; resolves to the reply's body. */
    call(method: string, path: string, options?: CallOptions): Promise<any>;
}

export interface BatcherOptions extends Cancel {
    /** A batch this large goes at once (1000; at most 100000). */
    maxOps?: number;
    /** A smaller one goes this long after its first part (20). */
    maxDelayMs?: number;
}

export interface BatcherTotals {
    applied: number;
    duplicates: number;
    refused: number;
    /** Of batches that got no answer after all retries: send them again with the same keys. */
    failed: number;
}

/**
 * Gathers changes and events and sends them together, each with its own key or id. A promise resolves
 * when its part is durable and rejects when that was refused; who does not wait for it asks `flush()`.
 */
export class Batcher {
    readonly waiting: number;
    readonly totals: BatcherTotals;
    increment(name: string, options?: IncrementOptions): Promise<ChangedValue>;
    decrement(name: string, options?: ChangeOptions): Promise<ChangedValue>;
    set(name: string, value: Integer, options?: SetOptions): Promise<ChangedValue>;
    event(event: TallyEvent): Promise<EventResult>;
    /** Resolves when all that was put in has been answered; it never rejects. */
    flush(): Promise<BatcherTotals>;
    /** The same, and takes nothing more. */
    close(): Promise<BatcherTotals>;
}

export class TallyError extends Error {
    /** The server's (`constraint_violation`, ...), or unreachable, timeout, bad_reply, invalid_argument. */
    readonly code: string;
    /** Of HTTP; 0: there was no reply. */
    readonly status: number;
    /**
     * refused: the server said no, nothing changed. unknown: it may have taken effect; repeat it with the
     * same key. invalid: nothing was sent.
     */
    readonly outcome: 'refused' | 'unknown' | 'invalid';
    /** The reply, if it was JSON; of `limit_exceeded` it holds net, added and subbed. */
    readonly body: any;
}

export function randomKey(): string;
