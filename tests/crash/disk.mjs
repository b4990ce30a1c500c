// disk.mjs -- what a disk would hold if the power had failed: the other half of forget.c.
//
//     const disk = Disk.read(directory);           before the program starts
//     ... it runs with forget.so and dies ...
//     disk.replay(readFileSync(log));              what it did
//     disk.differences();                          after a clean exit: what the log does not know
//     disk.cut(random);                            the directory is now what a disk could have kept
//
// or, if only the program died and the disk goes on with all that it has not written yet,
//
//     disk.killed();                               and then start, replay and cut again
//
// What is there before the start counts as durable. From then on:
//
//     content   is durable after a sync of the file that began after the write had ended. Of the
//               rest each 4 KiB page is old or new or, sector by sector, any state it ever had.
//     size      changes with a sync too; without one it is the old, the new or one in between.
//     names     are durable after a sync of their directory. Of the rest each change is done or
//               not done, in any combination. In directories called `ordered` they are done in
//               their order up to some point, as every journaling file system does it: RocksDB
//               renames CURRENT before it syncs the name of the MANIFEST that CURRENT names.
//
// A cut has a mood: it loses all that is unsynced, or nothing, or each thing with some probability.

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const PAGE = 4096;
const SECTOR = 512;
const HEAD = 24;
const [OPEN, WRITE, SIZE, SYNC_BEGIN, SYNC_END, RENAME, LINK, UNLINK, MKDIR] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
const O_ACCMODE = 0o3;
const O_CREAT = 0o100;
const O_TRUNC = 0o1000;

/** A file's durable bytes and what was done to it since, oldest first. */
class File {
    isDirectory = false;
    pending = []; // {at, size} or {at, offset, data}

    constructor(bytes = Buffer.alloc(0)) {
        this.bytes = bytes; // may be longer than the file
        this.size = bytes.length;
    }

    /** Everything done before `at` is durable. */
    sync(at) {
        while (this.pending.length && this.pending[0].at < at) this.#apply(this.pending.shift());
    }

    #apply({ offset, data, size = Math.max(this.size, offset + data.length) }) {
        if (size > this.bytes.length) {
            const grown = Buffer.alloc(Math.max(size, 2 * this.bytes.length));
            this.bytes.copy(grown, 0, 0, this.size);
            this.bytes = grown;
        }
        if (size < this.size) this.bytes.fill(0, size, this.size);
        this.size = size;
        data?.copy(this.bytes, offset);
    }

    content() {
        return this.bytes.subarray(0, this.size);
    }

    /** What a program reads. */
    now() {
        return this.remains(() => 0, 1);
    }

    /** What remains of it: durable bytes and some of the rest. */
    remains(random, mood) {
        if (!this.pending.length) return this.content();
        const pages = new Map(); // number -> every state it had
        const sizes = [this.size];
        const old = new File(Buffer.from(this.content()));
        const now = new File(Buffer.from(this.content()));
        for (const change of this.pending) {
            const before = now.size;
            now.#apply(change);
            sizes.push(now.size);
            const [from, to] = change.data ? [change.offset, change.offset + change.data.length] : [Math.min(before, now.size), Math.max(before, now.size)];
            for (let page = Math.floor(from / PAGE); page * PAGE < to; page++) {
                if (!pages.has(page)) pages.set(page, [old.#page(page)]);
                pages.get(page).push(now.#page(page));
            }
        }
        const size = chooseSize(random, mood, sizes);
        const result = Buffer.alloc(Math.ceil(Math.max(size, this.size) / PAGE) * PAGE);
        this.content().copy(result);
        for (const [page, states] of pages) if (page * PAGE < size) choosePage(random, mood, states).copy(result, page * PAGE);
        return result.subarray(0, size);
    }

    #page(number) {
        const page = Buffer.alloc(PAGE);
        this.content().subarray(number * PAGE, (number + 1) * PAGE).copy(page);
        return page;
    }
}

class Directory {
    isDirectory = true;
}

function chooseSize(random, mood, sizes) {
    if (random() < mood) return sizes.at(-1);
    return mood === 0 ? sizes[0] : sizes[Math.floor(random() * sizes.length)];
}

function choosePage(random, mood, states) {
    const torn = mood > 0 && mood < 1 && random() < 0.2;
    if (!torn) return states.at(random() < mood ? -1 : 0);
    const page = Buffer.alloc(PAGE);
    for (let at = 0; at < PAGE; at += SECTOR) {
        states[Math.floor(random() * states.length)].copy(page, at, at, at + SECTOR);
    }
    return page;
}

/** How likely it is in this cut that an unsynced thing is there nevertheless. */
function chooseMood(random) {
    const kind = random();
    if (kind < 0.35) return 0;
    return kind < 0.45 ? 1 : random();
}

function* recordsOf(log) {
    for (let at = 0; at + HEAD <= log.length;) {
        const end = at + HEAD + log.readUInt32LE(at);
        if (end > log.length) return; // torn by the kill: nobody heard of it
        yield {
            at,
            kind: log.readUInt32LE(at + 4),
            fd: Number(log.readBigInt64LE(at + 8)),
            value: Number(log.readBigInt64LE(at + 16)),
            text: log.subarray(at + HEAD, end),
        };
        at = end;
    }
}

/** Every path below the directory, the directory itself included, to what is there. */
function readTree(root) {
    const tree = new Map([[root, new Directory()]]);
    for (const entry of readdirSync(root, { withFileTypes: true })) {
        const name = path.join(root, entry.name);
        if (entry.isDirectory()) for (const [below, node] of readTree(name)) tree.set(below, node);
        else tree.set(name, new File(readFileSync(name)));
    }
    return tree;
}

export class Disk {
    #root;
    #ordered;
    #durable; // path -> File or Directory, as a disk must have it
    #now; // the same, as the program sees it
    #names = []; // changes in #now that #durable has not: {at, parents, apply}
    #open = new Map(); // descriptor -> {node, name}
    #syncs = new Map(); // number -> where the sync, which is under way, began
    #time = 0; // of the first record of the next log

    static read(root, { ordered = [] } = {}) {
        return new Disk(root, ordered.map((name) => path.join(root, name)));
    }

    constructor(root, ordered) {
        this.#root = root;
        this.#ordered = new Set(ordered);
        this.#durable = readTree(root);
        this.#now = new Map(this.#durable);
    }

    replay(log) {
        const actions = {
            [OPEN]: (record) => this.#opened(record),
            [WRITE]: ({ at, fd, value, text }) => this.#written(fd).pending.push({ at, offset: value, data: text }),
            [SIZE]: ({ at, fd, value }) => this.#written(fd).pending.push({ at, size: value }),
            [SYNC_BEGIN]: ({ at, value }) => this.#syncs.set(value, at),
            [SYNC_END]: (record) => this.#syncEnded(record),
            [RENAME]: (record) => this.#renamed(record),
            [LINK]: (record) => this.#linked(record),
            [UNLINK]: ({ at, text }) => this.#unlinked(at, nameOf(text)),
            [MKDIR]: ({ at, text }) => this.#created(at, nameOf(text), new Directory()),
        };
        for (const record of recordsOf(log)) actions[record.kind]({ ...record, at: this.#time + record.at });
        this.#time += log.length + 1;
    }

    #written(fd) {
        const { node, name, writable } = this.#open.get(fd);
        if (!writable) throw new Error(`the log writes to ${name}, which was opened to be read: is a descriptor reused that forget.so did not see closed?`);
        return node;
    }

    #change(at, names, apply) {
        apply(this.#now);
        this.#names.push({ at, parents: names.map((name) => path.dirname(name)), apply });
    }

    #created(at, name, node) {
        this.#change(at, [name], (names) => names.set(name, node));
    }

    #unlinked(at, name) {
        this.#change(at, [name], (names) => names.delete(name));
    }

    #opened({ at, fd, value, text }) {
        const name = nameOf(text);
        if (!this.#now.has(name)) {
            if (!(value & O_CREAT)) throw new Error(`the log opens ${name}, which it never made`);
            this.#created(at, name, new File());
        }
        const node = this.#now.get(name);
        if (value & O_TRUNC) node.pending.push({ at, size: 0 });
        this.#open.set(fd, { node, name, writable: (value & O_ACCMODE) !== 0 });
    }

    #renamed({ at, text }) {
        this.#moved(at, ...namesOf(text));
    }

    #moved(at, from, to) {
        const node = this.#now.get(from);
        if (node.isDirectory) {
            // Of a directory that was made lately: what is in it goes along, wherever a cut leaves it.
            this.#change(at, [from, to], (names) => {
                for (const [name, below] of [...names]) {
                    if (name !== from && !name.startsWith(`${from}/`)) continue;
                    names.delete(name);
                    names.set(to + name.slice(from.length), below);
                }
            });
            return;
        }
        this.#change(at, [from, to], (names) => {
            names.delete(from);
            names.set(to, node);
        });
    }

    #linked({ at, text }) {
        const [from, to] = namesOf(text);
        this.#created(at, to, this.#now.get(from));
    }

    /** Several may be under way on one descriptor, and end in any order. */
    #syncEnded({ fd, value }) {
        const began = this.#syncs.get(Math.abs(value));
        this.#syncs.delete(Math.abs(value));
        if (value < 0) return;
        const { node, name } = this.#open.get(fd);
        if (!node.isDirectory) {
            node.sync(began);
            return;
        }
        const isSafe = (change) => change.at < began && change.parents.includes(name);
        for (const change of this.#names.filter(isSafe)) change.apply(this.#durable);
        this.#names = this.#names.filter((change) => !isSafe(change));
    }

    /** Paths whose real state is not the logged one, with both; undefined where there is nothing. */
    #compare() {
        const real = readTree(this.#root);
        const all = [...new Set([...real.keys(), ...this.#now.keys()])].sort();
        const pairs = all.map((name) => ({ name, there: real.get(name), logged: this.#now.get(name) }));
        return pairs.filter(({ there, logged }) => !there || !logged || (!there.isDirectory && !there.content().equals(logged.now())));
    }

    /** Sentences about what the directory has and the log does not explain, or the other way round. */
    differences() {
        return this.#compare().map(({ name, there, logged }) => {
            if (there && logged) return `${name} is not as the log says`;
            return `${name} is only in the ${there ? 'directory' : 'log'}`;
        });
    }

    /** The program is gone and the disk stays. What it was doing just then may be done, but not noted. */
    killed() {
        this.#open.clear();
        this.#syncs.clear();
        const at = this.#time++;
        const unnoted = this.#compare();
        const lost = unnoted.filter(({ there }) => !there);
        for (const { name, there, logged } of unnoted.filter((one) => one.there)) {
            const moved = there.isDirectory ? -1 : lost.findIndex((one) => !one.logged.isDirectory && one.logged.now().equals(there.content()));
            if (moved >= 0) this.#moved(at, lost.splice(moved, 1)[0].name, name);
            else if (there.isDirectory) this.#created(at, name, there);
            else this.#rewritten(at, name, logged, there.content());
        }
        for (const { name } of lost) this.#unlinked(at, name);
    }

    #rewritten(at, name, logged, bytes) {
        const file = logged ?? new File();
        if (!logged) this.#created(at, name, file);
        file.pending.push({ at, size: bytes.length }, { at, offset: 0, data: bytes });
    }

    /** Makes the directory what is left after a power cut and says how much was at stake. */
    cut(random) {
        const mood = chooseMood(random);
        const files = [...new Set(this.#now.values())].filter((node) => node.pending?.length);
        const kept = this.#keepNames(random, mood);
        this.#write(this.#remains(random, mood));
        return { mood, files: files.length, names: this.#names.length, namesKept: kept };
    }

    #keepNames(random, mood) {
        const orderedLeft = Math.floor((mood === 0 || mood === 1 ? mood : random()) * (this.#names.length + 1));
        let kept = 0;
        this.#names.forEach((change, index) => {
            const ordered = change.parents.every((parent) => this.#ordered.has(parent));
            if (!(ordered ? index < orderedLeft : random() < mood)) return;
            change.apply(this.#durable);
            kept++;
        });
        return kept;
    }

    /** Path to bytes, or null for a directory. Without its directory a file is nowhere. */
    #remains(random, mood) {
        const chosen = new Map(); // a file with two names has one content
        const left = new Map();
        for (const name of [...this.#durable.keys()].sort()) {
            const node = this.#durable.get(name);
            if (name !== this.#root && !left.has(path.dirname(name))) continue;
            if (!node.isDirectory && !chosen.has(node)) chosen.set(node, node.remains(random, mood));
            left.set(name, node.isDirectory ? null : chosen.get(node));
        }
        return left;
    }

    #write(left) {
        const real = readTree(this.#root);
        for (const name of real.keys()) if (!left.has(name)) rmSync(name, { recursive: true, force: true });
        for (const [name, bytes] of left) {
            const there = real.get(name);
            if (bytes === null) mkdirSync(name, { recursive: true });
            else if (!there || !there.content().equals(bytes)) {
                rmSync(name, { force: true }); // it may have a second name, which keeps its own content
                writeFileSync(name, bytes, { mode: 0o600 });
            }
        }
    }
}

function nameOf(text) {
    return path.normalize(text.toString());
}

function namesOf(text) {
    return text.toString().split('\0').map((name) => path.normalize(name));
}
