// export_worker.mjs -- has one export after the other made while everybody writes and the server dies. Each that was
// promised must come to its end, and its file be whole: as many lines as its last one says, at a moment that is not
// before the one of the export before it.

import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';

import { sleep } from '../e2e/support/pace.mjs';
import { between } from './random.mjs';
import { Worker } from './workers.mjs';

export class ExportWorker extends Worker {
    #admin;
    #directory;
    #count = 0;
    #promised = []; // {job, name}, in the order in which they were asked for
    #moments = [];
    #wrong = [];

    constructor(tenant, name, random, adminToken, ops) {
        super(tenant, name, random);
        this.#admin = { token: adminToken };
        this.#directory = path.join(ops, 'exports');
    }

    async step(connection) {
        const name = `${this.name}-${++this.#count}.ndjson`;
        const reply = await this.ask(connection, 'POST', '/api/admin/exports', { ...this.#admin, body: { name, ids: true, events: true } });
        if (reply.status !== 202) this.#wrong.push(`an export was answered ${reply.status} ${reply.text}`);
        else this.#promised.push({ job: reply.body.job, name });
        await this.#finish(connection);
        this.acknowledgedOps++;
        await sleep(between(this.random, 0, 100));
    }

    async #finish(connection) {
        const end = Date.now() + 30000;
        while (this.#promised.length > 0) {
            const [{ job, name }] = this.#promised;
            const { body, text } = await this.ask(connection, 'GET', `/api/admin/jobs/${job}`, this.#admin);
            if (Date.now() > end) throw new Error(`the export of job ${job} does not come to its end: ${text}`);
            if (body.state === 'done') this.#check(name);
            if (body.state === 'failed') this.#wrong.push(`job ${job} failed: ${text}`);
            if (['done', 'failed'].includes(body.state)) this.#promised.shift();
            else await sleep(5);
        }
    }

    #check(name) {
        const file = path.join(this.#directory, name);
        const lines = readFileSync(file, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
        const [header, end] = [lines[0], lines.at(-1)];
        if (end.kind !== 'end' || Number(end.lines) !== lines.length - 1) this.#wrong.push(`${name} has ${lines.length} lines and ends with ${JSON.stringify(end)}`);
        const moments = header.lanes.map((lane) => BigInt(lane.sequence));
        if (moments.some((moment, lane) => moment < (this.#moments[lane] ?? 0n))) this.#wrong.push(`${name} is of ${moments}, after one of ${this.#moments}`);
        this.#moments = moments;
        rmSync(file);
    }

    settle(connection) {
        return this.#finish(connection);
    }

    async verify() {
        return this.#wrong.splice(0);
    }
}
