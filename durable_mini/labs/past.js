// What was set before: undo and redo over {settings, plan, seed}.

const SAME_MS = 1000; // changes of one slider within this time are one change
const MOST_STATES = 200;

class Past {
  constructor() {
    this.states = [];
    this.at = -1; // the number of the state on show
    this.newest = { what: "", time: 0 };
  }

  // A run has come, by a change of `what`: "undo", "redo", "setting NAME", or anything else.
  arrived({ settings, plan, seed }, what) {
    const state = { settings, plan, seed };
    const now = performance.now();
    const known = this.states[this.at];
    if (what === "undo" || what === "redo") this.at += what === "undo" ? -1 : 1;
    else if (JSON.stringify(known) !== JSON.stringify(state)) {
      const dragged = what.startsWith("setting ") && what === this.newest.what && now - this.newest.time < SAME_MS;
      if (!dragged) this.at += 1;
      this.states.splice(this.at, Infinity, state);
      if (this.states.length > MOST_STATES) {
        this.states.shift();
        this.at -= 1;
      }
    }
    this.newest = { what, time: now };
  }

  get before() {
    return this.states[this.at - 1];
  }

  get after() {
    return this.states[this.at + 1];
  }
}
