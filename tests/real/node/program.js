"use strict";
// What all programs here share: how they are told what to be, and how they tell what they do.

const crypto = require("crypto");
const fs = require("fs");
const readline = require("readline");

const spec = JSON.parse(process.argv[2]);

function say(event, facts = {}) {
  let rest = Buffer.from(JSON.stringify({ event, ...facts }) + "\n");
  while (rest.length > 0) {
    try {
      rest = rest.subarray(fs.writeSync(1, rest));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error; // some libraries leave the pipe non-blocking
    }
  }
}

// The jobs that workers run; the Python ones are in ../programs/jobs.py.
const jobs = {
  echo(jid, ...args) {
    say("ran", { jid, args });
  },
  boom(jid, ...args) {
    say("ran", { jid, args });
    throw new Error("boom");
  },
  measure(jid, text) {
    const digest = crypto.createHash("sha256").update(text).digest("hex");
    say("ran", { jid, args: [text.length, digest] });
  },
  async wait(jid, path) {
    say("started", { jid });
    while (!fs.existsSync(path)) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    say("ran", { jid, args: [] });
  },
};

// A client that does what it is told: a line `[number, verb, ...args]` in, an answer with the number out.
async function obey(verbs, close) {
  say("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [number, verb, ...args] = JSON.parse(line);
    try {
      say("answer", { number, value: await verbs[verb](...args) });
    } catch (error) {
      say("answer", { number, error: String(error.message) });
    }
  }
  await close();
  process.exit(0);
}

module.exports = { jobs, obey, say, spec };
