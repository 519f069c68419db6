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
};
export const protocolName = (name) => PROTOCOLS[name]?.[1] || name || "not run yet";

/** Workers of these can be asked to take no more jobs, or to stop. */
export const ASKABLE = new Set(["faktory", "periodic", "memodb", "eventmq", "rest"]);

const RETRY = ["retry", "Retry", "retry"];
const CANCEL = ["cancel", "Cancel", "cross"];
const KILL = ["kill", "Kill", "dead"];
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

const YES = { retry: "Retry", kill: "Kill", cancel: "Cancel", delete: "Delete" };
const ING = { retry: "Retrying", kill: "Killing", cancel: "Cancelling", delete: "Deleting" };
const ED = { retry: "made ready", kill: "killed", cancel: "cancelled", delete: "deleted" };
export const verb = (action) => ({ yes: YES[action], ing: ING[action], ed: ED[action] });

/** What follows from an action, in words that are true of the server. */
export function consequence(action, state, one = false) {
  const they = one ? "It" : "They";
  const running =
    state === "running"
      ? ` A worker that is running ${one ? "it" : "one"} is not stopped; what it reports is ignored.`
      : "";
  return {
    retry: `${they} ${one ? "becomes" : "become"} ready now, behind the jobs already in the queue.`,
    kill: `${they} ${one ? "is" : "are"} moved to the dead jobs, and can be retried there.${running}`,
    cancel: `${they} will not run again. This cannot be undone.${running}`,
    delete: `${they} will not run again. This cannot be undone.`,
  }[action];
}

/** Each way a run can end: [mark, words before how long it took]. */
export const OUTCOMES = {
  failed: ["dead", "failed after "],
  lost: ["lost", "was lost after "],
  expired: ["lost", "expired after "],
  released: ["quiet", "was released after "],
  "locked out": ["quiet", "was locked out after "],
  "taken away": ["quiet", "was taken away after "],
  running: ["running", "has been running for "],
  done: ["done", "succeeded in "],
};
