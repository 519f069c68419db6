// Counts and rates of the made-up server.
import { BASE, D, H, M, ORDER, QUEUES, S, T0, depth, failRate, inRate, noise, outRate, over, paused, wait95 } from "./fake_world.js";

export const RANGES = { "15m": [15 * M, 5 * S], "1h": [H, 15 * S], "6h": [6 * H, 2 * M], "24h": [D, 8 * M], "7d": [7 * D, H] };
export function times(range, now) {
  const [length, step] = RANGES[range] || RANGES["1h"];
  const end = Math.floor(now / step) * step;
  const t = [];
  for (let at = end - length; at <= end; at += step) t.push(at);
  return t;
}

export function queueView(q, now) {
  const d = depth(q, now), since = paused.get(q.queue);
  const recent = [...Array(40).keys()].map((i) => now - (39 - i) * 15 * S);
  return {
    queue: q.queue, paused: !!since, paused_until: null,
    ready: d, running: since ? 0 : Math.round(q.running * (0.8 + 0.4 * noise(`${q.queue}r`, now, 9 * S))), scheduled: q.scheduled, retrying: q.retrying, dead: q.dead,
    oldest_ms: d ? Math.round(q.growing ? (d / q.in) * S : q.wait * (0.6 + noise(`${q.queue}a`, now, 5 * S))) : null,
    leased: 0, in: inRate(q, now), out: outRate(q, now), failed: failRate(q, now), wait_p95_ms: Math.round(wait95(q, now)), ran_p95_ms: q.ran, workers: q.workers,
    types: q.types.map(([type, share], i) => ({ type, share: share / q.types.reduce((a, b) => a + b[1], 0), failed: (q.failed / q.out || 0) * (i ? 0.3 : 1.2), p50_ms: q.ran * (0.25 + 0.2 * i), p95_ms: q.ran * (1 + 0.3 * i) })),
    recent: { in: recent.map((t) => inRate(q, t)), out: recent.map((t) => outRate(q, t)), depth: recent.map((t) => depth(q, t)) },
  };
}

export function counts(now) {
  const queues = QUEUES.map((q) => queueView(q, now));
  const sum = (key) => queues.reduce((a, q) => a + q[key], 0);
  const moved = { scheduled: 0, retrying: 0, ready: 0, running: 0, done: 0, dead: 0, cancelled: 0 };
  for (const [id, state] of over) { moved[ORDER[(id - BASE) % 7]] -= 1; if (state in moved) moved[state] += 1; }
  const one = { scheduled: sum("scheduled"), retrying: sum("retrying"), ready: sum("ready"), running: sum("running"), done: 2_413_880 + Math.round(((now - T0) / S) * 440), dead: sum("dead"), cancelled: 58 };
  for (const key of ORDER) one[key] = Math.max(0, one[key] + moved[key]);
  return one;
}

