// plot.mjs -- the report as bars. Each row has its own scale: rows differ a thousandfold, and what
// matters is how contestants compare within one.

const WIDTH = 760;
const LEFT = 150;
const BAR = 16;
const GAP = 5;
const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 } .tally { fill: #1a7f37 } .other { fill: #8c959f } .limit { fill: #c4cad1 } .unsafe { fill: #e6d5ac }
  @media (prefers-color-scheme: dark) {
    text { fill: #d1d7de } .tally { fill: #3fb950 } .other { fill: #6e7681 } .limit { fill: #484f58 } .unsafe { fill: #5c5233 }
  }`;

const count = (n) => (n >= 100 ? Math.round(n).toLocaleString('en') : n.toFixed(1));
const escape = (text) => text.replace(/[&<>]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c]);

function bar(name, label, rate, most, y, unsafe) {
  const width = Math.max(1, Math.round((rate / most) * (WIDTH - LEFT - 130)));
  const kind = unsafe ? 'unsafe' : name === 'tally' || name === 'limit' ? name : 'other';
  return `<text x="${LEFT - 8}" y="${y + 13}" text-anchor="end">${escape(label)}</text>`
    + `<rect class="${kind}" x="${LEFT}" y="${y}" width="${width}" height="${BAR}" rx="2"/>`
    + `<text x="${LEFT + width + 6}" y="${y + 13}">${count(rate)}/s</text>`;
}

export function plot(report, names, unsafe) {
  const parts = [];
  let y = 8;
  for (const row of report.rows) {
    const entries = Object.entries(row.results);
    const most = Math.max(...entries.map(([, result]) => result.rate));
    parts.push(`<text class="title" x="0" y="${y + 14}">${escape(row.title)}</text>`);
    y += 22;
    for (const [name, result] of entries) {
      parts.push(bar(name, names[name], result.rate, most, y, unsafe.includes(name)));
      y += BAR + GAP;
    }
    y += 14;
  }
  const { cores, cpu } = report.machine;
  parts.push(`<text x="0" y="${y + 8}">${escape(`${cores} cores, ${cpu ?? 'unknown processor'}; client and server share them`)}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 20}" role="img" aria-label="tally against its peers">`
    + `<style>${STYLE}\n</style>\n${parts.join('\n')}\n</svg>\n`;
}

// ---- one curve ----

const HEIGHT = 300;
const MARGIN = { left: 80, right: 20, top: 34, bottom: 46 };
const LINE_STYLE = `
  text { font: 12px system-ui, sans-serif; fill: #24292f } .title { font-size: 13px; font-weight: 600 }
  .line { fill: none; stroke-width: 2 } .grid { stroke: #d0d7de }
  .line0 { stroke: #1a7f37 } .dot0, .label0 { fill: #1a7f37 } .line1 { stroke: #9a6700 } .dot1, .label1 { fill: #9a6700 }
  @media (prefers-color-scheme: dark) {
    text { fill: #d1d7de } .grid { stroke: #30363d }
    .line0 { stroke: #3fb950 } .dot0, .label0 { fill: #3fb950 } .line1 { stroke: #d29922 } .dot1, .label1 { fill: #d29922 }
  }`;

const short = (n) => (n >= 1e6 ? `${+(n / 1e6).toPrecision(3)} M` : n >= 1e3 ? `${+(n / 1e3).toPrecision(3)} k` : String(+n.toPrecision(3)));

/** One line through the points: the value `key` of each, in the colours of `index`. */
function line(points, key, index, atX, atY) {
  const places = points.map((point) => [atX(point.x).toFixed(1), atY(point[key]).toFixed(1)]);
  return [`<polyline class="line line${index}" points="${places.map((place) => place.join(',')).join(' ')}"/>`,
    ...places.map(([x, y]) => `<circle class="dot${index}" cx="${x}" cy="${y}" r="3"/>`)];
}

/** {title, x, y, log, points: [{x, y, ..}], lines: [{key, label}]}: y from zero, x linear or logarithmic. */
export function curve({ title, x, y, log, points, lines = [{ key: 'y', label: '' }] }) {
  const place = log ? Math.log2 : (value) => value;
  const from = log ? place(points[0].x) : 0;
  const to = place(points.at(-1).x);
  const most = Math.max(...lines.flatMap(({ key }) => points.map((point) => point[key]))) * 1.1;
  const inner = { width: WIDTH - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };
  const atX = (value) => MARGIN.left + ((place(value) - from) / (to - from || 1)) * inner.width;
  const atY = (value) => MARGIN.top + inner.height * (1 - value / most);
  const parts = [`<text class="title" x="0" y="16">${escape(title)}</text>`];
  for (let i = 0; i <= 4; i++) {
    const value = (most * i) / 4;
    parts.push(`<line class="grid" x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${atY(value)}" y2="${atY(value)}"/>`
      + `<text x="${MARGIN.left - 8}" y="${atY(value) + 4}" text-anchor="end">${short(value)}</text>`);
  }
  const step = Math.ceil(points.length / 8);
  for (const point of points.filter((_, i) => i % step === 0)) {
    parts.push(`<text x="${atX(point.x)}" y="${HEIGHT - MARGIN.bottom + 18}" text-anchor="middle">${short(point.x)}</text>`);
  }
  lines.forEach(({ key, label }, i) => {
    parts.push(...line(points, key, i, atX, atY));
    if (label) parts.push(`<text class="label${i}" x="${WIDTH - MARGIN.right - 60 * (lines.length - i)}" y="${MARGIN.top - 4}">${escape(label)}</text>`);
  });
  parts.push(`<text x="${MARGIN.left + inner.width / 2}" y="${HEIGHT - 8}" text-anchor="middle">${escape(x)}</text>`
    + `<text x="0" y="${MARGIN.top - 4}">${escape(y)}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escape(title)}">`
    + `<style>${LINE_STYLE}\n</style>\n${parts.join('\n')}\n</svg>\n`;
}
