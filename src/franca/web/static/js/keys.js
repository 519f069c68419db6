// The keyboard. What it knows is listed in help.js: change both, or neither.
import { $ } from "./dom.js";
import { NAV } from "./settings.js";

const GO = Object.fromEntries(NAV.map(([, href, , key]) => [key, href.slice(1)]));

export function keyboard({ ctx, page, common }) {
  let g = 0;
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      common.palette();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
      return;
    const into = event.target;
    const typing = into.matches("input:not([type=checkbox]), textarea, select");
    if (event.key === "Escape") {
      if (typing) {
        into.blur();
        return;
      }
      page()?.keys?.Escape?.(event);
      return;
    }
    if (typing) return;
    if (Date.now() - g < 1200 && GO[event.key] !== undefined) {
      g = 0;
      event.preventDefault();
      ctx.go(GO[event.key]);
      return;
    }
    g = 0;
    if (event.key === "g") {
      g = Date.now();
      return;
    }
    if (event.key === "?") {
      event.preventDefault();
      import("./help.js").then((it) => it.help());
      return;
    }
    if (event.key === "p") {
      common.live();
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      const field = $("#filter");
      if (field) {
        field.focus();
        field.select();
      } else common.palette();
      return;
    }
    const own = page()?.keys?.[event.key];
    if (own) {
      if (event.key === "Enter" && into.closest("a, button, summary")) return;
      event.preventDefault();
      own(event);
    } else if (event.key === "t") common.theme();
  });
}

/** j and k over the rows of a page: `rows()` gives their ids, `open(id)` goes there. */
export function cursor(render, rows, open) {
  const self = { at: null };
  const move = (by) => {
    const ids = rows();
    if (!ids.length) return;
    const i = ids.indexOf(self.at);
    self.at =
      ids[i < 0 ? (by > 0 ? 0 : ids.length - 1) : Math.max(0, Math.min(ids.length - 1, i + by))];
    render();
    $(`[data-key="${CSS.escape(String(self.at))}"]`)?.scrollIntoView({ block: "nearest" });
  };
  self.keys = {
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => {
      if (self.at !== null) open(self.at);
    },
  };
  return self;
}
