"use strict";
// A client and a worker of npm's `node-periodic`, in the version named by `spec.library`.

const { obey, say, spec } = require("../program");
const periodic = require(spec.library);

const where = { host: "127.0.0.1", port: spec.port };
const client = new periodic.PeriodicClient(where);
let worker = null;

const told = (ask) =>
  new Promise((resolve, reject) => {
    ask((error, answer) => (error ? reject(error) : resolve(answer)));
  });

function run(job) {
  say("ran", { func: job.funcName, name: job.name, workload: String(job.workload || "") });
  job.done(() => {});
}

// Before 1.0 a worker asks for each job by itself.
function grab() {
  worker.grabJob((error, job) => {
    if (job) run(job);
    grab();
  });
}

async function work(func) {
  worker = new periodic.PeriodicWorker(where);
  if (worker.grabJob) {
    worker.addFunc(func, () => {});
    grab();
  } else {
    worker.addFunc(func, run);
    worker.work(1);
  }
}

obey(
  {
    ping: async () => (await told((cb) => client.ping(cb)))[0],
    submit: async (func, name, workload) =>
      (await told((cb) => client.submitJob({ func, name, workload, sched_at: 0, count: 0 }, cb)))[0],
    status: () => told((cb) => client.status(cb)),
    work,
  },
  async () => client.close()
);
