// exceptions.mjs -- what is not tried on a store in PostgreSQL, and why. All of it is here (SPEC 12).
//
// As a program it prints the files that TALLY_TEST_STORE=postgres leaves out; tests/run reads that. Tests of other files
// ask for a reason by its name: `test('..', { skip: onDisk('backups') }, ..)`.

import { fileURLToPath } from 'node:url';

import { IN_POSTGRES } from './server.mjs';

const REASONS = {
    backups: 'backups are the database\'s own: 409 use_database_backup, which postgres.test.mjs expects',
    directories: 'lanes have no directories: rows of a lane stand in tables, and its number of lanes in the schema',
    disk: 'the disk that can become full is the database\'s: tests/cluster fills it',
    figures: 'the database is not asked to count its ids and bytes for a figure',
    itself: 'says itself which store each of its servers has, so it is the same with files (e2e)',
    verify: 'reads the files of a data directory',
    standalone: 'starts what it tries without the tests\' servers, so it is the same with files (e2e)',
};

const FILES = {
    'backup.test.mjs': 'backups',
    'backup-disk.test.mjs': 'backups',
    'lanes-backup.test.mjs': 'backups',
    'lanes.test.mjs': 'directories',
    'disk-full.test.mjs': 'disk',
    'verify.test.mjs': 'verify',
    'moving.test.mjs': 'itself',
    'postgres.test.mjs': 'itself',
    'packaging.test.mjs': 'standalone',
    'docs.test.mjs': 'standalone',
    'first-minute.test.mjs': 'standalone',
};

/** Why a test is left out with a store in PostgreSQL; false: the store is of files. */
export function onDisk(name) {
    if (!REASONS[name]) throw new Error(`no reason ${name}`);
    return IN_POSTGRES && REASONS[name];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) for (const file of Object.keys(FILES)) console.log(file);
