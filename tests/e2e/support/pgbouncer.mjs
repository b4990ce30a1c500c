// pgbouncer.mjs -- a real PgBouncer in front of a Database, on a free loopback port, with files of its own.
//
//     const pooler = await PgBouncer.make(database, 'transaction', { default_pool_size: 2 });
//     pooler.dsn                                          // the same database, through it
//     await pooler.stop();

import { spawn } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { command, freePort } from '../../../bench/peers.mjs';
import { eventually } from './pace.mjs';
import { newDirectory, removeDirectory } from './server.mjs';

export class PgBouncer {
    static async make(database, mode, more = {}) {
        const pooler = new PgBouncer();
        pooler.database = database;
        pooler.directory = newDirectory('pgbouncer');
        pooler.port = await freePort();
        const settings = {
            listen_addr: '127.0.0.1',
            listen_port: pooler.port,
            unix_socket_dir: '',
            auth_type: 'any',
            pool_mode: mode,
            max_client_conn: 200,
            default_pool_size: 20,
            admin_users: 'postgres',
            ...more,
        };
        const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
        const databases = `postgres = host=127.0.0.1 port=${database.port} dbname=postgres user=postgres`;
        const file = path.join(pooler.directory, 'pgbouncer.ini');
        writeFileSync(file, `[databases]\n${databases}\n[pgbouncer]\n${lines.join('\n')}\n`);
        chmodSync(pooler.directory, 0o755);
        pooler.child = spawn(...database.asOwner('/usr/sbin/pgbouncer', [file]), { stdio: 'ignore' });
        pooler.exited = new Promise((resolve) => pooler.child.on('close', resolve));
        await eventually('PgBouncer to answer', () => pooler.sql('SELECT 1').then(() => true, () => false), { ms: 15000 });
        return pooler;
    }

    get dsn() {
        return this.database.dsn.replace(/:\d+\/postgres/, `:${this.port}/postgres`);
    }

    /** What its own console says: sql('SHOW POOLS', 'pgbouncer'). */
    sql(text, database = 'postgres') {
        return command('psql', ['-h', '127.0.0.1', '-p', String(this.port), '-U', 'postgres', '-d', database, '-X', '-q', '-A', '-t', '-c', text], { seconds: 10 });
    }

    async stop() {
        this.child.kill('SIGTERM');
        await this.exited;
        removeDirectory(this.directory);
    }
}
