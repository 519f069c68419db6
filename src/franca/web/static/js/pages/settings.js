// The server as it is, and this browser's choices. Nothing here is needed day by day.
import { api } from "../api.js";
import { Plot } from "../chart.js";
import { h, island } from "../dom.js";
import { absolute, bytes, num, percent, plural, span } from "../format.js";
import { help } from "../help.js";
import { named, point } from "../listeners.js";
import { keep, settings } from "../settings.js";
import { stack } from "../spark.js";
import { button, command, head, proto, section, segment } from "../ui.js";
import { protocolName } from "../words.js";

const ms = (v) =>
  v === 0
    ? "0"
    : v === null || v === undefined
      ? "–"
      : `${Number(v).toFixed(1).replace(/\.0$/, "")} ms`;
const fact = (name, ...value) => [h("dt", null, name), h("dd", null, ...value)];
const KINDS = { "sqlite:": "SQLite", "memory:": "memory only" };
const mono = (text) => h("span", { class: "mono" }, text);

function browser() {
  const row = (label, control) => h("div", { class: "setting" }, label, control);
  return section(
    "This browser",
    { cls: "flush" },
    h(
      "div",
      { class: "cols-2" },
      h(
        "div",
        null,
        row(
          "Theme",
          segment(
            "theme",
            [
              ["system", "System"],
              ["light", "Light"],
              ["dark", "Dark"],
            ],
            settings.theme,
          ),
        ),
        row(
          "Rows",
          segment(
            "density",
            [
              ["comfortable", "Comfortable"],
              ["compact", "Compact"],
            ],
            settings.density,
          ),
        ),
      ),
      h(
        "div",
        null,
        row(
          "Times",
          segment(
            "utc",
            [
              ["no", "My zone"],
              ["yes", "UTC"],
            ],
            settings.utc ? "yes" : "no",
          ),
        ),
        row("Keyboard", button("Show shortcuts", "help")),
      ),
    ),
  );
}

function listener(one) {
  const known = one.connections !== undefined && one.connections !== null;
  const links = [
    known && plural(one.connections, "connection"),
    one.tls && "TLS",
  ];
  return h(
    "li",
    { class: "listener" },
    h(
      "b",
      null,
      proto(one.protocol === "web" ? "rest" : one.protocol),
      h(
        "span",
        { "aria-hidden": "true" },
        one.protocol === "web" ? "Web" : protocolName(one.protocol),
        one.part && ` ${one.part}`,
      ),
    ),
    h("span", { class: "mono addr" }, one.address),
    h("span", { class: "dim" }, links.filter(Boolean).join(", ")),
    command(point(one)),
  );
}

const last = (series, name) => (series[name] || []).findLast((value) => value !== null);

function kept(history) {
  if (!history) return [];
  const { jobs, bytes: size, age_ms: age } = history.bounds || {};
  const most = [jobs && `${num(jobs)} jobs`, size && bytes(size), age && span(age)]
    .filter(Boolean)
    .join(", ");
  const line = (text) => h("span", { class: "sub-line" }, text);
  return fact(
    "History",
    `${num(history.jobs)} ended jobs, ${bytes(history.bytes)}`,
    most && line(`at most ${most}`),
    history.oldest_at && line(`since ${absolute(history.oldest_at)}`),
    history.indexed_ms_behind > 2000 &&
      line(`its index is ${span(history.indexed_ms_behind)} behind`),
  );
}

function store({ store: one, disk, series }, history) {
  const commits = [
    one.commit_p50_ms !== undefined && `p50 ${ms(one.commit_p50_ms)}`,
    `p99 ${ms(one.commit_p99_ms ?? last(series, "commit_p99_ms"))}`,
  ];
  const room = disk.total > 0 && [
    stack([{ value: disk.total - disk.free, cls: "c-done" }], {
      total: disk.total,
      width: 160,
      height: 6,
    }),
    `${bytes(disk.free)} free (${percent(disk.free, disk.total)})`,
  ];
  return section(
    "Store",
    null,
    h(
      "dl",
      { class: "facts" },
      one.kind && fact("Kind", KINDS[one.kind] || one.kind),
      (one.path || disk.data) && fact("Data", mono(one.path || disk.data)),
      one.sync && fact("Durability", one.sync),
      one.bytes > 0 && fact("Size", bytes(one.bytes)),
      fact("Commit", commits.filter(Boolean).join(", ")),
      one.commits > 0 && fact("Commits", num(one.commits)),
      kept(history),
      room && fact("Disk", room),
      disk.refusing_new && fact("Full", h("span", { class: "bad" }, "new jobs are refused")),
    ),
  );
}

/** A limit's value, by the unit that its name ends in. */
function amount(name, value) {
  if (/_bytes(_max)?$/.test(name)) return bytes(value);
  if (/_ms$/.test(name)) return span(value);
  return typeof value === "number" ? num(value) : String(value);
}

function limits(list) {
  const row = (one) =>
    h(
      "div",
      { class: "limit" },
      h("dt", { class: "mono" }, one.name),
      h(
        "dd",
        null,
        amount(one.name, one.most),
        one.now !== undefined && h("span", { class: "dim" }, `, ${amount(one.name, one.now)} now`),
      ),
    );
  return section(
    "Limits",
    { note: "by their names in the [limits] section of the configuration" },
    h("dl", { class: "limits" }, list.map(row)),
  );
}

function process({ process: one }) {
  const path = (text) => h("a", { class: "inline mono", href: text }, text);
  const memory = one.rss ?? (one.rss_mb === undefined ? undefined : one.rss_mb * 1_048_576);
  const lag = one.loop_lag_p99_ms;
  return section(
    "Process",
    null,
    h(
      "dl",
      { class: "facts" },
      one.pid > 0 && fact("Pid", one.pid),
      memory > 0 && fact("Memory", bytes(memory)),
      typeof one.cpu === "number" && fact("CPU", `${percent(one.cpu, 1)} of a core`),
      typeof one.connections === "number" && fact("Connections", num(one.connections)),
      typeof lag === "number" && fact("Loop lag", `p99 ${ms(lag)}`),
      fact("Health", path("livez"), " ", path("readyz")),
      fact("Metrics", path("metrics")),
      fact("API", path("openapi.json"), " ", h("a", { class: "inline", href: "try" }, "try it")),
    ),
  );
}

export function page(ctx) {
  const plots = {
    commit: new Plot({
      label: "Commit, p99 in milliseconds",
      height: 120,
      format: ms,
      series: [{ key: "commit_p99_ms", label: "commit p99", kind: "line", cls: "c-done" }],
    }),
    lag: new Plot({
      label: "Event loop lag in milliseconds",
      height: 120,
      format: ms,
      series: [{ key: "loop_lag_ms", label: "loop lag", kind: "line", cls: "c-wait" }],
    }),
  };
  let one = null;
  let history = null;
  return {
    title: () => "Settings",
    owners: { commit: plots.commit.el, lag: plots.lag.el },
    async load() {
      one = await api.health();
      // It changes slowly, and the page has one call a second.
      if (!history) history = await api.history().catch(() => null);
    },
    view: () => [
      head("Settings and health", {
        sub: [one.node, `franca ${one.version}`, `up ${span(one.uptime_ms)}`]
          .filter(Boolean)
          .join(", "),
        tools: ctx.isAdmin() && h("a", { class: "btn", href: "#/audit" }, "Audit"),
      }),
      browser(),
      section(
        "Listeners",
        { note: "addresses for clients" },
        h("ul", null, one.listeners.map(named).map(listener)),
      ),
      h(
        "div",
        { class: "cols-3" },
        store(one, history),
        h(
          "div",
          null,
          section("Commit", { note: "p99; an acknowledgement waits for it" }, island("commit")),
          section("Event loop", { note: "lag" }, island("lag")),
        ),
        process(one),
      ),
      limits(one.limits),
    ],
    after() {
      if (one)
        for (const plot of Object.values(plots)) plot.set({ t: one.series.t, values: one.series });
    },
    actions: {
      segment(el) {
        keep({
          [el.dataset.name]:
            el.dataset.name === "utc" ? el.dataset.value === "yes" : el.dataset.value,
        });
      },
      help,
    },
  };
}
