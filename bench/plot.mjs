// plot.mjs -- the report as bars. Each row has its own scale: rows differ a thousandfold, and what
// matters is how contestants compare within one.

const WIDTH = 760;
const LEFT = 150;
const BAR = 16;
const GAP = 5;
const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 } .tally { fill: #1a7f37 } .other { fill: #8c959f } .limit { fill: #c4cad1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #d1d7de } .tally { fill: #3fb950 } .other { fill: #6e7681 } .limit { fill: #484f58 }
  }`;

const count = (n) => (n >= 100 ? Math.round(n).toLocaleString('en') : n.toFixed(1));
const escape = (text) => text.replace(/[&<>]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c]);

function bar(name, label, rate, most, y) {
  const width = Math.max(1, Math.round((rate / most) * (WIDTH - LEFT - 130)));
  const kind = name === 'tally' || name === 'limit' ? name : 'other';
  return `<text x="${LEFT - 8}" y="${y + 13}" text-anchor="end">${escape(label)}</text>`
    + `<rect class="${kind}" x="${LEFT}" y="${y}" width="${width}" height="${BAR}" rx="2"/>`
    + `<text x="${LEFT + width + 6}" y="${y + 13}">${count(rate)}/s</text>`;
}

export function plot(report, names) {
  const parts = [];
  let y = 8;
  for (const row of report.rows) {
    const entries = Object.entries(row.results);
    const most = Math.max(...entries.map(([, result]) => result.rate));
    parts.push(`<text class="title" x="0" y="${y + 14}">${escape(row.title)}</text>`);
    y += 22;
    for (const [name, result] of entries) {
      parts.push(bar(name, names[name], result.rate, most, y));
      y += BAR + GAP;
    }
    y += 14;
  }
  const { cores, cpu } = report.machine;
  parts.push(`<text x="0" y="${y + 8}">${escape(`${cores} cores, ${cpu ?? 'unknown processor'}; client and server share them`)}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 20}" role="img" aria-label="tally against its peers">`
    + `<style>${STYLE}\n</style>\n${parts.join('\n')}\n</svg>\n`;
}
