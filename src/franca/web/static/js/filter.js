// The field that filters jobs, with completion. It stands in an island: what somebody types must not
// be patched away.
import { h } from "./dom.js";
import { icon } from "./icons.js";
import { complete, parse } from "./query.js";
import { button } from "./ui.js";

/** `known()` has values per field; `apply(text)` is told a filter that was typed and makes sense. */
export class Filter {
  constructor({ known, apply }) {
    Object.assign(this, { known, apply, options: [], pick: -1, timer: 0 });
    this.field = h("input", {
      id: "filter",
      class: "field",
      type: "text",
      role: "combobox",
      "aria-label": "Filter jobs",
      "aria-expanded": "false",
      "aria-controls": "filter-options",
      "aria-autocomplete": "list",
      placeholder: "queue:mail type:Send* error:Timeout age>1h",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
    });
    this.list = h("ul", {
      id: "filter-options",
      class: "options",
      role: "listbox",
      "aria-label": "Completions",
      hidden: true,
    });
    this.wipe = button("", "clear", {
      ico: "cross",
      kind: "icon-btn ghost clear",
      title: "Clear the filter",
    });
    this.says = h("p", { class: "filter-error", role: "alert", hidden: true });
    this.el = h(
      "div",
      { class: "filter" },
      icon("search"),
      this.field,
      this.wipe,
      this.list,
      this.says,
    );
    this.listen();
  }

  get text() {
    return this.field.value.trim();
  }
  get focused() {
    return document.activeElement === this.field;
  }
  show(text) {
    this.field.value = text;
  }
  say(text) {
    this.says.textContent = text;
    this.says.hidden = !text;
  }

  listen() {
    const { field, list } = this;
    field.addEventListener("input", () => {
      this.pick = -1;
      this.suggest();
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.submit(), 350);
    });
    field.addEventListener("focus", () => this.suggest());
    field.addEventListener("blur", () => setTimeout(() => this.shut(), 120));
    field.addEventListener("keydown", (event) => this.key(event));
    list.addEventListener("pointerdown", (event) => {
      const li = event.target.closest("li");
      if (li) {
        event.preventDefault();
        this.take(Number(li.dataset.i));
      }
    });
  }

  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const { options } = this;
    if (by && options.length) {
      event.preventDefault();
      this.pick = (this.pick + by + options.length) % options.length;
      this.suggest();
    }
    if ((event.key === "Enter" || event.key === "Tab") && this.pick >= 0) {
      event.preventDefault();
      this.take(this.pick);
    } else if (event.key === "Enter") {
      this.shut();
      this.submit();
      this.field.blur();
    }
  }

  shut() {
    this.list.hidden = true;
    this.field.setAttribute("aria-expanded", "false");
    this.pick = -1;
  }

  suggest() {
    const { field, list } = this;
    this.options = complete(field.value, field.selectionStart, this.known());
    list.replaceChildren(
      ...this.options.map((one, i) =>
        h(
          "li",
          { id: `opt-${i}`, role: "option", "aria-selected": String(i === this.pick), "data-i": i },
          h("span", null, one.text),
          h("em", null, one.hint),
        ),
      ),
    );
    list.hidden = !this.options.length;
    field.setAttribute("aria-expanded", String(!list.hidden));
    if (this.pick >= 0) field.setAttribute("aria-activedescendant", `opt-${this.pick}`);
    else field.removeAttribute("aria-activedescendant");
  }

  take(i) {
    const one = this.options[i];
    const { field } = this;
    field.value = field.value.slice(0, one.from) + one.insert + field.value.slice(one.to);
    field.setSelectionRange(one.from + one.insert.length, one.from + one.insert.length);
    this.pick = -1;
    this.suggest();
    if (one.insert.endsWith(" ")) this.submit();
  }

  submit() {
    clearTimeout(this.timer);
    const { error } = parse(this.field.value);
    this.say(error || "");
    if (!error) this.apply(this.text);
  }
}
