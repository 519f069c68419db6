// What the made-up server answers, by method and path, in the shapes of the REST API.
import { counts, queueView, times } from "./fake_counts.js";
import { job, jobs, row } from "./fake_jobs.js";
import { BASE, CLASSES, D, H, M, ORDER, QUEUES, S, SCHEDULES, T0, WORKERS, byName, depth, failRate, hash, inRate, noise, operations, outRate, over, paused, pick, still, total, wait95 } from "./fake_world.js";

const ask = new URLSearchParams(location.search);
const EMPTY = ask.has("empty");
const ROLE = ask.get("role") || "admin";
const made = []; // schedules of this session
const gone = new Set();

function nextRuns(cron, from, n) {
  const set = (f, lo, hi) => {
    const out = new Set();
    for (const p of f.split(",")) {
      const [range, step = 1] = p.split("/");
      const [a, b] = range === "*" ? [lo, hi] : range.includes("-") ? range.split("-").map(Number) : [Number(range), Number(range)];
      for (let v = a; v <= b; v += Number(step)) out.add(v);
    }
    return out;
  };
  const [m, hr, dom, , dow] = cron.split(" ");
  const ms = set(m, 0, 59), hs = set(hr, 0, 23), ds = set(dom, 1, 31), ws = set(dow, 0, 6), out = [];
  for (let at = Math.floor(from / M) * M + M; out.length < n && at < from + 40 * D; at += M) {
    const d = new Date(at);
    if (ms.has(d.getUTCMinutes()) && hs.has(d.getUTCHours()) && ds.has(d.getUTCDate()) && ws.has(d.getUTCDay())) out.push(at);
  }
  return out;
}
const runCache = new Map();
function schedule([id, queue, type, rule, timezone, last, off], now) {
  const cron = typeof rule === "string" ? rule : "";
  const key = `${cron}${Math.floor(now / M)}`;
  if (cron && !runCache.has(key)) runCache.set(key, nextRuns(cron, now, 400).filter((at, i) => i < 5 || at < now + D));
  const upcoming = cron ? runCache.get(key) : [...Array(5).keys()].map((k) => Math.ceil(now / rule) * rule + k * rule);
  const isOff = still.has(id) !== Boolean(off);
  const every = cron ? (upcoming[1] || upcoming[0] + D) - upcoming[0] : rule;
  const ran = byName.get(queue)?.ran || 100;
  return {
    id, queue, type, cron, every_ms: cron ? 0 : rule, timezone, args: "[9007199254740993]", next_at: isOff ? null : upcoming[0], upcoming_at: isOff ? [] : upcoming, runs_left: -1, paused: isOff, source: id === "digest" ? "eventmq" : "rest",
    last: last && { id: BASE - 7 * Math.floor(hash(id) * 4000) + (last === "dead" ? 5 : 4), state: last, started_at: upcoming[0] - every, ran_ms: Math.round(ran * (0.4 + hash(id, "r"))) },
  };
}

function worker([name, protocol, host, pid, labels, slots, queues, was], now) {
  const state = still.has(name) ? "quiet" : was;
  const busy = state === "busy" ? Math.min(slots, Math.round(slots * (0.55 + 0.5 * noise(name, now, 6 * S)))) : state === "quiet" ? 2 : 0;
  const running = (k) => ({ id: BASE - 7 * (k + Math.floor(hash(name) * 20)) + 3, type: pick(byName.get(queues[0]).types, hash(name, k)), queue: queues[0], started_at: now - hash(name, k, Math.floor(now / 7000)) * byName.get(queues[0]).ran });
  return {
    name, protocol, host, pid, labels, state, queues, running: [...Array(busy).keys()].map(running), started_at: T0 - (state === "quiet" ? 3 * D : 5 * H + hash(name) * 20 * H),
    seen_at: state === "stalled" ? now - 9 * S : now - hash(name, Math.floor(now / 4000)) * 4 * S, rss_kb: pid ? Math.round(80_000 + hash(name, "m") * 300_000) : 0, connections: protocol === "faktory" ? slots + 2 : 1,
  };
}

function notices(now) {
  const mail = queueView(byName.get("mail"), now);
  const list = [
    { id: "behind-mail", level: "bad", what: "behind", queue: "mail", facts: { ready: mail.ready, oldest_ms: mail.oldest_ms, in: mail.in, out: mail.out, since_at: T0 - 55 * M } },
    { id: "err-a41f", level: "bad", what: "errors", error_class: "a41f", queue: "mail", facts: { error: "Net::ReadTimeout", retrying: 1121, since_at: T0 - 53 * M } },
  ];
  if (!still.has("hooks-3")) list.push({ id: "stalled-hooks-3", level: "warn", what: "stalled", worker: "hooks-3", facts: { fetched_at: now - 372 * S } });
  for (const name of paused.keys()) list.push({ id: `paused-${name}`, level: "warn", what: "paused", queue: name, facts: { ready: depth(byName.get(name), now) } });
  list.push({ id: "sched-retry-webhooks", level: "warn", what: "schedule", schedule: "retry-webhooks", facts: { failed: 3, last_at: Math.floor(now / (15 * M)) * 15 * M } });
  return list;
}

function crossings() {
  const names = ["faktory", "gearman", "periodic", "memodb", "eventmq", "beanstalkd", "rest", "control"];
  const found = [];
  for (const via of names) for (const by of names) {
    let n = 0;
    for (const q of QUEUES) {
      const [v, b] = [q.via.find((x) => x[0] === via), q.by.find((x) => x[0] === by)];
      const sum = (list) => list.reduce((a, x) => a + x[1], 0);
      if (v && b) n += q.out * 3600 * (v[1] / sum(q.via)) * (b[1] / sum(q.by));
    }
    if (n) found.push({ via, by, count: Math.round(n) });
  }
  return found;
}

const nothing = () => Object.fromEntries(ORDER.map((key) => [key, 0]));
function overview({ range = "1h" }, now) {
  if (EMPTY) return { now_at: now, role: ROLE, counts: nothing(), rates: { pushed: 0, done: 0, failed: 0 }, oldest_ms: null, oldest_queue: null, workers: { all: 0, busy: 0 }, notices: [], series: { t: [], done: [], failed: [], pushed: [], ready: [], wait_p95_ms: [] }, crossings: [], queues: [] };
  const t = times(range, now);
  const sum = (fn, at) => QUEUES.reduce((a, q) => a + fn(q, at), 0);
  const queues = QUEUES.map((q) => queueView(q, now));
  const ws = WORKERS.map((w) => worker(w, now));
  const oldest = queues.reduce((a, b) => ((a.oldest_ms || 0) > (b.oldest_ms || 0) ? a : b));
  const gap = range === "7d" ? [now - 3.2 * D, now - 3.05 * D] : [0, 0];
  const at = (fn) => t.map((x) => (x > gap[0] && x < gap[1] ? null : fn(x)));
  return {
    now_at: now, role: ROLE, counts: counts(now), rates: { pushed: sum(inRate, now), done: sum(outRate, now), failed: sum(failRate, now) }, oldest_ms: oldest.oldest_ms, oldest_queue: oldest.queue,
    workers: { all: ws.length, busy: ws.filter((w) => w.running.length).length }, notices: notices(now), crossings: crossings(), queues,
    series: { t, done: at((x) => sum(outRate, x)), failed: at((x) => sum(failRate, x)), pushed: at((x) => sum(inRate, x)), ready: at((x) => sum(depth, x)), wait_p95_ms: at((x) => Math.max(...QUEUES.filter((q) => !paused.has(q.queue)).map((q) => wait95(q, x)))) },
  };
}

function errors(now) {
  if (EMPTY) return { classes: [], looked_at: 0, of: 0 };
  const hours = (g) => [...Array(24).keys()].map((k) => { const back = (23 - k) * H; return g.first < D ? (back <= g.first ? Math.round(300 + 400 * hash(g.id, k)) : 0) : back < g.last ? 0 : Math.round((hash(g.id, k) > 0.55 ? 1 : 0) * hash(g.id, k, 1) * 14); });
  const classes = CLASSES.map((g) => ({
    id: g.id, error: g.error, text: g.text, where: g.trace[0] || "", retrying: still.has(`r${g.id}`) ? 0 : g.retrying, dead: still.has(`r${g.id}`) ? 0 : g.dead, types: g.types, queues: g.queues, by: g.by, first_at: T0 - g.first, last_at: T0 - g.last, hours: hours(g),
    samples: [...Array(400).keys()].map((i) => row("dead", i, now)).filter((one) => one.error_class === g.id).slice(0, 3),
  })).filter((g) => g.retrying + g.dead);
  return { classes, looked_at: total("dead") + total("retrying"), of: total("dead") + total("retrying") };
}

function types({ range = "1h" }, now) {
  if (EMPTY) return { types: [] };
  const t = times(range, now);
  const hours = (t[t.length - 1] - t[0]) / H;
  const all = QUEUES.reduce((a, q) => a + q.out, 0);
  return { types: QUEUES.flatMap((q) => q.types.map(([type, share], i) => {
    const part = share / q.types.reduce((a, b) => a + b[1], 0);
    const points = t.filter((_, k) => k % Math.ceil(t.length / 40) === 0);
    return {
      type, queues: [q.queue], done: Math.round(q.out * part * 3600 * hours), failed: Math.round(q.failed * part * 3600 * hours), dead: i ? 0 : q.dead, share: (q.out * part) / all, wait_p95_ms: Math.round(wait95(q, now)),
      ran_p50_ms: Math.round(q.ran * (0.25 + 0.2 * i)), ran_p95_ms: Math.round(q.ran * (1 + 0.3 * i)), ran_p99_ms: Math.round(q.ran * (1.6 + 0.5 * i)), recent: { done: points.map((x) => outRate(q, x) * part), failed: points.map((x) => failRate(q, x) * part) },
    };
  })) };
}

function health(now) {
  const t = times("1h", now);
  return {
    version: "0.9.0", node: "franca-1", uptime_ms: now - T0 + 9 * D + 4 * H, role: ROLE,
    store: { kind: "SQLite, WAL", path: "/var/lib/franca/franca.db", sync: "every answer waits for its commit", bytes: 1_284_112_384, commit_p50_ms: 0.41, commit_p99_ms: 2.6 + noise("c", now, 5 * S) },
    disk: { free: 41_900_000_000, total: 107_000_000_000 }, process: { rss: 412_000_000, cpu: 0.34 + 0.1 * noise("cpu", now, 8 * S) },
    listeners: [
      { protocol: "faktory", address: "tls://10.0.1.4:7419", connections: 231, tls: true }, { protocol: "gearman", address: "10.0.1.4:4730", connections: 64, tls: false },
      { protocol: "periodic", address: "127.0.0.1:5000", connections: 0, tls: false }, { protocol: "periodic", address: "/var/lib/franca/periodic.sock", connections: 3, tls: false }, { protocol: "memodb", address: "10.0.1.4:12703", connections: 9, tls: false },
      { protocol: "eventmq", address: "10.0.1.4:47290", connections: 14, tls: false }, { protocol: "eventmq_publish", address: "10.0.1.4:47298", connections: 0, tls: false }, { protocol: "beanstalkd", address: "[::1]:11300", connections: 2, tls: false }].map((one) => (EMPTY ? { ...one, address: one.address.replace("tls://10.0.1.4", "127.0.0.1"), tls: false } : one)),
    limits: [["connections_max", 10_000, 321], ["body_bytes_max", 67_108_864], ["lease_ms", 1_800_000], ["losses_max", 10], ["dead_jobs", 100_000, 731], ["window_bytes", 25_165_824], ["handshake_ms", 5000]].map(([name, most, at]) => ({ name, most, now: at })),
    series: { t, commit_p99_ms: t.map((x) => 2.2 + 1.6 * noise("c", x, 40 * S) + (noise("cc", x, 3 * M) > 0.82 ? 3 : 0)), loop_lag_ms: t.map((x) => 0.9 + 1.3 * noise("l", x, 30 * S)) },
  };
}

function known() {
  if (EMPTY) return { queue: [], type: [], via: [], by: [], error: [], worker: [] };
  const names = ["faktory", "gearman", "periodic", "memodb", "eventmq", "beanstalkd", "rest", "control"].map((value) => ({ value, hint: "" }));
  return {
    queue: QUEUES.map((q) => ({ value: q.queue, hint: `${q.depth} ready` })), type: QUEUES.flatMap((q) => q.types.map(([value]) => ({ value, hint: q.queue }))), via: names, by: names,
    error: CLASSES.map((g) => ({ value: g.error, hint: `${g.retrying + g.dead}` })), worker: WORKERS.map((w) => ({ value: w[0], hint: w[2] })),
  };
}

const audit = (now) => ({ entries: [
  { at: now - 42 * S, who: "ana", role: "operator", over: "rest", operation: "queues.pause", about: "thumbnails", outcome: "ok" },
  { at: now - 5 * M, who: "owner", role: "admin", over: "control", operation: "jobs.retry", about: "state:dead queue:webhooks", outcome: "ok" },
  { at: now - 3 * H, who: "ci", role: "viewer", over: "rest", operation: "queues.purge", about: "mail", outcome: "forbidden" },
] });

export class Refusal extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

function queue(name, { range }, now) {
  const q = byName.get(name);
  if (!q) throw new Refusal(404, `there is no queue ${name}`);
  const t = times(range || "1h", now);
  return { ...queueView(q, now), series: { t, ready: t.map((x) => depth(q, x)), in: t.map((x) => inRate(q, x)), out: t.map((x) => outRate(q, x)), wait_p95_ms: t.map((x) => wait95(q, x)) }, serving: WORKERS.filter((w) => w[6].includes(name)).map((w) => w[0]) };
}
function oneJob(id, now) {
  const found = EMPTY ? null : job(id, now);
  if (!found) throw new Refusal(404, `there is no job ${id}`);
  return found;
}
function operation(id, now) {
  const one = operations.get(id);
  if (!one) throw new Refusal(404, `there is no operation ${id}`);
  one.done = Math.min(one.total, Math.round(((now - one.began) / 4000) * one.total));
  if (one.done === one.total) one.ended_at = now;
  return one;
}
const schedules = () => (EMPTY ? made : [...SCHEDULES, ...made]).filter(([id]) => !gone.has(id));

const GET = {
  overview: (id, params, now) => overview(params, now),
  counts: (id, params, now) => (EMPTY ? nothing() : counts(now)),
  jobs: (id, params, now) => (id ? oneJob(id, now) : EMPTY ? { jobs: [], total: 0, total_exact: true, scanned: 0, of: 0, next: null, prev: null } : jobs(params, now)),
  known,
  queues: (id, params, now) => (id ? queue(id, params, now) : { queues: EMPTY ? [] : QUEUES.map((q) => queueView(q, now)) }),
  types: (id, params, now) => types(params, now),
  workers: (id, params, now) => ({ workers: EMPTY ? [] : WORKERS.map((w) => worker(w, now)) }),
  schedules: (id, params, now) => ({ schedules: schedules().map((one) => schedule(one, now)) }),
  errors: (id, params, now) => errors(now),
  health: (id, params, now) => health(now),
  history: (id, params, now) => ({ jobs: 998_120, bytes: 412_000_000, oldest_at: now - 6 * D, indexed_ms_behind: 400, bounds: { jobs: 1_000_000, bytes: 2 ** 30, age_ms: 7 * D } }),
  audit: (id, params, now) => { if (ROLE !== "admin") throw new Refusal(403, `this needs the role admin; you are ${ROLE}`); return EMPTY ? { entries: [] } : audit(now); },
  operations: (id, params, now) => operation(id, now),
};

function act(body, now) {
  const to = { retry: "ready", kill: "dead", cancel: "cancelled", delete: "deleted" }[body.action];
  if (!to) throw new Refusal(400, `there is no action ${body.action}`);
  if (body.ids) { for (const id of body.ids) over.set(id, to); return { changed: body.ids.length, skipped: 0, operation: null }; }
  const of = /class:(\w+)/.exec(body.q || "");
  if (of) still.add(`r${of[1]}`);
  const one = { id: `op-${operations.size + 1}`, action: body.action, total: jobs({ state: body.state, q: body.q }, now).total, done: 0, failed: 0, began: now, ended_at: null };
  operations.set(one.id, one);
  return { changed: 0, skipped: 0, operation: one.id };
}
function putSchedule(id, body) {
  if (!body.cron === !body.every_ms) throw new Refusal(400, "say either cron or every_ms");
  if (body.cron && body.cron.split(" ").length !== 5) throw new Refusal(400, `the cron line “${body.cron}” has no five fields`);
  made.push([id, body.queue, body.type, body.cron || body.every_ms, body.timezone || "UTC", ""]);
  return { id };
}

const CHANGE = {
  jobs: (method, id, verb, body, now) => (id === "actions" ? act(body, now) : { id: BASE + 6, name: "3a41", state: body.in_ms ? "scheduled" : "ready" }),
  operations: (method, id, verb, body, now) => { operations.get(id).ended_at = now; return null; },
  queues: (method, id, verb, body, now) => { if (verb === "pause") paused.set(id, [now]); if (verb === "resume") paused.delete(id); return { queues: [id], jobs: 0 }; },
  workers: (method, id, verb, body) => { for (const name of body.workers) still.add(name); return { count: body.workers.length, missing: [] }; },
  schedules(method, id, verb, body) {
    if (method === "DELETE") gone.add(id);
    else if (!verb) return putSchedule(id || body.id, body);
    else if (verb !== "run") { if (still.has(id)) still.delete(id); else still.add(id); }
    return { id: BASE - 700 };
  },
};

/** The plain value that answers, moments in milliseconds; `Refusal` if it does not. */
export function answer(method, path, params, body) {
  const now = Date.now();
  const [noun, id, verb] = path.split("/").map(decodeURIComponent);
  if (method === "GET") {
    if (!GET[noun]) throw new Refusal(404, "there is nothing here");
    return GET[noun](id, params, now);
  }
  if (ROLE === "viewer") throw new Refusal(403, "this needs the role operator; you are viewer");
  return CHANGE[noun](method, id, verb, body, now);
}
