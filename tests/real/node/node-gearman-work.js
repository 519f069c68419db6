"use strict";
// A worker of npm's `node-gearman`. It knows data, results and failures, nothing else.

const Gearman = require("node-gearman");
const { say, spec } = require("./program");
const { allowed, ran, result, whole } = require("./gearman-jobs");

const gearman = new Gearman("127.0.0.1", spec.port);

async function work(workload, job, name, how) {
  await allowed(how, name, workload);
  ran(name, workload, { handle: job.handle });
  if (how === "fail" || how === "raise") job.error();
  else if (how === "progress") {
    job.write("part");
    job.end(whole);
  } else job.end(result(how, workload));
}

gearman.on("connect", () => say("ready"));
for (const [name, how] of Object.entries(spec.functions)) {
  // It gives no workload at all where there is none.
  gearman.registerWorker(name, (workload, job) => work(workload || Buffer.alloc(0), job, name, how));
}
