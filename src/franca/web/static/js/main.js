// Boot, routes, side bar. A page is a module with `page(ctx)` that returns
//   {title, load(), view(), owners, after(), actions, keys, holds(), held(), enter(), leave(), commands()}
// `load` fetches, `view` returns a tree, `actions` are called by `data-act`, `holds` says why it
// must not change now.
import { api, now } from "./api.js";
import { $, h, inhabit, morph, morphKids } from "./dom.js";
import { roughly, short, span } from "./format.js";
import { icon, mark } from "./icons.js";
import { keyboard } from "./keys.js";
import { live } from "./live.js";
import { NAV, keep, onChange, settings } from "./settings.js";
import { copy, toast } from "./ui.js";

const ROUTES = [
  [/^\/$/, "overview"],
  [/^\/jobs$/, "jobs"],
  [/^\/jobs\/([^/]+)$/, "job"],
  [/^\/queues$/, "queues"],
  [/^\/queues\/([^/]+)$/, "queue"],
  [/^\/types$/, "types"],
  [/^\/workers$/, "workers"],
  [/^\/schedules$/, "schedules"],
  [/^\/errors$/, "errors"],
  [/^\/settings$/, "settings"],
  [/^\/audit$/, "audit"],
];
const PARENT = { job: "jobs", queue: "queues", audit: "settings" };
const COUNTS_MS = 5000;

let current = null; // the page
let name = "";
let loaded = false; // whether the page has anything to show
let loading = false;
let counts = null;
let countedAt = 0;
let health = null;
let trouble = null; // what went wrong with the last load
let heard = Date.now(); // when the last load succeeded
let turn = 0; // a load that was overtaken by another is dropped

const ctx = {
  params: [],
  search: new URLSearchParams(),
  settings,
  /** Everything that can be seen is in the address: change it, and the page follows. */
  go(path, search = {}, replace = false) {
    const some = Object.entries(search).filter(
      ([, v]) => v !== undefined && v !== null && v !== "",
    );
    const query = new URLSearchParams(some).toString();
    const hash = `#${path}${query ? `?${query}` : ""}`;
    if (replace) {
      history.replaceState(null, "", hash);
      route();
    } else location.hash = hash;
  },
  render,
  refresh,
  /** Whether this person may change something; the server decides again. */
  may: () => ["operator", "admin"].includes(document.documentElement.dataset.role),
  isAdmin: () => document.documentElement.dataset.role === "admin",
  /** A page that learns the counts anyway tells them, and nobody asks for them again. */
  counted(found) {
    counts = found;
    countedAt = Date.now();
  },
  role: tellRole,
};

function tellRole(role) {
  if (role) document.documentElement.dataset.role = role;
}

async function route() {
  const [path, query = ""] = (location.hash.slice(1) || "/").split("?");
  if (!path.startsWith("/")) return;
  const found = ROUTES.find(([pattern]) => pattern.test(path));
  const next = found ? found[1] : "overview";
  const params = found ? path.match(found[0]).slice(1).map(plain) : [];
  const same = current && name === next && params.join("\n") === ctx.params.join("\n");
  if (!same) {
    const module = await import(`./pages/${next}.js`).catch(() => null);
    if (!module) {
      // Modules of two versions do not fit together: the server may be a newer one by now.
      toast("This page could not be loaded. Reload the dashboard.", { level: "bad" });
      return;
    }
    current?.leave?.();
    ctx.search = new URLSearchParams(query);
    ctx.params = params;
    current = module.page(ctx);
    name = next;
    loaded = false;
    trouble = null;
    $("#page").replaceChildren();
    $("#page").className = `page p-${name}`;
    scrollTo(0, 0);
  } else {
    ctx.search = new URLSearchParams(query);
    current.enter?.();
  }
  await refresh();
  document.title = `${loaded ? current.title() : "Not found"} · Franca`;
  if (!same && document.activeElement === document.body) $("#main").focus({ preventScroll: true });
}

function plain(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function refresh() {
  const mine = ++turn;
  loading = true;
  updates?.asked();
  try {
    await current.load();
    if (mine !== turn) return;
    loaded = true;
    heard = Date.now();
    trouble = null;
  } catch (error) {
    if (mine !== turn) return;
    trouble = error;
  } finally {
    if (mine === turn) loading = false;
  }
  render();
  if (Date.now() - countedAt > COUNTS_MS && !trouble) {
    countedAt = Date.now();
    api.counts().then(
      (found) => {
        ctx.counted(found);
        renderSide();
      },
      () => {},
    );
  }
}

const sentence = (text) =>
  `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

function nothing() {
  const [title, text] =
    trouble.status === 404
      ? ["Not found", sentence(trouble.message)]
      : trouble.status === 403
        ? ["Not allowed", sentence(trouble.message)]
        : trouble.status
          ? ["The server refused", sentence(trouble.message)]
          : ["The server is not responding", "This page keeps trying."];
  return h(
    "div",
    { class: "empty" },
    h("h1", null, title),
    h("p", null, text),
    name === "queue"
      ? h("a", { class: "btn", href: "#/queues" }, "All queues")
      : h("a", { class: "btn", href: "#/jobs" }, "All jobs"),
  );
}

function fault(error) {
  console.error(error);
  return h(
    "div",
    { class: "empty" },
    h("h1", null, "This page could not be displayed"),
    h(
      "p",
      null,
      "This is an error in the dashboard; your jobs are not affected. The command line shows the same.",
    ),
    h("pre", { tabindex: "0" }, String(error.stack || error)),
  );
}

function render() {
  if (!current) return;
  renderSide();
  const page = $("#page");
  if (!loaded || (trouble && trouble.status === 404)) {
    if (trouble) page.replaceChildren(nothing());
    return;
  }
  let body;
  try {
    body = current.view();
  } catch (error) {
    body = fault(error);
  }
  const late = () =>
    h(
      "p",
      { class: "offline", role: "alert" },
      trouble.status
        ? `${sentence(trouble.message)} The data shown is ${span(Date.now() - heard)} old.`
        : `The server has not responded for ${span(Math.ceil((Date.now() - heard) / 1000) * 1000)}. The data shown is from before.`,
    );
  const next = h("div", { id: "page", class: page.className }, trouble && late(), body);
  morphKids(page, next);
  inhabit(page, current.owners || {});
  current.after?.(page);
}

function renderSide() {
  const hold = current.holds?.();
  const silent = trouble && !trouble.status;
  const going = settings.live && !hold && !silent;
  const badge = {
    jobs: counts && short(counts.ready + counts.retrying + counts.scheduled + counts.running),
    errors: counts && short(counts.dead + counts.retrying),
  };
  const at = PARENT[name] || name;
  const link = ([id, href, label, key]) =>
    h(
      "a",
      {
        href,
        class: `nav-${id}`,
        "aria-current": id === at ? "page" : undefined,
        title: `${label} (g ${key})`,
      },
      icon(id),
      h("span", { class: "nav-label" }, label),
      badge[id] && h("span", { class: "count" }, badge[id]),
    );
  const side = h(
    "header",
    { class: "side", id: "side" },
    h(
      "a",
      { class: "brand", href: "#/", "aria-label": "Franca, overview" },
      mark(),
      h("b", null, "franca"),
    ),
    h(
      "button",
      {
        type: "button",
        class: "find",
        "data-act": "palette",
        title: "Go to a page or run a command (Ctrl K)",
      },
      icon("search"),
      h("span", null, "Go to…"),
      h("kbd", null, "Ctrl K"),
    ),
    h("nav", { class: "nav", "aria-label": "Pages" }, NAV.map(link)),
    h(
      "div",
      { class: "side-foot" },
      h(
        "button",
        {
          type: "button",
          class: `live ${going ? "on" : ""}`,
          "data-act": "live",
          "aria-pressed": String(settings.live),
          title: settings.live ? "Stop updates (p)" : "Resume updates (p)",
        },
        h("i", null),
        h("span", null, silent ? "No answer" : hold || (settings.live ? "Live" : "Stopped")),
      ),
      h("a", { class: "gear", href: "#/settings", "aria-label": "Settings" }, icon("settings")),
      h(
        "p",
        {
          class: "node",
          title: health ? [health.node, `franca ${health.version}`].filter(Boolean).join(", ") : "",
        },
        health ? `${health.version} · up ${roughly(health.uptime_ms)}` : "",
      ),
      document.documentElement.dataset.role === "viewer" &&
        h("p", { class: "node" }, "Read-only access"),
    ),
  );
  morph($("#side"), side);
}

const common = {
  copy: (el) => copy(el.dataset.text),
  live() {
    keep({ live: !settings.live });
    if (settings.live) refresh();
  },
  async palette() {
    (await import("./palette.js")).open(ctx, current);
  },
  async submit() {
    (await import("./forms.js")).submitJob(ctx);
  },
  theme() {
    const dark =
      settings.theme === "dark" ||
      (settings.theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
    keep({ theme: dark ? "light" : "dark" });
  },
};

async function act(el, event) {
  const what = el.dataset.act;
  const doing = current.actions?.[what] || common[what];
  if (!doing) return;
  if (el.nodeName === "BUTTON" || (el.nodeName === "A" && !el.getAttribute("href")))
    event.preventDefault();
  try {
    await doing(el, event);
  } catch (error) {
    toast(error.message, { level: "bad" });
  }
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-skip]")) {
    event.preventDefault();
    $("#main").focus();
    return;
  }
  const el = event.target.closest("[data-act]");
  if (el && el.nodeName !== "SELECT") act(el, event);
});
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.message) toast(event.reason.message, { level: "bad" });
});
keyboard({ ctx, page: () => current, common });
addEventListener("hashchange", route);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => render());

function idle() {
  if (!current || !loaded || loading) return;
  if (current.holds?.()) {
    if (!held) {
      held = true;
      current
        .held?.()
        .then(render)
        .finally(() =>
          setTimeout(() => {
            held = false;
          }, 2000),
        );
    }
  } else if (settings.live) render();
}
let held = false;
const updates = live({
  refresh: () => {
    if (!loading) refresh();
  },
  idle,
  wanted: () => Boolean(current && settings.live && !current.holds?.()),
});

onChange(render);
try {
  const back = sessionStorage.getItem("franca.after-login");
  sessionStorage.removeItem("franca.after-login");
  if (back && !location.hash) history.replaceState(null, "", back);
} catch {
  /* private mode */
}
// No top-level await: the pages import modules that import this one, and would wait for it.
route().then(async () => {
  health = await api.health().catch(() => null);
  // The server decides in any case: one that tells no role is asked, and may refuse.
  tellRole(health && (health.role || "operator"));
  render();
  // From here on the keys do what they say: before, nobody knows what this person may do.
  document.documentElement.dataset.ready = "yes";
  // So that what is typed right after Ctrl K is not lost.
  setTimeout(() => import("./palette.js"), 500);
});
