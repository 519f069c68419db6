// All queues: how deep, how late, how fast, and the switch that stops one.
import { api, now } from "../api.js";
import { spark } from "../spark.js";
import { h } from "../dom.js";
import { near, num, percent, plural, rate, span } from "../format.js";
import { cursor } from "../keys.js";
import { withTerm } from "../query.js";
import { button, command, empty, head, table, undoable } from "../ui.js";

const jobsOf = (state, { queue }) =>
  `#/jobs?${new URLSearchParams({ state, q: withTerm("", "queue", queue) })}`;

export function page(ctx) {
  let queues = [];
  const sort = () => ({
    by: ctx.search.get("sort") || "oldest_ms",
    up: ctx.search.get("up") === "1",
  });
  const sorted = () => {
    const { by, up } = sort();
    const value = (q) => (by === "queue" ? q.queue : (q[by] ?? -1));
    return [...queues].sort(
      (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (up ? 1 : -1),
    );
  };
  const at = cursor(
    ctx.render,
    () => sorted().map((q) => q.queue),
    (name) => ctx.go(`/queues/${encodeURIComponent(name)}`),
  );
  const turn = (name, pause) =>
    undoable(ctx, {
      action: () => api.actQueue(name, pause ? "pause" : "resume"),
      words: pause ? `${name} is paused: no worker gets its jobs.` : `${name} was resumed.`,
      back: () => api.actQueue(name, pause ? "resume" : "pause"),
    });
  return {
    title: () => "Queues",
    async load() {
      ({ queues } = await api.queues());
    },
    view() {
      if (!queues.length)
        return [
          head("Queues"),
          empty(
            "No queues yet",
            "A queue appears when a job is submitted to it or a worker asks it for one.",
            command("franca push default hello world"),
          ),
        ];
      const sum = (key) => queues.reduce((n, q) => n + q[key], 0);
      return [
        head("Queues", {
          sub: `${num(sum("ready"))} ready in ${plural(queues.length, "queue")}, ${rate(sum("in"))} in, ${rate(sum("out"))} out`,
        }),
        table({
          label: "Queues",
          sort: sort(),
          rows: sorted(),
          key: (q) => q.queue,
          rowClass: (q) => (at.at === q.queue ? "at" : ""),
          columns: [
            {
              head: "Queue",
              sort: "queue",
              th: true,
              cell: (q) => [
                h("a", { href: `#/queues/${encodeURIComponent(q.queue)}` }, q.queue),
                q.paused &&
                  h(
                    "span",
                    { class: "tag amber" },
                    q.paused_until ? `paused until ${near(q.paused_until, now())}` : "paused",
                  ),
                q.paused && button("Resume", "turn", { kind: "mini", "data-queue": q.queue }),
              ],
            },
            {
              head: "Ready",
              sort: "ready",
              cls: "n",
              title: "Jobs that wait for a worker",
              cell: (q) => h("a", { href: jobsOf("ready", q) }, num(q.ready)),
            },
            {
              head: "Oldest",
              sort: "oldest_ms",
              cls: "n",
              title: "For how long the next job has been ready. Alert and scale on this.",
              cell: (q) =>
                h("span", { class: q.oldest_ms > 60_000 ? "bad" : "" }, span(q.oldest_ms)),
            },
            { head: "In", sort: "in", cls: "n mid", cell: (q) => rate(q.in) },
            {
              head: "Out",
              sort: "out",
              cls: "n mid",
              cell: (q) =>
                h(
                  "span",
                  { class: !q.paused && q.out < q.in * 0.93 && q.ready > 500 ? "bad" : "" },
                  rate(q.out),
                ),
            },
            {
              head: "Depth, 10 min",
              cls: "spark-col mid",
              cell: (q) =>
                spark(q.recent?.depth || [], {
                  cls: "c-ready",
                  width: 96,
                  label: "depth over ten minutes",
                }),
            },
            {
              head: "Out, 10 min",
              cls: "spark-col wide-only",
              cell: (q) =>
                spark(q.recent?.out || [], {
                  max: Math.max(0, ...(q.recent?.in || [])),
                  width: 96,
                  label: "out over ten minutes",
                }),
            },
            {
              head: "Ran p95",
              sort: "ran_p95_ms",
              cls: "n wide-only",
              cell: (q) => span(q.ran_p95_ms),
            },
            {
              head: "Failing",
              sort: "failed",
              cls: "n mid",
              cell: (q) =>
                q.failed < 0.001
                  ? h("span", { class: "dim" }, "0")
                  : h(
                      "span",
                      { class: q.failed / (q.out + q.failed) > 0.02 ? "bad" : "" },
                      percent(q.failed, q.out + q.failed),
                    ),
            },
            {
              head: "Running",
              sort: "running",
              cls: "n mid",
              cell: (q) =>
                q.running
                  ? h("a", { href: jobsOf("running", q) }, num(q.running))
                  : h("span", { class: "dim" }, "0"),
            },
            {
              head: "Retrying",
              sort: "retrying",
              cls: "n mid",
              cell: (q) =>
                q.retrying
                  ? h("a", { href: jobsOf("retrying", q) }, num(q.retrying))
                  : h("span", { class: "dim" }, "0"),
            },
            {
              head: "Dead",
              sort: "dead",
              cls: "n mid",
              cell: (q) =>
                q.dead
                  ? h("a", { href: jobsOf("dead", q) }, num(q.dead))
                  : h("span", { class: "dim" }, "0"),
            },
            { head: "Workers", sort: "workers", cls: "n wide-only", cell: (q) => num(q.workers) },
            {
              head: h("span", { class: "vh" }, "Actions"),
              cls: "acts",
              cell: (q) =>
                !q.paused &&
                ctx.may() &&
                h(
                  "div",
                  { class: "acts-in" },
                  button("Pause", "turn", {
                    ico: "pause",
                    "data-queue": q.queue,
                    "data-pause": "yes",
                  }),
                ),
            },
          ],
        }),
      ];
    },
    actions: {
      sort(el) {
        const { by, up } = sort();
        ctx.go(
          "/queues",
          { sort: el.dataset.by, up: by === el.dataset.by && !up ? "1" : "" },
          true,
        );
      },
      turn: (el) => turn(el.dataset.queue, el.dataset.pause === "yes"),
    },
    keys: at.keys,
  };
}
