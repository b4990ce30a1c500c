// Every command of the documents is run, in order, against real servers, and says what the document says it
// says. How blocks are read: support/transcript.mjs.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Reader } from './support/reader.mjs';
import { blocksOf } from './support/transcript.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const DOCUMENTS = ['README.md', 'docs/tutorial.md', 'docs/recipes.md', 'docs/operations.md', 'docs/migration.md', 'docs/replication.md'];
/** Blocks that cannot run here, all documents together. Each says why; the number may only fall. */
const SKIPPED_MAX = 1;

const text = (name) => readFileSync(path.join(ROOT, name), 'utf8');

describe('every command of the documents', () => {
    for (const file of DOCUMENTS) {
        test(file, async () => {
            const reader = new Reader();
            try {
                assert.ok(await reader.follow(file), `${file} has commands`);
            } finally {
                await reader.close();
            }
        });
    }

    test('HACKING.md, in a folder in which things can be built', async () => {
        const reader = new Reader({ whole: true });
        try {
            assert.ok(await reader.follow('HACKING.md'), 'it has commands');
        } finally {
            await reader.close();
        }
    });

    /* What they count under, and where they keep it, must not be in each other's way. */
    test('one page after the other, in one shell and one folder, README and tutorial on the same demo', async () => {
        const reader = new Reader();
        try {
            for (const file of ['README.md', 'docs/tutorial.md']) await reader.follow(file);
            await reader.stopDemo(); // as the others say
            for (const file of ['docs/recipes.md', 'docs/migration.md', 'docs/operations.md']) await reader.follow(file);
        } finally {
            await reader.close();
        }
    });

    test('the tutorial before README, on the same demo', async () => {
        const reader = new Reader();
        try {
            for (const file of ['docs/tutorial.md', 'README.md']) await reader.follow(file);
        } finally {
            await reader.close();
        }
    });

    test('what is not run says why, and is little', () => {
        const skipped = [...DOCUMENTS, 'HACKING.md'].flatMap((file) => blocksOf(text(file)).filter((block) => block.skipped));
        assert.ok(skipped.length <= SKIPPED_MAX, JSON.stringify(skipped));
    });
});

describe('what the documents name', () => {
    const all = ['README.md', 'ARCHITECTURE.md', 'HACKING.md', 'CHANGELOG.md', ...readdirSync(path.join(ROOT, 'docs')).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)];

    test('links lead to files that are there, and to headings that are there', () => {
        const anchors = (markdown) => [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, title]) => title.toLowerCase().replace(/[^\w -]/g, '').replaceAll(' ', '-'));
        for (const file of all) {
            const markdown = text(file).replace(/```[\s\S]*?```/g, '');
            for (const [, target] of markdown.matchAll(/\]\(([^)\s]+)\)/g)) {
                if (/^https?:/.test(target)) continue;
                const [name, anchor] = target.split('#');
                const there = name ? path.join(path.dirname(file), name) : file;
                assert.ok(existsSync(path.join(ROOT, there)), `${file} links to ${target}`);
                if (anchor) assert.ok(anchors(text(there)).includes(anchor), `${file} links to ${target}`);
            }
        }
    });

    test('settings in YAML blocks are in the example they were taken from', () => {
        const example = text('etc/examples/recipes.yaml');
        for (const [, snippet] of text('docs/recipes.md').matchAll(/```yaml\n([\s\S]*?)```/g)) {
            assert.ok(example.includes(snippet), `not in etc/examples/recipes.yaml:\n${snippet}`);
        }
    });

    test('every figure of /metrics and every alert is explained in docs/operations.md', () => {
        const guide = text('docs/operations.md');
        const names = [...text('src/base/metrics.def').matchAll(/^METRIC\([^"]*"([^"]+)"/gm)].map((match) => match[1]);
        const alerts = [...text('etc/prometheus/tally.rules.yml').matchAll(/alert: (\S+)/g)].map((match) => match[1]);
        assert.ok(names.length > 30 && alerts.length > 10);
        for (const name of [...names, ...alerts]) assert.ok(guide.includes(`\`${name}\``), `${name} is not explained`);
    });
});
