// What an empty server shows: how to push a first job, in the words of each protocol that listens.
import { h } from "../dom.js";
import { firstLine, named, overHttp, point } from "../listeners.js";
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

/** Where workers connect to. */
export const forWorkers = (health) =>
  h(
    "ol",
    { class: "ways" },
    ways(health?.listeners || []).map((listener) =>
      h(
        "li",
        null,
        h("h2", null, proto(listener.protocol), protocolName(listener.protocol)),
        command(point(listener)),
      ),
    ),
  );

export const first = (health) => [
  head("No jobs yet", {
    sub: "The server is running. Submit a first job in any of these ways, and it appears here.",
  }),
  h(
    "ol",
    { class: "ways" },
    h("li", null, h("h2", null, proto("rest"), "Anywhere"), command(overHttp(health?.listeners?.find((one) => one.protocol === "web")))),
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
