// What makes jobs by itself: the rule, in words, when it comes next, how it went the last time.
import { api, now } from "../api.js";
import { scheduleCommand } from "../cli.js";
import { h, s } from "../dom.js";
import { absolute, ahead, clock, cronWords, day, num, plural, span } from "../format.js";
import { cursor } from "../keys.js";
import { withTerm } from "../query.js";
import {
  button,
  command,
  confirm,
  empty,
  head,
  proto,
  state,
  table,
  toast,
  undoable,
  when,
} from "../ui.js";

const DAY = 86_400_000;
/** When it runs within a day, as far as that is known; of a rule without cron it can be told here. */
function moments(one, from) {
  if (one.cron || !one.next_at || one.runs_left === 0) return one.upcoming_at;
  const count = Math.ceil(DAY / one.every_ms);
  const most = one.runs_left > 0 ? Math.min(one.runs_left, count) : count;
  // So many lines as can be told apart.
  const stride = Math.ceil(most / 300);
  return Array.from(
    { length: Math.ceil(most / stride) },
    (_, i) => one.next_at + i * stride * one.every_ms,
  );
}

/** The next day as a strip: a line for each run, so that ten schedules at 04:00 show as what they are. */
function strip(one, from) {
  const W = 144;
  const x = (at) => ((at - from) / DAY) * W;
  const hours = [6, 12, 18].map((hour) => {
    const d = new Date(from);
    d.setHours(hour, 0, 0, 0);
    return d.getTime() < from ? d.getTime() + DAY : d.getTime();
  });
  const soon = moments(one, from).filter((at) => at < from + DAY);
  // What comes behind the moments that the server told is not known here.
  const known =
    !one.next_at || one.cron === "" || soon.length < one.upcoming_at.length
      ? W
      : x(soon[soon.length - 1]);
  const label = `Next runs: ${
    one.upcoming_at
      .slice(0, 5)
      .map((at) => day(at))
      .join(", ") || "none"
  }`;
  return s(
    "svg",
    {
      class: "day",
      width: W,
      height: 16,
      viewBox: `0 0 ${W} 16`,
      role: "img",
      "aria-label": label,
    },
    s("rect", { class: "track", x: 0, y: 2, width: known, height: 12 }),
    hours.map((at) => s("line", { class: "hour", x1: x(at), x2: x(at), y1: 2, y2: 14 })),
    soon.map((at) =>
      s("rect", {
        class: "tickmark",
        x: x(at).toFixed(1),
        y: 2,
        width: soon.length > 100 ? 0.6 : 1.5,
        height: 12,
      }),
    ),
  );
}

const rule = (one) => (one.cron ? cronWords(one.cron) || one.cron : `every ${span(one.every_ms)}`);
const zone = (one) =>
  one.cron &&
  one.timezone &&
  one.timezone !== "UTC" &&
  h(
    "abbr",
    { class: "zone", title: one.timezone },
    one.timezone.split("/").pop().replace("_", " "),
  );

export function page(ctx) {
  let schedules = [];
  const at = cursor(
    ctx.render,
    () => schedules.map((one) => one.id),
    (id) => edit(id),
  );
  const of = (id) => schedules.find((one) => one.id === id);

  async function edit(id) {
    if (ctx.may() && of(id)) (await import("../forms.js")).editSchedule(ctx, of(id));
  }
  const turn = (id, pause) =>
    undoable(ctx, {
      action: () => api.actSchedule(id, pause ? "pause" : "resume"),
      words: pause ? `${id} is paused: it submits no jobs until it is resumed.` : `${id} was resumed.`,
      back: () => api.actSchedule(id, pause ? "resume" : "pause"),
    });
  async function run(id) {
    const job = await api.actSchedule(id, "run");
    toast(
      `${id} submitted a job.`,
      job?.id ? { label: "Open", act: () => ctx.go(`/jobs/${job.id}`) } : {},
    );
    ctx.refresh();
  }
  async function drop(id) {
    if (
      !(await confirm({
        title: `Delete the schedule ${id}?`,
        text: "It submits no more jobs; those already submitted stay. This cannot be undone.",
        yes: "Delete",
      }))
    )
      return;
    await api.deleteSchedule(id);
    toast(`${id} was deleted.`);
    ctx.refresh();
  }
  function last(one) {
    if (!one.last) return h("span", { class: "dim" }, "not yet");
    const ran =
      one.last.ran_ms === null || one.last.ran_ms === undefined
        ? ""
        : ` in ${span(one.last.ran_ms)}`;
    return [
      h(
        "a",
        {
          href: `#/jobs/${one.last.id}`,
          title: one.last.started_at ? absolute(one.last.started_at) : "",
        },
        state(one.last.state),
      ),
      h("span", { class: "dim" }, ran),
    ];
  }
  function next(one) {
    if (!one.next_at || one.paused) return h("span", { class: "dim" }, "–");
    const exact = one.next_at - now() > DAY ? day(one.next_at) : clock(one.next_at);
    return h(
      "span",
      { title: one.upcoming_at.slice(0, 5).map(absolute).join("\n") },
      when(one.next_at, "ahead"),
      h("span", { class: "dim" }, ` ${exact}`),
    );
  }
  const columns = () =>
    [
      {
        head: "Schedule",
        th: true,
        cell: (one) => [
          h("b", { class: "job-link" }, one.id),
          one.paused && h("span", { class: "tag amber" }, "paused"),
          one.paused &&
            button("Resume", "turn", { kind: "mini", "data-id": one.id, "data-do": "resume" }),
          h("span", { class: "phone-only line dim" }, rule(one)),
        ],
      },
      {
        head: "Rule",
        cls: "mid",
        cell: (one) =>
          h("span", { title: one.cron || `every ${one.every_ms} ms` }, rule(one), zone(one)),
      },
      {
        head: "Submits",
        cls: "mid",
        cell: (one) =>
          h(
            "a",
            {
              href: `#/jobs?${new URLSearchParams({ state: "done", q: withTerm("", "type", one.type) })}`,
              title: `to the queue ${one.queue}`,
            },
            one.type,
          ),
      },
      schedules.some((one) => one.runs_left >= 0 && one.runs_left !== null) && {
        head: "Runs left",
        cls: "n wide-only",
        cell: (one) =>
          one.runs_left >= 0 ? num(one.runs_left) : h("span", { class: "dim" }, "unlimited"),
      },
      { head: "Next", cls: "n", cell: next },
      { head: "Next 24 hours", cls: "wide-only", cell: (one) => strip(one, now()) },
      { head: "Last", cls: "mid", cell: last },
      {
        head: "Source",
        cls: "wide-only",
        title: "What it was created over",
        cell: (one) => (one.source ? proto(one.source) : ""),
      },
      {
        head: h("span", { class: "vh" }, "Actions"),
        cls: "acts",
        cell: (one) =>
          ctx.may() &&
          h(
            "div",
            { class: "acts-in" },
            button("Run now", "run", { "data-id": one.id }),
            button("Edit", "edit", { "data-id": one.id }),
            !one.paused && button("Pause", "turn", { "data-id": one.id, "data-do": "pause" }),
            button("Delete", "drop", { kind: "danger", "data-id": one.id }),
          ),
      },
    ].filter(Boolean);
  return {
    title: () => "Schedules",
    async load() {
      ({ schedules } = await api.schedules());
      for (const one of schedules) one.upcoming_at ||= [];
      schedules.sort((a, b) => (a.next_at || Infinity) - (b.next_at || Infinity));
    },
    view() {
      const tools = button("New schedule", "add");
      if (!schedules.length)
        return [
          head("Schedules", { tools }),
          empty(
            "No schedules",
            "A schedule submits a job at a fixed interval or by a cron rule.",
            command(scheduleCommand),
          ),
        ];
      const running = schedules.filter((one) => !one.paused);
      const soonest = running.find((one) => one.next_at);
      return [
        head("Schedules", {
          sub: `${plural(schedules.length, "schedule")}${running.length < schedules.length ? `, ${num(schedules.length - running.length)} paused` : ""}${soonest ? `; next: ${soonest.id} ${ahead(soonest.next_at, now())}` : ""}`,
          tools,
        }),
        table({
          label: "Schedules, the next to run first",
          rows: schedules,
          columns: columns(),
          key: (one) => one.id,
          rowClass: (one) => (at.at === one.id ? "at" : ""),
        }),
        h(
          "p",
          { class: "hint" },
          "Cron rules run in their own time zone. Times on this page are in the zone chosen in the settings.",
        ),
      ];
    },
    actions: {
      async add() {
        (await import("../forms.js")).editSchedule(ctx);
      },
      edit: (el) => edit(el.dataset.id),
      run: (el) => run(el.dataset.id),
      turn: (el) => turn(el.dataset.id, el.dataset.do === "pause"),
      drop: (el) => drop(el.dataset.id),
    },
    keys: {
      ...at.keys,
      d: () => {
        if (at.at && ctx.may()) drop(at.at);
      },
      "#": () => {
        if (at.at && ctx.may()) drop(at.at);
      },
    },
  };
}
