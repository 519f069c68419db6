// Every picture of the dashboard, drawn here on a grid of 16 (icons) and 12 (state marks).
import { s } from "./dom.js";

const ICONS = {
  overview: "M2 13.5V9M6 13.5V5M10 13.5V7.5M14 13.5V2.5",
  jobs: "M2 4h12M2 8h12M2 12h7.5",
  errors: "M8 2.2 14.3 13.3H1.7zM8 6.5v3M8 11.3v.2",
  queues: "M2.5 3.5h11M2.5 6.5h11M2.5 9.5h6M12 9v5M10 12l2 2 2-2",
  workers: "M3 5h10v7H3zM6 2.5V5M10 2.5V5M6 12v2M10 12v2M1 8.5h2M13 8.5h2",
  schedules: "M8 2a6 6 0 1 1 0 12A6 6 0 1 1 8 2M8 4.8V8l2.3 1.6",
  settings: "M2 5h6M12 5h2M8 3v4h4V3zM2 11h2M8 11h6M4 9v4h4V9z",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 1 1 0-9M10.3 10.3 14 14",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.2v9.6L12.5 8z",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3.2H9.8",
  types: "M3 3.5h4v4H3zM3 9.5h4v3.5H3zM9.5 5.5H14M9.5 11.3H14",
  bin: "M3 4.5h10M6.5 4.5V2.5h3v2M4.5 4.5l.6 9h5.8l.6-9M6.8 7v4M9.2 7v4",
  dead: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 1 1 0-11M6 6l4 4M10 6l-4 4",
  cross: "M4 4l8 8M12 4l-8 8",
  copy: "M6 5.5h7v8H6zM3 10.5v-8h7",
  down: "M4.5 6.5 8 10l3.5-3.5",
  right: "M6.5 4.5 10 8l-3.5 3.5",
  left: "M9.5 4.5 6 8l3.5 3.5",
  theme: "M8 2.5a5.5 5.5 0 1 0 5.5 6.6A4.6 4.6 0 0 1 8 2.5",
  key: "M2.5 4h11v8h-11zM5 6.5h.1M8 6.5h.1M11 6.5h.1M5.5 9.5h5",
};

export const icon = (name, cls = "") =>
  s(
    "svg",
    { class: `icon ${cls}`, viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    s("path", { d: ICONS[name] || ICONS.jobs }),
  );

/** Five lines that become one: what Franca does. */
export const mark = () =>
  s(
    "svg",
    { class: "mark", viewBox: "0 0 20 20", width: 20, height: 20, "aria-hidden": "true" },
    s("path", {
      d: "M2 2.5C7 2.5 7 10 12 10M2 6.2c4 0 5 3.8 10 3.8M2 10h16M2 13.8c4 0 5-3.8 10-3.8M2 17.5c5 0 5-7.5 10-7.5",
    }),
  );

// Each state has a shape of its own, so that none is told by its colour alone.
const RING = "M6 1.75a4.25 4.25 0 1 1 0 8.5a4.25 4.25 0 1 1 0-8.5";
const STATES = {
  scheduled: [
    ["o", RING],
    ["o", "M6 3.8V6l1.5 1"],
  ],
  retrying: [
    ["o", "M10 6a4 4 0 1 1-1.25-2.9"],
    ["o", "M10.2 1v2.7H7.5"],
  ],
  ready: [
    ["o", RING],
    ["f", "M6 4.3a1.7 1.7 0 1 1 0 3.4a1.7 1.7 0 1 1 0-3.4"],
  ],
  running: [
    ["o", RING],
    ["f", "M6 1.75a4.25 4.25 0 0 1 0 8.5z"],
  ],
  done: [["o", "M2 6.4l2.7 2.7L10 3.4"]],
  dead: [
    ["f", "M6 .7a5.3 5.3 0 1 1 0 10.6a5.3 5.3 0 1 1 0-10.6"],
    ["x", "M4.2 4.2l3.6 3.6M7.8 4.2l-3.6 3.6"],
  ],
  bad: [
    ["f", "M6 .2 11.8 6 6 11.8.2 6z"],
    ["x", "M6 3.6v2.9M6 8.6v.1"],
  ],
  warn: [
    ["o", "M6 1 11 6 6 11 1 6z"],
    ["o", "M6 4v2.3M6 8.1v.1"],
  ],
  cancelled: [
    ["o", RING],
    ["o", "M3.1 8.9 8.9 3.1"],
  ],
  quiet: [
    ["o", RING],
    ["o", "M4 6h4"],
  ],
  idle: [["o", RING]],
  lost: [["o", "M1.5 6h2M5 6h2M8.5 6h2"]],
};

export const stateMark = (state) =>
  s(
    "svg",
    { class: `st st-${state}`, viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" },
    (STATES[state] || STATES.idle).map(([cls, d]) => s("path", { class: cls, d })),
  );
