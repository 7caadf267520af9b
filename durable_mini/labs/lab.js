// The lab: joins controls, timeline, table and cursor, and talks to Python.
//
// To Python goes {settings, plan, seed, press, option, at_ms, reply}, at most one message at a time; while it is on its
// way, newer changes wait and go together. Back comes the trait `picture`, a finished run, or `refused`. What could break
// at an event is asked for by {ask, reply} and comes as `offered`. The time cursor needs no Python.

const RESTARTED = "The kernel was restarted: run this cell again.";
const NO_ANSWER = "No answer from the kernel: is a cell still running? If the kernel was restarted, run this cell again.";
const STOPPED = "✕ the run was stopped; what you see is the run before";
const GONE = ["comm_live_update", "comm:close", "destroy"];
const PATIENCE_MS = 4000; // Python stops a run after 3 s
const LEAST_WIDTH = 240;
const NARROW = 620; // narrower labs have the table under the timeline
const MEDIUM = 800;

// What the rows of the table are, for who points at their names.
const ROWS = {
  event: "what happened last",
  object: "whose alarm, gate and memory the table shows",
  alarm: "what getAlarm() reads",
  retryCount: "how many runs of this alarm have failed so far, as alarm() is told",
  isRetry: "whether this run follows a failed one, as alarm() is told",
  gate: "while it is closed, no call and no alarm gets into the object",
  memory: "each instance begins with empty memory; what is stored outlasts it",
  "in memory": "what the object remembers and has not stored: gone with its instance",
  "calls waiting": "calls that wait at the gate",
  "effects so far": "how often each effect has happened in the outside world",
  recorded: "how far the real runtime had come by then",
};

class Lab {
  constructor(model, root) {
    this.model = model;
    this.view = Math.random().toString(36).slice(2);
    this.sent = 0;
    this.waiting = null; // the number of the message on its way
    this.next = null; // changes that go when it is back
    this.index = 0;
    this.t = 0;
    this.said = "";
    this.dead = false;
    this.tallest = 0;
    this.touched = false; // whether the cursor was moved by hand
    this.playing = null;
    this.past = new Past();
    this.doing = ""; // what the message on its way changes, for undo
    this._build(root);
    this.onPicture = () => this._receive(JSON.parse(model.get("picture")));
    this.onRefused = () => this._refused(JSON.parse(model.get("refused")));
    model.on("change:picture", this.onPicture);
    model.on("change:refused", this.onRefused);
    this.onOffered = () => this._offered(JSON.parse(model.get("offered")));
    model.on("change:offered", this.onOffered);
    // A model is told once its kernel has gone; a new run of the cell makes a new model.
    this.onLost = () => this._dead(true);
    for (const event of GONE) model.on(event, this.onLost);
    this.onPicture();
    this.observer = new ResizeObserver(() => this._redraw());
    for (const sized of [root, this.plot]) this.observer.observe(sized);
  }

  destroy() {
    this.model.off("change:picture", this.onPicture);
    this.model.off("change:refused", this.onRefused);
    this.model.off("change:offered", this.onOffered);
    for (const event of GONE) this.model.off(event, this.onLost);
    clearTimeout(this.patience);
    this.observer.disconnect();
    this._stop();
    clearTimeout(this.telling);
  }

  _build(root) {
    const about = this.model.get("about");
    this.controls = new Controls(about, (change) => this._change(change));
    this.timeline = new Timeline(about, (picked) => {
      this._stop();
      this.touched = true;
      this.offers.close(false);
      if ("event" in picked) {
        this._goTo(picked.event);
        this._ask(false);
      }
      else if ("stop" in picked) this._stand(this.run.stops.find((stop) => stop.said && stop.t === picked.stop));
      else this._goAt(picked.t);
    });
    const button = (label, text, action) => {
      const made = element("button", { type: "button", className: "dm-button", "aria-label": label, title: label }, text);
      made.addEventListener("click", action);
      return made;
    };
    this.subtitle = element("span", { className: "dm-soft" });
    this.verdict = element("span", { className: "dm-verdict", role: "status", "aria-live": "polite" });
    this.plot = element("div", { className: "dm-plot", tabIndex: 0, role: "group" }, this.timeline.svg);
    this.plot.setAttribute("aria-label", "Timeline. Left and right step from event to event, page up and down from moment to moment, home and end go to the ends, space plays, enter shows what could break here. The table says the same in words.");
    this.plot.addEventListener("keydown", (key) => this._key(key));
    this.heading = element("h3");
    this.table = element("table");
    this.live = element("div", { className: "dm-hidden", "aria-live": "polite", role: "status" });
    this.play = button("play", "▶ play", () => this._toggle());
    this.scrub = element("input", { type: "range", min: 0, step: 1, className: "dm-scrub", "aria-label": "time" });
    this.scrub.addEventListener("input", () => {
      this._stop();
      this.touched = true;
      this._goAt(Number(this.scrub.value));
    });
    this.scrub.addEventListener("keydown", (key) => key.key !== " " && this._key(key)); // steps as the timeline's do
    this.clock = element("span", { className: "dm-clock" });
    this.count = element("span", { className: "dm-count dm-soft" });
    this.lost = element("p", { className: "dm-lost", role: "alert", hidden: true });
    const speeds = [["0.1", "× 0.1"], ["0.5", "× 0.5"], ["1", "× 1"], ["4", "× 4"], ["20", "× 20"]];
    this.speed = element("select", { "aria-label": "speed", className: "dm-speed" }, ...speeds.map(([value, text]) => element("option", { value }, text)));
    this.speed.value = "1";
    this.chart = element("div", { className: "dm-chart", hidden: true });
    this.story = element("p", { className: "dm-story" });
    this.trouble = element("p", { className: "dm-trouble", role: "alert" });
    this.printed = element("pre", { className: "dm-printed", tabIndex: 0, "aria-label": "what the class has printed", hidden: true });
    this.faults = new Faults((number) => {
      this.taken = number;
      this._change({ plan: this.run.plan.filter((_, other) => other !== number) });
    });
    this.offers = new Offers((line) => this._change({ plan: [...this.run.plan, line], atCursor: true }), () => this.plot.focus());
    this.planText = new PlanText((plan) => this._change({ plan, edited: true }));
    this.controls.more.append(this.planText.box);
    this.undo = button("undo", "↶ undo", () => this._undo());
    this.redo = button("redo", "↷ redo", () => this._redo());
    this.undo.className = this.redo.className = "dm-link";
    root.addEventListener("keydown", (key) => this._undoKey(key));
    this.copy = button("copy as code", "copy as code", () => this._copy());
    this.copy.className = "dm-link dm-copy";
    this.code = element("textarea", { className: "dm-code", readOnly: true, hidden: true, rows: 10, "aria-label": "code that makes this picture" });
    const step = (by) => () => {
      this._stop();
      this._step(by);
    };
    this.body = element("div", { className: "dm-body" }, this.plot, element("div", { className: "dm-aside" }, this.heading, this.table), this.offers.box);
    this.root = root;
    root.className = "dm-lab";
    root.dataset.view = this.view;
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", `Lab: ${about.title}`);
    root.append(
      element("header", {}, element("b", {}, about.title), this.subtitle, this.verdict, this.story, this.trouble),
      this.lost,
      ...this.controls.elements,
      element("div", { className: "dm-bar" },
        button("previous event", "◀|", step(-1)), this.play, button("next event", "|▶", step(1)),
        this.scrub, this.count, this.clock, this.speed),
      this.body,
      this.chart, this.printed,
      element("div", { className: "dm-plan" }, element("span", { className: "dm-soft" }, "fault plan"), this.faults.list, element("span", { className: "dm-steps" }, this.undo, this.redo, this.copy)),
      this.code, this.live,
    );
  }

  // -- to and from Python -------------------------------------------------------------------------

  _change({ atCursor, ...change }) {
    if (this.dead) return;
    if (atCursor) this.touched = true; // the cursor stays where the fault was asked for
    const before = this.next ?? { settings: {} };
    this.next = { ...before, ...change, settings: { ...before.settings, ...change.settings } };
    if (this.waiting === null) this._send();
  }

  _send() {
    const { settings, ...rest } = this.next;
    this.next = null;
    const [only, more] = Object.keys(settings);
    const setting = only && !more && !["plan", "seed", "press"].some((name) => name in rest);
    this.doing = rest.moved ?? (setting ? `setting ${only}` : "other");
    this.edited = Boolean(rest.edited);
    this.waiting = `${this.view}-${++this.sent}`;
    try {
      this.model.send({
        settings: { ...this.run.settings, ...settings },
        plan: (rest.plan ?? this.run.plan).join("\n"),
        seed: rest.seed ?? this.run.seed,
        press: rest.press ?? null,
        option: rest.option ?? null,
        edited: this.edited,
        at_ms: this.t / 1000,
        reply: this.waiting,
      });
    } catch {
      this._dead(true);
      return;
    }
    clearTimeout(this.patience);
    this.patience = setTimeout(() => this._warn(NO_ANSWER), PATIENCE_MS);
  }

  // The kernel is gone: without it nothing can be set, and the run on show can still be looked at.
  _dead(dead) {
    if (dead === Boolean(this.dead)) return;
    this.dead = dead;
    this.waiting = this.next = null;
    clearTimeout(this.patience);
    this.root.classList.toggle("dm-dead", dead);
    this.controls.kill(dead);
    this.offers.close(false);
    this._showPlan();
    this._warn(dead ? RESTARTED : "");
    this.controls.show(this.run);
  }

  _warn(text) {
    this._show(this.lost, text);
    if (text) {
      clearTimeout(this.telling);
      this.live.textContent = text;
    }
  }

  _receive(sent) {
    this._warn("");
    this._newRun(unpack(sent), sent.reply === this.waiting);
    this._answered(sent.reply);
  }

  _refused({ sentence, reply, stopped, field }) {
    if (field === "plan") this.planText.refuse(sentence);
    else this._show(this.trouble, `✕ ${sentence}`);
    if (stopped) {
      this.verdict.className = "dm-verdict text-red";
      this.verdict.textContent = STOPPED;
    }
    this.controls.show(this.run);
    this._answered(reply);
  }

  _answered(reply) {
    if (reply === this.waiting) {
      this.waiting = null;
      clearTimeout(this.patience);
      if (!this.dead) this._warn("");
    }
    if (this.waiting === null && this.next !== null) this._send();
  }

  // A run to show; `mine` if this view has asked for it.
  _newRun(run, mine) {
    this._stop();
    const t = this.t;
    const before = this.run;
    this.run = run;
    this.scrub.max = run.layout.end;
    this.past.arrived(run, mine ? this.doing : "");
    if (this.next === null) this.controls.show(run);
    this.subtitle.textContent = run.subtitle;
    const [tone, text] = run.verdict;
    this.verdict.className = `dm-verdict text-${{ good: "green", bad: "red" }[tone] ?? "soft"}`;
    if (this.verdict.textContent !== text) this.verdict.textContent = text;
    this.story.textContent = run.story;
    this._show(this.trouble, run.trouble && `✕ ${run.trouble}`);
    this._show(this.printed, run.printed.join("\n"));
    this._showPlan();
    this.planText.show(run.plan, mine && this.edited);
    if (this.taken !== undefined && before && before.plan.length > run.plan.length) {
      // the button goes away with its fault, and keyboard focus must not be lost with it
      if (!this.faults.focus(this.taken)) (this.controls.controlOf(before.pressed, run.pressed) ?? this.plot).focus();
      this.taken = undefined;
    }
    this.offers.close(false);
    this.code.value = run.code;
    this._draw(run.chart);
    this.seen = new Map();
    this._redraw();
    this._keepRoom();
    if (this.touched) this._goAt(Math.min(t, run.layout.end));
    else this._goTo(run.cursor);
    if (run.fork !== null) this._tell(`Forked at ${wholeMs(run.fork)}: what lies before is as it was. ${text}`);
  }

  _showPlan() {
    const { plan, idle } = this.run;
    this.faults.show(plan, idle, this.dead);
    for (const [button, state] of [[this.undo, this.past.before], [this.redo, this.past.after]]) {
      // not disabled: whoever undoes the last change keeps the focus
      button.setAttribute("aria-disabled", String(this.dead || !state));
    }
  }

  _tell(text) {
    clearTimeout(this.telling);
    this.live.textContent = text;
  }

  // -- undo and redo ------------------------------------------------------------------------------------

  _undo() {
    this._return("undo", this.past.before);
  }

  _redo() {
    this._return("redo", this.past.after);
  }

  _return(moved, state) {
    if (this.dead || this.waiting !== null) return;
    if (state) this._change({ ...state, moved });
    else this._tell(`There is nothing to ${moved}.`);
  }

  _undoKey(key) {
    const typing = key.target.matches("textarea, input[type=text]");
    if (!(key.ctrlKey || key.metaKey) || key.altKey || typing) return;
    const letter = key.key.toLowerCase();
    if (letter !== "z" && letter !== "y") return;
    key.preventDefault();
    key.stopPropagation();
    if (letter === "y" || key.shiftKey) this._redo();
    else this._undo();
  }

  // -- what could break at an event ---------------------------------------------------------------------

  // Ask what could break at the event under the cursor; with `focus` the keyboard goes there.
  _ask(focus) {
    if (this.dead || this.waiting !== null) return;
    this.asked = `${this.view}-ask-${++this.sent}`;
    this.askedByKey = focus;
    try {
      this.model.send({ ask: this.index, reply: this.asked });
    } catch {
      this._dead(true);
    }
  }

  _offered(answer) {
    if (answer.reply !== this.asked || answer.digest !== this.run.digest || answer.index !== this.index) return;
    this.shownFor = answer.index;
    const body = this.body.getBoundingClientRect();
    const plot = this.timeline.svg.getBoundingClientRect();
    const x = plot.left - body.left + this.timeline.x(this.t);
    this.offers.show(answer, { x, y: plot.top - body.top + this.timeline.below(this.index) }, this.askedByKey);
    if (!this.askedByKey) this._tell(`${answer.offers.length} faults fit here; Enter goes to them.`);
  }

  // The chart, and the same as text for who wants to read it.
  _draw(chart) {
    this.chart.hidden = !chart;
    if (!chart) return this.chart.replaceChildren();
    const open = this.chart.querySelector("details")?.open ?? false;
    this.chart.innerHTML = chart[0];
    const text = element("pre", {}, chart[1]);
    this.chart.append(element("details", { open }, element("summary", {}, "the chart as a table"), text));
  }

  _show(line, text) {
    line.textContent = text || "";
    line.hidden = !text;
  }

  // What stands below the story does not jump when the next one is shorter.
  _keepRoom() {
    const { style, offsetWidth } = this.story;
    if (offsetWidth !== this.storyWidth) style.minHeight = "";
    this.storyWidth = offsetWidth;
    if (offsetWidth) style.minHeight = `${Math.max(parseFloat(style.minHeight) || 0, this.story.offsetHeight)}px`;
  }

  _redraw() {
    const narrow = this.root.clientWidth < NARROW;
    this.root.classList.toggle("dm-narrow", narrow);
    this.root.classList.toggle("dm-medium", !narrow && this.root.clientWidth < MEDIUM);
    const room = Math.floor(this.plot.clientWidth);
    const width = Math.max(room, LEAST_WIDTH); // what is wider scrolls
    if (!this.run || room < 50) return;
    if (this.timeline.run === this.run && this.timeline.width === width) return;
    if (this.timeline.width !== width) this.tallest = 0;
    this.timeline.draw(this.run, width, 34);
    this.timeline.move(this.t);
    // What stands below does not jump when a run needs less room than the one before.
    this.tallest = Math.max(this.tallest, this.timeline.svg.height.baseVal.value);
    this.plot.style.minHeight = `${this.tallest}px`;
  }

  // -- the time cursor ------------------------------------------------------------------------------

  _stand({ t, index, said }) {
    Object.assign(this, { t, index, said });
    this._moved();
  }

  _goTo(event) {
    this._stand({ t: this.run.times[event], index: event, said: "" });
  }

  // To a time: to what happened last by then, and at the very end to what is true there.
  _goAt(t) {
    const index = Math.max(0, lastAtMost(this.run.times, t));
    const there = this.run.stops.find((stop) => stop.said && stop.t === t && stop.index === index);
    this._stand(there ?? { t, index, said: "" });
  }

  // The number of the stop the cursor stands on or has passed last.
  _here() {
    return this.run.stops.findLastIndex((stop) => inOrder(stop, this) <= 0);
  }

  _step(by) {
    const { stops } = this.run;
    this.touched = true;
    const here = this._here();
    const on = here >= 0 && inOrder(stops[here], this) === 0; // between two stops, back means to the one before
    const to = by > 0 ? here + 1 : on ? here - 1 : here;
    if (to >= 0 && to < stops.length) this._stand(stops[to]);
  }

  _leap(by) {
    const { stops } = this.run;
    this.touched = true;
    const next = by > 0 ? stops.find(({ t }) => t > this.t) : stops.findLast(({ t }) => t < this.t);
    if (next) this._goAt(next.t);
  }

  _moved() {
    const { run, t } = this;
    this.timeline.move(t);
    this._intoView();
    if (!this.offers.box.hidden && this.index !== this.shownFor) this.offers.close(false);
    Object.assign(this.root.dataset, { t, event: this.index, said: this.said, trace: run.digest });
    this.scrub.value = t;
    const now = wholeMs(t);
    this.clock.textContent = `${now.slice(0, -3)} of ${wholeMs(run.layout.end)}`;
    this.count.textContent = `event ${this._here() + 1} of ${run.stops.length}`;
    this.scrub.setAttribute("aria-valuetext", `${now}, ${this.count.textContent}`);
    this.heading.textContent = `What the runtime saw at ${now}`;
    const table = tableAt(run, this.index, t, this.said).filter(([name]) => name !== "now");
    this._fill(table);
    clearTimeout(this.telling);
    if (!this.playing && !this.dead) this.telling = setTimeout(() => (this.live.textContent = `${now}: ${table[0][1]}`), 300);
  }

  // Where the timeline scrolls, the cursor stays in view.
  _intoView() {
    const { plot, timeline } = this;
    if (!timeline.x || plot.scrollWidth <= plot.clientWidth) return;
    const x = timeline.x(this.t);
    if (x < plot.scrollLeft + 20 || x > plot.scrollLeft + plot.clientWidth - 20) plot.scrollLeft = x - plot.clientWidth / 2;
  }

  _fill(pairs) {
    if (this.table.rows.length !== pairs.length || pairs.some(([name], i) => this.table.rows[i].cells[0].textContent !== name)) {
      this.table.replaceChildren(...pairs.map(([name]) => element("tr", {}, element("th", { scope: "row", title: ROWS[name] ?? "stored rows" }, name), element("td"))));
      this.seen = new Map();
    }
    pairs.forEach(([name, text], i) => {
      const cell = this.table.rows[i].cells[1];
      const before = this.seen.get(name);
      cell.classList.toggle("dm-new", before !== undefined && before !== text && name !== "event");
      if (before !== text) cell.replaceChildren(...text.split(/(?<=; )/).map((part) => element("span", {}, part)));
      this.seen.set(name, text);
    });
  }

  _toggle() {
    if (this.playing) this._stop();
    else this._start();
  }

  _start() {
    this.touched = true;
    if (this.t >= this.run.layout.end) this._goAt(0);
    this.play.textContent = "❚❚ pause";
    this.play.setAttribute("aria-label", "pause");
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      const timer = setInterval(() => (this.t < this.run.layout.end ? this._step(1) : this._stop()), 700);
      this.playing = () => clearInterval(timer);
      return;
    }
    let before = null;
    let frame = 0;
    const tick = (now) => {
      if (before !== null) this._goAt(Math.min(this.run.layout.end, Math.round(this.t + (now - before) * 1000 * Number(this.speed.value))));
      before = now;
      if (this.t >= this.run.layout.end) this._stop();
      else frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    this.playing = () => cancelAnimationFrame(frame);
  }

  _stop() {
    if (!this.playing) return;
    this.playing();
    this.playing = null;
    this.play.textContent = "▶ play";
    this.play.setAttribute("aria-label", "play");
    this._moved();
  }

  _key(key) {
    if (key.ctrlKey || key.metaKey || key.altKey) return;
    const actions = {
      ArrowLeft: () => this._step(-1),
      ArrowRight: () => this._step(1),
      ...(key.currentTarget === this.scrub && { ArrowDown: () => this._step(-1), ArrowUp: () => this._step(1) }),
      PageUp: () => this._leap(-1),
      PageDown: () => this._leap(1),
      Home: () => this._stand(this.run.stops[0]),
      End: () => this._goAt(this.run.layout.end),
      " ": null,
      Enter: null,
    };
    if (!(key.key in actions)) return;
    key.preventDefault();
    key.stopPropagation();
    if (key.key === " ") {
      this._toggle();
      return;
    }
    this._stop();
    if (key.key === "Enter") {
      this._ask(true);
      return;
    }
    this.touched = true;
    actions[key.key]();
  }

  // -- leaving ------------------------------------------------------------------------------------------

  async _copy() {
    try {
      await navigator.clipboard.writeText(this.run.code);
      this.copy.textContent = "copied";
      this.live.textContent = "The code was copied.";
      setTimeout(() => (this.copy.textContent = "copy as code"), 2000);
    } catch {
      this.code.hidden = false;
      this.code.focus();
      this.code.select();
      this.live.textContent = "The clipboard is closed to this page; the code is in the text box.";
    }
  }
}

function mounted(model, place) {
  const root = document.createElement("div");
  place(root);
  // The notebook takes arrow keys and letters for itself; what is typed in the lab belongs to the lab.
  root.addEventListener("keydown", (key) => {
    if (!key.ctrlKey && !key.metaKey && !key.altKey) key.stopPropagation();
  });
  return new Lab(model, root);
}

// In JupyterLab a cell's output is the static picture alone, which a saved notebook keeps. The live lab takes the
// place of every picture that bears its name, for as long as there is a kernel.
function takePlaces(model, name) {
  const labs = new Map();
  const look = (part) => {
    const pictures = part.tagName === "IMG" ? [part] : (part.querySelectorAll?.("img") ?? []);
    for (const picture of pictures) {
      if (labs.has(picture) || !picture.src.includes(name)) continue;
      labs.set(picture, mounted(model, (root) => picture.after(root)));
      picture.hidden = true;
      picture.style.display = "none";
    }
  };
  const observer = new MutationObserver((changes) => {
    for (const { addedNodes } of changes) addedNodes.forEach(look);
  });
  observer.observe(document.body, { childList: true, subtree: true });
  look(document.body);
  return () => {
    observer.disconnect();
    // what is still in view stays, and says that its kernel has gone
    for (const [picture, lab] of labs) picture.isConnected ? lab.onLost() : lab.destroy();
  };
}

export default {
  initialize({ model }) {
    const name = model.get("place");
    return name ? takePlaces(model, name) : undefined;
  },
  render({ model, el }) {
    const lab = mounted(model, (root) => el.append(root));
    return () => lab.destroy();
  },
};
