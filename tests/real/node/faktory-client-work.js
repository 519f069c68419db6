"use strict";
// A worker on top of npm's `faktory-client`, which has none of its own: the loop is ours.

const Client = require("faktory-client");
const { jobs, say, spec } = require("./program");

async function main() {
  const client = new Client({ url: spec.url, wid: spec.wid, reconnect: false });
  await client.connect();
  let state = await client.beat();
  let beaten = Date.now();
  let stopping = false;
  process.once("SIGTERM", () => {
    stopping = true;
  });
  say("ready");
  while (!stopping && state !== "terminate") {
    if (Date.now() - beaten >= spec.beat_s * 1000) {
      state = await client.beat();
      beaten = Date.now();
    }
    if (state === "OK") await work(client);
    else await new Promise((resolve) => setTimeout(resolve, 20));
  }
  say("stopped", { terminated: state === "terminate" });
  client.close();
}

async function work(client) {
  const job = await client.fetch(...spec.queues);
  if (!job) return;
  try {
    await jobs[job.jobtype](job.jid, ...job.args);
  } catch (error) {
    await client.fail(job.jid, error);
    return;
  }
  await client.ack(job.jid);
}

main();
