// What operators did, the newest first. Kept by the server, for administrators.
import { api } from "../api.js";
import { h } from "../dom.js";
import { plural } from "../format.js";
import { empty, head, table, when } from "../ui.js";

export function page() {
  let entries = [];
  const columns = [
    { head: "When", cell: (one) => when(one.at) },
    { head: "Who", th: true, cell: (one) => one.who },
    { head: "Role", cls: "mid", cell: (one) => one.role },
    { head: "Over", cls: "mid", cell: (one) => one.over },
    { head: "What", cell: (one) => one.operation },
    {
      head: "Details",
      cls: "grow mid mono",
      cell: (one) => h("span", { title: about(one) }, about(one)),
    },
    { head: "Outcome", cell: (one) => one.outcome },
  ];
  const about = (one) =>
    typeof one.about === "string" ? one.about : JSON.stringify(one.about ?? "");
  return {
    title: () => "Audit",
    async load() {
      ({ entries } = await api.audit());
    },
    view: () => [
      head("Audit", {
        sub: [
          h("a", { class: "crumb", href: "#/settings" }, "Settings"),
          ` / ${plural(entries.length, "entry", "entries")}, newest first`,
        ],
      }),
      entries.length
        ? table({
            label: "What operators did",
            columns,
            rows: entries,
            key: (one) => `${one.at}-${one.who}-${one.operation}-${about(one)}`,
          })
        : empty(
            "No entries yet",
            "What operators do to jobs, queues, workers and schedules is recorded here.",
          ),
    ],
  };
}
