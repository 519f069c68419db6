// What an empty server shows: how to push a first job, in the words of each protocol that listens.
import { h } from "../dom.js";
import { firstLine, named, overHttp } from "../listeners.js";
import { command, head, proto } from "../ui.js";
import { protocolName } from "../words.js";

/** One listener of each protocol: the first that takes jobs. */
function ways(listeners) {
  const found = new Map();
  for (const one of listeners.map(named)) {
    const takes = !one.part && one.protocol !== "web" && one.protocol !== "rest";
    if (takes && !found.has(one.protocol)) found.set(one.protocol, one);
  }
  return [...found.values()];
}

function way(listener) {
  const { line, pushes } = firstLine(listener);
  return h(
    "li",
    null,
    h(
      "h2",
      null,
      proto(listener.protocol),
      protocolName(listener.protocol),
      h("span", { class: "dim" }, pushes ? "" : "point a client here"),
    ),
    command(line),
  );
}

export const first = (health) => [
  head("No jobs yet", {
    sub: "The server listens. Push a first job with whatever you already use; it shows here at once.",
  }),
  h(
    "ol",
    { class: "ways" },
    h("li", null, h("h2", null, proto("rest"), "Anywhere"), command(overHttp())),
    h(
      "li",
      null,
      h("h2", null, proto("control"), "On this machine"),
      command("franca push default hello world"),
      command("franca jobs ls"),
    ),
    ways(health?.listeners || []).map(way),
  ),
];
