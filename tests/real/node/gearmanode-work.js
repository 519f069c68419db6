"use strict";
// A worker of npm's `gearmanode`. Its results are text: it makes a string of whatever it is given.

const gearmanode = require("gearmanode");
const { say, spec } = require("./program");
const { allowed, parts, ran, result, whole } = require("./gearman-jobs");

const worker = gearmanode.worker({ host: "127.0.0.1", port: spec.port, withUnique: spec.unique });
worker.setWorkerId(spec.id);

const tell = {
  status: (job, part) => job.reportStatus(...part),
  data: (job, part) => job.sendWorkData(part),
  warning: (job, part) => job.reportWarning(part),
};

async function work(job, how) {
  await allowed(how, job.name, job.payload);
  ran(job.name, job.payload, { handle: job.handle, unique: job.unique });
  if (how === "fail") job.reportError();
  else if (how === "raise") job.reportException("boom");
  else if (how === "progress") {
    for (const [kind, part] of parts) tell[kind](job, part);
    job.workComplete(whole);
  } else job.workComplete(result(how, job.payload));
}

for (const [name, how] of Object.entries(spec.functions)) {
  worker.addFunction(name, (job) => work(job, how));
}
say("ready");
