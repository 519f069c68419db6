"use strict";
// A worker of npm's `faktory-worker`.

const faktory = require("faktory-worker");
const { jobs, say, spec } = require("./program");

async function main() {
  for (const [name, run] of Object.entries(jobs)) {
    faktory.register(name, (...args) => ({ job }) => run(job.jid, ...args));
  }
  const worker = await faktory.work({
    url: spec.url,
    wid: spec.wid,
    queues: spec.queues,
    concurrency: spec.concurrency || 1,
    beatInterval: spec.beat_s,
    tlsOptions: spec.tlsOptions,
  });
  say("ready");
  // It stops when it is signalled or told to terminate, and then nothing keeps the process alive.
  process.once("exit", () => say("stopped", { terminated: worker.quieted }));
}

main();
