// One queue: is it keeping up, what is in it, who works on it.
import { api, now } from "../api.js";
import { Crosshair, Plot } from "../chart.js";
import { stack } from "../spark.js";
import { h, island } from "../dom.js";
import { near, num, percent, plural, rate, short, span } from "../format.js";
import { button, confirm, head, section, segment, table, toast, undoable } from "../ui.js";

/** Whether it keeps up, as far as its rates tell. */
function pace({ ready, in: into, out }) {
  const grows = into - out;
  if (!ready) return "no job is waiting";
  if (grows > 0.05 * into && grows * 60 > 1) return `grows by ${rate(grows)}`;
  if (grows < -0.05 * out && -grows * 60 > 1) return `empty in ${span((ready / -grows) * 1000)}`;
  return out ? "steady" : "none taken";
}

export function page(ctx) {
  const hair = new Crosshair();
  const plots = {
    depth: new Plot({
      label: "Jobs ready",
      height: 150,
      crosshair: hair,
      format: short,
      series: [{ key: "ready", label: "ready", kind: "area", cls: "c-ready" }],
    }),
    flow: new Plot({
      label: "Jobs in and out per second",
      height: 150,
      crosshair: hair,
      format: rate,
      series: [
        { key: "out", label: "out", kind: "area", cls: "c-done" },
        { key: "in", label: "in", kind: "line", cls: "c-push" },
      ],
    }),
    wait: new Plot({
      label: "Wait before start, p95",
      height: 150,
      crosshair: hair,
      spans: true,
      format: (v) => (v === 0 ? "0" : span(v).replace(/m.00s/, "m")),
      series: [{ key: "wait_p95_ms", label: "wait p95", kind: "line", cls: "c-wait" }],
    }),
  };
  let q = null;
  const name = () => ctx.params[0];
  const range = () => ctx.search.get("range") || "1h";
  const figure = (label, value, note, bad) =>
    h(
      "div",
      { class: `figure ${bad ? "is-bad" : ""}` },
      h("span", { class: "figure-label" }, label),
      h("span", { class: "figure-value" }, value),
      h("span", { class: "figure-note" }, note),
    );
  return {
    title: () => name(),
    owners: Object.fromEntries(Object.entries(plots).map(([key, plot]) => [key, plot.el])),
    async load() {
      q = await api.queue(name(), range());
    },
    view() {
      const grows = q.in - q.out;
      return [
        head(
          h(
            "span",
            { class: "job-title" },
            q.queue,
            q.paused &&
              h(
                "span",
                { class: "tag amber" },
                q.paused_until ? `paused until ${near(q.paused_until, now())}` : "paused",
              ),
          ),
          {
            sub: [
              h("a", { class: "crumb", href: "#/queues" }, "Queues"),
              ` / ${plural(q.workers, "worker")}`,
            ],
            tools: [
              segment("range", [["15m"], ["1h"], ["6h"], ["24h"], ["7d"]], range()),
              button(q.paused ? "Resume" : "Pause", "turn", {
                ico: q.paused ? "play" : "pause",
                kind: q.paused ? "primary" : "",
              }),
              button("Submit a job", "submit"),
              button("Purge…", "purge", { kind: "danger" }),
            ],
          },
        ),
        h(
          "div",
          { class: "figures" },
          figure("Ready", num(q.ready), pace(q), grows > 0.5 && q.ready > 500),
          figure("Oldest", span(q.oldest_ms), "wait of the next job", q.oldest_ms > 60_000),
          figure("In", rate(q.in), `${num(q.scheduled)} scheduled`),
          figure("Out", rate(q.out), "runs that ended"),
          figure("Running", num(q.running), `p95 run time ${span(q.ran_p95_ms)}`),
          figure(
            "Failing",
            percent(q.failed, q.out + q.failed),
            `${num(q.retrying)} retrying, ${num(q.dead)} dead`,
            q.failed / (q.out + q.failed) > 0.02,
          ),
        ),
        h(
          "div",
          { class: "cols-3" },
          section("Depth", null, island("depth")),
          section("In and out", null, island("flow")),
          section("Wait before start", { note: "p95" }, island("wait")),
        ),
        h(
          "div",
          { class: "cols-2" },
          section(
            "Types",
            { note: "newest jobs that ended in this range" },
            !q.types.length
              ? h("p", { class: "hint" }, "No job of this queue ended in this range.")
              : table({
                  label: "Types in this queue",
                  rows: q.types,
                  key: (t) => t.type,
                  columns: [
                    {
                      head: "Type",
                      th: true,
                      cell: (t) =>
                        h(
                          "a",
                          {
                            href: `#/jobs?${new URLSearchParams({ state: "ready", q: `queue:${q.queue} type:${t.type}` })}`,
                          },
                          t.type,
                        ),
                    },
                    {
                      head: "Share",
                      cls: "n",
                      cell: (t) =>
                        h(
                          "span",
                          { class: "use" },
                          stack([{ value: t.share, cls: "c-done" }], {
                            total: 1,
                            width: 60,
                            height: 6,
                            label: "",
                          }),
                          percent(t.share, 1),
                        ),
                    },
                    {
                      head: "Failed",
                      cls: "n",
                      title: "Share of the runs of these jobs; jobs that are still retrying are not among them",
                      cell: (t) => percent(t.failed, 1),
                    },
                    { head: "p50", cls: "n", cell: (t) => span(t.p50_ms) },
                    { head: "p95", cls: "n", cell: (t) => span(t.p95_ms) },
                  ],
                }),
          ),
          section(
            "Served by",
            { note: plural(q.serving.length, "worker") },
            q.serving.length
              ? h(
                  "ul",
                  { class: "names" },
                  q.serving.map((one) =>
                    h(
                      "li",
                      { key: one },
                      h(
                        "a",
                        { class: "inline", href: `#/workers?${new URLSearchParams({ q: one })}` },
                        one,
                      ),
                    ),
                  ),
                )
              : h("p", { class: "hint" }, "No worker serves this queue."),
          ),
        ),
      ];
    },
    after() {
      if (q) for (const plot of Object.values(plots)) plot.set({ t: q.series.t, values: q.series });
    },
    actions: {
      async submit() {
        (await import("../forms.js")).submitJob(ctx, { queue: name() });
      },
      segment: (el) =>
        ctx.go(`/queues/${encodeURIComponent(name())}`, { range: el.dataset.value }, true),
      turn() {
        const [to, back] = q.paused ? ["resume", "pause"] : ["pause", "resume"];
        return undoable(ctx, {
          action: () => api.actQueue(name(), to),
          words: q.paused
            ? `${name()} was resumed.`
            : `${name()} is paused: no worker gets its jobs.`,
          back: () => api.actQueue(name(), back),
        });
      },
      async purge() {
        if (
          await confirm({
            title: `Remove all ${num(q.ready)} ready jobs of ${q.queue}?`,
            text: "Scheduled, retrying, running and dead jobs stay. This cannot be undone.",
            yes: `Remove ${num(q.ready)}`,
            word: q.queue,
          })
        ) {
          await api.actQueue(name(), "purge");
          toast(`The ready jobs of ${name()} were removed.`);
          ctx.refresh();
        }
      },
    },
    keys: { Escape: () => ctx.go("/queues") },
  };
}
