"use strict";
// A worker of npm's `abraxas`. It fails by raising: WORK_EXCEPTION, then WORK_FAIL.

const abraxas = require("abraxas");
const { say, spec } = require("./program");
const { allowed, ran, result, whole } = require("./gearman-jobs");

const { port, maxJobs } = spec;

async function work(task, name, how) {
  await allowed(how, name, task.payload);
  ran(name, task.payload, { handle: task.jobid, unique: task.uniqueid });
  if (how === "fail" || how === "raise") throw "boom";
  if (how !== "progress") return result(how, task.payload);
  // It tells the share that is done, in hundredths, and a worker's data is its result.
  task.status(0.25);
  task.warn("careful");
  task.status(0.75);
  return whole;
}

abraxas.Client.connect({ host: "127.0.0.1", port, maxJobs }, (error, client) => {
  if (error) throw error;
  client.setClientId(spec.id);
  for (const [name, how] of Object.entries(spec.functions)) {
    const options = spec.timeout ? { timeout: spec.timeout } : {};
    client.registerWorker(name, options, (task) => work(task, name, how));
  }
  say("ready");
});
