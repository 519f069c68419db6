// What a person chose on this browser, and the map of the dashboard.
import { clockOf } from "./format.js";

/** [page, address, label, key after g] */
export const NAV = [
  ["overview", "#/", "Overview", "o"],
  ["jobs", "#/jobs", "Jobs", "j"],
  ["errors", "#/errors", "Errors", "e"],
  ["queues", "#/queues", "Queues", "q"],
  ["types", "#/types", "Types", "y"],
  ["workers", "#/workers", "Workers", "w"],
  ["schedules", "#/schedules", "Schedules", "s"],
  ["settings", "#/settings", "Settings", "t"],
];

function read() {
  try {
    return JSON.parse(localStorage.getItem("franca.settings") || "{}");
  } catch {
    return {};
  }
}
export const settings = {
  theme: "system",
  density: "comfortable",
  utc: false,
  live: true,
  ...read(),
};
clockOf.utc = settings.utc;

const hear = new Set();
export const onChange = (fn) => hear.add(fn);
export function keep(changes) {
  Object.assign(settings, changes);
  try {
    localStorage.setItem("franca.settings", JSON.stringify(settings));
  } catch {
    /* private mode */
  }
  const root = document.documentElement;
  if (settings.theme === "system") delete root.dataset.theme;
  else root.dataset.theme = settings.theme;
  if (settings.density === "compact") root.dataset.density = "compact";
  else delete root.dataset.density;
  clockOf.utc = settings.utc;
  for (const fn of hear) fn();
}
