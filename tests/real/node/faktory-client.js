"use strict";
// The client of npm's `faktory-client`, told what to do by a test.

const Client = require("faktory-client");
const { obey, spec } = require("./program");

const { url, wid, password } = spec;
const client = new Client({ url, wid, password, reconnect: false });

obey(
  {
    connect: async () => Boolean(await client.connect()),
    push: (job) => client.push(job),
    fetch: (...queues) => client.fetch(...queues),
    ack: (jid) => client.ack(jid),
    fail: (jid, message) => client.fail(jid, Object.assign(new Error(message), { code: "Boom" })),
    beat: () => client.beat(),
    info: () => client.info(),
    flush: () => client.flush(),
    close: async () => client.close(),
  },
  async () => client.close()
);
