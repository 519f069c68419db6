// The world of the made-up server: queues, errors, workers, schedules. Every number follows from the clock and a hash,
// so that any of 2.4 million jobs can be shown without keeping one.

export const T0 = Date.now();
export const S = 1000, M = 60 * S, H = 60 * M, D = 24 * H;
export const ORDER = ["scheduled", "retrying", "ready", "running", "done", "dead", "cancelled"];
export const BASE = 48_216_000;

export function hash(...seed) {
  let x = 2166136261;
  for (const ch of seed.join("|")) x = Math.imul(x ^ ch.charCodeAt(0), 16777619);
  x ^= x >>> 15; x = Math.imul(x, 2246822519); x ^= x >>> 13; x = Math.imul(x, 3266489917); x ^= x >>> 16;
  return (x >>> 0) / 4294967296;
}
export function noise(seed, t, scale) {
  const at = t / scale, i = Math.floor(at), f = at - i, u = f * f * (3 - 2 * f);
  return hash(seed, i) * (1 - u) + hash(seed, i + 1) * u;
}
export function pick(list, r) {
  let sum = 0;
  for (const one of list) sum += one[1];
  r *= sum;
  for (const one of list) { r -= one[1]; if (r < 0) return one[0]; }
  return list[list.length - 1][0];
}

export const QUEUES = [
  { queue: "mail", in: 212, out: 176, depth: 120_418, growing: 36, running: 88, retrying: 1121, dead: 3, scheduled: 4210, failed: 1.9, wait: 568_000, ran: 1900, workers: 4, via: [["faktory", 7], ["gearman", 3]], by: [["faktory", 9], ["gearman", 1]], types: [["SendReceipt", 6], ["SendDigest", 3], ["mailer.password_reset", 1]] },
  { queue: "thumbnails", in: 3.1, out: 0, depth: 2310, growing: 3.1, running: 0, retrying: 0, dead: 214, scheduled: 0, failed: 0, wait: 745_000, ran: 640, workers: 2, paused: true, via: [["gearman", 1]], by: [["gearman", 1]], types: [["resize_image", 1]] },
  { queue: "webhooks", in: 22, out: 21.4, depth: 214, growing: 0, running: 31, retrying: 268, dead: 402, scheduled: 118, failed: 2.1, wait: 9_700, ran: 3100, workers: 3, via: [["faktory", 6], ["eventmq", 2], ["periodic", 2]], by: [["faktory", 1]], types: [["DeliverWebhook", 5], ["webhooks.replay", 1]] },
  { queue: "default", in: 64, out: 64, depth: 38, growing: 0, running: 24, retrying: 6, dead: 19, scheduled: 3980, failed: 0.05, wait: 180, ran: 310, workers: 4, via: [["faktory", 8], ["control", 1], ["periodic", 1], ["rest", 1]], by: [["faktory", 8], ["periodic", 1], ["rest", 1]], types: [["app.jobs.sync_contact", 4], ["TouchRecord", 3], ["cache.expire", 2]] },
  { queue: "search-index", in: 41, out: 41, depth: 96, growing: 0, running: 18, retrying: 4, dead: 0, scheduled: 0, failed: 0.02, wait: 940, ran: 420, workers: 2, via: [["gearman", 3], ["faktory", 2]], by: [["faktory", 4], ["periodic", 1]], types: [["reindex_document", 1]] },
  { queue: "sensors", in: 138, out: 138, depth: 61, growing: 0, running: 20, retrying: 0, dead: 12, scheduled: 0, failed: 0.01, wait: 90, ran: 38, workers: 3, via: [["eventmq", 1]], by: [["eventmq", 9], ["beanstalkd", 1]], types: [["sensors.ingest.store_reading", 8], ["sensors.ingest.roll_up", 1]] },
  { queue: "render", in: 9.2, out: 9.2, depth: 2, growing: 0, running: 11, retrying: 0, dead: 31, scheduled: 0, failed: 0.08, wait: 210, ran: 1240, workers: 1, via: [["memodb", 8], ["beanstalkd", 2]], by: [["memodb", 6], ["gearman", 4]], types: [["render_pdf", 3], ["render_chart", 1]] },
  { queue: "billing", in: 1.4, out: 1.4, depth: 0, growing: 0, running: 3, retrying: 7, dead: 50, scheduled: 96, failed: 0.03, wait: 60, ran: 870, workers: 2, via: [["faktory", 5], ["gearman", 1]], by: [["faktory", 1]], types: [["ChargeCard", 5], ["billing.close_month", 1]] },
  { queue: "reports", in: 0.02, out: 0.02, depth: 0, growing: 0, running: 2, retrying: 0, dead: 0, scheduled: 8, failed: 0, wait: 40, ran: 214_000, workers: 1, via: [["periodic", 1]], by: [["periodic", 3], ["faktory", 1]], types: [["nightly_report", 1], ["export_ledger", 1]] },
];
export const byName = new Map(QUEUES.map((q) => [q.queue, q]));

export const CLASSES = [
  { id: "a41f", error: "Net::ReadTimeout", text: "Net::ReadTimeout with #<TCPSocket:smtp.internal:587>", queues: ["mail"], types: ["SendReceipt", "SendDigest"], by: ["faktory"], retrying: 1121, dead: 3, first: 53 * M, last: 2 * S, lang: "ruby",
    trace: ["app/mailers/transport.rb:88:in `read_reply'", "app/mailers/transport.rb:41:in `deliver'", "app/jobs/send_receipt.rb:27:in `perform'", "gems/faktory_worker_ruby-2.0.0/lib/faktory/processor.rb:161:in `execute_job'", "gems/faktory_worker_ruby-2.0.0/lib/faktory/processor.rb:141:in `block in process'", "gems/faktory_worker_ruby-2.0.0/lib/faktory/manager.rb:44:in `start'"] },
  { id: "77c2", error: "requests.exceptions.HTTPError", text: "503 Server Error: Service Unavailable for url: https://hooks.acme.example/in/…", queues: ["webhooks"], types: ["DeliverWebhook", "webhooks.replay"], by: ["faktory"], retrying: 268, dead: 402, first: 9 * D, last: 41 * S, lang: "python",
    trace: ["File \"/srv/app/webhooks/deliver.py\", line 64, in deliver", "    response.raise_for_status()", "File \"/srv/venv/lib/python3.13/site-packages/requests/models.py\", line 1026, in raise_for_status", "    raise HTTPError(http_error_msg, response=self)"] },
  { id: "0d9e", error: "PIL.UnidentifiedImageError", text: "cannot identify image file <_io.BytesIO object at 0x…>", queues: ["thumbnails"], types: ["resize_image"], by: ["gearman"], retrying: 0, dead: 214, first: 22 * D, last: 13 * M, lang: "python",
    trace: ["File \"/srv/thumbs/worker.py\", line 31, in resize", "    image = Image.open(io.BytesIO(data))", "File \"/srv/venv/lib/python3.13/site-packages/PIL/Image.py\", line 3532, in open", "    raise UnidentifiedImageError(msg)"] },
  { id: "5be1", error: "Stripe::CardError", text: "Your card was declined. (card_declined)", queues: ["billing"], types: ["ChargeCard"], by: ["faktory"], retrying: 7, dead: 46, first: 30 * D, last: 6 * M, lang: "ruby",
    trace: ["app/services/payments/charge.rb:52:in `call'", "app/jobs/charge_card.rb:19:in `perform'", "gems/stripe-15.1.0/lib/stripe/api_requestor.rb:702:in `handle_error_response'"] },
  { id: "c3a8", error: "lost", text: "The worker's connection closed while it ran the job; 10 runs were lost.", queues: ["render"], types: ["render_pdf"], by: ["memodb", "gearman"], retrying: 0, dead: 31, first: 4 * D, last: 3 * H, lang: "none", trace: [] },
  { id: "f210", error: "KeyError", text: "'account_id'", queues: ["default", "billing"], types: ["app.jobs.sync_contact", "billing.close_month"], by: ["faktory", "periodic"], retrying: 6, dead: 23, first: 2 * D, last: 22 * M, lang: "python",
    trace: ["File \"/srv/app/jobs/contacts.py\", line 112, in sync_contact", "    account = accounts[payload[\"account_id\"]]"] },
  { id: "9920", error: "sqlite3.OperationalError", text: "database is locked", queues: ["sensors", "search-index"], types: ["sensors.ingest.roll_up", "reindex_document"], by: ["eventmq", "faktory"], retrying: 4, dead: 12, first: 6 * D, last: 70 * M, lang: "python",
    trace: ["File \"/srv/sensors/ingest.py\", line 47, in roll_up", "    cursor.execute(UPSERT, rows)"] },
];
export const total = (key) => CLASSES.reduce((sum, g) => sum + g[key], 0);

export const WORKERS = [
  ["mail-1", "faktory", "ip-10-0-4-11", 2211, ["ruby-3.4", "v318"], 25, ["mail", "default"], "busy"],
  ["mail-2", "faktory", "ip-10-0-4-12", 2188, ["ruby-3.4", "v318"], 25, ["mail", "default"], "busy"],
  ["mail-3", "faktory", "ip-10-0-4-13", 2190, ["ruby-3.4", "v317"], 25, ["mail", "default"], "quiet"],
  ["mail-php-1", "gearman", "ip-10-0-4-20", 901, ["php-8.4"], 16, ["mail"], "busy"],
  ["hooks-1", "faktory", "ip-10-0-5-2", 4410, ["python-3.13"], 20, ["webhooks"], "busy"],
  ["hooks-2", "faktory", "ip-10-0-5-3", 4391, ["python-3.13"], 20, ["webhooks"], "busy"],
  ["hooks-3", "faktory", "ip-10-0-5-4", 4402, ["python-3.13"], 20, ["webhooks"], "stalled"],
  ["index-1", "faktory", "ip-10-0-6-1", 771, ["go-1.25"], 24, ["search-index", "sensors"], "busy"],
  ["thumbs-1", "gearman", "ip-10-0-7-1", 3301, ["python-3.13"], 4, ["thumbnails"], "idle"],
  ["thumbs-2", "gearman", "ip-10-0-7-2", 3290, ["python-3.13"], 4, ["thumbnails"], "idle"],
  ["sensors-a", "eventmq", "edge-01", 120, ["eventmq-0.3.13"], 12, ["sensors"], "busy"],
  ["sensors-b", "eventmq", "edge-02", 118, ["eventmq-0.3.13"], 12, ["sensors"], "busy"],
  ["pdf-1", "memodb", "ip-10-0-8-1", 5102, ["pynng-0.8"], 8, ["render"], "busy"],
  ["pdf-gm-1", "gearman", "ip-10-0-8-2", 5120, ["perl-5.40"], 4, ["render"], "busy"],
  ["cron-1", "periodic", "ip-10-0-9-1", 640, ["aio-periodic-1.0"], 4, ["reports", "default", "search-index"], "busy"],
  ["tubes-1", "beanstalkd", "ip-10-0-9-7", 0, [], 2, ["sensors"], "busy"],
  ["bill-1", "faktory", "ip-10-0-5-9", 1820, ["ruby-3.4", "v318"], 4, ["billing"], "busy"],
];

export const SCHEDULES = [
  ["close-ledger", "reports", "export_ledger", "30 2 * * *", "Europe/Berlin", "done"],
  ["nightly-report", "reports", "nightly_report", "0 4 * * 1-5", "Europe/Berlin", "done"],
  ["retry-webhooks", "webhooks", "webhooks.replay", "*/15 * * * *", "UTC", "dead"],
  ["expire-cache", "default", "cache.expire", "*/5 * * * *", "UTC", "done"],
  ["roll-up", "sensors", "sensors.ingest.roll_up", "7 * * * *", "UTC", "done"],
  ["close-month", "billing", "billing.close_month", "15 0 1 * *", "America/New_York", "done"],
  ["digest", "mail", "SendDigest", "0 7 * * 1", "Europe/Berlin", "done", true],
  ["heartbeat", "default", "TouchRecord", 30_000, "UTC", "done"],
];

// -- what was done in this session
export const over = new Map();      // id -> state
export const operations = new Map();
export const paused = new Map([["thumbnails", [T0 - 745 * S, "ana"]]]);
export const still = new Set();

export function inRate(q, t) { return q.in * (0.94 + 0.12 * noise(`${q.queue}i`, t, 40 * S)) * (0.94 + 0.12 * noise(`${q.queue}I`, t, 20 * M)); }
export function outRate(q, t) {
  const since = paused.get(q.queue);
  if (since && t > since[0]) return 0;
  const slow = q.queue === "mail" && t < T0 - 55 * M ? q.in / q.out : 1;
  const base = q.queue === "thumbnails" ? 3.1 : q.out * (q.queue === "mail" ? slow : 1);
  return base * (0.95 + 0.1 * noise(`${q.queue}o`, t, 30 * S));
}
export function failRate(q, t) {
  if (q.queue === "mail") return t > T0 - 53 * M ? q.failed * (0.5 + noise("mf", t, 60 * S)) * (1 + 1.4 * (noise("mg", t, 4 * M) > 0.7)) : 0.05 * noise("mf", t, 60 * S);
  return q.failed * (0.4 + 1.2 * noise(`${q.queue}f`, t, 90 * S));
}
export function depth(q, t) {
  if (!q.growing) return Math.max(0, Math.round(q.depth * (0.3 + 1.4 * noise(`${q.queue}d`, t, 12 * S))));
  const since = q.queue === "mail" ? T0 - 55 * M : T0 - 745 * S;
  if (t < since) return Math.round(20 + 40 * noise(`${q.queue}d`, t, 12 * S));
  return Math.max(0, Math.round(q.depth + ((t - T0) / S) * q.growing));
}
export function wait95(q, t) {
  if (q.growing) return Math.max(90, (depth(q, t) / inRate(q, t)) * S);
  return q.wait * (0.5 + noise(`${q.queue}w`, t, 50 * S));
}

