// Which rows of a table are chosen: some by their ids, or all that fit.

export class Selection {
  constructor(ids) {
    this.ids = ids; // the rows that are shown
    this.clear();
  }

  clear() {
    this.chosen = new Set();
    this.all = false;
    this.last = null;
  }

  get any() {
    return this.all || this.chosen.size > 0;
  }
  has(id) {
    return this.all || this.chosen.has(id);
  }
  get page() {
    return this.ids().length > 0 && this.ids().every((id) => this.has(id));
  }

  /** One more or one less; what was "all that fit" becomes the rows in sight. */
  turn(id) {
    this.explicit();
    if (this.chosen.has(id)) this.chosen.delete(id);
    else this.chosen.add(id);
    this.last = id;
  }

  /** All from the last one that was turned to here. */
  reach(id) {
    this.explicit();
    const ids = this.ids();
    const [a, b] = [ids.indexOf(this.last), ids.indexOf(id)].sort((x, y) => x - y);
    for (const one of ids.slice(Math.max(0, a), b + 1)) this.chosen.add(one);
    this.last = id;
  }

  turnPage() {
    const whole = this.page;
    this.clear();
    if (!whole) for (const id of this.ids()) this.chosen.add(id);
  }

  explicit() {
    if (!this.all) return;
    this.all = false;
    for (const id of this.ids()) this.chosen.add(id);
  }
}
