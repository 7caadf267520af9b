// Numbers, times and moments in words: the same as durable_mini/figures/words.py, which is the reference.

const SPACE = "\u00a0";

function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, SPACE);
}

function wholeMs(us) {
  return grouped(Math.floor((Math.abs(us) + 500) / 1000)) + SPACE + "ms";
}

function shortSpan(us) {
  if (Math.abs(us) < 1e6) return wholeMs(us);
  return (us / 1e6).toFixed(2).replace(/\.?0+$/, "") + SPACE + "s";
}

// A text with its moments filled in: "in 283 ms", once they have gone by "overdue 20 ms".
function atMoment(text, now) {
  return text.replace(/\ue000(-?\d+)\ue001/g, (_, us) => {
    const ahead = Number(us) - now;
    if (Math.abs(ahead) < 500) return "due now";
    return (ahead > 0 ? "in " : "overdue ") + wholeMs(ahead);
  });
}

// A label and what it can be cut to, longest first: after each comma or colon from the end on.
function shorter(label) {
  const found = [label];
  for (let rest = label, at; (at = Math.max(rest.lastIndexOf(", "), rest.lastIndexOf(": "))) > 0; ) {
    rest = rest.slice(0, at);
    found.push(`${rest}…`);
  }
  return found;
}

function running(deltas) {
  let sum = 0;
  return deltas.map((delta) => (sum += delta));
}

// The last index whose value is at most `value`; -1 if there is none.
function lastAtMost(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// Where the cursor can stand: an event, or a moment with something to say after the event before it.
function inOrder(a, b) {
  return a.t - b.t || a.index - b.index || Boolean(a.said) - Boolean(b.said);
}

// What Python sent, unpacked: spans, marks, the times of all events, the cursor's stops, the table's changes.
function unpack(sent) {
  const { layout, table } = sent;
  const text = (index) => layout.texts[index];
  const starts = running(layout.spans.start);
  const spanEvents = running(layout.spans.event);
  const spans = starts.map((start, i) => ({
    lane: layout.spans.lane[i],
    start,
    end: start + layout.spans.length[i],
    kind: text(layout.spans.kind[i]),
    label: text(layout.spans.label[i]),
    event: spanEvents[i],
    track: layout.spans.track[i] ?? 0,
  }));
  const moments = running(layout.marks.t);
  const markEvents = running(layout.marks.event);
  const marks = moments.map((t, i) => ({
    lane: layout.marks.lane[i],
    t,
    kind: text(layout.marks.kind[i]),
    label: text(layout.marks.label[i]),
    event: markEvents[i],
    track: layout.marks.track[i] ?? -1,
  }));
  const sentence = (numbers) => numbers.split(" ").map((number) => table.words[parseInt(number, 36)]).join(" ");
  const sentences = table.texts.split(";").map(sentence);
  const rows = table.columns.map(([name, events, ids]) => ({
    name,
    events: running(events),
    texts: ids.map((id) => sentences[id]),
  }));
  const times = running(sent.times);
  const events = running(sent.steps).map((index) => ({ t: times[index], index, said: "" }));
  const stops = [...events, ...sent.stops.map(([t, index, said]) => ({ t, index, said }))].sort(inOrder);
  return { ...sent, spans, marks, rows, times, stops };
}

// The table right after event `index`, at `now` µs: pairs of row and text, as Python's state_after gives them.
function tableAt(run, index, now, said) {
  const pairs = [];
  for (const row of run.rows) {
    const change = lastAtMost(row.events, index);
    if (change < 0) continue;
    let text = atMoment(row.texts[change], now);
    if (row.name === "event") {
      if (said) text = said;
      else if (now > run.times[index]) text += ` (at ${wholeMs(run.times[index])})`;
    }
    pairs.push([row.name, text]);
    if (row.name === "event") pairs.push(["now", wholeMs(now)]);
  }
  if (run.recorded) {
    const newest = run.recorded.filter(([t]) => t <= now).at(-1);
    pairs.push(["recorded", `on the real runtime: ${newest ? `${newest[1]} at ${wholeMs(newest[0])}` : "nothing yet"}`]);
  }
  return pairs;
}
