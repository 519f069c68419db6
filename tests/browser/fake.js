// A made-up server inside of the page: it takes the place of `fetch` and `EventSource` for api/v1, so that pages can be
// looked at without a server. `?empty` is a new one, `?role=viewer` one for whoever may only look, `?hostile` one whose every text
// is an attack, `?down` one that does not answer, `?login` one that wants a password,
// `?streamless` one without events.
import { Refusal, answer } from "./fake_answers.js";

const ask = new URLSearchParams(location.search);
const MOMENT = /(^|_)(at|until)$/;
const ENUMERATED = new Set(["state", "via", "by", "outcome", "level", "what", "protocol", "media", "backoff", "role", "action", "operation", "next", "prev", "error_class"]);
const ATTACKS = ["\"><img src=x onerror=\"window.hit=1\">", "<script>window.hit=1</script>", "javascript:window.hit=1//", "'onfocus='window.hit=1' autofocus x='", "</textarea><svg onload=window.hit=1>"];
window.asked = [];
window.streams = 0;

const moment = (at) => (typeof at === "number" ? new Date(at).toISOString() : at);
/** As it is written on the wire: moments as RFC 3339, the times of series in seconds. */
function wire(value, name = "") {
  if (MOMENT.test(name)) return Array.isArray(value) ? value.map(moment) : moment(value);
  if (Array.isArray(value)) return value.map((one) => wire(one, name));
  if (!value || typeof value !== "object") return hostile(value, name);
  const plain = Object.fromEntries(Object.entries(value).map(([key, one]) => [key, wire(one, key)]));
  if (name === "series") plain.t = value.t.map((at) => Math.round(at / 1000));
  return plain;
}

let turn = 0;
function hostile(value, name) {
  if (!ask.has("hostile") || typeof value !== "string") return value;
  if (ask.get("hostile") !== "all" && ENUMERATED.has(name)) return value;
  if (name === "role") return value;
  turn += 1;
  return `${value}${ATTACKS[turn % ATTACKS.length]}`;
}

const real = window.fetch.bind(window);
const json = (status, value) => new Response(status === 204 ? null : JSON.stringify(value), { status, headers: { "content-type": status < 400 ? "application/json" : "application/problem+json" } });

window.fetch = async (input, options = {}) => {
  const url = new URL(input, document.baseURI);
  const at = url.pathname.indexOf("/api/v1/");
  if (at < 0) return real(input, options);
  const path = url.pathname.slice(at + 8);
  const method = options.method || "GET";
  window.asked.push({ method, path, query: url.search, body: options.body, at: Date.now() });
  await new Promise((next) => setTimeout(next, 5));
  if (ask.has("down")) throw new TypeError("Failed to fetch");
  if (ask.has("login")) return json(401, { title: "Unauthorized", status: 401, detail: "sign in", code: "no-password" });
  try {
    const found = answer(method, path, Object.fromEntries(url.searchParams), options.body ? JSON.parse(options.body) : {});
    return json(found === null ? 204 : 200, wire(found));
  } catch (error) {
    if (!(error instanceof Refusal)) { console.error(error); return json(500, { title: "Internal Server Error", status: 500, detail: String(error), code: "failed" }); }
    return json(error.status, wire({ type: "about:blank", title: "Refused", status: error.status, detail: error.message, code: "refused" }));
  }
};

/** Says once a second that something has changed. */
window.EventSource = class extends EventTarget {
  constructor() {
    super();
    this.readyState = 0;
    window.streams += 1;
    setTimeout(() => { this.readyState = ask.has("down") || ask.has("login") || ask.has("streamless") ? 2 : 1; this.dispatchEvent(new Event(this.readyState === 1 ? "open" : "error")); }, 10);
    this.timer = setInterval(() => this.readyState === 1 && this.dispatchEvent(new MessageEvent("message", { data: "{}" })), 1000);
  }
  close() { this.readyState = 2; clearInterval(this.timer); window.streams -= 1; }
};
