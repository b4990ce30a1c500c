// backup_worker.mjs -- backs up without end, so that links to the store's files come and go all the time.
//
// An errand survives the server: one that was under way at the cut is done by the next one. None may
// fail, whatever the store does meanwhile, and the newest one, restored, is a whole store: looked at now
// and then, for it takes a second.

import { sleep } from '../e2e/support/pace.mjs';
import { newDirectory, removeDirectory, runTally } from '../e2e/support/server.mjs';
import { Worker } from './workers.mjs';

export class BackupWorker extends Worker {
    #token;
    #ops;
    #count = 0;
    #job = null; // asked for, and not known to be over
    #made = []; // names, oldest first
    #wrong = [];

    constructor(tenant, name, random, token, ops) {
        super(tenant, name, random);
        this.#token = token;
        this.#ops = ops;
    }

    async step(connection) {
        const name = `b${++this.#count}`;
        const asked = await this.ask(connection, 'POST', '/api/admin/backups', { token: this.#token, body: { name } });
        if (asked.status !== 202) this.#wrong.push(`${name}: ${asked.status} ${asked.text}`);
        else await this.#finish(connection, { id: asked.body.job, name });
        while (this.#made.length > 2) await this.ask(connection, 'DELETE', `/api/admin/backups/${this.#made.shift()}`, { token: this.#token });
    }

    async #finish(connection, job) {
        this.#job = job;
        for (;;) {
            const { body, status, text } = await this.ask(connection, 'GET', `/api/admin/jobs/${job.id}`, { token: this.#token });
            if (status !== 200) this.#wrong.push(`the backup ${job.name}: ${status} ${text}`);
            else if (body.state === 'done') this.#made.push(job.name);
            else if (body.state !== 'waiting' && body.state !== 'running') this.#wrong.push(`the backup ${job.name} ${body.state}: ${text}`);
            else {
                await sleep(5);
                continue;
            }
            break;
        }
        this.#job = null;
    }

    async settle(connection) {
        if (this.#job) await this.#finish(connection, this.#job);
    }

    async verify() {
        const wrong = this.#wrong.splice(0);
        if (this.#made.length && this.random() < 0.3) wrong.push(...await this.#restored(this.#made.at(-1)));
        return wrong;
    }

    async #restored(name) {
        const data = newDirectory('powercut-restored');
        try {
            for (const command of [['restore', name], ['verify']]) {
                const args = [...command, '--data', data, '--set', `ops.dir=${this.#ops}`];
                const { code, stdout, stderr } = await runTally(args, { ms: 120000 });
                if (code !== 0) return [`tally ${args.join(' ')}: ${stdout}${stderr}`];
            }
            return [];
        } finally {
            removeDirectory(data);
        }
    }
}
