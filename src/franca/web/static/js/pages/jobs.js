// One table for all jobs: a tab for each state, one filter, one selection. What is shown is in the
// address.
import { api } from "../api.js";
import { actCommand, listCommand, pushCommand } from "../cli.js";
import { h, island } from "../dom.js";
import { Filter } from "../filter.js";
import { num, plural, short } from "../format.js";
import { stateMark } from "../icons.js";
import { columns } from "../job_table.js";
import { cursor } from "../keys.js";
import { Selection } from "../selection.js";
import { button, command, confirm, copy, empty, head, reveal, table, toast, watch } from "../ui.js";
import { ACTIONS, STATES, consequence, may, verb } from "../words.js";

const PAGE = 50;
const MANY = 100;
const EMPTY = {
  scheduled: "Jobs that are to run later are listed here.",
  retrying: "Jobs that failed or were lost wait here for their next attempt.",
  ready: "Submit one:",
  running: "Jobs are listed here while a worker runs them.",
  done: "Jobs that succeeded are listed here while the history keeps them.",
  dead: "Jobs that used up their retries are kept here, to be retried or deleted.",
  cancelled: "Jobs that were cancelled are listed here while the history keeps them.",
};
const title = (text) => text[0].toUpperCase() + text.slice(1);

export function page(ctx) {
  let data = null;
  let first = null;
  let health = null;
  let counts = null;
  let known = {};
  let fresh = 0;
  let names = new Set();
  const state = () =>
    STATES.includes(ctx.search.get("state")) ? ctx.search.get("state") : "ready";
  const query = () => ctx.search.get("q") || "";
  const rows = () => (data ? data.jobs : []);
  const ids = () => rows().map((job) => job.id);
  const chosen = new Selection(ids);
  const at = cursor(ctx.render, ids, (id) => ctx.go(`/jobs/${encodeURIComponent(id)}`));
  const to = (changes) => ctx.go("/jobs", { state: state(), q: query(), ...changes });
  const elsewhere = () => ctx.search.get("after") || ctx.search.get("before");
  const clear = () => {
    chosen.clear();
    fresh = 0;
  };
  const filter = new Filter({
    known: () => known,
    apply: (text) => {
      if (text !== query()) {
        clear();
        ctx.go("/jobs", { state: state(), q: text }, true);
      }
    },
  });
  filter.show(query());

  /** Whether the person means it: asked where it cannot be taken back, or is about many. */
  async function meant(action, n, which) {
    const lasting = action === "delete" || action === "cancel";
    if (!lasting && n <= MANY && !(action === "kill" && state() === "running")) return true;
    const { yes } = verb(action);
    const text = `${consequence(action, state())} On the command line: ${actCommand(action, which.ids && n > 3 ? { ids: ["ID…"] } : which)}`;
    return confirm({
      title: `${yes} ${plural(n, "job")}?`,
      text,
      yes: `${yes} ${num(n)}`,
      danger: action !== "retry",
      word: lasting && n > 1000 ? action : undefined,
    });
  }
  async function act(action, some) {
    if (!ctx.may() || !may(state(), action)) return;
    const which = some
      ? { ids: some }
      : chosen.all
        ? { state: state(), q: query() }
        : { ids: [...chosen.chosen] };
    const n = which.ids ? which.ids.length : data.total;
    if (!n || !(await meant(action, n, which))) return;
    const { ing, ed } = verb(action);
    const done = await api.act(action, which);
    clear();
    if (done.operation) watch(done.operation, ing).then(ctx.refresh);
    else {
      const words = `${plural(done.changed, "job")} ${ed}.${done.skipped ? ` ${num(done.skipped)} skipped: their state had changed.` : ""}`;
      const back = action === "kill" && which.ids;
      toast(
        words,
        back ? { label: "Retry", act: () => api.act("retry", which).then(ctx.refresh) } : {},
      );
    }
    ctx.refresh();
  }

  // -- what is seen

  const pick = () => ({
    cls: "box",
    head: h("input", {
      type: "checkbox",
      "data-act": "page",
      "aria-label": "Select this page",
      checked: chosen.page,
      "data-some": chosen.any && !chosen.page,
    }),
    cell: (job) =>
      h("input", {
        type: "checkbox",
        "data-act": "pick",
        "data-id": job.id,
        "aria-label": `Select job ${job.id}`,
        checked: chosen.has(job.id),
      }),
  });
  function tabs() {
    const tab = (one, i) => {
      const address = new URLSearchParams({ state: one, ...(query() ? { q: query() } : {}) });
      const n = counts[one];
      return h(
        "a",
        {
          href: `#/jobs?${address}`,
          "aria-current": one === state() ? "page" : undefined,
          title: `${one} (${i + 1})`,
        },
        stateMark(one),
        title(one),
        h("span", { class: "count", title: num(n) }, n > 9_999_999 ? short(n) : num(n)),
      );
    };
    return h("nav", { class: "tabs", "aria-label": "States" }, STATES.map(tab));
  }
  function found() {
    const { total, total_exact: exact, scanned, of } = data;
    const words = query()
      ? [
          h("b", null, num(total)),
          exact
            ? total === 1
              ? " matches"
              : " match"
            : ` match in the newest ${num(scanned)} of ${num(of)}`,
        ]
      : [h("b", null, exact ? num(total) : `about ${num(total)}`), ` ${state()}`];
    return h(
      "div",
      { class: "found" },
      h("span", null, words),
      h("span", { class: "grow" }),
      fresh > 0 && button(`${plural(fresh, "newer job")}: show`, "unhold", { kind: "link" }),
      button("Copy as command", "cli", {
        kind: "link",
        title: "The same list on the command line",
      }),
    );
  }
  function bulk() {
    const n = chosen.all ? data.total : chosen.chosen.size;
    if (!n) return null;
    return h(
      "div",
      { class: "bulk", role: "toolbar", "aria-label": "Selected jobs", key: "bulk" },
      h("span", null, h("b", null, num(n)), " selected"),
      !chosen.all &&
        data.total > n &&
        button(`Select all ${data.total_exact ? num(data.total) : "that match"}`, "all", {
          kind: "link",
        }),
      h("span", { class: "sep" }),
      ACTIONS[state()].map(([action, label, ico]) =>
        button(label, "bulk", {
          ico,
          kind: action === "delete" ? "danger" : "",
          "data-do": action,
        }),
      ),
      button("", "none", {
        ico: "cross",
        kind: "icon-btn ghost",
        title: "Clear the selection (Esc)",
      }),
    );
  }
  function none() {
    if (!query())
      return empty(
        `No ${state()} jobs`,
        EMPTY[state()],
        state() === "ready" && command(pushCommand),
      );
    const text = data.next
      ? `No match in the newest ${num(data.scanned)} of ${num(data.of)} jobs.`
      : "Remove a term from the filter, or try another state.";
    return empty(
      "Nothing matches",
      text,
      h(
        "div",
        { class: "tools" },
        data.next && button("Search further back", "older"),
        button("Clear the filter", "clear"),
      ),
    );
  }
  function list() {
    const s = state();
    const cls = (job) =>
      [
        chosen.has(job.id) ? "on" : "",
        at.at === job.id ? "at" : "",
        job.fresh && s !== "running" ? "new" : "",
        job.state !== s ? "gone" : "",
      ]
        .join(" ")
        .trim();
    const box = ctx.may() && ACTIONS[s].length > 0 && pick();
    return table({
      label: `${s} jobs`,
      cls: `jobs-table ${box ? "" : "no-box"}`,
      columns: columns({ state: s, query: query(), pick: box }),
      rows: rows(),
      key: (job) => job.id,
      rowClass: cls,
    });
  }
  function pager() {
    const further = query() && data.total <= rows().length;
    return h(
      "nav",
      { class: "pager", "aria-label": "Newer and older" },
      data.prev && button("Newer", "newer", { ico: "left" }),
      data.next && button(further ? "Search further back" : "Older", "older"),
      h("span", null, !data.prev && !data.next ? "End of list" : ""),
    );
  }

  return {
    title: () => `${title(state())} jobs`,
    owners: { filter: filter.el },
    holds: () => (chosen.any ? "Paused while you select" : elsewhere() ? "Paused on this page" : null),
    async held() {
      const now = await api.counts();
      if (counts) fresh = Math.max(0, now[state()] - data.of);
      counts = now;
      ctx.counted(now);
    },
    enter() {
      if (!filter.focused) filter.show(query());
      clear();
      at.at = null;
      names = new Set();
    },
    async load() {
      if (!known.queue)
        api.known().then(
          (found) => {
            known = found;
          },
          () => {},
        );
      const asked = {
        state: state(),
        q: query(),
        after: ctx.search.get("after"),
        before: ctx.search.get("before"),
        limit: PAGE,
      };
      let got;
      let now;
      try {
        [got, now] = await Promise.all([api.jobs(asked), api.counts()]);
      } catch (error) {
        // A filter that the server does not understand: what is shown stays, and it is said there.
        if (error.status !== 400 || !data) throw error;
        filter.say(error.message);
        return;
      }
      const next = new Set(got.jobs.map((job) => job.id));
      for (const job of got.jobs) job.fresh = names.size > 0 && !names.has(job.id);
      names = next;
      data = got;
      counts = now;
      fresh = 0;
      ctx.counted(now);
      if (Object.values(counts).every((n) => !n)) {
        ({ first } = await import("./first.js"));
        health ||= await api.health();
      } else first = null;
    },
    view() {
      if (first) return first(health);
      const tools = button("Submit a job", "submit");
      return [
        head("Jobs", { tools }),
        tabs(),
        h("div", { class: "filter-row" }, island("filter", "filter-place")),
        found(),
        rows().length ? list() : none(),
        rows().length > 0 && pager(),
        bulk(),
      ];
    },
    after(root) {
      reveal(root.querySelector(".tabs [aria-current]"));
      root.className = `page p-jobs s-${state()}`;
      filter.wipe.hidden = !filter.field.value;
    },
    actions: {
      pick(el, event) {
        const id = ids().find((one) => String(one) === el.dataset.id);
        if (event.shiftKey && chosen.last !== null) chosen.reach(id);
        else chosen.turn(id);
        ctx.render();
      },
      page() {
        chosen.turnPage();
        ctx.render();
      },
      all() {
        chosen.all = true;
        ctx.render();
      },
      none() {
        clear();
        ctx.refresh();
      },
      bulk: (el) => act(el.dataset.do),
      clear() {
        filter.show("");
        filter.say("");
        clear();
        to({ q: "" });
      },
      older: () => to({ after: data.next }),
      newer: () => to({ before: data.prev }),
      unhold() {
        clear();
        if (elsewhere()) to({});
        else ctx.refresh();
      },
      cli: () => copy(listCommand(state(), query())),
    },
    keys: keys({ ctx, at, chosen, act, to, data: () => data, state, query, clear }),
    commands: () =>
      chosen.any && ctx.may()
        ? ACTIONS[state()].map(([action, label, ico]) => ({
            label: `${label}: the selected jobs`,
            ico,
            kind: "Selection",
            run: () => act(action),
          }))
        : [],
  };
}

function keys({ ctx, at, chosen, act, to, data, state, query, clear }) {
  const can = () => ctx.may() && ACTIONS[state()].length > 0;
  const doing = (action) => () => {
    if (chosen.any) act(action);
    else if (at.at !== null) act(action, [at.at]);
  };
  return {
    ...at.keys,
    x() {
      if (at.at !== null && can()) {
        chosen.turn(at.at);
        ctx.render();
      }
    },
    X() {
      if (at.at !== null && chosen.last !== null && can()) {
        chosen.reach(at.at);
        ctx.render();
      }
    },
    a() {
      if (can()) {
        chosen.turnPage();
        ctx.render();
      }
    },
    Escape() {
      if (chosen.any) {
        clear();
        ctx.refresh();
      }
    },
    r: doing("retry"),
    c: doing("cancel"),
    d: doing("delete"),
    "#": doing("delete"),
    y() {
      if (at.at !== null) copy(String(at.at));
    },
    "]"() {
      if (data().next) to({ after: data().next });
    },
    "["() {
      if (data().prev) to({ before: data().prev });
    },
    ...Object.fromEntries(
      STATES.map((one, i) => [String(i + 1), () => ctx.go("/jobs", { state: one, q: query() })]),
    ),
  };
}
