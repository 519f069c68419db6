"use strict";
// The client of npm's `abraxas`, told what to do by a test: everything goes over one connection.

const abraxas = require("abraxas");
const { obey, spec } = require("./program");
const { b64, bytes, many } = require("./gearman-jobs");

const settings = ({ unique, priority }) => ({ uniqueid: unique, priority });

abraxas.Client.connect({ host: "127.0.0.1", port: spec.port }, (error, client) => {
  if (error) throw error;

  const made = (submit) =>
    new Promise((resolve, reject) => {
      submit((failure, handle) => (failure ? reject(failure) : resolve(handle)));
    });

  function run(name, workload, options) {
    const heard = { status: [], data: [], warnings: [] };
    return new Promise((resolve) => {
      const task = client.submitJob(name, settings(options), bytes(workload), (failure, data) => {
        if (!failure) resolve({ outcome: "complete", result: b64(data), ...heard });
        else if (failure.name === "JobException" || failure.code === "job-exception") {
          resolve({ outcome: "exception", exception: b64(failure.data || failure.message), ...heard });
        } else resolve({ outcome: "fail", error: String(failure), ...heard });
      });
      task.on("status", (share) => heard.status.push([share * 4, 4]));
      task.on("warn", (text) => heard.warnings.push(b64(text)));
    });
  }

  obey(
    {
      do: run,
      many: many(run),
      background: (name, workload, options) =>
        made((told) => client.submitJobBg(name, settings(options), bytes(workload), told)),
      at: (name, workload, seconds) =>
        made((told) => client.submitJobAt(name, seconds, {}, bytes(workload), told)),
      sched: (name, workload, when) =>
        made((told) => client.submitJobSched(name, when, {}, bytes(workload), told)),
      echo: (workload) => made((told) => client.echo({}, bytes(workload), told)).then(b64),
      admin: (name) => made((told) => client[name](told)),
      shutdown: (graceful) => made((told) => client.shutdown(graceful, told)),
    },
    async () => client.disconnect()
  );
});
