// All types of jobs: how many ended how, how long they waited and ran. By the server's history.
import { api } from "../api.js";
import { h } from "../dom.js";
import { num, percent, plural, span } from "../format.js";
import { cursor } from "../keys.js";
import { withTerm } from "../query.js";
import { spark, stack } from "../spark.js";
import { command, empty, head, segment, table } from "../ui.js";

const RANGES = [["15m"], ["1h"], ["6h"], ["24h"], ["7d"]];
const jobsOf = (state, type) =>
  `#/jobs?${new URLSearchParams({ state, q: withTerm("", "type", type) })}`;
const zero = () => h("span", { class: "dim" }, "0");

export function page(ctx) {
  let types = [];
  const range = () => ctx.search.get("range") || "1h";
  const sort = () => ({ by: ctx.search.get("sort") || "done", up: ctx.search.get("up") === "1" });
  const order = () => {
    const { by, up } = sort();
    const value = (one) => (by === "type" ? one.type : (one[by] ?? -1));
    return [...types].sort(
      (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (up ? 1 : -1),
    );
  };
  const at = cursor(
    ctx.render,
    () => order().map((one) => one.type),
    (type) => {
      location.hash = jobsOf("done", type);
    },
  );
  const failing = (one) => one.failed / (one.done + one.failed);
  const columns = () => [
    {
      head: "Type",
      sort: "type",
      th: true,
      cell: (one) => h("a", { href: jobsOf("done", one.type) }, one.type),
    },
    {
      head: "Queues",
      cls: "mid",
      cell: (one) =>
        one.queues
          .slice(0, 4)
          .map((queue, i) => [
            i ? ", " : "",
            h("a", { href: `#/queues/${encodeURIComponent(queue)}` }, queue),
          ])
          .concat(one.queues.length > 4 ? [` and ${one.queues.length - 4} more`] : []),
    },
    { head: "Done", sort: "done", cls: "n", cell: (one) => num(one.done) },
    {
      head: "Share",
      sort: "share",
      cls: "n mid",
      title: "Share of all jobs that ended in this range",
      cell: (one) =>
        h(
          "span",
          { class: "use" },
          stack([{ value: one.share, cls: "c-done" }], { total: 1, width: 56, height: 6 }),
          h("span", null, percent(one.share, 1)),
        ),
    },
    {
      head: "Failed",
      sort: "failed",
      cls: "n",
      title: "Runs that failed",
      cell: (one) =>
        one.failed
          ? h("span", { class: failing(one) > 0.02 ? "bad" : "" }, num(one.failed))
          : zero(),
    },
    {
      head: "Dead",
      sort: "dead",
      cls: "n mid",
      cell: (one) =>
        one.dead ? h("a", { href: jobsOf("dead", one.type) }, num(one.dead)) : zero(),
    },
    {
      head: "Wait p95",
      sort: "wait_p95_ms",
      cls: "n mid",
      title: "95 % of jobs waited no longer before they started",
      cell: (one) => span(one.wait_p95_ms),
    },
    {
      head: "Ran p50",
      sort: "ran_p50_ms",
      cls: "n wide-only",
      cell: (one) => span(one.ran_p50_ms),
    },
    {
      head: "p95",
      sort: "ran_p95_ms",
      cls: "n",
      title: "95 % of runs took no longer",
      cell: (one) => span(one.ran_p95_ms),
    },
    { head: "p99", sort: "ran_p99_ms", cls: "n wide-only", cell: (one) => span(one.ran_p99_ms) },
    {
      head: "Done, failed",
      cls: "spark-col mid",
      cell: (one) =>
        h(
          "span",
          { class: "pair" },
          spark(one.recent?.done || [], { width: 80, label: "done over time" }),
          spark(one.recent?.failed || [], { width: 40, cls: "c-dead", label: "failed over time" }),
        ),
    },
  ];
  return {
    title: () => "Types",
    async load() {
      ({ types } = await api.types(range()));
    },
    view() {
      const tools = segment("range", RANGES, range());
      if (!types.length)
        return [
          head("Types", { tools }),
          empty(
            "No job ended in this range",
            "A job's type tells its worker what to run: the name of a function or a class.",
            command("franca push default hello world"),
          ),
        ];
      const sum = (key) => types.reduce((n, one) => n + one[key], 0);
      return [
        head("Types", {
          sub: `${plural(types.length, "type")}, ${num(sum("done"))} jobs done, ${plural(sum("failed"), "run")} failed`,
          tools,
        }),
        table({
          label: "Types",
          sort: sort(),
          columns: columns(),
          rows: order(),
          key: (one) => one.type,
          rowClass: (one) => (at.at === one.type ? "at" : ""),
        }),
      ];
    },
    actions: {
      segment: (el) =>
        ctx.go("/types", { ...Object.fromEntries(ctx.search), range: el.dataset.value }, true),
      sort(el) {
        const { by, up } = sort();
        ctx.go(
          "/types",
          {
            range: ctx.search.get("range"),
            sort: el.dataset.by,
            up: by === el.dataset.by && !up ? "1" : "",
          },
          true,
        );
      },
    },
    keys: at.keys,
  };
}
