// shift.mjs -- a wall clock that a test can move, for one server (see shift.c).

import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { newDirectory, removeDirectory } from './server.mjs';

const SOURCE = fileURLToPath(new URL('shift.c', import.meta.url));

export class WallClock {
    constructor() {
        this.directory = newDirectory('shift');
        chmodSync(this.directory, 0o755); // a database runs as another user
        this.file = path.join(this.directory, 'nanoseconds');
        const library = path.join(this.directory, 'shift.so');
        execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, SOURCE]);
        writeFileSync(this.file, Buffer.alloc(8));
        this.by(0);
        const sanitized = [process.env.ASAN_OPTIONS, 'verify_asan_link_order=0'].filter(Boolean).join(':');
        this.env = { LD_PRELOAD: library, TALLY_SHIFT: this.file, ASAN_OPTIONS: sanitized };
    }

    /** So many milliseconds before or after the real time, from now on. */
    by(ms) {
        this.ms = ms;
        const bytes = Buffer.alloc(8);
        bytes.writeBigInt64LE(BigInt(ms) * 1000000n);
        const fd = openSync(this.file, 'r+');
        writeSync(fd, bytes, 0, 8, 0);
        closeSync(fd);
    }

    now() {
        return Date.now() + this.ms;
    }

    remove() {
        removeDirectory(this.directory);
    }
}
