"use strict";
// The client of npm's `faktory-worker`, told what to do by a test.

const faktory = require("faktory-worker");
const { obey, spec } = require("./program");

const { url, wid, password, tlsOptions } = spec;
const options = { url, wid, password, tlsOptions };
const client = new faktory.Client(options);

function build({ jobtype, args, ...rest }) {
  return Object.assign(client.job(jobtype, ...args), rest);
}

obey(
  {
    // Opens a connection and closes it again, to see whether it can be done.
    connect: async () => Boolean(await faktory.connect(options)),
    push: (job) => build(job).push(),
    pushBulk: (jobs) => client.pushBulk(jobs.map(build)),
    fetch: (...queues) => client.fetch(...queues),
    ack: (jid) => client.ack(jid),
    fail: (jid, message) => client.fail(jid, new Error(message)),
    beat: () => client.beat(),
    info: () => client.info(),
    flush: () => client.flush(),
    queue: (verb, ...names) => client.send(["QUEUE", verb, ...names]),
    mutate: (target, change, { ofType, withJids, matching } = {}) => {
      const mutation = client[target];
      if (ofType) mutation.ofType(ofType);
      if (withJids) mutation.withJids(...withJids);
      if (matching) mutation.matching(matching);
      return mutation[change]();
    },
  },
  () => client.close()
);
