// The timeline: an SVG drawn anew for each run and each width, and a cursor that moves over it.

const ROW = 16;
const NAME = 15; // the height of a lane's name above the lane, where there is no room beside it
const ROOM_FOR_NAMES = 480;
const NS = "http://www.w3.org/2000/svg";

function svgElement(name, attributes, parent, text) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent?.append(element);
  return element;
}

function ticks(end, most) {
  let step = 1000;
  for (let power = 1000; end / step > most; power *= 10) {
    for (const factor of [1, 2, 5]) {
      step = factor * power;
      if (end / step <= most) break;
    }
  }
  const found = [];
  for (let t = 0; t <= end; t += step) found.push(t);
  return found;
}

class Timeline {
  constructor(about, onPick) {
    this.styles = about.styles;
    this.glyphs = about.glyphs;
    this.svg = svgElement("svg", { class: "dm-svg", "aria-hidden": "true" });
    this.onPick = onPick;
    this.run = null;
    this.width = 0;
    this.measured = new Map();
    this._listen();
  }

  _measure(text) {
    let width = this.measured.get(text);
    if (width === undefined) {
      this.context ??= document.createElement("canvas").getContext("2d");
      this.context.font = getComputedStyle(this.svg).font;
      width = this.context.measureText(text).width;
      this.measured.set(text, width);
    }
    return width;
  }

  // A text in lines that are no wider than `width`.
  _lines(text, width) {
    const lines = [];
    for (const word of text.split(" ")) {
      const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
      if (lines.length && this._measure(longer) <= width) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines;
  }

  draw(run, width, laneHeight) {
    this.run = run;
    this.width = width;
    this.laneHeight = laneHeight;
    const { svg, styles } = this;
    svg.replaceChildren();
    const lanes = run.layout.lanes;
    const above = width < ROOM_FOR_NAMES ? NAME : 0;
    this.left = above ? 16 : 24 + Math.max(...lanes.map(([, label]) => this._measure(label)));
    this.right = width - (above ? 22 : 34);
    const scale = (this.right - this.left) / run.layout.end;
    const x = (t) => this.left + t * scale;
    this.x = x;
    const everywhere = run.spans.filter((span) => span.lane < 0);
    const top = 24; // room for what crosses all lanes, kept free so that nothing jumps when it comes
    const labels = placeLabels(run, styles, x, this.left, width, (text) => this._measure(text));
    const middles = [];
    let bottom = top;
    for (const lane of labels) {
      middles.push(bottom + above + (laneHeight + lane.more) / 2);
      bottom += above + laneHeight + lane.more + ROW * (lane.rows - 1);
    }
    this._axis(run, top, bottom, width);
    for (const span of everywhere) {
      this._box(span, x(span.start), top, Math.max(LEAST_SPAN, x(span.end) - x(span.start)), bottom - top);
      const middle = (x(span.start) + x(span.end)) / 2;
      svgElement("text", { x: middle, y: top - 5, class: "soft middle" }, svg, span.label);
    }
    let y = top;
    labels.forEach((lane, number) => {
      const middle = middles[number];
      svgElement("text", { x: 12, y: above ? y + NAME : middle + 4, class: "soft" }, svg, lanes[number][1]);
      y += above + laneHeight + lane.more + ROW * (lane.rows - 1);
      svgElement("path", { d: `M${this.left} ${y}H${this.right}`, class: "line" }, svg);
      for (const span of run.spans) {
        if (span.lane !== number) continue;
        const [up, height] = spanBox(span, lanes[number][2]);
        const wide = Math.max(LEAST_SPAN, x(span.end) - x(span.start));
        this._box(span, x(span.start), middle + up, wide, height);
      }
      for (const mark of run.marks) if (mark.lane === number) this._mark(mark, x(mark.t), middle + (lane.heights.get(mark) ?? 0));
    });
    this.lows = new Map(); // how far down the marks of an event reach
    run.marks.forEach((mark) => this.lows.set(mark.event, Math.max(this.lows.get(mark.event) ?? 0, middles[mark.lane] + 14)));
    this.bottom = bottom;
    if (run.fork !== null && run.fork <= run.layout.end) this._fork(x(run.fork), top, bottom, everywhere);
    this.cursor = svgElement("g", { class: "cursor" }, svg);
    svgElement("path", { d: `M0 ${top - 2}V${bottom}` }, this.cursor);
    svgElement("path", { d: `M-5.5 ${top - 9}h11l-5.5 8z`, class: "head" }, this.cursor);
    labels.forEach((lane, number) => lane.placed.forEach((label) => this._label(label, middles[number], lane.more / 2, lanes[number][2])));
    let end = bottom + 22;
    const notes = [run.layout.legend && `△ ${run.layout.legend}`, !run.layout.legend && run.overlay, run.layout.cut];
    for (const line of notes.filter(Boolean).flatMap((note) => this._lines(note, width - 24))) {
      end += 17;
      svgElement("text", { x: 12, y: end, class: "soft" }, svg, line);
    }
    end += 10;
    svg.setAttribute("viewBox", `0 0 ${width} ${end}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", end);
  }

  move(t) {
    this.cursor?.setAttribute("transform", `translate(${this.x(Math.min(t, this.run.layout.end)).toFixed(1)} 0)`);
  }

  // Where a list that belongs to an event may begin.
  below(event) {
    return this.lows.get(event) ?? this.bottom;
  }

  // Where this run departs from the one before.
  _fork(at, top, bottom, everywhere) {
    svgElement("path", { d: `M${at} ${top - 12}V${bottom}`, class: "fork" }, this.svg);
    const text = "forked here";
    const width = this._measure(text);
    const taken = everywhere.map((span) => {
      const middle = (this.x(span.start) + this.x(span.end)) / 2;
      const half = this._measure(span.label) / 2 + 6;
      return [middle - half, middle + half];
    });
    const places = [at + 9, at - 9 - width].filter((x) => x > 4 && x + width < this.width - 4);
    const x = places.find((x) => taken.every(([low, high]) => x > high || x + width < low));
    if (x === undefined) return;
    const said = svgElement("text", { x, y: top - 5, class: "text-red" }, this.svg, text);
    svgElement("title", {}, said, "Up to here the run is as it was before the change; what follows is computed anew.");
  }

  _axis(run, top, bottom, width) {
    for (const t of ticks(run.layout.end, Math.max(3, Math.floor(width / 100)))) {
      const at = this.x(t);
      svgElement("path", { d: `M${at} ${top}V${bottom}`, class: "line dotted" }, this.svg);
      const label = t === 0 ? `0${SPACE}ms` : shortSpan(t);
      svgElement("text", { x: at, y: bottom + 17, class: "soft middle" }, this.svg, label);
    }
  }

  _box(span, x, y, width, height) {
    const [tone, , fill, dashed] = this.styles[span.kind];
    const box = svgElement("rect", { x, y, width, height, rx: 3, class: `stroke-${tone} fill-${fill}` }, this.svg);
    if (dashed) box.classList.add("dashed");
    const lasting = `${wholeMs(span.start)} to ${wholeMs(span.end)}`;
    svgElement("title", {}, box, span.label ? `${span.label}: ${lasting}` : lasting);
  }

  _mark(mark, x, middle) {
    const [tone, glyph] = this.styles[mark.kind];
    const [path, filled] = this.glyphs[glyph];
    const y = middle - (mark.kind === "recorded" ? 14 : 0);
    const group = svgElement("g", { transform: `translate(${x} ${y})`, class: `mark stroke-${tone}` }, this.svg);
    if (mark.event >= 0) group.dataset.event = mark.event;
    else if (mark.kind === "ends") group.dataset.t = mark.t;
    svgElement("path", { d: path, class: filled ? `fill-${tone}` : "fill-none" }, group);
    if (mark.kind !== "recorded") svgElement("rect", { x: -9, y: -11, width: 18, height: 22, class: "hit" }, group);
    svgElement("title", {}, group, `${mark.label || mark.kind} at ${wholeMs(mark.t)}`);
  }

  _label({ item, isSpan, x, row, anchor, text, within, led }, middle, more, tracks) {
    const tone = isSpan ? "ink" : this.styles[item.kind][0];
    const ground = within ? this.styles[item.kind][2] : "bg";
    const onTrack = !row && isSpan && ON_TRACKS.has(item.kind) ? middleOf(tracks, item.track) : 0;
    const y = middle + 4 + (row ? ROW * row + 2 + more : onTrack);
    if (row && led) svgElement("path", { d: `M${anchor} ${middle + GLYPH + 2}V${y - 10}`, class: "line" }, this.svg);
    const label = svgElement("text", { x, y, class: `label text-${tone} on-${ground}` }, this.svg, text);
    if (text !== item.label) svgElement("title", {}, label, item.label);
    if (item.event >= 0 && !isSpan) label.dataset.event = item.event;
    else if (item.kind === "ends") label.dataset.t = item.t;
  }

  // A click on a mark goes to its event, anywhere else to that time; dragging scrubs.
  _listen() {
    const timeAt = (pointer) => {
      const at = pointer.clientX - this.svg.getBoundingClientRect().left;
      const share = (at - this.left) / (this.right - this.left);
      return Math.round(Math.min(1, Math.max(0, share)) * this.run.layout.end);
    };
    let dragging = false;
    this.svg.addEventListener("pointerdown", (pointer) => {
      if (!this.run || pointer.button !== 0) return;
      const picked = pointer.target.closest("svg [data-event], svg [data-t]"); // not the lab, which has both as well
      if (picked) {
        const { event, t } = picked.dataset;
        this.onPick(event === undefined ? { stop: Number(t) } : { event: Number(event) });
        return;
      }
      dragging = true;
      this.svg.setPointerCapture(pointer.pointerId);
      this.onPick({ t: timeAt(pointer) });
    });
    this.svg.addEventListener("pointermove", (pointer) => dragging && this.onPick({ t: timeAt(pointer) }));
    for (const end of ["pointerup", "pointercancel"]) this.svg.addEventListener(end, () => (dragging = false));
  }
}
