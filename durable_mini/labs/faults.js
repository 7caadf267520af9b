// The faults of a run: those that fit an event, the plan as a list, and the plan as text.

// What could go wrong at an event: a small list beside it.
class Offers {
  // `choose` takes the line that was chosen, `closed` is called when the list has gone.
  constructor(choose, closed) {
    this.choose = choose;
    this.closed = closed;
    this.heading = element("p");
    this.list = element("ul");
    const close = element("button", { type: "button", className: "dm-link dm-close", "aria-label": "close" }, "✕");
    close.addEventListener("click", () => this.close(true));
    this.box = element("div", { className: "dm-offers", hidden: true, role: "dialog" }, close, this.heading, this.list);
    this.box.addEventListener("keydown", (key) => this._key(key));
  }

  show({ event, offers }, at, focus) {
    this.heading.textContent = offers.length ? `Break it here: ${event}` : `Nothing more can break here: ${event}`;
    this.box.setAttribute("aria-label", this.heading.textContent);
    this.list.replaceChildren(...offers.map(([line, words]) => {
      const button = element("button", { type: "button", title: line }, words);
      button.addEventListener("click", () => {
        this.close(true);
        this.choose(line);
      });
      return element("li", {}, button);
    }));
    this.box.hidden = false;
    // beside its event, and within what it stands over: what is higher scrolls
    const { clientWidth, clientHeight } = this.box.parentElement;
    this.box.style.maxHeight = `${clientHeight - 8}px`;
    const { offsetWidth: width, offsetHeight: height } = this.box;
    const beside = at.x + 16 + width < clientWidth ? at.x + 16 : at.x - 16 - width;
    const fits = beside >= 8;
    this.box.style.left = `${fits ? beside : Math.max(8, (clientWidth - width) / 2)}px`;
    this.box.style.top = `${Math.max(4, Math.min(at.y, clientHeight - height - 4))}px`;
    if (focus) (this.box.querySelector("li button") ?? this.box.querySelector("button")).focus();
    this.box.scrollIntoView({ block: "nearest" });
  }

  close(back) {
    if (this.box.hidden) return;
    const focused = this.box.contains(document.activeElement);
    this.box.hidden = true;
    if (back || focused) this.closed();
  }

  _key(key) {
    const buttons = [...this.list.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[key.key];
    if (key.key === "Escape") this.close(true);
    else if (to === undefined || !buttons.length) return;
    else buttons[(to + buttons.length) % buttons.length].focus();
    key.preventDefault();
    key.stopPropagation();
  }
}

// The plan, a fault a line: each can be taken out, and one that never struck says so.
class Faults {
  constructor(takeOut) {
    this.takeOut = takeOut;
    this.list = element("ul", { className: "dm-plan-list" });
  }

  show(plan, idle, dead) {
    const lines = plan.map((line, number) => {
      const out = element("button", { type: "button", className: "dm-link", "aria-label": `take out: ${line}`, title: "take this fault out", disabled: dead }, "✕");
      out.addEventListener("click", () => this.takeOut(number));
      const remark = idle[number] ? [element("span", { className: "dm-idle-fault" }, idle[number])] : [];
      return element("li", {}, element("code", {}, line), ...remark, out);
    });
    this.list.replaceChildren(...(lines.length ? lines : [element("li", {}, element("code", {}, "nothing breaks"))]));
  }

  // Focus for who took out fault `number` by keyboard: the next one, else nothing.
  focus(number) {
    const buttons = this.list.querySelectorAll("button");
    buttons[Math.min(number, buttons.length - 1)]?.focus();
    return buttons.length > 0;
  }
}

// The plan as text: typed or pasted, and run with a button.
class PlanText {
  constructor(apply) {
    const id = `${PAGE_ID}-${++nextId}`;
    const hintId = `${id}-hint`;
    this.changed = false;
    this.text = element("textarea", { id, className: "dm-plan-text", rows: 3, spellcheck: false, "aria-describedby": hintId });
    this.text.placeholder = "a fault a line; pick an event of the timeline to see some";
    this.text.addEventListener("input", () => (this.changed = true));
    const button = element("button", { type: "button", className: "dm-button" }, "apply");
    button.addEventListener("click", () => {
      this.hint.textContent = "";
      apply(this.text.value.split("\n").map((line) => line.trim()).filter(Boolean));
    });
    this.hint = element("span", { className: "dm-hint", role: "alert", id: hintId });
    this.box = element("div", { className: "dm-setting dm-plan-field" }, element("label", { htmlFor: id }, "fault plan as text"), this.text, button, this.hint);
  }

  // A run came back: what is being typed stays, unless it was what was applied.
  show(plan, applied) {
    if (applied) this.changed = false;
    if (this.changed) return;
    this.text.value = plan.join("\n");
    this.text.rows = Math.max(3, Math.min(10, plan.length + 1));
    this.hint.textContent = "";
  }

  refuse(sentence) {
    this.hint.textContent = `✕ ${sentence} The plan stays as it was.`;
  }
}
