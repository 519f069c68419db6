// The parts that all pages are made of.
import { h, $ } from "./dom.js";
import { icon, stateMark } from "./icons.js";
import { absolute, ago, ahead, jsonLines, num } from "./format.js";
import { api, now } from "./api.js";
import { PROTOCOLS } from "./words.js";

/** A state: its mark and its word. Never one without the other, except in a column headed by the word. */
export const state = (name, word = name) =>
  h("span", { class: `state is-${name}` }, stateMark(name), word);

/** The two letters of a protocol; the name is in the hover and for the screen reader. */
export function proto(name) {
  const [two, full] = PROTOCOLS[name] || ["··", name || "not run yet"];
  return h(
    "abbr",
    { class: `proto${name ? "" : " none"}`, title: full },
    two,
    h("span", { class: "vh" }, ` ${full}`),
  );
}
/** Submitted over one protocol, run by a worker of another. */
export const route = (via, by) =>
  h("span", { class: "route" }, proto(via), icon("right", "tiny"), proto(by));

/** A moment as people say it; the exact one on hover. */
export function when(at, way = "ago") {
  if (!at) return h("span", { class: "dim" }, "–");
  return h(
    "time",
    { datetime: new Date(at).toISOString(), title: absolute(at) },
    way === "ago" ? ago(at, now()) : way === "ahead" ? ahead(at, now()) : way,
  );
}

// What changes something: hidden from whoever may only look (see `data-role` in franca.css).
const WRITES = new Set([
  "do",
  "bulk",
  "turn",
  "purge",
  "quiet",
  "stop",
  "all",
  "resume",
  "stopWorker",
  "run",
  "submit",
  "add",
  "edit",
  "drop",
]);

export const button = (label, act, { ico, kind = "", title, ...data } = {}) =>
  h(
    "button",
    {
      type: "button",
      class: `btn ${kind}`,
      "data-act": act,
      "data-write": WRITES.has(act),
      title,
      "aria-label": label ? undefined : title,
      ...data,
    },
    ico && icon(ico),
    label && h("span", null, label),
  );

export const head = (title, { sub, tools, back } = {}) =>
  h(
    "header",
    { class: "head" },
    back,
    h("div", { class: "head-text" }, h("h1", null, title), sub && h("p", { class: "sub" }, sub)),
    tools && h("div", { class: "tools" }, tools),
  );

export const section = (title, options, ...kids) => {
  const { note, tools, cls = "" } = options || {};
  return h(
    "section",
    { class: `sec ${cls}` },
    h(
      "div",
      { class: "sec-head" },
      h("h2", null, title),
      note && h("p", { class: "note" }, note),
      tools && h("div", { class: "tools" }, tools),
    ),
    ...kids,
  );
};

export const segment = (name, options, chosen) =>
  h(
    "div",
    { class: "seg", role: "group", "aria-label": name },
    options.map(([value, label = value]) =>
      h(
        "button",
        {
          type: "button",
          "data-act": "segment",
          "data-name": name,
          "data-value": value,
          "aria-pressed": String(value === chosen),
        },
        label,
      ),
    ),
  );

/** A table whose columns are [{head, cls, title, sort, cell(row), foot}]. Wide ones scroll inside, the page never does. */
export function table({ label, columns, rows, key, rowClass, cls = "", sort }) {
  return h(
    "div",
    { class: `table-box ${cls}`, role: "region", "aria-label": label, tabindex: "0" },
    h(
      "table",
      null,
      h("caption", { class: "vh" }, label),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          columns.map((c) =>
            h(
              "th",
              {
                scope: "col",
                class: c.cls,
                title: c.title,
                "aria-sort":
                  sort && sort.by === c.sort && c.sort
                    ? sort.up
                      ? "ascending"
                      : "descending"
                    : undefined,
              },
              c.sort
                ? h(
                    "button",
                    { type: "button", class: "sort", "data-act": "sort", "data-by": c.sort },
                    c.head,
                    sort && sort.by === c.sort && icon("down", sort.up ? "tiny flip" : "tiny"),
                  )
                : c.head,
            ),
          ),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) =>
          h(
            "tr",
            { key: key(row), class: rowClass && rowClass(row) },
            columns.map((c) =>
              h(c.th ? "th" : "td", { class: c.cls, scope: c.th ? "row" : undefined }, c.cell(row)),
            ),
          ),
        ),
      ),
    ),
  );
}

export function code(text, { media = "", copy = true } = {}) {
  const lines = jsonLines(text);
  return h(
    "div",
    { class: "code" },
    copy &&
      button("", "copy", {
        ico: "copy",
        kind: "icon-btn ghost",
        title: "Copy as it was sent",
        "data-text": text,
      }),
    h(
      "pre",
      { tabindex: "0" },
      lines
        ? lines.map((line) =>
            h(
              "span",
              { class: "ln" },
              line.map(([cls, word]) =>
                cls === "pad" ? word : h("span", { class: `j-${cls}` }, word),
              ),
            ),
          )
        : h("span", { class: "ln" }, text),
    ),
    media && h("span", { class: "code-foot" }, media),
  );
}

export const command = (text) =>
  h(
    "div",
    { class: "cmd" },
    h("code", { tabindex: "0" }, text),
    button("", "copy", { ico: "copy", kind: "icon-btn ghost", title: "Copy", "data-text": text }),
  );

// -- talking to the person

/** Ask a worker to be `quiet` or to `stop`; some protocols have no way to. */
export async function askWorker(ctx, action, name) {
  if (
    action === "stop" &&
    !(await confirm({
      title: `Ask ${name} to stop?`,
      text: "It gets no more jobs, and is asked to stop when it has finished those it runs. Franca does not start it again.",
      yes: "Ask to stop",
      danger: false,
    }))
  )
    return;
  const { missing } = await api.actWorkers(action, [name]);
  toast(
    missing.length
      ? `${name} was not asked: it has left, or its protocol has no such request.`
      : `${name} was asked to ${action === "stop" ? "stop" : "take no more jobs"}.`,
  );
  ctx.refresh();
}

export function toast(text, { act, label, stay = false, level = "" } = {}) {
  const node = h(
    "div",
    { class: `toast ${level}` },
    h("span", { class: "toast-text" }, text),
    label && h("button", { type: "button", class: "btn link" }, label),
  );
  const close = () => node.remove();
  if (label)
    node.lastChild.addEventListener("click", () => {
      close();
      Promise.resolve(act()).catch((error) => toast(error.message, { level: "bad" }));
    });
  const box = $("#toasts");
  box.append(node);
  while (box.children.length > 3) box.firstChild.remove();
  if (!stay) setTimeout(close, 6000);
  return {
    close,
    say: (words) => {
      node.firstChild.textContent = words;
    },
    done: () => setTimeout(close, 4000),
  };
}

/** A long action on the server, watched until it ends. */
export async function watch(operation, verb) {
  const stop = () =>
    api.stopOperation(operation).catch((error) => toast(error.message, { level: "bad" }));
  const note = toast(`${verb}…`, { stay: true, label: "Stop", act: stop });
  for (;;) {
    const one = await api.operation(operation);
    const refused = one.failed ? ` ${num(one.failed)} refused.` : "";
    note.say(
      one.ended_at
        ? `${verb}: ${num(one.done)} of ${num(one.total)} jobs.${refused}`
        : `${verb}: ${num(one.done)} of ${num(one.total)}…`,
    );
    if (one.ended_at) {
      note.done();
      return one;
    }
    await new Promise((next) => setTimeout(next, 500));
  }
}

/** Ask before what cannot be taken back. Resolves to true or false. `word`: what must be typed, for the worst. */
export function confirm({ title, text, yes, danger = true, word }) {
  return new Promise((resolve) => {
    const input =
      word &&
      h("input", {
        class: "field",
        "aria-label": `Type ${word}`,
        autocomplete: "off",
        spellcheck: "false",
      });
    const ok = h(
      "button",
      {
        type: "submit",
        value: "yes",
        class: `btn ${danger ? "danger" : "primary"}`,
        disabled: !!word,
      },
      yes,
    );
    if (input)
      input.addEventListener("input", () => {
        ok.disabled = input.value !== word;
      });
    const box = h(
      "dialog",
      { class: "dialog", "aria-labelledby": "ask" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "ask" }, title),
        h("p", null, text),
        input &&
          h("label", { class: "ask-word" }, "Type ", h("code", null, word), " to confirm", input),
        h(
          "div",
          { class: "dialog-foot" },
          h("button", { type: "submit", value: "no", class: "btn" }, "Go back"),
          ok,
        ),
      ),
    );
    box.addEventListener("close", () => {
      resolve(box.returnValue === "yes");
      box.remove();
    });
    document.body.append(box);
    box.showModal();
  });
}

/** The clipboard API is there only on https and localhost; a dashboard is often on neither. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "vh" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  toast("Copied.");
}

/** Done at once, with a way back. `action` and `back` are calls. */
export async function undoable(ctx, { action, words, back, label = "Undo" }) {
  await action();
  toast(words, { label, act: () => back().then(ctx.refresh) });
  ctx.refresh();
}

/** What to do when there is nothing: the command that makes a first one. */
let revealed = [];
/** Scroll to what is chosen of a row that is wider than the page, once. */
export function reveal(el) {
  const now = [el, el?.getAttribute("href")];
  if (el && now.some((one, i) => one !== revealed[i])) {
    revealed = now;
    el.scrollIntoView({ block: "nearest", inline: "center" });
  }
}

export const empty = (title, text, ...kids) =>
  h("div", { class: "empty" }, h("h2", null, title), text && h("p", null, text), ...kids);
