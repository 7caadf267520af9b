// Where labels go: the rules of durable_mini/figures/place.py, with measured widths.

const GLYPH = 7;
const GAP = 7;
const CLEAR_LEFT = 48; // what a label keeps from the next mark, so that nobody takes it for that one's
const CLEAR_RIGHT = 20;
const MOST_ROWS = 4; // rows of labels a lane; one less where there are many lanes
const MANY_LANES = 6;
const LEAST_SPAN = 4;
const LEAD = 3; // how far to the left of a label in a lower row nothing else may start
const INSIDE_ONLY = new Set(["call", "run", "failed", "gate", "flight", "memory"]);

class Rows {
  constructor(left, right, count) {
    this.left = left;
    this.right = right;
    this.taken = Array.from({ length: count }, () => []);
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

const CLUSTER = 56; // marks are close together that are no further apart than this ...
const CLUSTER_WIDTH = 60; // ... and all of them no wider than that
const HEIGHTS = [0, -8, 8]; // where marks stand that would cover each other
const BOX = 18;
const TRACK = 15;
const ON_TRACKS = new Set(["call", "run", "failed", "flight"]);

// The box of a span: where it begins, from the middle of its lane, and how high it is.
function spanBox(span, tracks) {
  if (span.kind === "memory") return [-memoryHeight(tracks) / 2, memoryHeight(tracks)];
  if (tracks < 2 || !ON_TRACKS.has(span.kind)) return [-BOX / 2, BOX];
  return [-(TRACK * tracks - 1) / 2 + TRACK * span.track, TRACK - 1];
}

function memoryHeight(tracks) {
  return tracks < 2 ? 24 : TRACK * tracks + 6;
}

function middleOf(tracks, track) {
  return track < 0 || tracks < 2 ? 0 : -(TRACK * tracks - 1) / 2 + TRACK * track + (TRACK - 1) / 2;
}

// How far from the middle of its lane each mark stands.
function heightsOf(marks, glyphOf, tracks, x) {
  const found = new Map();
  const last = HEIGHTS.map(() => -Infinity);
  for (const mark of [...marks].sort((a, b) => a.t - b.t || a.event - b.event)) {
    if (mark.track >= 0) found.set(mark, middleOf(tracks, mark.track));
    else if (!["bar", "bar-open", "end"].includes(glyphOf(mark))) {
      const at = x(mark.t);
      const level = Math.max(0, last.findIndex((before) => at - before >= GLYPH + 2));
      last[level] = at;
      found.set(mark, HEIGHTS[level]);
    }
  }
  return found;
}

// For each lane the labels with their place, how many rows they take, and the heights of its marks.
function placeLabels(run, styles, x, left, width, measure) {
  return run.layout.lanes.map(([, , tracks], lane) => {
    const rows = new Rows(left - GLYPH, width - 8, MOST_ROWS - (run.layout.lanes.length > MANY_LANES));
    const entries = [];
    const glyphs = [];
    for (const span of run.spans) {
      if (span.lane !== lane) continue;
      const start = x(span.start);
      const end = Math.max(x(span.end), start + LEAST_SPAN);
      entries.push({ item: span, start, end, isSpan: true });
      if (span.kind !== "memory") rows.take(0, start, end);
    }
    const marks = run.marks.filter((mark) => mark.lane === lane && mark.kind !== "recorded");
    for (const mark of marks) {
      const extent = [x(mark.t) - GLYPH, x(mark.t) + GLYPH];
      entries.push({ item: mark, start: extent[0], end: extent[1], isSpan: false });
      rows.take(0, ...extent);
      glyphs.push(extent);
    }
    const placed = placeLane(entries.filter((entry) => entry.item.label), rows, glyphs, (entry) => styles[entry.item.kind][4], measure);
    const heights = heightsOf(marks, (mark) => styles[mark.kind][1], tracks, x);
    return { placed, rows: 1 + Math.max(0, ...placed.map((label) => label.row)), heights, more: memoryHeight(tracks) - memoryHeight(1) };
  });
}

function placeLane(labelled, rows, glyphs, weight, measure) {
  const stacks = clusters(labelled.filter((entry) => !entry.isSpan));
  const stacked = new Set(stacks.flat());
  const groups = [...stacks, ...labelled.filter((entry) => !stacked.has(entry)).map((entry) => [entry])];
  const heaviest = (group) => Math.max(...group.map(weight));
  groups.sort((a, b) => heaviest(b) - heaviest(a) || b[0].start - a[0].start || b[0].item.event - a[0].item.event);
  const placed = [];
  const inside = new Map();
  let left = [];
  for (const group of [...groups, []]) {
    if (group.length > 1) {
      const [stack, over] = placeStack(group, rows, weight, measure);
      placed.push(...stack);
      left.push(...over);
      continue;
    }
    const singles = [...group, ...left];
    left = [];
    for (const entry of singles) {
      const track = entry.isSpan ? entry.item.track : 0;
      if (!inside.has(track)) inside.set(track, [...glyphs]);
      const found = placeShorter(entry, rows, inside.get(track), measure);
      if (found) placed.push(found);
    }
  }
  return placed;
}

// The labelled marks that stand close together, in order of time.
function clusters(marks) {
  const found = [];
  for (const entry of [...marks].sort((a, b) => a.start - b.start || a.item.event - b.item.event)) {
    const last = found.at(-1);
    const near = last && entry.start - last.at(-1).start <= CLUSTER && entry.start - last[0].start <= CLUSTER_WIDTH;
    if (near && last.length < MOST_ROWS) last.push(entry);
    else found.push([entry]);
  }
  return found.filter((one) => one.length > 1);
}

// The labels of close marks as a list, beside the last of them or below the first; and those without room.
function placeStack(cluster, rows, weight, measure) {
  const listed = [...cluster];
  const left = [];
  while (listed.length > 1) {
    const widths = listed.map(({ item }) => measure(item.label));
    const widest = Math.max(...widths);
    const first = (listed[0].start + listed[0].end) / 2;
    const last = listed.at(-1).end;
    for (const [base, at] of [[0, last + GAP - 3], [1, first + 4], [1, Math.min(first + 4, rows.right - widest)], [1, first - 4 - widest]]) {
      if (base + listed.length > rows.taken.length) continue;
      const places = widths.map((width, number) => [base + number, at - (base + number ? LEAD : 0), at + width]);
      if (!places.every((place) => rows.free(...place))) continue;
      if (!base && !rows.apart(at, at + widths[0] + CLEAR_RIGHT)) continue;
      for (const [row, start, end] of places) rows.take(row, row ? start : start - GAP, end + GAP);
      return [listed.map(({ item }, number) => ({ item, isSpan: false, x: at, row: base + number, anchor: first, led: base === 1 && number === 0, text: item.label })), left];
    }
    const least = Math.min(...listed.map(weight));
    const lightest = listed.findLastIndex((entry) => weight(entry) === least);
    left.push(...listed.splice(lightest, 1));
  }
  return [[], [...left, ...listed]];
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
  for (let row = 1; row < rows.taken.length; row++) {
    const between = Array.from({ length: row - 1 }, (_, i) => i + 1);
    for (const at of [anchor + 4, Math.min(anchor + 4, rows.right - width), anchor - 4 - width]) {
      if (rows.free(row, at - LEAD, at + width) && between.every((up) => rows.free(up, anchor - 1, anchor + 1))) {
        rows.take(row, at - LEAD, at + width + GAP);
        for (const up of between) rows.take(up, anchor - 3, anchor + 3);
        return { item, isSpan, x: at, row, anchor, led: true };
      }
    }
  }
  return null;
}
