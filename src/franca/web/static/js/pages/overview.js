// How is it going, and what needs me? Read from top to bottom: figures, trouble, shapes, queues.
import { api } from "../api.js";
import { PROTOCOLS, protocolName } from "../words.js";
import { Crosshair, Plot } from "../chart.js";
import { spark, stack } from "../spark.js";
import { h, island } from "../dom.js";
import { num, percent, plural, rate, short, span } from "../format.js";
import { spanMs } from "../query.js";
import { notice } from "../notices.js";
import { askWorker, button, head, proto, section, segment, table, undoable } from "../ui.js";

/** 631k, 44k, 2.1k: as much as a small square has room for. */
const few = (n) =>
  short(n < 1000 || n >= 99_500 ? n : Number(n.toPrecision(2))).replace(/(\.[1-9])0/, "$1");

const RANGES = [["15m"], ["1h"], ["6h"], ["24h"], ["7d"]];

export function page(ctx) {
  const hair = new Crosshair();
  const plots = {
    flow: new Plot({
      label: "Jobs per second, done above and failed below",
      height: 208,
      crosshair: hair,
      format: (v) => rate(v),
      series: [
        { key: "done", label: "done", kind: "area", cls: "c-done" },
        { key: "pushed", label: "submitted", kind: "line", cls: "c-push" },
        { key: "failed", label: "failed", kind: "down", cls: "c-dead" },
      ],
    }),
    ready: new Plot({
      label: "Jobs that are ready",
      height: 120,
      crosshair: hair,
      format: short,
      series: [{ key: "ready", label: "ready", kind: "area", cls: "c-ready" }],
    }),
    wait: new Plot({
      label: "How long jobs waited before they started, 95th percentile",
      height: 120,
      crosshair: hair,
      spans: true,
      format: (v) => (v === 0 ? "0" : span(v).replace(/m.00s/, "m")),
      series: [{ key: "wait_p95_ms", label: "wait p95", kind: "line", cls: "c-wait" }],
    }),
  };
  let data = null,
    first = null,
    empty = false,
    health = null;
  const range = () => ctx.search.get("range") || "1h";

  function figure(label, value, note, cls = "", href) {
    return h(
      href ? "a" : "div",
      { class: `figure ${cls}`, href },
      h("span", { class: "figure-label" }, label),
      h("span", { class: "figure-value" }, value),
      h("span", { class: "figure-note" }, note),
    );
  }

  function figures() {
    const { rates, counts, workers } = data;
    const runs = rates.done + rates.failed;
    const grew = growth(data.series.ready, counts.ready);
    return h(
      "div",
      { class: "figures" },
      figure("Done", rate(rates.done), `${rate(rates.pushed)} submitted`, "", "#/jobs?state=done"),
      figure(
        "Failed",
        rate(rates.failed),
        `${percent(rates.failed, runs)} of runs`,
        rates.failed / runs > 0.01 ? "is-bad" : "",
        "#/errors",
      ),
      figure(
        "Ready",
        num(counts.ready),
        grew === null
          ? "waiting for a worker"
          : `${grew >= 0 ? "+" : "−"}${short(Math.abs(grew))} in ${known(data.series)}`,
        grew > 10_000 ? "is-bad" : "",
        "#/jobs?state=ready",
      ),
      data.oldest_queue
        ? figure(
            "Oldest ready",
            span(data.oldest_ms),
            h("span", null, "in ", data.oldest_queue),
            data.oldest_ms > 60_000 ? "is-bad" : "",
            `#/queues/${encodeURIComponent(data.oldest_queue)}`,
          )
        : figure("Oldest ready", "–", "no job is waiting"),
      figure(
        "Running",
        num(counts.running),
        `${num(workers.busy)} of ${plural(workers.all, "worker")} busy`,
        "",
        "#/jobs?state=running",
      ),
      figure(
        "Retrying",
        num(counts.retrying),
        `${num(counts.dead)} dead`,
        "",
        "#/jobs?state=retrying",
      ),
    );
  }

  /** How much of the range is known: less than all of it on a server that is new. */
  function known({ t, ready }) {
    const at = (ready || []).findIndex((value) => value !== null);
    const whole = at <= 0 && t.length > 1 && t[t.length - 1] - t[0] > 0.9 * spanMs(range());
    return whole ? range() : span(t[t.length - 1] - t[at]);
  }

  /** By how much it grew since the first moment of the range that is known. */
  function growth(values, at) {
    const first = (values || []).find((value) => value !== null);
    return first === undefined ? null : at - first;
  }

  function crossings() {
    const usual = Object.keys(PROTOCOLS).slice(0, 6);
    const used = (side) => [
      ...new Set([...usual, ...data.crossings.filter((c) => c.count).map((c) => c[side])]),
    ];
    const at = (via, by) => data.crossings.find((c) => c.via === via && c.by === by)?.count || 0;
    const most = Math.max(1, ...data.crossings.map((c) => c.count));
    const cell = (via, by) => {
      const n = at(via, by);
      const level = n ? Math.max(1, Math.ceil((Math.log10(n + 1) / Math.log10(most + 1)) * 4)) : 0;
      return h(
        "td",
        {
          class: `cross q${level}${via === by ? " own" : ""}`,
          title: `${num(n)} submitted over ${protocolName(via)}, run by ${protocolName(by)} workers`,
        },
        n ? few(n) : "·",
      );
    };
    return h(
      "table",
      { class: "crossings" },
      h(
        "caption",
        { class: "vh" },
        "Jobs done in the last hour, by the protocol they were submitted over and that of their worker",
      ),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("td", { class: "corner" }, "from ↓ to →"),
          used("by").map((n) => h("th", { scope: "col" }, proto(n))),
        ),
      ),
      h(
        "tbody",
        null,
        used("via").map((via) =>
          h(
            "tr",
            null,
            h(
              "th",
              { scope: "row" },
              proto(via),
              h("span", { "aria-hidden": "true" }, protocolName(via)),
            ),
            used("by").map((by) => cell(via, by)),
          ),
        ),
      ),
    );
  }

  function queues() {
    const trouble = (q) => (q.paused ? 5e5 : 0) + (q.oldest_ms || 0) + q.failed * 1e3;
    const rows = [...data.queues].sort((a, b) => trouble(b) - trouble(a));
    const most = Math.max(1, ...rows.map((q) => q.ready));
    return table({
      label: "Queues, problems first",
      key: (q) => q.queue,
      rows,
      columns: [
        {
          head: "Queue",
          th: true,
          cell: (q) => [
            h("a", { href: `#/queues/${encodeURIComponent(q.queue)}` }, q.queue),
            q.paused && h("span", { class: "tag amber" }, "paused"),
          ],
        },
        { head: "Ready", cls: "n", cell: (q) => num(q.ready) },
        {
          head: h("span", { class: "vh" }, "Depth"),
          cls: "bar-col wide-only",
          cell: (q) =>
            stack([{ value: Math.sqrt(q.ready), cls: "c-ready" }], {
              total: Math.sqrt(most),
              width: 120,
              label: "",
            }),
        },
        {
          head: "Oldest",
          cls: "n",
          title: "For how long the next job has been ready",
          cell: (q) => h("span", { class: q.oldest_ms > 60_000 ? "bad" : "" }, span(q.oldest_ms)),
        },
        { head: "In", cls: "n mid", cell: (q) => rate(q.in) },
        {
          head: "Out",
          cls: "n mid",
          cell: (q) =>
            h(
              "span",
              { class: !q.paused && q.out < q.in * 0.93 && q.ready > 500 ? "bad" : "" },
              rate(q.out),
            ),
        },
        {
          head: "10 min",
          cls: "spark-col wide-only",
          cell: (q) =>
            spark(q.recent?.out || [], {
              max: Math.max(0, ...(q.recent?.in || [])),
              label: `out ${rate(q.out)}`,
            }),
        },
        {
          head: "Failing",
          cls: "n mid",
          title: "Share of runs that failed in the last minute",
          cell: (q) =>
            q.failed < 0.001
              ? h("span", { class: "dim" }, "0")
              : h(
                  "span",
                  { class: q.failed / (q.out + q.failed) > 0.02 ? "bad" : "" },
                  percent(q.failed, q.out + q.failed),
                ),
        },
        { head: "Running", cls: "n mid", cell: (q) => num(q.running) },
      ],
    });
  }

  return {
    title: () => "Overview",
    owners: Object.fromEntries(Object.entries(plots).map(([name, plot]) => [name, plot.el])),
    async load() {
      data = await api.overview(range());
      ctx.role(data.role);
      ctx.counted(data.counts);
      empty = !data.notices.length && Object.values(data.counts).every((n) => !n);
      if (empty) {
        ({ first } = await import("./first.js"));
        health ||= await api.health();
      }
    },
    view() {
      if (empty) return first(health);
      return [
        head("Overview", {
          sub: `${plural(data.workers.all, "worker")}, ${plural(data.queues.length, "queue")}, ${plural(new Set(data.crossings.filter((c) => c.count).map((c) => c.via)).size, "protocol")} in the last hour`,
          tools: [segment("range", RANGES, range()), button("Submit a job", "submit")],
        }),
        figures(),
        section(
          "Needs attention",
          {
            cls: "attention",
            note: data.notices.length
              ? ""
              : "Nothing. Queues that fall behind or are paused, new errors, workers that take no jobs and schedules that fail are listed here.",
          },
          data.notices.length && h("ul", { class: "notices" }, data.notices.map(notice)),
        ),
        h(
          "div",
          { class: "split" },
          h(
            "div",
            { class: "split-main" },
            section(
              "Throughput",
              {
                note: h(
                  "span",
                  { class: "legend" },
                  h("i", { class: "c-done" }),
                  "done ",
                  h("i", { class: "c-push line" }),
                  "submitted ",
                  h("i", { class: "c-dead" }),
                  "failed (below, on its own scale)",
                ),
              },
              island("flow"),
            ),
            h(
              "div",
              { class: "two" },
              section("Backlog", { note: "jobs ready" }, island("ready")),
              section("Wait before start", { note: "p95" }, island("wait")),
            ),
          ),
          h(
            "div",
            { class: "split-side" },
            section(
              "Crossings",
              { note: "jobs done in the last hour" },
              crossings(),
              h(
                "p",
                { class: "hint" },
                "Row: the protocol a job was submitted over. Column: the protocol of the worker that ran it.",
              ),
            ),
          ),
        ),
        section(
          "Queues",
          {
            note: "problems first",
            tools: h("a", { class: "more", href: "#/queues" }, "All queues"),
          },
          queues(),
        ),
      ].flat();
    },
    after() {
      if (!data || empty) return;
      for (const plot of Object.values(plots)) plot.set({ t: data.series.t, values: data.series });
    },
    actions: {
      segment: (el) => ctx.go("/", { range: el.dataset.value }, true),
      resume: (el) =>
        undoable(ctx, {
          action: () => api.actQueue(el.dataset.queue, "resume"),
          words: `${el.dataset.queue} was resumed.`,
          back: () => api.actQueue(el.dataset.queue, "pause"),
          label: "Pause again",
        }),
      stopWorker: (el) => askWorker(ctx, "stop", el.dataset.name),
    },
  };
}
