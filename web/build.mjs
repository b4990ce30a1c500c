// build.mjs OUT.c -- bundles the dashboard and writes it down as a C table for src/api/views/page.c.
//
// Scripts and styles get their content's hash into their names and are compressed; the page stays plain and
// names them. What comes out depends on nothing but what goes in.

import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

import { build } from 'esbuild';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const BYTES_MAX = 150 * 1024; // of the whole page, as it is sent

const TYPES = {
    '.html': 'text/html; charset=utf-8',
    '.js': 'text/javascript; charset=utf-8',
    '.css': 'text/css; charset=utf-8',
    '.svg': 'image/svg+xml',
};

async function bundle(entry) {
    const { outputFiles } = await build({
        entryPoints: [path.join(HERE, entry)],
        bundle: true,
        minify: true,
        write: false,
        format: 'esm',
        target: ['es2022'],
        legalComments: 'none',
        logLevel: 'warning',
    });
    return Buffer.from(outputFiles[0].contents);
}

function fixed(name, content) {
    return { name, type: TYPES[path.extname(name)], lasting: false, gzip: false, body: Buffer.from(content) };
}

function lasting(name, content) {
    const { name: stem, ext } = path.parse(name);
    const hash = createHash('sha256').update(content).digest('hex').slice(0, 12);
    return { name: `${stem}-${hash}${ext}`, type: TYPES[ext], lasting: true, gzip: true, body: gzipSync(content, { level: 9 }) };
}

function page(template, parts) {
    return fixed('index.html', template.replace(/\{\{([a-z.]+)\}\}/g, (_, name) => `/assets/${parts[name].name}`));
}

function asArray({ body }, index) {
    const lines = [];
    for (let at = 0; at < body.length; at += 24) lines.push(`    ${[...body.subarray(at, at + 24)].join(',')},`);
    return `static const unsigned char asset_${index}[] = {\n${lines.join('\n')}\n};\n`;
}

function asTable(files) {
    const rows = files.map(({ name, type, gzip, lasting: keeps }, index) =>
        `    {"${name}", "${type}", ${keeps}, ${gzip}, {(const char *)asset_${index}, sizeof asset_${index}}},`);
    return [
        '/* Made by web/build.mjs. */',
        '#include "api/views/assets.h"\n',
        ...files.map(asArray),
        `const struct asset assets[] = {\n${rows.join('\n')}\n};`,
        `const unsigned assets_count = ${files.length};\n`,
    ].join('\n');
}

async function main(out) {
    const parts = {
        'main.js': lasting('main.js', await bundle('src/main.js')),
        'main.css': lasting('main.css', await bundle('src/main.css')),
        'icon.svg': fixed('icon.svg', await readFile(path.join(HERE, 'src/icon.svg'))),
    };
    const files = [page(await readFile(path.join(HERE, 'src/index.html'), 'utf8'), parts), ...Object.values(parts)];
    const total = files.reduce((sum, { body }) => sum + body.length, 0);
    console.log(`  web ${files.map(({ name, body }) => `${name} ${body.length}`).join(', ')}: ${total} bytes`);
    if (total > BYTES_MAX) throw new Error(`the page is over ${BYTES_MAX} bytes`);
    await mkdir(path.dirname(out), { recursive: true });
    await writeFile(`${out}.new`, asTable(files));
    await rename(`${out}.new`, out); // several builds may run at once
}

await main(process.argv[2]);
