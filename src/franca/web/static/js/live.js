// When to ask the server again. Its event stream says that something changed; then the page's one
// call is made, at most once a second. Without a stream the page asks every other second. Nobody
// is asked while the page is hidden.
import { api } from "./api.js";

const STEP_MS = 1000;
const BLIND_MS = 2000;
const QUIET_MS = 10_000; // rates fall and shares change without any event
const AGAIN_MS = 10_000; // before a stream that was refused is tried anew
// `gap` says that some events were dropped: the page asks for everything anyway.
const TOPICS = ["jobs", "queue", "queues", "workers", "schedules", "operation", "gap"];

/** Calls `refresh()` when there may be news, and `idle()` once a second otherwise, so that what the
 *  page says of time goes on. `wanted()` is false while nothing is to change. */
export function live({ refresh, idle, wanted }) {
  let stream = null;
  let news = false;
  let asked = performance.now();
  let refusedAt = -Infinity;

  const heard = () => {
    news = true;
  };
  function open() {
    if (stream || document.hidden || performance.now() - refusedAt < AGAIN_MS) return;
    stream = api.events();
    for (const topic of TOPICS) stream.addEventListener(topic, heard);
    stream.addEventListener("open", heard);
    stream.addEventListener("error", () => {
      // While it says CONNECTING the browser tries again by itself, from the last event it had.
      if (stream?.readyState === 2) {
        close();
        refusedAt = performance.now();
      }
    });
  }
  function close() {
    stream?.close();
    stream = null;
  }

  function tick() {
    if (document.hidden) return;
    if (!wanted()) {
      close();
      idle();
      return;
    }
    open();
    const since = performance.now() - asked;
    const due = news || since >= (stream?.readyState === 1 ? QUIET_MS : BLIND_MS) - 50;
    if (!due || since < STEP_MS - 50) {
      idle();
      return;
    }
    news = false;
    asked = performance.now();
    refresh();
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else {
      news = true;
      tick();
    }
  });
  setInterval(tick, STEP_MS);
  return {
    asked: () => {
      asked = performance.now();
    },
    streaming: () => stream?.readyState === 1,
  };
}
