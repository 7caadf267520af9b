// The controls: settings, fault buttons, seed. They report changes and show what Python accepted.

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "role" || key === "for") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
}

// Each lab has a module of its own, and all labs of a page share its ids.
const PAGE_ID = `dm-${Math.random().toString(36).slice(2)}`;
let nextId = 0;

// One setting: its element, `show(value)` for what Python accepted.
function settingControl(setting, onChange) {
  const id = `${PAGE_ID}-${++nextId}`;
  const label = element("label", { htmlFor: id, title: setting.help }, setting.label);
  const box = element("div", { className: `dm-setting dm-${setting.kind}` });
  box.dataset.name = setting.name;
  if (setting.kind === "slider") {
    const { stops, unit, off } = setting;
    const shown = (value) => (value === 0 && off ? off : `${value < 0 ? "−" : ""}${grouped(Math.abs(value))}${SPACE}${unit}`);
    const range = element("input", { type: "range", id, min: 0, max: stops.length - 1, step: 1, title: setting.help });
    const output = element("output", { htmlFor: id });
    const tell = (value) => {
      output.value = shown(value);
      range.setAttribute("aria-valuetext", shown(value));
    };
    range.addEventListener("input", () => {
      tell(stops[range.value]);
      onChange(setting.name, stops[range.value]);
    });
    box.append(label, range, output);
    const show = (value) => {
      const nearest = stops.reduce((best, stop, i) => (Math.abs(stop - value) < Math.abs(stops[best] - value) ? i : best), 0);
      range.value = nearest;
      tell(value);
    };
    return { box, show };
  }
  if (setting.kind === "choice") {
    const options = setting.choices.map((choice) => element("option", { value: choice }, choice));
    const select = element("select", { id, title: setting.help }, ...options);
    select.addEventListener("change", () => onChange(setting.name, select.value));
    box.append(label, select);
    return { box, show: (value) => (select.value = value) };
  }
  const check = element("input", { type: "checkbox", id, title: setting.help });
  check.addEventListener("change", () => onChange(setting.name, check.checked));
  box.append(check, label);
  return { box, show: (value) => (check.checked = value) };
}

// One way to break it, a button or a choice: its element, what can be focused in it, `show(state)` for what is in the plan.
function faultControl(fault, send) {
  const { name, label, help } = fault;
  if (fault.kind === "choice") {
    const id = `${PAGE_ID}-${++nextId}`;
    const select = element("select", { id, title: help }, ...fault.options.map((option) => element("option", { value: option }, option)));
    const box = element("span", { className: "dm-setting dm-where" }, element("label", { htmlFor: id, title: help }, label), select);
    box.dataset.name = name;
    select.addEventListener("change", () => send({ press: name, option: select.value }));
    const show = (chosen) => {
      select.value = chosen;
      box.classList.toggle("dm-broken", chosen !== fault.options[0]);
    };
    return { name, box, field: select, show };
  }
  const chip = element("button", { type: "button", className: "dm-chip", title: help, "aria-pressed": "false" }, label);
  chip.dataset.name = name;
  chip.addEventListener("click", () => send({ press: name, atCursor: fault.at_cursor }));
  return { name, box: chip, field: chip, show: (pressed) => chip.setAttribute("aria-pressed", String(pressed)) };
}

class Controls {
  // `send` takes what has changed: {settings}, {press, option}, {seed}.
  constructor(about, send) {
    this.settings = {};
    this.about = about;
    const change = (name, value) => send({ settings: { [name]: value } });
    const moreId = `${PAGE_ID}-${++nextId}`;
    this.inView = element("div", { className: "dm-controls" });
    this.more = element("div", { className: "dm-controls dm-more", id: moreId, hidden: true });
    for (const setting of about.settings) {
      const control = settingControl(setting, change);
      this.settings[setting.name] = control;
      (setting.more ? this.more : this.inView).append(control.box);
    }
    this.faults = about.faults.map((fault) => faultControl(fault, send));
    const seedId = `${PAGE_ID}-${++nextId}`;
    this.seed = element("input", { type: "text", inputMode: "numeric", id: seedId, className: "dm-seed", autocomplete: "off" });
    this.seed.addEventListener("change", () => {
      const given = this.seed.value.trim();
      const good = /^\d{1,9}$/.test(given);
      this.hint.textContent = good ? "" : `${given ? `“${given.slice(0, 24)}”` : "Nothing"} is no seed: a seed is a whole number of at most 9 digits. It stays ${this.accepted}.`;
      if (good) send({ seed: Number(given) });
      else this.seed.value = this.accepted;
    });
    this.hint = element("span", { className: "dm-hint", role: "alert" });
    const dice = element("button", { type: "button", className: "dm-button", "aria-label": "another seed", title: "another seed" }, "⚄");
    dice.addEventListener("click", () => {
      this.hint.textContent = "";
      send({ seed: Math.floor(Math.random() * 1000) });
    });
    const seedHelp = "what the random draws start from: jitter, and the order of alarms due at one instant";
    const seedLabel = element("label", { htmlFor: seedId, title: seedHelp }, "seed");
    this.more.append(element("div", { className: "dm-setting" }, seedLabel, this.seed, dice, this.hint));
    const toggle = element("button", { type: "button", className: "dm-link", "aria-expanded": "false", "aria-controls": moreId }, "more ▾");
    this.unfold = (open) => {
      this.more.hidden = !open;
      toggle.setAttribute("aria-expanded", String(open));
      toggle.textContent = open ? "less ▴" : "more ▾";
    };
    toggle.addEventListener("click", () => this.unfold(this.more.hidden));
    const group = element("div", { className: "dm-faults", role: "group", "aria-label": "Break it" });
    group.append(element("span", { className: "dm-soft" }, "Break it:"), ...this.faults.map(({ box }) => box));
    const breaks = element("div", { className: "dm-controls dm-breaks" }, group, toggle);
    this.elements = [this.inView, breaks, this.more];
  }

  show(run) {
    // what differs from the beginning is not hidden under "more" in a lab that appears anew
    const changed = (one) => one.more && run.settings[one.name] !== one.default;
    if (this.accepted === undefined && (run.seed !== this.about.seed || this.about.settings.some(changed))) this.unfold(true);
    this.accepted = run.seed;
    for (const { name, needs } of this.about.settings) {
      const { box, show } = this.settings[name];
      show(run.settings[name]);
      const idle = Boolean(needs) && !run.settings[needs];
      box.classList.toggle("dm-idle", idle);
      for (const input of box.querySelectorAll("input, select")) input.disabled = this.dead || idle;
    }
    for (const { name, show } of this.faults) show(run.pressed[name]);
    this.seed.value = run.seed;
  }

  // The control of a fault that differs between two runs.
  controlOf(before, after) {
    return this.faults.find(({ name }) => before[name] !== after[name])?.field;
  }

  // Whether Python is out of reach: nothing can be set then, and what is under "more" can still be read.
  kill(dead) {
    this.dead = dead;
    const fields = this.elements.flatMap((part) => [...part.querySelectorAll("input, select, button")]);
    for (const field of fields) if (!field.classList.contains("dm-link")) field.disabled = dead;
  }
}
