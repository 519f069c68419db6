// The help on the keyboard, fetched when somebody asks.
import { h } from "./dom.js";

export const MAP = [
  [
    "Anywhere",
    [
      ["/", "Search or filter"],
      ["Ctrl K", "Go to a page or run a command"],
      ["?", "This help"],
      ["p", "Stop or resume updates"],
      ["t", "Light or dark"],
      ["Esc", "Close, clear, leave the field"],
    ],
  ],
  [
    "Go to",
    [
      ["g o", "Overview"],
      ["g j", "Jobs"],
      ["g e", "Errors"],
      ["g q", "Queues"],
      ["g y", "Types"],
      ["g w", "Workers"],
      ["g s", "Schedules"],
      ["g t", "Settings"],
    ],
  ],
  [
    "In a table",
    [
      ["j / k", "Next, previous row"],
      ["Enter", "Open the row"],
      ["x", "Select the row"],
      ["Shift X", "Select up to this row"],
      ["a", "Select the page"],
      ["[ / ]", "Newer, older page"],
      ["1 – 7", "Jobs in that state"],
    ],
  ],
  [
    "On jobs",
    [
      ["r", "Retry, or run now"],
      ["c", "Cancel"],
      ["d", "Delete"],
      ["y", "Copy the id"],
    ],
  ],
];

export function help() {
  const box = h(
    "dialog",
    { class: "dialog help", "aria-label": "Keyboard" },
    h(
      "form",
      { method: "dialog" },
      h("h2", null, "Keyboard"),
      h(
        "div",
        { class: "help-cols" },
        MAP.map(([title, keys]) =>
          h(
            "section",
            null,
            h("h3", null, title),
            h(
              "dl",
              null,
              keys.map(([key, what]) => [
                h(
                  "dt",
                  null,
                  key
                    .split(" ")
                    .map((one) =>
                      /^[/–]$/.test(one) && key.length > 1 ? ` ${one} ` : h("kbd", null, one),
                    ),
                ),
                h("dd", null, what),
              ]),
            ),
          ),
        ),
      ),
      h("div", { class: "dialog-foot" }, h("button", { class: "btn" }, "Close")),
    ),
  );
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => {
    if (event.target === box) box.close();
  });
  document.body.append(box);
  box.showModal();
}
