// Jobs of the made-up server: any of them by its id, and pages of them by filter.
import { parse, spanMs } from "./js/query.js";
import { counts } from "./fake_counts.js";
import { BASE, CLASSES, D, H, M, ORDER, QUEUES, S, T0, WORKERS, byName, hash, over, pick, wait95 } from "./fake_world.js";

function args(type, r, id) {
  const n = Math.floor(r * 9e5) + 1e5;
  const mailbox = ["ada", "grace", "linus", "mary", "alan", "edsger", "barbara"][n % 7];
  switch (type) {
    case "SendReceipt": return `[{"order":${n},"to":"${mailbox}@example.com","locale":"${["de", "en", "fr", "pl"][n % 4]}","total_cents":${n * 3},"ledger_ref":9007199254740993}]`;
    case "SendDigest": return `[${n},"weekly",{"sections":["news","mentions"],"since":"2026-11-09"}]`;
    case "mailer.password_reset": return `["${mailbox}@example.com","[redacted]"]`;
    case "resize_image": return `s3://media/u/${n}.jpg 320x320`;
    case "DeliverWebhook": return `[{"endpoint":${n % 900},"event":"order.${["paid", "shipped", "refunded"][n % 3]}","attempted":true,"payload":{"order":${n},"lines":[{"sku":"A-${n % 97}","qty":${1 + (n % 4)}},{"sku":"B-${n % 31}","qty":1}],"note":null}}]`;
    case "webhooks.replay": return `[{"since_minutes":15}]`;
    case "reindex_document": return `["doc",${n}]`;
    case "sensors.ingest.store_reading": return `[{"sensor":"t-${n % 400}","at":${1763280000 + (n % 9000)},"celsius":${(r * 40).toFixed(2)}}]`;
    case "render_pdf": return `{"template":"invoice-v4","order":${n},"pages":${1 + (n % 9)}}`;
    case "ChargeCard": return `[{"account_id":${n},"amount_cents":${n % 20000},"currency":"EUR"}]`;
    default: return `[${n}]`;
  }
}

export function row(state, i, now) {
  const id = BASE - i * 7 + ORDER.indexOf(state);
  const r = (what) => hash(state, i, what);
  let group = null, q;
  if (state === "retrying") { group = CLASSES.find((g) => g.id === pick(CLASSES.map((g) => [g.id, g.retrying]), r("g"))); q = byName.get(group.queues[Math.floor(r("gq") * group.queues.length)]); }
  else if (state === "dead") { group = CLASSES.find((g) => g.id === pick(CLASSES.map((g) => [g.id, g.dead]), r("g"))); q = byName.get(group.queues[Math.floor(r("gq") * group.queues.length)]); }
  else if (state === "ready") q = byName.get(pick(QUEUES.map((one) => [one.queue, one.depth]), r("q")));
  else if (state === "scheduled") q = byName.get(pick(QUEUES.map((one) => [one.queue, one.scheduled]), r("q")));
  else q = byName.get(pick(QUEUES.map((one) => [one.queue, state === "running" ? one.running : one.out]), r("q")));
  const type = group ? (group.types.find((t) => q.types.some(([name]) => name === t)) || q.types[0][0]) : pick(q.types, r("t"));
  const via = pick(q.via, r("v"));
  const ran = q.ran * (0.15 + 1.6 * r("ran") ** 3);
  const job = { id, name: nameOf(via, i, state), queue: q.queue, type, state, via, by: null, attempts: 0, failures: 0, losses: 0, retries: via === "faktory" ? 25 : 0, created_at: null, run_at: null, ready_at: null, started_at: null, ended_at: null, ran_ms: null, worker: null, progress: null, error: null, error_class: null, args: args(type, r("a"), id) };
  const worker = WORKERS.filter((w) => w[6].includes(q.queue))[Math.floor(r("w") * WORKERS.filter((w) => w[6].includes(q.queue)).length)];
  if (state === "ready") {
    job.ready_at = q.growing ? T0 - ((i % 120_000) / q.in) * S : now - r("age") * q.wait * 2;
    job.created_at = job.ready_at - 4;
  } else if (state === "scheduled") {
    job.created_at = T0 - r("age") * 3 * D; job.run_at = T0 + 20 * S + i * 41 * S;
  } else if (state === "running") {
    job.started_at = (type === "nightly_report" || type === "export_ledger" ? T0 - 90 * S - r("s") * 120 * S : now - ((now - T0 + r("s") * ran) % ran));
    job.created_at = job.started_at - wait95(q, now); job.attempts = 1; job.worker = worker[0]; job.by = worker[1];
    if (["render_pdf", "nightly_report", "export_ledger", "resize_image"].includes(type)) job.progress = { n: Math.round(Math.min(0.97, (now - job.started_at) / (ran * 1.2)) * 240), of: 240, text: "pages", at: now };
  } else if (state === "done") {
    job.ended_at = T0 - i * 2.2; job.ran_ms = ran; job.started_at = job.ended_at - ran; job.created_at = job.started_at - Math.min(wait95(q, now), 6e5) * r("age"); job.attempts = r("try") > 0.97 ? 2 : 1; job.worker = worker[0]; job.by = worker[1];
  } else if (state === "cancelled") {
    job.ended_at = T0 - i * 47 * M - 11 * M; job.created_at = job.ended_at - 3 * M;
  }
  if (group) {
    job.failures = state === "dead" ? (via === "faktory" ? 26 : 1) : 1 + Math.floor(r("f") * 4); job.attempts = job.failures; job.error = `${group.error}: ${group.text}`; job.error_class = group.id; job.worker = worker[0]; job.by = worker[1]; job.ran_ms = ran;
    const last = state === "dead" ? T0 - 41 * S - i * 7.8 * M : T0 - 2 * S - i * 2.1 * S;
    job.created_at = last - (state === "dead" ? Math.min(3 * D, i * 3 * H) : job.failures * 40 * S) - 9 * S;
    if (state === "dead") job.ended_at = last; else job.run_at = T0 + 20 * S + i * 1.3 * S;
    job.failed_at = last;
  }
  if (over.has(id)) Object.assign(job, { state: over.get(id), run_at: null, ready_at: now, error: job.error });
  return job;
}

function nameOf(via, i, state) {
  const hex = Math.floor(hash(state, i, "n") * 2 ** 32).toString(16).padStart(8, "0") + Math.floor(hash(state, i, "m") * 2 ** 32).toString(16).padStart(8, "0");
  if (via === "gearman") return `H:franca-1:${41_000 + i}`;
  if (via === "faktory") return hex + hex.slice(0, 8);
  if (via === "periodic") return `nightly-${hex.slice(0, 6)}`;
  return hex.slice(0, 12);
}

function fits(job, term, now) {
  const text = (value) => {
    const wanted = term.value.toLowerCase().split(",");
    const has = String(value ?? "").toLowerCase();
    return wanted.some((w) => (w.includes("*") ? new RegExp(`^${w.split("*").map((p) => p.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*")}$`).test(has) : ["error", "arg", "text", "id"].includes(term.field) ? has.includes(w) : has === w));
  };
  const compare = (value, to) => (to === null || value === null ? false : term.op.startsWith(">") ? value >= to : term.op.startsWith("<") ? value <= to : value === to);
  const yes = {
    queue: () => text(job.queue), type: () => text(job.type), via: () => text(job.via), by: () => text(job.by), worker: () => text(job.worker), error: () => text(job.error), class: () => text(job.error_class), name: () => text(job.name), arg: () => text(job.args),
    id: () => text(`${job.id} ${job.name}`), key: () => text(job.key), text: () => text(`${job.id} ${job.name} ${job.type} ${job.queue} ${job.args} ${job.error || ""}`),
    age: () => compare(now - job.created_at, spanMs(term.value)), ran: () => compare(job.ran_ms, spanMs(term.value)), tries: () => compare(job.attempts, Number(term.value)),
  }[term.field];
  return (yes ? yes() : false) !== term.not;
}

const WINDOW = 20_000;
export function jobs({ state = "ready", q = "", after, before, limit = 50, order }, now) {
  const n = counts(now)[state];
  const { terms } = parse(q);
  const from = Number(after || before || 0);
  limit = Number(limit);
  const nth = (i) => row(state, order === "oldest" ? n - 1 - i : i, now);
  if (!terms.length) {
    const list = [];
    let i = from;
    for (; i < n && list.length < limit; i += 1) { const job = nth(i); if (job.state === state) list.push(job); }
    return { jobs: list, total: n, total_exact: true, scanned: n, of: n, next: i < n ? String(i) : null, prev: from ? String(Math.max(0, from - limit)) : null };
  }
  const end = Math.min(n, from + WINDOW);
  const found = [];
  let count = 0, stopped = end;
  for (let i = from; i < end; i += 1) {
    const job = nth(i);
    if (job.state !== state || !terms.every((term) => fits(job, term, now))) continue;
    count += 1;
    if (found.length < limit) { found.push(job); if (found.length === limit) stopped = i + 1; }
  }
  return { jobs: found, total: count, total_exact: end >= n && !from, scanned: end - from, of: n, next: count > found.length ? String(stopped) : end < n ? String(end) : null, prev: from ? "0" : null };
}

export function job(id, now) {
  const n = Number(id);
  if (!(n > 0) || n > BASE + 6) return null;
  const state = ORDER[(n - BASE) % 7 < 0 ? ((n - BASE) % 7) + 7 : (n - BASE) % 7];
  const one = row(state, (BASE + ORDER.indexOf(state) - n) / 7, now);
  const q = byName.get(one.queue), group = CLASSES.find((g) => g.id === one.error_class);
  const log = [];
  const who = WORKERS.filter((w) => w[6].includes(one.queue));
  let at = one.created_at + (state === "ready" ? 0 : Math.min(q.wait, 4 * S));
  for (let k = 0; k < Math.min(one.failures, 6); k += 1) {
    const w = who[Math.floor(hash(id, k, "w") * who.length)];
    const took = k === 1 && one.failures > 2 ? 41_200 : q.ran * (0.3 + hash(id, k));
    const lost = (k === 1 && one.failures > 2) || group.error === "lost";
    const end = k === one.failures - 1 ? one.failed_at : at + took;
    log.push({ number: one.failures - Math.min(one.failures, 6) + k + 1, worker: w[0], by: w[1], started_at: Math.min(at, end - took), ended_at: end, outcome: lost ? "lost" : "failed", error: lost ? "" : group.error, text: lost ? "The connection closed while the worker held the job." : group.text, trace: lost ? [] : group.trace });
    at = end + (15 + (k + 1) ** 4 + 10) * S;
  }
  if (one.state === "running") log.push({ number: 1, worker: one.worker, by: one.by, started_at: one.started_at, ended_at: null, outcome: "running", error: "", text: "", trace: [] });
  if (one.state === "done") log.push({ number: one.attempts, worker: one.worker, by: one.by, started_at: one.started_at, ended_at: one.ended_at, outcome: "done", error: "", text: "", trace: [] });
  const media = one.type === "resize_image" ? "bytes" : { eventmq: "json-call", faktory: "json-job" }[one.via] || "json-args";
  const text = `{"message_id":"<${one.id}@mx1.example.com>","accepted":true}`;
  return {
    ...one, key: one.via === "gearman" ? `u-${one.id % 9973}` : "", priority: 0, durable: one.via !== "memodb", losses: log.filter((a) => a.outcome === "lost").length,
    lease_until: one.state === "running" ? one.started_at + 30 * M : null, failed_at: one.failed_at || null,
    policy: { max_failures: one.retries, max_losses: 10, backoff: one.via === "faktory" ? "power" : "fixed", lease_ms: 30 * M, bury: true, keep_dead: false },
    body: { media, text: one.args, bytes: one.args.length, cut: false },
    result: one.state === "done" ? { media: "json", text, bytes: text.length, cut: false } : null, attempt_log: log,
  };
}
