// Who works: across all protocols, in one table. "Connected" is not "working": who takes no jobs is
// said so.
import { api, now } from "../api.js";
import { h } from "../dom.js";
import { bytes, num, plural, span } from "../format.js";
import { cursor } from "../keys.js";
import { withTerm } from "../query.js";
import { askWorker, button, empty, head, proto, state, table, when } from "../ui.js";
import { ASKABLE } from "../words.js";

const LOOK = {
  busy: ["running", "busy"],
  idle: ["idle", "idle"],
  quiet: ["quiet", "quiet"],
  stopping: ["quiet", "stopping"],
  stalled: ["warn", "takes no jobs"],
};
const RANK = { stalled: 0, stopping: 1, quiet: 2, busy: 3, idle: 4 };
const SHOWN = 2000;
/** Where it is: an address of a connection has a port behind it. */
const machine = (host) => host.replace(/^(\[.*\]|[^:]*):\d+$/, "$1");
const runningOn = (name) =>
  `#/jobs?${new URLSearchParams({ state: "running", q: withTerm("", "worker", name) })}`;

export function page(ctx) {
  let workers = [];
  let total = 0;
  let forWorkers = null;
  let health = null;
  const query = () => ctx.search.get("q") || "";
  const fits = (one) =>
    `${one.name} ${one.host} ${one.protocol} ${one.queues.join(" ")} ${one.labels.join(" ")}`.includes(
      query(),
    );
  const order = (a, b) =>
    (RANK[a.state] ?? 5) - (RANK[b.state] ?? 5) || a.name.localeCompare(b.name);
  const shown = () => workers.filter(fits).sort(order).slice(0, SHOWN);
  // Names are unique within a protocol only.
  const key = (one) => `${one.protocol}/${one.name}`;
  const at = cursor(
    ctx.render,
    () => shown().map(key),
    (id) => {
      location.hash = runningOn(id.slice(id.indexOf("/") + 1));
    },
  );
  const look = (one) => state(...(LOOK[one.state] || ["idle", one.state]));

  function doing(one) {
    const [first] = one.running;
    if (!first) return h("span", { class: "dim" }, "–");
    return [
      span(now() - first.started_at),
      " ",
      h("a", { href: `#/jobs/${first.id}`, title: first.type }, first.type),
    ];
  }
  const columns = () => [
    {
      head: "Worker",
      th: true,
      cell: (one) => [proto(one.protocol), " ", h("a", { href: runningOn(one.name) }, one.name)],
    },
    { head: "State", cell: look },
    {
      head: "Running",
      cls: "n",
      cell: (one) =>
        one.running.length ? num(one.running.length) : h("span", { class: "dim" }, "0"),
    },
    { head: "Longest run", cls: "mid grow", cell: doing },
    {
      head: "Queues",
      cls: "mid",
      cell: (one) =>
        one.queues
          .slice(0, 3)
          .map((queue, i) => [
            i ? ", " : "",
            h("a", { href: `#/queues/${encodeURIComponent(queue)}` }, queue),
          ])
          .concat(one.queues.length > 3 ? [` and ${one.queues.length - 3} more`] : []),
    },
    {
      head: "Host",
      cls: "mid",
      cell: (one) => [one.host, one.pid > 0 && h("span", { class: "dim" }, `  ${one.pid}`)],
    },
    { head: "Labels", cls: "wide-only dim", cell: (one) => one.labels.join(" ") },
    {
      head: "Conns",
      cls: "n wide-only",
      title: "Connections",
      cell: (one) => num(one.connections),
    },
    {
      head: "Memory",
      cls: "n wide-only",
      cell: (one) => (one.rss_kb ? bytes(one.rss_kb * 1024) : h("span", { class: "dim" }, "–")),
    },
    {
      head: "Up",
      cls: "n wide-only",
      cell: (one) => when(one.started_at, span(now() - one.started_at)),
    },
    { head: "Seen", cls: "n seen-col", cell: (one) => when(one.seen_at) },
    {
      head: h("span", { class: "vh" }, "Actions"),
      cls: "acts",
      cell: (one) =>
        ctx.may() &&
        ASKABLE.has(one.protocol) &&
        h(
          "div",
          { class: "acts-in" },
          button("Quiet", "quiet", { title: "Ask it to take no more jobs", "data-name": one.name }),
          button("Stop", "stop", {
            title: "Ask it to finish its jobs and stop",
            "data-name": one.name,
          }),
        ),
    },
  ];
  return {
    title: () => "Workers",
    async load() {
      ({ workers, total } = await api.workers());
      for (const one of workers) one.running.sort((a, b) => a.started_at - b.started_at);
      if (!workers.length) {
        ({ forWorkers } = await import("./first.js"));
        health ||= await api.health();
      }
    },
    view() {
      if (!workers.length)
        return [
          head("Workers"),
          empty(
            "No workers",
            "Jobs wait until a worker of any of these protocols connects.",
            forWorkers(health),
          ),
        ];
      const list = shown();
      const running = list.reduce((n, one) => n + one.running.length, 0);
      const hosts = new Set(list.map((one) => machine(one.host))).size;
      return [
        head("Workers", {
          sub: `${plural(list.length, "worker")} on ${plural(hosts, "host")}, ${plural(running, "job")} running`,
          tools: query() && [
            h("span", { class: "dim" }, `filtered by “${query()}”`),
            h("a", { class: "btn", href: "#/workers" }, "Show all"),
          ],
        }),
        list.length
          ? table({
              label: "Workers",
              columns: columns(),
              rows: list,
              key,
              rowClass: (one) => (at.at === key(one) ? "at" : ""),
            })
          : empty(
              "Nothing matches",
              `No worker's name, host, queue or label has “${query()}” in it.`,
            ),
        total > SHOWN &&
          h("p", { class: "hint" }, `The first ${num(SHOWN)} of ${num(total)} are shown.`),
      ];
    },
    actions: {
      quiet: (el) => askWorker(ctx, "quiet", el.dataset.name),
      stop: (el) => askWorker(ctx, "stop", el.dataset.name),
    },
    keys: {
      ...at.keys,
      Escape: () => {
        if (query()) ctx.go("/workers");
      },
    },
  };
}
