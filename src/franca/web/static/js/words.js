// The public words: states, what may be done to a job in each, protocols, and how a run ended.

export const STATES = ["scheduled", "retrying", "ready", "running", "done", "dead", "cancelled"];

/** [two letters, name]: over what a job came, and what the worker that ran it speaks. */
export const PROTOCOLS = {
  faktory: ["fk", "Faktory"],
  gearman: ["gm", "Gearman"],
  periodic: ["pd", "Periodic"],
  memodb: ["mb", "MemoDB"],
  eventmq: ["eq", "EventMQ"],
  beanstalkd: ["bs", "beanstalkd"],
  rest: ["ht", "HTTP"],
  control: ["fr", "Franca"],
  web: ["wb", "Dashboard and REST"],
};
export const protocolName = (name) => PROTOCOLS[name]?.[1] || name || "nobody yet";

const RETRY = ["retry", "Retry", "retry"];
const CANCEL = ["cancel", "Cancel", "cross"];
const KILL = ["kill", "Give up", "dead"];
const DELETE = ["delete", "Delete", "bin"];
/** [action, label, icon] of a job in this state. What has ended well, or was cancelled, is over. */
export const ACTIONS = {
  scheduled: [["retry", "Run now", "play"], CANCEL, KILL, DELETE],
  retrying: [["retry", "Retry now", "retry"], CANCEL, KILL, DELETE],
  ready: [CANCEL, KILL, DELETE],
  running: [CANCEL, KILL],
  done: [],
  dead: [RETRY, DELETE],
  cancelled: [],
};
export const may = (state, action) => (ACTIONS[state] || []).some(([one]) => one === action);

const YES = { retry: "Retry", kill: "Give up", cancel: "Cancel", delete: "Delete" };
const ING = { retry: "Retrying", kill: "Giving up", cancel: "Cancelling", delete: "Deleting" };
const ED = { retry: "made ready", kill: "given up", cancel: "cancelled", delete: "deleted" };
export const verb = (action) => ({ yes: YES[action], ing: ING[action], ed: ED[action] });

/** What follows from an action, in words that are true of the server. */
export function consequence(action, state) {
  const running =
    state === "running"
      ? " Whoever runs them is not stopped; what they report is not counted."
      : "";
  return {
    retry: "They become ready now, behind the others of their queue.",
    kill: `They are kept among the dead, and can be retried from there.${running}`,
    cancel: `They do not run again. This cannot be taken back.${running}`,
    delete: "They do not run again, and leave their queue. This cannot be taken back.",
  }[action];
}

/** Each way a run can end: [mark, words before how long it took]. */
export const OUTCOMES = {
  failed: ["dead", "failed after "],
  lost: ["lost", "was lost after "],
  expired: ["lost", "ran out of its lease after "],
  released: ["quiet", "was given back after "],
  "locked out": ["quiet", "found its lock taken after "],
  "taken away": ["quiet", "was taken away after "],
  running: ["running", "has been running for "],
  done: ["done", "succeeded in "],
};
