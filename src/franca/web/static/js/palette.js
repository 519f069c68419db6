// The command palette: pages, queues, workers, schedules, any job by its id, and what this page can do.
import { api } from "./api.js";
import { h } from "./dom.js";
import { icon } from "./icons.js";
import { help } from "./help.js";
import { NAV, keep, settings } from "./settings.js";
import { ASKABLE } from "./words.js";

/** Letters in order, better when they begin words. 0 is no match. */
function score(text, typed) {
  const low = text.toLowerCase();
  let at = -1,
    sum = 0;
  for (const ch of typed.toLowerCase()) {
    const next = low.indexOf(ch, at + 1);
    if (next < 0) return 0;
    sum += next === at + 1 ? 3 : next === 0 || /[\s.\-:]/.test(low[next - 1]) ? 2 : 0.5;
    at = next;
  }
  return sum / (text.length + 20);
}

export async function open(ctx, page) {
  if (document.querySelector("dialog.palette")) return;
  const items = [
    ...(page.commands?.() || []),
    ...NAV.map(([id, href, label, key]) => ({
      label,
      hint: `g ${key}`,
      ico: id,
      kind: "Page",
      run: () => {
        location.hash = href;
      },
    })),
    ...(ctx.may()
      ? [
          {
            label: "Submit a job",
            ico: "jobs",
            kind: "Command",
            run: () => import("./forms.js").then((it) => it.submitJob(ctx)),
          },
          {
            label: "New schedule",
            ico: "schedules",
            kind: "Command",
            run: () => import("./forms.js").then((it) => it.editSchedule(ctx)),
          },
        ]
      : []),
    ...(ctx.isAdmin()
      ? [{ label: "Audit", ico: "settings", kind: "Page", run: () => ctx.go("/audit") }]
      : []),
    {
      label: "Try the API",
      ico: "right",
      kind: "Page",
      run: () => {
        location.href = "try";
      },
    },
    {
      label: settings.live ? "Stop updates" : "Resume updates",
      hint: "p",
      ico: "pause",
      kind: "Command",
      run: () => keep({ live: !settings.live }),
    },
    { label: "Light theme", ico: "theme", kind: "Command", run: () => keep({ theme: "light" }) },
    { label: "Dark theme", ico: "theme", kind: "Command", run: () => keep({ theme: "dark" }) },
    {
      label: settings.utc ? "Times in my zone" : "Times in UTC",
      ico: "schedules",
      kind: "Command",
      run: () => keep({ utc: !settings.utc }),
    },
    { label: "Keyboard shortcuts", hint: "?", ico: "key", kind: "Command", run: help },
  ];
  const input = h("input", {
    class: "palette-in",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-label": "Go to a page, queue, worker or job",
    placeholder: "Page, queue, worker, job id, or command",
    spellcheck: "false",
    autocomplete: "off",
  });
  const list = h("ul", { id: "palette-list", class: "palette-list", role: "listbox" });
  const box = h(
    "dialog",
    { class: "palette", "aria-label": "Command palette" },
    h("div", { class: "palette-top" }, icon("search"), input),
    list,
  );
  let shown = [],
    at = 0;
  const draw = () => {
    const typed = input.value.trim();
    shown = typed
      ? items
          .map((one) => [score(one.label, typed), one])
          .filter(([n]) => n)
          .sort((a, b) => b[0] - a[0])
          .map(([, one]) => one)
      : items;
    if (/^\d+$|^H:|^[0-9a-f]{12,}$/.test(typed))
      shown = [
        {
          label: `Job ${typed}`,
          ico: "jobs",
          kind: "Job",
          run: () => ctx.go(`/jobs/${encodeURIComponent(typed)}`),
        },
        ...shown,
      ];
    if (typed)
      shown.push({
        label: `Search jobs for “${typed}”`,
        ico: "search",
        kind: "Search",
        run: () => ctx.go("/jobs", { q: typed }),
      });
    shown = shown.slice(0, 12);
    at = Math.min(at, shown.length - 1);
    list.replaceChildren(
      ...shown.map((one, i) =>
        h(
          "li",
          { id: `pal-${i}`, role: "option", "aria-selected": String(i === at), "data-i": i },
          icon(one.ico),
          h("span", null, one.label),
          h("em", null, one.kind),
          one.hint && h("kbd", null, one.hint),
        ),
      ),
    );
    input.setAttribute("aria-activedescendant", `pal-${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const run = (i) => {
    const one = shown[i];
    box.close();
    one?.run();
  };
  input.addEventListener("input", () => {
    at = 0;
    draw();
  });
  input.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) {
      event.preventDefault();
      at = (at + by + shown.length) % shown.length;
      draw();
    }
    if (event.key === "Enter") {
      event.preventDefault();
      run(at);
    }
  });
  list.addEventListener("click", (event) => {
    const row = event.target.closest("li");
    if (row) run(Number(row.dataset.i));
  });
  box.addEventListener("click", (event) => {
    if (event.target === box) box.close();
  });
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  draw();
  // What may be gone to and done follows as soon as the server has told; without it the pages are there.
  const asked = await Promise.allSettled([api.queues(), api.workers(), api.schedules()]);
  const [queues, workers, schedules] = ["queues", "workers", "schedules"].map(
    (name, i) => asked[i].value?.[name] || [],
  );
  const command = (label, ico, run) => ({
    label,
    ico,
    kind: "Command",
    run: () => run().then(ctx.refresh),
  });
  const turn = (paused) => (paused ? ["Resume", "play", "resume"] : ["Pause", "pause", "pause"]);
  for (const q of queues) {
    items.push({
      label: q.queue,
      ico: "queues",
      kind: "Queue",
      run: () => ctx.go(`/queues/${encodeURIComponent(q.queue)}`),
    });
    const [word, ico, action] = turn(q.paused);
    if (ctx.may())
      items.push(command(`${word} ${q.queue}`, ico, () => api.actQueue(q.queue, action)));
  }
  for (const one of workers) {
    items.push({
      label: one.name,
      ico: "workers",
      kind: "Worker",
      run: () => ctx.go("/workers", { q: one.name }),
    });
    if (ctx.may() && ASKABLE.has(one.protocol))
      items.push(command(`Quiet ${one.name}`, "pause", () => api.actWorkers("quiet", [one.name])));
  }
  for (const one of schedules) {
    const [word, ico, action] = turn(one.paused);
    if (ctx.may())
      items.push(
        command(`Run ${one.id} now`, "schedules", () => api.actSchedule(one.id, "run")),
        command(`${word} ${one.id}`, ico, () => api.actSchedule(one.id, action)),
      );
  }
  draw();
}
