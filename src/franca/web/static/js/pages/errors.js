// Two thousand failed jobs are seven errors. One line for each; what one line says is done to all
// its jobs.
import { api, now } from "../api.js";
import { listCommand } from "../cli.js";
import { h } from "../dom.js";
import { absolute, ago, num, plural } from "../format.js";
import { icon } from "../icons.js";
import { cursor } from "../keys.js";
import { withTerm } from "../query.js";
import { bars } from "../spark.js";
import { button, confirm, copy, empty, head, proto, toast, watch, when } from "../ui.js";
import { verb } from "../words.js";

const HOUR = 3_600_000;
const total = (one) => one.retrying + one.dead;
/** The same jobs as a filter. */
const query = (one) => withTerm("", "class", one.id);
const jobsOf = (state, one) => `#/jobs?${new URLSearchParams({ state, q: query(one) })}`;

export function page(ctx) {
  let classes = [];
  let seen = { looked_at: 0, of: 0 };
  const open = () => ctx.search.get("open");
  const turn = (id) => ctx.go("/errors", { open: open() === id ? "" : id }, true);
  const at = cursor(ctx.render, () => classes.map((one) => one.id), turn);

  /** On every job that has this error, in the states that the action is for. */
  async function all(id, action) {
    const one = classes.find((each) => each.id === id);
    if (!one || !ctx.may()) return;
    const states = action === "retry" ? ["retrying", "dead"] : ["dead"];
    const n = states.reduce((sum, state) => sum + one[state], 0);
    const text =
      action === "retry"
        ? `All dead and retrying jobs with the error ${one.error} become ready now.`
        : "Only dead jobs are deleted; retrying jobs stay. This cannot be undone.";
    const { yes, ing } = verb(action);
    if (
      !(await confirm({
        title: `${yes} ${plural(n, "job")}?`,
        text,
        yes: `${yes} ${num(n)}`,
        danger: action !== "retry",
        word: action === "delete" && n > 1000 ? "delete" : undefined,
      }))
    )
      return;
    let changed = 0;
    for (const state of states) {
      if (!one[state]) continue;
      const done = await api.act(action, { state, q: query(one) });
      if (done.operation) watch(done.operation, ing).then(ctx.refresh);
      else changed += done.changed;
    }
    if (changed) toast(`${plural(changed, "job")} ${verb(action).ed}.`);
    ctx.refresh();
  }

  function line(one) {
    const young = now() - one.first_at < HOUR;
    const gone = (n) => (n ? "" : "dim");
    return h(
      "summary",
      { "data-act": "open", "data-id": one.id, class: at.at === one.id ? "at" : "" },
      icon("right", "chev"),
      h(
        "div",
        { class: "what" },
        h("b", null, one.error, young && h("span", { class: "tag amber" }, "new")),
        h("span", { title: one.text }, one.text),
      ),
      h(
        "span",
        { class: "off" },
        bars(one.hours, {
          width: 132,
          height: 24,
          cls: one.dead > one.retrying ? "c-dead" : "c-retry",
          label: "failures over the last 24 hours",
        }),
      ),
      h("span", { class: `n off ${gone(one.retrying)}` }, num(one.retrying)),
      h("span", { class: `n off ${gone(one.dead)}` }, num(one.dead)),
      h("span", { class: "n phone-only" }, num(total(one))),
      h(
        "span",
        { class: "seen off" },
        h("time", { title: absolute(one.last_at) }, ago(one.last_at, now())),
        h("br"),
        "first ",
        h("time", { title: absolute(one.first_at) }, ago(one.first_at, now())),
      ),
    );
  }

  function inside(one) {
    const fact = (name, ...value) => [h("dt", null, name), h("dd", null, ...value)];
    const queues = one.queues.map((queue, i) => [
      i ? ", " : "",
      h("a", { class: "inline", href: `#/queues/${encodeURIComponent(queue)}` }, queue),
    ]);
    return h(
      "div",
      { class: "group-body" },
      h(
        "div",
        null,
        h(
          "div",
          { class: "group-acts" },
          button(`Retry all ${num(total(one))}`, "all", {
            ico: "retry",
            kind: "primary",
            "data-id": one.id,
            "data-do": "retry",
          }),
          one.dead > 0 &&
            button(`Delete ${num(one.dead)} dead`, "all", {
              kind: "danger",
              "data-id": one.id,
              "data-do": "delete",
            }),
          one.retrying > 0 &&
            h("a", { class: "btn", href: jobsOf("retrying", one) }, "Show retrying"),
          one.dead > 0 && h("a", { class: "btn", href: jobsOf("dead", one) }, "Show dead"),
        ),
        h("p", { class: "fail-text" }, h("b", null, `${one.error}: `), one.text),
        one.where && h("p", { class: "trace" }, h("code", null, one.where.trim().split("\n")[0])),
        one.samples?.length > 0 &&
          h(
            "ul",
            { class: "samples" },
            one.samples.map((job) =>
              h(
                "li",
                { key: job.id },
                h("a", { class: "inline", href: `#/jobs/${job.id}` }, job.type),
                h("span", { class: "args" }, job.args || ""),
                h(
                  "span",
                  { class: "dim" },
                  job.state,
                  " ",
                  when(job.ended_at || job.run_at, job.ended_at ? "ago" : "ahead"),
                ),
              ),
            ),
          ),
      ),
      h(
        "dl",
        { class: "facts" },
        fact("Types", one.types.join(", ")),
        fact("Queues", queues),
        fact(
          "Run by",
          one.by.map((name) => [proto(name), " "]),
        ),
        fact("First seen", absolute(one.first_at)),
        fact("Last seen", absolute(one.last_at)),
      ),
    );
  }

  return {
    title: () => "Errors",
    async load() {
      const got = await api.errors();
      classes = got.classes.sort((a, b) => total(b) - total(a));
      seen = got;
    },
    view() {
      if (!classes.length)
        return [
          head("Errors"),
          empty(
            "No failed jobs",
            "Jobs that are retrying or dead are grouped here by their error.",
          ),
        ];
      const sum = (key) => classes.reduce((n, one) => n + one[key], 0);
      return [
        head("Errors", {
          sub: `${plural(classes.length, "error")} in ${num(sum("retrying"))} retrying and ${num(sum("dead"))} dead jobs`,
        }),
        h(
          "div",
          { class: "sec flush" },
          h(
            "div",
            { class: "group-head" },
            h("span"),
            h("span", null, "Error"),
            h("span", { class: "off" }, "24 hours"),
            h("span", { class: "off" }, "Retrying"),
            h("span", { class: "off" }, "Dead"),
            h("span", { class: "phone-only" }, "Jobs"),
            h("span", { class: "off" }, "Last seen"),
          ),
          classes.map((one) =>
            h(
              "details",
              { class: "group", key: one.id, open: open() === one.id },
              line(one),
              open() === one.id && inside(one),
            ),
          ),
        ),
        h(
          "p",
          { class: "hint" },
          `Grouped by name, and by text without numbers, ids and quoted parts. ${seen.looked_at < seen.of ? `${num(seen.looked_at)} of ${num(seen.of)} failed jobs were examined.` : `All ${num(seen.of)} failed jobs were examined.`}`,
        ),
      ];
    },
    actions: {
      open(el, event) {
        event.preventDefault();
        turn(el.dataset.id);
      },
      all: (el) => all(el.dataset.id, el.dataset.do),
    },
    keys: {
      ...at.keys,
      r: () => at.at && all(at.at, "retry"),
      d: () => at.at && all(at.at, "delete"),
      "#": () => at.at && all(at.at, "delete"),
      y: () => {
        const one = classes.find((each) => each.id === at.at);
        if (one) copy(listCommand(one.dead ? "dead" : "retrying", query(one)));
      },
      Escape: () => ctx.go("/errors", {}, true),
    },
  };
}
