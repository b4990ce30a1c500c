// What goes out and in with exports: rules with every kind of counter, and settings that make files small.

export const KEPT = ['ups', 'accounts', 'pulse', 'views'];
export const RULES = `
counters:
  - counterName: ups
    dimensions: [room]
    rollups: [[]]
    rules: [{ on: up, op: increment }, { on: down, op: decrement, amount: payload.size }]
  - counterName: accounts
    floorAtZero: true
    dimensions: [master]
    rollups: [[]]
    group: usage
    limit: 10
    transition: { entity: [account] }
    rules: [{ on: up, op: increment }, { on: down, op: decrement }]
  - counterName: pulse
    mode: windowed
    window: 1h
    trailing: true
    dimensions: [room]
    rollups: [[]]
    rules: [{ on: up, op: increment }]
  - counterName: views
    mode: series
    granularities: [0, 60, 3600]
    keep: 9000d
    dimensions: [room]
    rules: [{ on: up, op: increment }]
statuses:
  opened: active
  closed: decommissioned
`;
export const SETTINGS = { 'checkpoint.every': '200ms', 'journal.segmentBytes': '1MiB', 'limits.counterGranularities': 4, 'limits.batchOps': 240 };
