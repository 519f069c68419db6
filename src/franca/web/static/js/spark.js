// The small charts that stand in a line of text or a row of a table: sparklines, bars, shares.
import { s } from "./dom.js";

export const f1 = (n) => (Math.round(n * 10) / 10).toString();

/** A path over points; a null is a gap, because "nothing was measured" is not "zero". */
export function path(xs, ys, y, base = null) {
  let d = "";
  let open = -1;
  const close = (i) => {
    if (open >= 0 && base !== null) d += `L${f1(xs[i])} ${f1(base)}L${f1(xs[open])} ${f1(base)}Z`;
    open = -1;
  };
  for (let i = 0; i < ys.length; i += 1) {
    if (ys[i] === null || ys[i] === undefined) {
      if (open >= 0) close(i - 1);
      continue;
    }
    d += `${open < 0 ? "M" : "L"}${f1(xs[i])} ${f1(y(ys[i]))}`;
    if (open < 0) open = i;
  }
  if (open >= 0) close(ys.length - 1);
  return d;
}

/** What says nothing that does not stand beside it in words is hidden from those who hear the page. */
const spoken = (label) =>
  label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };

/** The shape of the last minutes, without numbers: they stand beside it. */
export function spark(
  values,
  { width = 88, height = 20, cls = "c-done", area = true, max = 0, label = "" } = {},
) {
  const top = Math.max(max, ...values.map((v) => v ?? 0)) || 1;
  const xs = values.map((_, i) => 1 + (i / Math.max(1, values.length - 1)) * (width - 2));
  const y = (v) => height - 1.5 - (v / top) * (height - 3);
  return s(
    "svg",
    { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, ...spoken(label) },
    area && s("path", { class: `fill ${cls}`, d: path(xs, values, y, height - 1) }),
    s("path", { class: `line ${cls}`, d: path(xs, values, y) }),
  );
}

/** Small bars for counts per bucket, e.g. failures per hour. */
export function bars(values, { width = 120, height = 20, cls = "c-dead", label = "" } = {}) {
  const top = Math.max(0, ...values) || 1;
  const step = width / values.length;
  return s(
    "svg",
    { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, ...spoken(label) },
    s("line", { class: "axis", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
    values.map(
      (v, i) =>
        v > 0 &&
        s("rect", {
          class: `bar ${cls}`,
          x: f1(i * step),
          width: f1(Math.max(1, step - 1)),
          y: f1(height - 1 - Math.max(1, (v / top) * (height - 2))),
          height: f1(Math.max(1, (v / top) * (height - 2))),
        }),
    ),
  );
}

/** Parts of a whole in one line: [{value, cls, label}]. */
export function stack(parts, { width = 160, height = 8, total = 0, label = "" } = {}) {
  const all = total || parts.reduce((sum, one) => sum + one.value, 0) || 1;
  let x = 0;
  return s(
    "svg",
    {
      class: "stackbar",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      preserveAspectRatio: "none",
      ...spoken(label),
    },
    s("rect", { class: "track", x: 0, y: 0, width, height }),
    parts.map((one) => {
      const w = one.value > 0 ? Math.max(1.5, (one.value / all) * width) : 0;
      const rect =
        w > 0 &&
        s("rect", {
          class: `bar ${one.cls}`,
          x: f1(x),
          y: 0,
          width: f1(Math.min(w, width - x)),
          height,
        });
      x += w;
      return rect;
    }),
  );
}
