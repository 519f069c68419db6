"use strict";
// What the Gearman programs share; those in other languages are in ../gearman/programs.

const crypto = require("crypto");
const fs = require("fs");
const { say } = require("./program");

// What a job that makes `progress` tells before its end, as far as its library can.
const parts = [
  ["status", [1, 4]],
  ["data", "part"],
  ["warning", "careful"],
  ["status", [3, 4]],
];
const whole = "whole";

function ran(name, workload, facts = {}) {
  const digest = crypto.createHash("sha256").update(workload).digest("hex");
  say("ran", { function: name, digest, ...facts });
}

// Waits, in a job that does, until the test makes the file that is named in the workload.
async function allowed(how, name, workload) {
  if (how !== "wait") return;
  const path = workload.toString();
  say("started", { function: name, path });
  while (!fs.existsSync(path)) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// A result that needs no telling before.
function result(how, workload) {
  return how === "empty" ? Buffer.alloc(0) : Buffer.from(workload).reverse();
}

// The verb that submits many jobs before it waits for the first.
const many = (run) => (name, workloads, options) =>
  Promise.all(workloads.map((workload) => run(name, workload, options)));

const b64 = (data) => Buffer.from(data).toString("base64");
const bytes = (text) => Buffer.from(text, "base64");

module.exports = { allowed, b64, bytes, many, parts, ran, result, whole };
