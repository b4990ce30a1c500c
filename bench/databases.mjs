// databases.mjs -- tally over PostgreSQL as `make bench` measures it: a cluster of its own, and nodes over it.
//
// The cluster is as PostgreSQL comes, like the one that runs the founding SQL. One contestant at a time is
// asked to work, so what the cluster uses is that one's.

import path from 'node:path';

import { Postgres, Tally } from './peers.mjs';

/** One node, or several over the same schema; the others are `beside`. */
export class Node extends Tally {
  scope = 'read write admin';

  constructor(id, directory, { cluster, lanes = 1, nodes = 1, ids = 0 }) {
    super(directory);
    Object.assign(this, { id, cluster, lanes, ids });
    this.schema = `bench_${id}`;
    this.env = {
      TALLY_STORE_KIND: 'postgres', TALLY_STORE_LANES: String(lanes), TALLY_STORE_POSTGRES_SCHEMA: this.schema,
      TALLY_STORE_POSTGRES_DSN: `host=${cluster.directory} user=postgres dbname=postgres`,
    };
    this.beside = Array.from({ length: nodes - 1 }, (_, i) => new Node(id, path.join(directory, `node-${i + 2}`), { cluster, lanes }));
  }

  async start() {
    await this.cluster.startOnce();
    await super.start();
    for (const node of this.beside) await node.start();
  }

  usage() {
    const all = [super.usage(), this.cluster.usage(), ...this.beside.map((node) => Tally.prototype.usage.call(node))];
    const sum = (field) => all.reduce((total, each) => total + each[field], 0);
    return { cpuSeconds: sum('cpuSeconds'), writtenBytes: sum('writtenBytes') };
  }

  /** Makes the registry as large as if so many events had come. */
  async remember(count) {
    await this.cluster.sql(`INSERT INTO ${this.schema}.registry (lane, print, tenant_id, sequence, first_seen, digest, event)
      SELECT 0, gen_random_uuid(), 'bench', n, 0, 0, true FROM generate_series(1, ${count}) n`, 1800);
    await this.cluster.sql(`VACUUM ANALYZE ${this.schema}.registry`, 600);
    await this.cluster.sql('CHECKPOINT', 600);
  }

  /** Cells of a counter that nobody asks for, as if they had been counted. */
  async fillCells(first, count) {
    await this.cluster.sql(`INSERT INTO ${this.schema}.cells (lane, series, bucket, added, subbed, updated, tenant_id)
      SELECT 0, 1000000000 + n / 1000, n % 1000, 1, 0, 0, 'bench' FROM generate_series(${first}, ${first + count - 1}) n`, 1800);
    await this.cluster.sql(`VACUUM ANALYZE ${this.schema}.cells`, 600);
  }

  /** What a table with its indexes takes on disk, and its indexes alone. */
  async sizes(table) {
    const of = (what) => `(SELECT sum(pg_${what}(relid)) FROM pg_partition_tree('${this.schema}.${table}'))`;
    const text = await this.cluster.sql(`COPY (SELECT ${of('total_relation_size')}, ${of('indexes_size')}) TO STDOUT`);
    const [all, indexes] = text.split(/\s/).map(Number);
    return { all, indexes };
  }

  async stop(signal) {
    await Promise.allSettled([...this.beside.map((node) => node.stop(signal)), super.stop(signal)]);
    await this.cluster.stop();
  }
}

/** Started by the first node that needs it. */
export class Cluster extends Postgres {
  startOnce() {
    this.starting ??= this.start();
    return this.starting;
  }
}
