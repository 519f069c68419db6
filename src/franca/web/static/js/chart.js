// Time series, drawn as SVG at the size they are shown, with a crosshair that several charts share.
// No style attributes, so a strict CSP holds.
import { h, s } from "./dom.js";
import { clock, day, num } from "./format.js";
import { f1, path } from "./spark.js";

const SPANS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 6e4, 12e4, 3e5, 6e5, 9e5,
  18e5, 36e5, 72e5, 216e5, 432e5, 864e5,
];
/** A round step that cuts `max` into at most `count` parts; of round spans, if it is milliseconds. */
export function niceStep(max, count = 3, spans = false) {
  if (!(max > 0)) return 1;
  const raw = max / count;
  if (spans) return SPANS.find((one) => one >= raw) || SPANS[SPANS.length - 1];
  const mag = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 2.5, 5, 10].find((lead) => lead * mag >= raw * 0.999) * mag;
}

/** Charts of one page share one crosshair. */
export class Crosshair {
  constructor() {
    this.plots = new Set();
    this.at = null;
  }
  move(at) {
    this.at = at;
    for (const plot of this.plots) plot.point(at);
  }
}

/** A time series. `series`: [{key, label, kind: "area" | "line" | "bars" | "down", cls}]; "down" hangs below zero.
 *  `set({t: [ms], values: {key: [number | null]}})` draws. */
export class Plot {
  constructor({
    series,
    height = 160,
    format = num,
    crosshair = null,
    label = "",
    floor = 0,
    spans = false,
    marks = [],
  }) {
    Object.assign(this, { series, height, format, crosshair, label, floor, spans, marks });
    this.svg = s("svg", { class: "plot-svg", role: "img" });
    this.tip = h("div", { class: "plot-tip", hidden: true });
    this.el = h(
      "div",
      {
        class: "plot",
        tabindex: "0",
        role: "group",
        "aria-label": `${label}. Left and right arrows read the values.`,
      },
      this.svg,
      this.tip,
      h("div", { class: "vh", "aria-live": "polite" }),
    );
    this.width = 0;
    this.data = null;
    new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width && width !== this.width) {
        this.width = width;
        this.draw();
      }
    }).observe(this.el);
    const move = (event) => {
      if (!this.data) return;
      const box = this.svg.getBoundingClientRect();
      this.go(this.near(event.clientX - box.left));
    };
    this.el.addEventListener("pointermove", move);
    this.el.addEventListener("pointerdown", move);
    this.el.addEventListener("pointerleave", () => this.go(null));
    this.el.addEventListener("blur", () => this.go(null));
    this.el.addEventListener("keydown", (event) => {
      if (!this.data || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
      event.preventDefault();
      const n = this.data.t.length;
      const now = this.index ?? n;
      const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: n - 1 }[event.key];
      this.go(Math.max(0, Math.min(n - 1, to)));
      this.el.lastChild.textContent = this.words(this.index);
    });
    if (crosshair) crosshair.plots.add(this);
  }

  go(index) {
    const at = index === null ? null : this.data.t[index];
    if (this.crosshair) this.crosshair.move(at);
    else this.point(at);
  }

  near(px) {
    const { t } = this.data;
    const at = this.t0 + ((px - this.left) / (this.right - this.left)) * (this.t1 - this.t0);
    let best = 0;
    for (let i = 1; i < t.length; i += 1)
      if (Math.abs(t[i] - at) < Math.abs(t[best] - at)) best = i;
    return best;
  }

  words(i) {
    const values = this.series.map(
      (one) => `${one.label} ${this.format(this.data.values[one.key][i] ?? null)}`,
    );
    return `${clock(this.data.t[i], true)}: ${values.join(", ")}`;
  }

  set(data) {
    // What the server does not tell of is a gap from end to end.
    const values = Object.fromEntries(
      this.series.map(({ key }) => [key, data.values[key] || data.t.map(() => null)]),
    );
    this.data = { t: data.t, values };
    this.draw();
  }

  draw() {
    const { width, height, data } = this;
    if (!width || !data || !data.t.length) return;
    const up = this.series.filter((one) => one.kind !== "down");
    const down = this.series.filter((one) => one.kind === "down");
    const top = (list) =>
      list.reduce((max, one) => data.values[one.key].reduce((m, v) => Math.max(m, v ?? 0), max), 0);
    const maxUp = Math.max(top(up), this.floor);
    const step = niceStep(maxUp, height > 140 ? 4 : 3, this.spans);
    const hi = Math.max(step, maxUp * 1.06);
    // Below zero is a scale of its own: 4 failures beside 450 successes must not vanish.
    const low = down.length ? top(down) || 1 : 0;
    const lo = low ? hi * 0.3 : 0;
    this.left = 52;
    this.right = width - 1;
    const y0 = 8;
    const y1 = height - 20;
    const y = (v) => y1 - (((v < 0 ? (v / low) * lo * 0.92 : v) + lo) / (hi + lo)) * (y1 - y0);
    this.y = y;
    this.t0 = data.t[0];
    this.t1 = data.t[data.t.length - 1];
    const x = (t) =>
      this.left + ((t - this.t0) / (this.t1 - this.t0 || 1)) * (this.right - this.left);
    this.x = x;
    const xs = data.t.map(x);
    const parts = [];
    for (let v = 0; v <= hi; v += step) {
      parts.push(
        s("line", {
          class: v === 0 ? "axis" : "grid",
          x1: this.left,
          x2: this.right,
          y1: f1(y(v)),
          y2: f1(y(v)),
        }),
      );
      if (!(v === 0 && lo))
        parts.push(
          s(
            "text",
            { class: "tick", x: this.left - 8, y: f1(y(v) + 3.5), "text-anchor": "end" },
            this.format(v),
          ),
        );
    }
    if (lo) {
      parts.push(
        s(
          "text",
          { class: "tick", x: this.left - 8, y: f1(y(0) + 3.5), "text-anchor": "end" },
          "0",
        ),
      );
      parts.push(
        s(
          "text",
          { class: "tick below", x: this.left - 8, y: f1(y(-low) + 3.5), "text-anchor": "end" },
          this.format(low),
        ),
      );
    }
    for (const [at, text] of timeTicks(this.t0, this.t1, Math.max(2, Math.floor(width / 130)))) {
      const px = x(at);
      parts.push(
        s(
          "text",
          {
            class: "tick",
            x: f1(px),
            y: height - 4,
            "text-anchor": px < this.left + 20 ? "start" : px > this.right - 24 ? "end" : "middle",
          },
          text,
        ),
      );
    }
    for (const one of this.series) {
      const values = data.values[one.key];
      if (one.kind === "area")
        parts.push(s("path", { class: `fill ${one.cls}`, d: path(xs, values, y, y(0)) }));
      if (one.kind === "down")
        parts.push(
          s("path", {
            class: `fill strong ${one.cls}`,
            d: path(
              xs,
              values.map((v) => (v === null ? null : -v)),
              y,
              y(0),
            ),
          }),
        );
      else parts.push(s("path", { class: `line ${one.cls}`, d: path(xs, values, y) }));
    }
    for (const { at, text } of this.marks) {
      if (at < this.t0 || at > this.t1) continue;
      parts.push(
        s("line", { class: "event", x1: f1(x(at)), x2: f1(x(at)), y1: y0, y2: y1 }),
        s("text", { class: "tick", x: f1(x(at) + 4), y: y0 + 8 }, text),
      );
    }
    this.hair = s(
      "g",
      { class: "hair", visibility: "hidden" },
      s("line", { y1: y0, y2: y1 }),
      this.series.map((one) => s("circle", { r: 3, class: one.cls })),
    );
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    this.svg.setAttribute("aria-label", `${this.label}. Now: ${this.words(data.t.length - 1)}`);
    this.svg.replaceChildren(...parts, this.hair);
    this.point(this.crosshair ? this.crosshair.at : this.shown);
  }

  point(at) {
    this.shown = at;
    if (!this.data || !this.hair) return;
    if (at === null || at === undefined) {
      this.hair.setAttribute("visibility", "hidden");
      this.tip.hidden = true;
      this.index = null;
      return;
    }
    const { t, values } = this.data;
    let i = 0;
    for (let k = 1; k < t.length; k += 1) if (Math.abs(t[k] - at) < Math.abs(t[i] - at)) i = k;
    this.index = i;
    const px = this.x(t[i]);
    const [line, ...dots] = this.hair.childNodes;
    line.setAttribute("x1", px);
    line.setAttribute("x2", px);
    this.series.forEach((one, n) => {
      const v = values[one.key][i];
      dots[n].setAttribute("cx", px);
      dots[n].setAttribute("cy", v === null ? -9 : this.y(one.kind === "down" ? -v : v));
    });
    this.hair.setAttribute("visibility", "visible");
    this.tip.replaceChildren(
      h("b", null, this.t1 - this.t0 > 86_400_000 ? day(t[i]) : clock(t[i], true)),
      ...this.series.map((one) =>
        h(
          "span",
          null,
          h("i", { class: one.cls }),
          one.label,
          h("em", null, this.format(values[one.key][i])),
        ),
      ),
    );
    this.tip.hidden = false;
    const right = px > this.width / 2;
    this.tip.style.left = right ? "auto" : `${px + 12}px`;
    this.tip.style.right = right ? `${this.width - px + 12}px` : "auto";
  }
}

const MIN = 60_000;
function timeTicks(t0, t1, count) {
  const steps = [
    MIN,
    2 * MIN,
    5 * MIN,
    10 * MIN,
    15 * MIN,
    30 * MIN,
    60 * MIN,
    120 * MIN,
    180 * MIN,
    360 * MIN,
    720 * MIN,
    1440 * MIN,
  ];
  const step = steps.find((one) => (t1 - t0) / one <= count) || 1440 * MIN;
  const zone = new Date(t0).getTimezoneOffset() * MIN;
  const ticks = [];
  for (let at = Math.ceil((t0 - zone) / step) * step + zone; at <= t1; at += step)
    ticks.push([at, step >= 1440 * MIN ? day(at).slice(0, -6) : clock(at)]);
  return ticks;
}
