// Who works: across all protocols, in one table. "Connected" is not "working": who takes no jobs is
// said so.
import { api, now } from "../api.js";
import { h } from "../dom.js";
import { bytes, num, plural, span } from "../format.js";
import { cursor } from "../keys.js";
import { withTerm } from "../query.js";
import { button, command, confirm, empty, head, proto, state, table, toast, when } from "../ui.js";

const LOOK = {
  busy: ["running", "busy"],
  idle: ["idle", "idle"],
  quiet: ["quiet", "quiet"],
  stopping: ["quiet", "stopping"],
  stalled: ["warn", "takes no jobs"],
};
const RANK = { stalled: 0, stopping: 1, quiet: 2, busy: 3, idle: 4 };
const SHOWN = 2000;
const runningOn = (name) =>
  `#/jobs?${new URLSearchParams({ state: "running", q: withTerm("", "worker", name) })}`;

export function page(ctx) {
  let workers = [];
  let total = 0;
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
          ]),
    },
    {
      head: "Host",
      cls: "mid",
      cell: (one) => [one.host, one.pid > 0 && h("span", { class: "dim" }, `  ${one.pid}`)],
    },
    { head: "Labels", cls: "wide-only dim", cell: (one) => one.labels.join(" ") },
    {
      head: "Links",
      cls: "n wide-only",
      title: "Its connections",
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
        h(
          "div",
          { class: "acts-in" },
          button("Quiet", "quiet", { title: "Ask it to take no more jobs", "data-name": one.name }),
          button("Stop", "stop", {
            title: "Ask it to finish what it runs, and leave",
            "data-name": one.name,
          }),
        ),
    },
  ];
  async function tell(action, name, words) {
    const done = await api.actWorkers(action, [name]);
    toast(done?.missing?.length ? `${name} is not there any more.` : words);
    ctx.refresh();
  }
  const quiet = (name) => tell("quiet", name, `${name} was asked to take no more jobs.`);
  async function stop(name) {
    const said = {
      title: `Ask ${name} to stop?`,
      text: "It is asked to finish what it runs and to leave. Whatever starts it again is yours.",
      yes: "Ask to stop",
      danger: false,
    };
    if (await confirm(said)) await tell("stop", name, `${name} was asked to stop.`);
  }
  return {
    title: () => "Workers",
    async load() {
      ({ workers, total } = await api.workers());
      for (const one of workers) one.running.sort((a, b) => a.started_at - b.started_at);
    },
    view() {
      if (!workers.length)
        return [
          head("Workers"),
          empty(
            "No workers are here",
            "Jobs are kept until one comes. Any of these would do:",
            command("python examples/worker.py"),
            command("gearman -w -f hello -- cat"),
          ),
        ];
      const list = shown();
      const running = list.reduce((n, one) => n + one.running.length, 0);
      const hosts = new Set(list.map((one) => one.host)).size;
      return [
        head("Workers", {
          sub: `${plural(list.length, "worker")} on ${plural(hosts, "host")}, ${plural(running, "job")} running`,
          tools: query() && [
            h("span", { class: "dim" }, `only “${query()}”`),
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
    actions: { quiet: (el) => quiet(el.dataset.name), stop: (el) => stop(el.dataset.name) },
    keys: {
      ...at.keys,
      Escape: () => {
        if (query()) ctx.go("/workers");
      },
    },
  };
}
