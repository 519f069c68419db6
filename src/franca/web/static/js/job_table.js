// The columns of a list of jobs. They follow the state: what is not known of such jobs has none.
import { now } from "./api.js";
import { h } from "./dom.js";
import { num, span } from "./format.js";
import { withTerm } from "./query.js";
import { proto, route, when } from "./ui.js";

const since = (at) => when(at, at ? span(now() - at) : "");
const TIME = {
  scheduled: ["Runs", (job) => when(job.run_at, "ahead")],
  retrying: ["Next try", (job) => when(job.run_at, "ahead")],
  ready: ["Ready for", (job) => since(job.ready_at)],
  running: ["Running for", (job) => since(job.started_at)],
  done: ["Ended", (job) => when(job.ended_at)],
  dead: ["Died", (job) => when(job.ended_at)],
  cancelled: ["Cancelled", (job) => when(job.ended_at)],
};
const NEVER_RAN = ["ready", "scheduled", "cancelled"];

function what(job, failed) {
  const args = h("span", { class: "args", title: job.args || "" }, job.args || "");
  return [
    h("a", { class: "job-link", href: `#/jobs/${encodeURIComponent(job.id)}` }, job.type),
    !failed && args,
  ];
}

function error(state, query, job) {
  const [kind, ...rest] = (job.error || "").split(": ");
  if (!kind) return h("span", { class: "dim" }, "–");
  const q = withTerm(query, "error", kind);
  return h(
    "a",
    { class: "err", href: `#/jobs?${new URLSearchParams({ state, q })}`, title: job.error },
    h("b", null, kind),
    " ",
    rest.join(": "),
  );
}

function queue(state, query, job) {
  const q = withTerm(query, "queue", job.queue);
  return h("a", { href: `#/jobs?${new URLSearchParams({ state, q })}` }, job.queue);
}

/** How far it says it is. */
function far(job) {
  const { n, of } = job.progress || {};
  if (n === undefined || n === null) return "";
  return h(
    "span",
    { class: "dim", title: job.progress.text || "" },
    of ? ` ${Math.floor((n / of) * 100)} %` : ` ${num(n)}`,
  );
}

/** `pick` has the column of check boxes, or nothing where a person may change nothing. */
export function columns({ state, query, pick }) {
  const failed = state === "retrying" || state === "dead";
  const ran = !NEVER_RAN.includes(state);
  const [timeHead, time] = TIME[state];
  const tries = (job) => [
    num(job.attempts),
    failed && job.retries > 0 && h("span", { class: "dim" }, `/${job.retries + 1}`),
  ];
  return [
    pick,
    { head: "Job", cls: `what ${failed ? "" : "grow"}`, cell: (job) => what(job, failed) },
    failed && { head: "Last error", cls: "grow err-col", cell: (job) => error(state, query, job) },
    { head: "Queue", cls: "queue", cell: (job) => queue(state, query, job) },
    {
      head: ran ? "Via → by" : "Via",
      cls: "route-col",
      title: "Submitted over → run by",
      cell: (job) => (job.by ? route(job.via, job.by) : proto(job.via)),
    },
    ran && {
      head: "Tries",
      cls: "n phone-off",
      title: "Runs so far, of those its policy allows",
      cell: tries,
    },
    state === "running" && {
      head: "Worker",
      cls: "phone-off",
      cell: (job) =>
        h("a", { href: `#/workers?${new URLSearchParams({ q: job.worker || "" })}` }, job.worker),
    },
    state === "done" && { head: "Ran", cls: "n phone-off", cell: (job) => span(job.ran_ms) },
    { head: timeHead, cls: "n time", cell: (job) => [time(job), state === "running" && far(job)] },
    { head: "Id", cls: "n dim phone-off", cell: (job) => job.id },
  ].filter(Boolean);
}
