#!/usr/bin/env node
// http-reference.mjs -- docs/http.md from an OpenAPI document on stdin: `make docs` writes it.

import { readFileSync } from 'node:fs';

const api = JSON.parse(readFileSync(0, 'utf8'));
const out = [];
const say = (...lines) => out.push(...lines);

const calls = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, call]) => ({ path, method: method.toUpperCase(), ...call })));
const anchor = (title) => title.toLowerCase().replace(/[^\w -]/g, '').replaceAll(' ', '-');
const cell = (text = '') => text.replaceAll('|', '\\|').replace(/\s*\n+\s*/g, ' ');

/** A schema in a few words; names link to their shapes. */
function words(schema) {
    if (schema.$ref) {
        const name = schema.$ref.split('/').at(-1);
        const shape = api.components.schemas[name];
        return shape.type === 'object' || shape.allOf ? `[${name}](#${anchor(name)})` : `[${name}](#values)`;
    }
    if (schema.allOf) return schema.allOf.map(words).join(', ');
    if (schema.anyOf) return schema.anyOf.map(words).join(' or ');
    if (schema.type === 'array') return `array of ${words(schema.items)}`;
    if (schema.type === 'object') return schema.additionalProperties ? `map of ${words(schema.additionalProperties)}` : 'object';
    return [schema.type ?? 'anything'].flat().join(' or ');
}

function parameters(call) {
    if (!call.parameters.length) return;
    say('| parameter | in | type | |', '|---|---|---|---|');
    for (const one of call.parameters) {
        const name = one.style === 'form' ? 'dim.<key>' : one.name;
        const type = one.style === 'form' ? 'string' : words(one.schema);
        say(`| \`${name}\`${one.required ? ' (required)' : ''} | ${one.in} | ${type} | ${cell(one.description)} |`);
    }
    say('');
}

function body(call) {
    if (!call.requestBody) return;
    for (const [media, { schema, example }] of Object.entries(call.requestBody.content)) {
        const text = typeof example === 'string' ? example.trimEnd() : JSON.stringify(example);
        say(`Body, \`${media}\`: ${words(schema)}${call.requestBody.required ? '' : ', optional'}.`, '', '```json', text, '```', '');
    }
}

function replies(call) {
    say('| status | body | |', '|---|---|---|');
    for (const [status, reply] of Object.entries(call.responses)) {
        if (status === 'default') continue;
        const [[media, { schema }]] = Object.entries(reply.content);
        const headers = Object.keys(reply.headers ?? {}).filter((name) => status < 400 && name).map((name) => `\`${name}\``);
        const more = headers.length ? ` Headers: ${headers.join(', ')}.` : '';
        const shape = media.startsWith('application/json') ? words(schema) : `\`${media}\``;
        say(`| ${status} | ${shape} | ${cell(reply.description)}${more} |`);
    }
    say('');
}

function describe(call) {
    const scope = call['x-scope'] === 'none' ? 'No token.' : `Scope \`${call['x-scope']}\`.`;
    say(`### ${call.summary}`, '', '```', `${call.method} ${call.path}`, '```', '', `${call.description} ${scope}`, '');
    parameters(call);
    body(call);
    replies(call);
}

function contents() {
    for (const tag of api.tags) {
        say(`**${tag.name}**`, '');
        for (const call of calls.filter((one) => one.tags.includes(tag.name))) {
            say(`- \`${call.method} ${call.path}\` [${call.summary}](#${anchor(call.summary)})`);
        }
        say('');
    }
}

function shapes() {
    const all = Object.entries(api.components.schemas);
    const objects = all.filter(([, shape]) => shape.type === 'object' || shape.allOf);
    say('## Shapes', '', 'What is sent and what comes back. Fields that are marked are always there.', '');
    for (const [name, shape] of objects) {
        say(`### ${name}`, '', shape.description ?? '', '');
        if (!shape.properties) {
            say(`One of: ${words(shape)}.`, '');
            continue;
        }
        say('| field | type | |', '|---|---|---|');
        for (const [field, schema] of Object.entries(shape.properties)) {
            const mark = shape.required.includes(field) ? ' (always)' : '';
            say(`| \`${field}\`${mark} | ${words(schema)} | ${cell(schema.description)} |`);
        }
        if (shape.additionalProperties) {
            say(`| any other | ${words(shape.additionalProperties)} | ${cell(shape.additionalProperties.description)} |`);
        }
        say('');
    }
    say('### Values', '', '| name | | |', '|---|---|---|');
    for (const [name, shape] of all.filter((one) => !objects.includes(one))) {
        const facts = [shape.pattern && `\`${shape.pattern}\``, shape.enum?.map((one) => `\`${one}\``).join(', '),
            shape.minimum !== undefined && `from ${shape.minimum}`, shape.maximum !== undefined && `to ${shape.maximum}`,
            shape.default !== undefined && `default \`${shape.default}\``].filter(Boolean).join(', ');
        say(`| \`${name}\` | ${cell(facts)} | ${cell(shape.description)} |`);
    }
    say('');
}

function errors() {
    say('## Errors', '', 'Every error is `{"error":"<sentence>","code":"<stable_name>"}`. Where a call knows more, the sentence does.',
        '', '| status | code | sentence |', '|---|---|---|');
    for (const one of api['x-errors']) say(`| ${one.status} | \`${one.code}\` | ${cell(one.error)} |`);
    say('');
}

say('# HTTP reference', '',
    '<!-- Made from docs/openapi.json by scripts/http-reference.mjs; `make docs` writes both. Do not edit. -->', '',
    api.info.description, '',
    'All calls but those marked "No token" want `Authorization: Bearer <token>`: a JWT whose `sub` is the tenant',
    '(`tally token` makes one), or an API key from the config. The server serves this as OpenAPI 3.1 at',
    '`GET /openapi.json`; `tally help openapi` prints it.', '');
contents();
for (const tag of api.tags) {
    say(`## ${tag.name}`, '', tag.description, '');
    calls.filter((one) => one.tags.includes(tag.name)).forEach(describe);
}
errors();
shapes();
process.stdout.write(`${out.join('\n').replace(/\n{3,}/g, '\n\n').trimEnd()}\n`);
