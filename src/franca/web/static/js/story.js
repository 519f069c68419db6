// A job's life, told in order: who submitted it over what, each run, the waits between.
import { now } from "./api.js";
import { h, s } from "./dom.js";
import { absolute, clock, num, plural, roughly, span } from "./format.js";
import { stateMark } from "./icons.js";
import { stack } from "./spark.js";
import { proto, when } from "./ui.js";
import { OUTCOMES, protocolName } from "./words.js";

const BAR = {
  failed: "bad-run",
  expired: "bad-run",
  lost: "lost-run",
  "locked out": "wait",
  released: "lost-run",
  "taken away": "lost-run",
};
/** Lines of a backtrace that are not of a library, as far as its path tells. */
const LIBRARY =
  /(^|\/)(site-packages|dist-packages|gems|node_modules|vendor)\/|\/lib\/(python|ruby)/;
const queueLink = (job) =>
  h("a", { class: "inline", href: `#/queues/${encodeURIComponent(job.queue)}` }, job.queue);

const step = (mark, title, at, ...kids) =>
  h(
    "li",
    { class: "step" },
    stateMark(mark),
    at &&
      h(
        "time",
        { class: "at", datetime: new Date(at).toISOString(), title: absolute(at) },
        clock(at, true),
      ),
    h("p", { class: "step-line" }, title),
    ...kids,
  );
const gap = (text) => h("li", { class: "pause" }, text);

/** Waiting and running, in proportion to the square root of time, never so thin that a run cannot be seen. */
export function life(job) {
  const parts = [];
  let from = job.created_at;
  for (const run of job.attempt_log) {
    if (run.started_at > from) parts.push(["wait", run.started_at - from, "waited"]);
    const end = run.ended_at || now();
    parts.push([
      BAR[run.outcome] || "run",
      Math.max(1, end - run.started_at),
      `attempt ${run.number}, ${run.outcome}`,
    ]);
    from = end;
  }
  const end = job.ended_at || now();
  if (end > from && job.state !== "done") parts.push(["wait", end - from, "waited"]);
  const grown = parts.map(([cls, ms, text]) => [cls, Math.sqrt(ms), `${text} ${span(ms)}`]);
  const all = grown.reduce((sum, [, width]) => sum + width, 0) || 1;
  let x = 0;
  const bars = grown.map(([cls, width, text]) => {
    const share = (width / all) * 1000;
    const rect = s(
      "rect",
      {
        class: cls,
        x: x.toFixed(1),
        y: 0,
        width: Math.max(2, Math.max(4, share) - 2).toFixed(1),
        height: 12,
      },
      s("title", null, text),
    );
    x += share;
    return rect;
  });
  return h(
    "div",
    { class: "life-box" },
    s(
      "svg",
      {
        class: "life",
        viewBox: "0 0 1000 12",
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `The job's life: ${grown.map(([, , text]) => text).join(", ")}`,
      },
      bars,
    ),
    h(
      "div",
      { class: "life-ends" },
      h("span", null, clock(job.created_at, true)),
      h("span", null, `${span(end - job.created_at)} in total, square-root scale`),
      h("span", null, job.ended_at ? clock(end, true) : "now"),
    ),
  );
}

/** How far a run is, in numbers or in words; and for how long yet, if it goes on as it went. */
function far(job, took) {
  const { n, of, text } = job.progress || {};
  if (n === undefined && !text) return null;
  const share = of > 0 && n >= 0 ? Math.min(1, n / of) : null;
  return h(
    "div",
    { class: "progress" },
    share !== null &&
      stack([{ value: share, cls: "c-done" }], {
        total: 1,
        width: 400,
        height: 6,
        label: "progress",
      }),
    n !== null &&
      n !== undefined &&
      h("span", null, share !== null ? `${Math.floor(share * 100)} %` : num(n)),
    text && h("span", { class: "dim" }, text),
    share > 0 &&
      share < 1 &&
      h("span", { class: "dim" }, `about ${roughly((took / share) * (1 - share))} left`),
  );
}

function fail(job, run, i) {
  const log = job.attempt_log;
  // An error that only repeats is not printed again, but for the last run, which everybody looks for.
  const again =
    i > 0 &&
    i < log.length - 1 &&
    log.slice(0, i).some((one) => one.error && one.error === run.error && one.text === run.text);
  if (again) return h("p", { class: "dim" }, "Same error as before.");
  const trace = run.trace || [];
  if (!run.text && !run.error && !trace.length) return null;
  // An entry of Python's traceback is several lines.
  const frames = trace.map((entry) => entry.trimEnd());
  const count = frames.reduce((sum, entry) => sum + entry.split("\n").length, 0);
  const lines = frames.map((entry) =>
    h("span", { class: LIBRARY.test(entry) ? "lib" : "" }, `${entry}\n`),
  );
  return h(
    "div",
    { class: "fail" },
    h(
      "p",
      { class: `fail-text${run.outcome === "failed" ? "" : " soft"}` },
      run.error && h("b", null, `${run.error}${run.text ? ": " : ""}`),
      run.text,
    ),
    trace.length > 0 &&
      h(
        "details",
        { class: "trace", open: i === log.length - 1 },
        h("summary", null, `Backtrace, ${plural(count, "line")}`),
        h("pre", { tabindex: "0" }, lines),
      ),
  );
}

function attempt(job, run, i) {
  const took = (run.ended_at || now()) - run.started_at;
  const [mark, words] = OUTCOMES[run.outcome] || ["idle", `${run.outcome} after `];
  const who = run.worker && [
    ", by ",
    h(
      "a",
      { class: "inline", href: `#/workers?${new URLSearchParams({ q: run.worker })}` },
      run.worker,
    ),
    " ",
    proto(run.by),
  ];
  return step(
    mark,
    [h("b", null, `Attempt ${run.number} `), words, h("b", null, span(took)), who],
    run.started_at,
    run.outcome === "running" && far(job, took),
    fail(job, run, i),
  );
}

function submitted(job) {
  const kept = job.durable
    ? ", stored on disk before it was acknowledged"
    : ", in memory only: its submitter is waiting for the result";
  return step(
    "scheduled",
    [h("b", null, "Submitted"), ` over ${protocolName(job.via)} to `, queueLink(job), kept],
    job.created_at,
  );
}

/** Where it stands now. */
function stand(job) {
  const at = now();
  switch (job.state) {
    case "retrying":
      return step(
        "retrying",
        [
          h("b", null, "Next attempt"),
          " ",
          when(job.run_at, "ahead"),
          job.retries >= 0 && job.failures > 0
            ? `, after ${plural(job.failures, "failure")} of at most ${num(job.retries + 1)}`
            : "",
        ],
        job.run_at,
      );
    case "scheduled":
      return step(
        "scheduled",
        [h("b", null, "Scheduled"), " to run ", when(job.run_at, "ahead")],
        job.run_at,
      );
    case "ready":
      return step(
        "ready",
        [
          h("b", null, "Ready"),
          job.ready_at ? ` for ${span(at - job.ready_at)}` : "",
          job.queue_paused
            ? [", but ", queueLink(job), " is paused"]
            : [", waiting for a worker of ", queueLink(job)],
        ],
        job.ready_at,
      );
    case "running":
      return job.lease_until
        ? gap(
            `its lease ends in ${span(job.lease_until - at)}; if the worker neither reports nor extends it by then, the run counts as expired`,
          )
        : null;
    case "dead":
      return step(
        "dead",
        [
          h("b", null, "Dead"),
          ` after ${plural(job.attempts, "attempt")}. It can be retried or deleted.`,
        ],
        job.ended_at,
      );
    case "done":
      return step(
        "done",
        [h("b", null, "Done"), job.result ? ", its result is below" : ""],
        job.ended_at,
      );
    case "cancelled":
      return step("cancelled", [h("b", null, "Cancelled")], job.ended_at);
    default:
      return null;
  }
}

export function story(job) {
  const log = job.attempt_log;
  let from = job.created_at;
  const told = log.map((run, i) => {
    const wait =
      run.started_at > from &&
      gap(
        i
          ? `waited ${span(run.started_at - from)}`
          : `waited ${span(run.started_at - from)} for a worker`,
      );
    from = run.ended_at || now();
    return [wait, attempt(job, run, i)];
  });
  const list = [submitted(job)];
  const unseen = job.attempts - log.length;
  if (unseen > 0 && log.length)
    list.push(gap(`the details of ${plural(unseen, "earlier attempt")} are no longer kept`));
  // Of a long story the first and the last two runs are told, the rest on request.
  const hide = told.length > 4 ? told.slice(1, -2) : [];
  list.push(told.slice(0, 1));
  if (hide.length)
    list.push(
      h(
        "li",
        { class: "middle" },
        h(
          "details",
          null,
          h("summary", null, summary(log.slice(1, 1 + hide.length))),
          h("ol", null, hide),
        ),
      ),
    );
  list.push(told.slice(hide.length ? -2 : 1), stand(job));
  return h("ol", { class: "story" }, list);
}

function summary(runs) {
  const counts = new Map();
  for (const { outcome } of runs) counts.set(outcome, (counts.get(outcome) || 0) + 1);
  const parts = [...counts].map(([outcome, n]) => `${n} ${outcome}`);
  return `Attempts ${runs[0].number} to ${runs[runs.length - 1].number}: ${parts.join(", ")}`;
}
