// Every call the pages make, to the REST API beside the page, under whatever prefix it is served.
//
// Moments travel as RFC 3339 text in members that end in `_at` or `_until`, and are milliseconds
// since 1970 from here on. Spans are numbers that end in `_ms`, rates are per second.
const root = document.baseURI.split(/[?#]/)[0];
const base = new URL("api/v1/", root);
const MOMENT = /(^|_)(at|until)$/;
const PATIENCE_MS = 20_000;

/** What the server said in place of an answer. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The server answered ${status}.`);
    this.status = status;
    this.code = body.code || "";
  }
}

/** Texts in members that hold moments become milliseconds. */
export function moments(value) {
  if (Array.isArray(value)) return value.map(moments);
  if (!value || typeof value !== "object") return value;
  for (const [name, one] of Object.entries(value)) {
    value[name] = MOMENT.test(name) ? moment(one) : moments(one);
    // A series says its times in seconds.
    if (name === "series" && one?.t) one.t = one.t.map((at) => at * 1000);
  }
  return value;
}

function moment(one) {
  if (Array.isArray(one)) return one.map(moment);
  // A moment beyond the year 9999 is a number as text.
  return typeof one === "string" ? Date.parse(one) || Number(one) || null : one;
}

// The clock of the server, as far as its answers tell: "3 s ago" must not depend on this machine.
let skew = 0;
export const now = () => Date.now() + skew;

function hear(headers) {
  const at = Date.parse(headers.get("date") || "");
  if (at) skew = Math.abs(at - Date.now()) > 3000 ? at - Date.now() : 0;
}

/** Somebody has to sign in first; afterwards the same page is shown. */
function toLogin() {
  try {
    sessionStorage.setItem("franca.after-login", location.hash);
  } catch {
    /* private mode: the first page is shown then */
  }
  location.replace(new URL("login", root));
}

async function call(method, path, params = {}, body = undefined) {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== "" && value !== null) url.searchParams.set(name, value);
  }
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  // A text is JSON already: what somebody typed is sent as it was typed.
  const sent = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const options = { method, headers, body: sent, credentials: "same-origin", signal };
  const answer = await fetch(url, options);
  hear(answer.headers);
  if (answer.status === 401) toLogin();
  const text = await answer.text();
  let json = null;
  try {
    json = text ? JSON.parse(text) : null;
  } catch {
    json = { detail: `The answer ${answer.status} is not JSON.` };
    if (answer.ok) throw new Problem(answer.status, json);
  }
  if (!answer.ok) throw new Problem(answer.status, json || {});
  return moments(json);
}

/** A JSON object of which one member, if it is there, is text that is JSON already. */
function withArgs(members, args) {
  if (args === undefined) return JSON.stringify(members);
  const rest = JSON.stringify(members).slice(1, -1);
  return `{${rest}${rest ? "," : ""}"args":${args}}`;
}

const part = encodeURIComponent;
export const api = {
  events: () => new EventSource(new URL("events", base)),
  overview: (range) => call("GET", "overview", { range }),
  counts: () => call("GET", "counts"),
  jobs: ({ state, q, after, before, limit }) =>
    call("GET", "jobs", { state, q, after, before, limit }),
  job: (id) => call("GET", `jobs/${part(id)}`),
  /** `args` is the text of a JSON array. */
  submit: (members, args) => call("POST", "jobs", {}, withArgs(members, args)),
  /** retry | kill | cancel | delete; `which` is {ids} or {state, q}. */
  act: (action, which) => call("POST", "jobs/actions", {}, { action, ...which }),
  operation: (id) => call("GET", `operations/${part(id)}`),
  stopOperation: (id) => call("DELETE", `operations/${part(id)}`),
  known: () => call("GET", "known"),
  queues: () => call("GET", "queues"),
  queue: (name, range) => call("GET", `queues/${part(name)}`, { range }),
  /** pause | resume | purge */
  actQueue: (name, action) => call("POST", `queues/${part(name)}/${action}`, {}, {}),
  types: (range) => call("GET", "types", { range }),
  workers: () => call("GET", "workers"),
  /** quiet | stop */
  actWorkers: (action, workers) => call("POST", `workers/${action}`, {}, { workers }),
  schedules: () => call("GET", "schedules"),
  addSchedule: (members, args) => call("POST", "schedules", {}, withArgs(members, args)),
  putSchedule: (id, members, args) =>
    call("PUT", `schedules/${part(id)}`, {}, withArgs(members, args)),
  deleteSchedule: (id) => call("DELETE", `schedules/${part(id)}`),
  /** run | pause | resume */
  actSchedule: (id, action) => call("POST", `schedules/${part(id)}/${action}`, {}, {}),
  errors: () => call("GET", "errors"),
  health: () => call("GET", "health"),
  history: () => call("GET", "history"),
  audit: () => call("GET", "audit"),
};
