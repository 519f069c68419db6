// What needs somebody: the server gives facts, the sentences are made here. A fact that is missing
// leaves its sentence shorter, never wrong.
import { now } from "./api.js";
import { near, num, plural, rate, span } from "./format.js";
import { h } from "./dom.js";
import { stateMark } from "./icons.js";
import { button } from "./ui.js";

const queueOf = (one) => `#/queues/${encodeURIComponent(one.queue)}`;
const errorOf = (one) => `#/errors?${new URLSearchParams({ open: one.error_class })}`;
const open = (href, label) => h("a", { class: "btn", href }, label);
const since = (at) => at && `since ${near(at, now())}`;
const words = (...parts) => parts.filter(Boolean).join(" ");
const sentences = (...parts) =>
  parts
    .filter(Boolean)
    .map((part) => `${part}.`)
    .join(" ");
const known = (value, say) => (value === undefined || value === null ? "" : say(value));

/** [who, what is said of it, facts, what to do] for each kind of notice. */
const SAY = {
  behind: (one, f) => [
    h("a", { href: queueOf(one) }, one.queue),
    " is falling behind",
    sentences(
      [known(f.ready, (n) => `${num(n)} ready`), known(f.oldest_ms, (ms) => `oldest ${span(ms)}`)]
        .filter(Boolean)
        .join(", "),
      words(
        `In ${rate(f.in || 0)}, out ${rate(f.out || 0)}, growing by ${rate((f.in || 0) - (f.out || 0))}`,
        since(f.since_at),
      ),
    ),
    open(queueOf(one), "Open queue"),
  ],
  errors: (one, f) => [
    h("a", { href: errorOf(one) }, f.error || "A new error"),
    one.queue ? ` in ${one.queue}` : "",
    sentences(
      words(
        [
          known(f.retrying, (n) => `${num(n)} retrying`),
          known(f.dead, (n) => `${num(n)} dead`),
        ]
          .filter(Boolean)
          .join(", "),
        since(f.since_at),
      ),
      "Not seen in the 24 hours before that",
    ),
    open(errorOf(one), "See error"),
  ],
  stalled: (one, f) => [
    h("a", { href: `#/workers?${new URLSearchParams({ q: one.worker })}` }, one.worker),
    " is connected but takes no jobs",
    sentences(
      known(f.fetched_at, (at) => `It has not asked for a job for ${span(now() - at)}`),
      "Its queues have jobs that are ready",
    ),
    button("Ask to stop", "stopWorker", { "data-name": one.worker }),
  ],
  paused: (one, f) => [
    h("a", { href: queueOf(one) }, one.queue),
    " is paused",
    sentences(
      known(f.until, (at) => `Until ${near(at, now())}`),
      known(f.ready, (n) => `${plural(n, "job")} ready`),
    ),
    button("Resume", "resume", { "data-queue": one.queue }),
  ],
  schedule: (one, f) => [
    h("a", { href: "#/schedules" }, one.schedule),
    known(f.failed, (n) => ` failed ${n} times in a row`) || " fails",
    known(f.last_at, (at) => `The last job died at ${near(at, now())}.`),
    open("#/schedules", "Open schedules"),
  ],
};

const plain = (one, f) => [
  one.queue || one.worker || one.schedule || one.what || "",
  ` ${one.queue || one.worker || one.schedule ? one.what : ""}`,
  Object.entries(f)
    .map(([name, value]) => `${name} ${typeof value === "number" ? num(value) : value}`)
    .join(", "),
  "",
];

/** One line of the list. */
export function notice(one) {
  const [who, what, facts, act] = (SAY[one.what] || plain)(one, one.facts || {});
  const level = one.level === "bad" ? "bad" : "warn";
  return h(
    "li",
    { class: `notice is-${level}`, key: one.id },
    stateMark(level),
    h("span", { class: "notice-what" }, who, what),
    h("span", { class: "notice-facts" }, facts),
    act,
  );
}
