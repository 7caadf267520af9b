// Where labels go: the rules of durable_mini/figures/place.py, with measured widths.

const GLYPH = 7;
const GAP = 7;
const CLEAR_LEFT = 48; // what a label keeps from the next mark, so that nobody takes it for that one's
const CLEAR_RIGHT = 20;
const MOST_ROWS = 4;
const LEAST_SPAN = 4;
const LEAD = 3; // how far to the left of a label in a lower row nothing else may start
const INSIDE_ONLY = new Set(["call", "run", "failed", "gate", "flight", "memory"]);

class Rows {
  constructor(left, right) {
    this.left = left;
    this.right = right;
    this.taken = Array.from({ length: MOST_ROWS }, () => []);
  }
  free(row, start, end) {
    return start >= this.left && end <= this.right && this.taken[row].every(([low, high]) => end <= low || start >= high);
  }
  apart(start, end) {
    return this.taken[0].every(([low, high]) => end <= low || start >= high);
  }
  take(row, start, end) {
    this.taken[row].push([start, end]);
  }
}

// For each lane the labels with their place, and how many rows they take.
function placeLabels(run, styles, x, left, width, measure) {
  return run.layout.lanes.map((_, lane) => {
    const rows = new Rows(left - GLYPH, width - 8);
    const entries = [];
    const inside = [];
    for (const span of run.spans) {
      if (span.lane !== lane) continue;
      const start = x(span.start);
      const end = Math.max(x(span.end), start + LEAST_SPAN);
      entries.push({ item: span, start, end, isSpan: true });
      if (span.kind !== "memory") rows.take(0, start, end);
    }
    for (const mark of run.marks) {
      if (mark.lane !== lane || mark.kind === "recorded") continue;
      const extent = [x(mark.t) - GLYPH, x(mark.t) + GLYPH];
      entries.push({ item: mark, start: extent[0], end: extent[1], isSpan: false });
      rows.take(0, ...extent);
      inside.push(extent);
    }
    const weight = (entry) => styles[entry.item.kind][4];
    const labelled = entries.filter((entry) => entry.item.label);
    labelled.sort((a, b) => weight(b) - weight(a) || b.start - a.start || b.item.event - a.item.event);
    const placed = labelled.map((entry) => placeShorter(entry, rows, inside, measure)).filter(Boolean);
    return { placed, rows: 1 + Math.max(0, ...placed.map((label) => label.row)) };
  });
}

// The longest form of a label that has room somewhere.
function placeShorter(entry, rows, inside, measure) {
  for (const text of shorter(entry.item.label)) {
    const found = placeOne(entry, measure(text), rows, inside);
    if (found) return { ...found, text };
  }
  return null;
}

function placeOne({ item, start, end, isSpan }, width, rows, inside) {
  const anchor = isSpan ? start + 2 : (start + end) / 2;
  if (isSpan) {
    let at = start + 6;
    for (const [low, high] of [...inside].sort((a, b) => a[0] - b[0])) {
      if (low < end && high > start && low < at + width && high > at) at = high + 4;
    }
    if (at + width <= end - 4) {
      inside.push([at, at + width]);
      return { item, isSpan, x: at, row: 0, anchor, within: true };
    }
    if (INSIDE_ONLY.has(item.kind)) return null;
  }
  for (const [at, before, after] of [[end + GAP - 3, 0, CLEAR_RIGHT], [start - GAP + 3 - width, CLEAR_LEFT, 0]]) {
    if (rows.free(0, at, at + width) && rows.apart(at - before, at + width + after)) {
      rows.take(0, at - GAP, at + width + GAP);
      return { item, isSpan, x: at, row: 0, anchor };
    }
  }
  for (let row = 1; row < MOST_ROWS; row++) {
    const between = Array.from({ length: row - 1 }, (_, i) => i + 1);
    for (const at of [anchor + 4, Math.min(anchor + 4, rows.right - width), anchor - 4 - width]) {
      if (rows.free(row, at - LEAD, at + width) && between.every((up) => rows.free(up, anchor - 1, anchor + 1))) {
        rows.take(row, at - LEAD, at + width + GAP);
        for (const up of between) rows.take(up, anchor - 3, anchor + 3);
        return { item, isSpan, x: at, row, anchor };
      }
    }
  }
  return null;
}
