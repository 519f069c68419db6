// The page to try the API: the operations of /openapi.json, a form for each, and what the server
// answers. Everything is shown as text.
import { h } from "./dom.js";
import { command, code, copy } from "./ui.js";

const root = new URL("./", document.baseURI);
const place = document.getElementById("operations");
const about = document.getElementById("about");
const METHODS = ["get", "post", "put", "delete", "patch"];
const SHOWN = 200_000;
let spec = null;

/** What a `$ref` of this document stands for. */
function resolve(one) {
  if (!one?.$ref?.startsWith("#/")) return one || {};
  return (
    one.$ref
      .slice(2)
      .split("/")
      .reduce((at, name) => at?.[name.replace(/~1/g, "/").replace(/~0/g, "~")], spec) || {}
  );
}

/** A value that a schema allows, to begin with. */
function example(schema, depth = 0) {
  const one = resolve(schema);
  if (one.example !== undefined) return one.example;
  if (one.examples?.length) return one.examples[0];
  if (one.default !== undefined) return one.default;
  if (one.enum) return one.enum[0];
  const first = one.anyOf || one.oneOf || one.allOf;
  if (first) return example(first[0], depth);
  const type = Array.isArray(one.type) ? one.type[0] : one.type;
  if (type === "object" || one.properties) {
    const needed =
      depth > 2
        ? []
        : one.required?.length
          ? one.required
          : Object.keys(one.properties || {}).slice(0, 4);
    return Object.fromEntries(
      needed.map((name) => [name, example(one.properties?.[name], depth + 1)]),
    );
  }
  return (
    { array: [], integer: one.minimum || 0, number: 0, boolean: false, null: null }[type] ?? ""
  );
}

function operations() {
  const found = [];
  for (const [path, item] of Object.entries(spec.paths || {})) {
    for (const method of METHODS) {
      if (item[method])
        found.push({ path, method, shared: item.parameters || [], ...item[method] });
    }
  }
  return found;
}

const server = () => new URL((spec.servers?.[0]?.url || "").replace(/^\//, ""), root);

function address(one, values) {
  const path = one.path
    .replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values.get(`path.${name}`) || ""))
    .replace(/^\//, "");
  const base = server().href.replace(/\/?$/, "/");
  const url = new URL(path, base);
  for (const [name, value] of values)
    if (name.startsWith("query.") && value !== "") url.searchParams.set(name.slice(6), value);
  return url;
}

function asCurl(method, url, body) {
  const data = body
    ? ` \\\n  -H 'content-type: application/json' -d '${body.replace(/'/g, "'\\''")}'`
    : "";
  return `curl -X ${method.toUpperCase()} '${url.href.replace(/'/g, "%27")}'${data}`;
}

function inputs(one, id) {
  const parameters = [...one.shared, ...(one.parameters || [])].map(resolve);
  const rows = parameters.map((each) => {
    const name = `${each.in}.${each.name}`;
    const hint = each.description || resolve(each.schema).description || "";
    return h(
      "div",
      { class: "form-row" },
      h(
        "label",
        { for: `${id}-${name}` },
        each.name,
        h("span", { class: "dim" }, ` ${each.in}${each.required ? ", required" : ""}`),
      ),
      h("input", {
        class: "field mono",
        id: `${id}-${name}`,
        name,
        autocomplete: "off",
        spellcheck: "false",
        required: Boolean(each.required),
      }),
      hint && h("p", { class: "hint" }, hint),
    );
  });
  const media = resolve(one.requestBody).content?.["application/json"];
  if (media) {
    const area = h("textarea", {
      class: "field mono",
      id: `${id}-body`,
      name: "body",
      rows: 6,
      spellcheck: "false",
    });
    area.value = JSON.stringify(media.example ?? example(media.schema), null, 2);
    rows.push(
      h(
        "div",
        { class: "form-row" },
        h("label", { for: `${id}-body` }, "Body", h("span", { class: "dim" }, " JSON")),
        area,
      ),
    );
  }
  return rows;
}

/** What came back: status, time, and the first part of what may be very long. */
async function call(one, form, out) {
  const values = new Map([...new FormData(form)]);
  const body = values.get("body") || "";
  values.delete("body");
  const headers = { accept: "application/json" };
  for (const [name, value] of values)
    if (name.startsWith("header.") && value) headers[name.slice(7)] = value;
  if (body) headers["content-type"] = "application/json";
  const url = address(one, values);
  const began = performance.now();
  out.replaceChildren(
    command(asCurl(one.method, url, body)),
    h("p", { class: "hint", role: "status" }, "Waiting for the answer…"),
  );
  try {
    const answer = await fetch(url, {
      method: one.method.toUpperCase(),
      headers,
      body: body || undefined,
      credentials: "same-origin",
      signal: AbortSignal.timeout(60_000),
    });
    const { text, cut } = await beginning(answer);
    const took = Math.round(performance.now() - began);
    out.lastChild.replaceWith(
      h(
        "p",
        { role: "status", class: answer.ok ? "" : "bad" },
        `${answer.status} ${answer.statusText}, ${took} ms${cut ? ", truncated" : ""}`,
      ),
    );
    if (text) out.append(code(text, { media: answer.headers.get("content-type") || "" }));
  } catch (error) {
    out.lastChild.replaceWith(
      h("p", { class: "form-error", role: "alert" }, String(error.message || error)),
    );
  }
}

async function beginning(answer) {
  if (!answer.body) return { text: "", cut: false };
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  // A stream of events does not end: two seconds of it are shown.
  const endless = (answer.headers.get("content-type") || "").startsWith("text/event-stream");
  const end = endless ? setTimeout(() => reader.cancel(), 2000) : 0;
  let text = "";
  while (text.length < SHOWN) {
    const { done, value } = await reader.read();
    if (done) {
      clearTimeout(end);
      return { text, cut: endless };
    }
    text += value;
  }
  reader.cancel();
  return { text: text.slice(0, SHOWN), cut: true };
}

function operation(one, i) {
  const id = `op${i}`;
  const out = h("div", { class: "try-out" });
  const form = h(
    "form",
    { class: "try-form" },
    one.description && h("p", { class: "sub" }, one.description),
    inputs(one, id),
    h(
      "div",
      { class: "try-foot" },
      h(
        "button",
        { type: "submit", class: `btn ${one.method === "get" ? "primary" : "danger"}` },
        `Send ${one.method.toUpperCase()}`,
      ),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    call(one, form, out);
  });
  const box = h(
    "details",
    { class: "group try-op", id: one.operationId || id },
    h(
      "summary",
      null,
      h("span", { class: `method m-${one.method}` }, one.method.toUpperCase()),
      h("code", null, one.path),
      h("span", { class: "sub" }, one.summary || ""),
    ),
  );
  // A form is made when it is first looked at.
  box.addEventListener("toggle", () => {
    if (box.open && box.children.length === 1) box.append(h("div", { class: "try-in" }, form, out));
  });
  return box;
}

async function main() {
  const answer = await fetch(new URL("openapi.json", root), { credentials: "same-origin" });
  if (answer.status === 401) {
    location.replace(new URL("login", root));
    return;
  }
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  spec = await answer.json();
  const all = operations();
  about.textContent = `${spec.info?.title || "Franca"} ${spec.info?.version || ""}: ${all.length} operations. Requests act on this server.`;
  const groups = new Map();
  for (const one of all) {
    const tag =
      one.tags?.[0] ||
      one.path.split("/").filter((part) => part && !/^(api|v\d+|\{.*)$/.test(part))[0] ||
      "other";
    groups.set(tag, [...(groups.get(tag) || []), one]);
  }
  let i = 0;
  place.replaceChildren(
    ...[...groups].map(([tag, some]) =>
      h(
        "section",
        { class: "sec" },
        h("div", { class: "sec-head" }, h("h2", null, tag)),
        some.map((one) => operation(one, (i += 1))),
      ),
    ),
  );
  document.documentElement.dataset.ready = "yes";
}

document.addEventListener("click", (event) => {
  const el = event.target.closest("[data-act=copy]");
  if (el) copy(el.dataset.text);
});
main().catch((error) => {
  about.textContent = `The list of operations could not be loaded: ${error.message}`;
});
