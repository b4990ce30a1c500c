// tell.mjs -- a report as text and as Markdown; and its place in docs/performance.md.

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { ROOT } from './peers.mjs';
import { NAMES } from './rows.mjs';

export const count = (n) => (n >= 100 ? Math.round(n).toLocaleString('en') : n.toFixed(1));
const times = (n) => `${n >= 10 ? n.toFixed(0) : n.toFixed(2)} x`;
const bytes = (n) => (n >= 2 ** 20 ? `${(n / 2 ** 20).toFixed(0)} MiB` : `${Math.round(n)} B`);
const ms = (n) => (n ? `${n.toFixed(2)} ms` : '');

const HEAD = ['work', 'who', 'rate', 'spread', 'typical', 'p99', 'CPU s/M', 'bytes/op', 'memory'];

function lines(report) {
  return report.rows.flatMap((row) => Object.entries(row.results).map(([name, r], i) => [
    i === 0 ? row.title : '', NAMES[name], `${count(r.rate)}/s`, `${(r.spread * 100).toFixed(0)} %`, ms(r.p50Ms), ms(r.p99Ms),
    count(r.cpuSecondsPerMillion), `${Math.round(r.writtenBytesPerOp)}`, r.peakBytes ? bytes(r.peakBytes) : '',
  ]));
}

/** What was reached, of what, and whether that is enough. */
function verdictCells({ of, peer, ratio, must, p99Ms, below, met }) {
  const word = met ? 'met' : 'NOT MET';
  if (peer) return [`${times(ratio)} ${NAMES[peer]}${of ? ` (${NAMES[of]})` : ''}`, `${must} x`, met ? word : `${word}, ${((1 - ratio / must) * 100).toFixed(0)} % short`];
  return [`p99 ${p99Ms.toFixed(2)} ms`, `below ${below} ms`, word];
}

const VERDICT_HEAD = ['work', 'reached', 'must', ''];
const verdictLines = (report) => report.rows.flatMap((row) => row.verdicts.map((verdict, i) => [i === 0 ? row.title : '', ...verdictCells(verdict)]));

export const verdictLine = (row, verdict) => {
  const [reached, must, word] = verdictCells(verdict);
  return `${row.title}: ${reached}, must ${must}: ${word}`;
};

export function textTable(head, body) {
  const widths = head.map((_, i) => Math.max(...[head, ...body].map((line) => line[i].length)));
  const show = (line) => line.map((cell, i) => (i < 1 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join('  ');
  return [show(head), widths.map((width) => '-'.repeat(width)).join('  '), ...body.map(show)].join('\n');
}

export const markdownTable = (head, body) => [head, head.map(() => '---'), ...body].map((line) => `| ${line.join(' | ')} |`).join('\n');

export function asText(report) {
  return `${textTable(HEAD, lines(report))}\n\n${textTable(VERDICT_HEAD, verdictLines(report))}`;
}

export function asMarkdown(report) {
  const { cpu, cores, memoryGiB, kernel, disk } = report.machine;
  return [
    `Run of ${report.at.slice(0, 16).replace('T', ' ')} UTC, \`${report.name}\`: ${report.rounds} rounds of ${report.seconds} s each, on ${cores} cores`
      + ` (${cpu}), ${memoryGiB} GiB, ${disk}, Linux ${kernel}.`,
    markdownTable(VERDICT_HEAD, verdictLines(report)),
    'CPU is in seconds a million operations, of the server alone; bytes are those its processes had written to disk.',
    markdownTable(HEAD, lines(report)),
  ].join('\n\n');
}

/** Puts `text` between the marks `<!-- NAME:begin -->` and `<!-- NAME:end -->`. */
export function intoDocs(name, text) {
  const file = path.join(ROOT, 'docs/performance.md');
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`];
  const page = readFileSync(file, 'utf8');
  if (!page.includes(begin) || !page.includes(end)) throw new Error(`docs/performance.md has no place for ${name}`);
  writeFileSync(file, `${page.slice(0, page.indexOf(begin) + begin.length)}\n${text}\n${page.slice(page.indexOf(end))}`);
}
