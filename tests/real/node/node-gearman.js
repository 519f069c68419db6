"use strict";
// The client of npm's `node-gearman`, told what to do by a test. It hands out data and results
// alike, and no handle of a background job.

const Gearman = require("node-gearman");
const { obey, spec } = require("./program");
const { b64, bytes, many } = require("./gearman-jobs");

// What the server answers to a background job it would take for the answer to the next one.
const gearman = new Gearman("127.0.0.1", spec.port);
const other = new Gearman("127.0.0.1", spec.port);

function run(name, workload, { unique, priority }) {
  const job = gearman.submitJob(name, bytes(workload), unique, { priority });
  const chunks = [];
  return new Promise((resolve) => {
    job.on("data", (data) => chunks.push(data));
    job.on("end", () => resolve({ outcome: "complete", result: b64(Buffer.concat(chunks)) }));
    job.on("error", () => resolve({ outcome: "fail" }));
  });
}

async function background(name, workload, { unique, priority }) {
  other.submitJob(name, bytes(workload), unique, { background: true, priority });
  return null;
}

obey({ do: run, many: many(run), background }, async () => gearman.close());
