"use strict";
// The client of npm's `gearmanode`, told what to do by a test.

const gearmanode = require("gearmanode");
const { obey, spec } = require("./program");
const { b64, bytes, many } = require("./gearman-jobs");

const client = gearmanode.client({ host: "127.0.0.1", port: spec.port });
const server = client.jobServers[0];
const sent = {};

function submit(name, workload, { unique, priority }, background) {
  const options = { background, priority: (priority || "normal").toUpperCase() };
  if (unique) options.unique = unique;
  const job = client.submitJob(name, bytes(workload), options);
  if (job instanceof Error) throw job;
  return job;
}

// An error of the client's own is how it tells that the server makes no sense to it.
function failing(emitter, start) {
  return new Promise((resolve, reject) => {
    client.once("error", reject);
    emitter.once("error", reject);
    start(resolve);
  }).finally(() => client.removeAllListeners("error"));
}

async function run(name, workload, options) {
  const job = submit(name, workload, options, false);
  const heard = { status: [], data: [], warnings: [] };
  job.on("status", (s) =>
    heard.status.push([Number(s.percent_done_num), Number(s.percent_done_den)])
  );
  job.on("workData", (data) => heard.data.push(b64(data)));
  job.on("warning", (data) => heard.warnings.push(b64(data)));
  return failing(job, (resolve) => {
    job.once("complete", () =>
      resolve({ outcome: "complete", result: b64(job.response), ...heard })
    );
    job.once("failed", () => resolve({ outcome: "fail", ...heard }));
    job.once("exception", (data) =>
      resolve({ outcome: "exception", exception: b64(data), ...heard })
    );
  });
}

async function background(name, workload, options) {
  const job = submit(name, workload, options, true);
  await failing(job, (resolve) => job.once("created", resolve));
  sent[job.handle] = job;
  return job.handle;
}

async function status(handle) {
  const job = sent[handle];
  job.getStatus();
  const found = await failing(job, (resolve) => job.once("status", resolve));
  const numbers = [found.known, found.running, found.percent_done_num, found.percent_done_den];
  return numbers.map(Number);
}

async function echo(text) {
  return failing(server, (resolve) => {
    server.once("echo", resolve);
    server.echo(text);
  });
}

async function option(name) {
  return failing(server, (resolve) => {
    server.once("option", resolve);
    server.once("jobServerError", (code) => resolve(code));
    server.setOption(name);
  });
}

option("exceptions").then(() =>
  obey({ do: run, many: many(run), background, status, echo, option }, async () => client.close())
);
