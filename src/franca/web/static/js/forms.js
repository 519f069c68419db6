// The two forms of the dashboard: a job, and a schedule. What is wrong is said by the server, beside
// what was typed.
import { api } from "./api.js";
import { h } from "./dom.js";
import { spanMs } from "./query.js";
import { toast } from "./ui.js";

const field = (name, label, options = {}) => ({ name, label, ...options });

function control({ name, value = "", rows, choices, ...rest }) {
  const attributes = {
    class: "field",
    id: `f-${name}`,
    name,
    autocomplete: "off",
    spellcheck: "false",
    ...rest,
  };
  delete attributes.label;
  delete attributes.hint;
  if (choices)
    return h(
      "select",
      attributes,
      choices.map(([one, label]) => h("option", { value: one, selected: one === value }, label)),
    );
  if (rows) {
    const area = h("textarea", { ...attributes, rows, class: "field mono" });
    area.value = value;
    return area;
  }
  const input = h("input", { type: "text", ...attributes });
  input.value = value;
  return input;
}

/** A form in a dialog. `send(values)` throws what is wrong; the dialog closes once it has not. */
function ask({ title, text, fields, yes, send }) {
  const says = h("p", { class: "form-error", role: "alert", hidden: true });
  const rows = fields.map((one) =>
    h(
      "div",
      { class: "form-row" },
      h("label", { for: `f-${one.name}` }, one.label),
      control(one),
      one.hint && h("p", { class: "hint" }, one.hint),
    ),
  );
  const ok = h("button", { type: "submit", class: "btn primary" }, yes);
  const leave = h("button", { type: "button", class: "btn" }, "Cancel");
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "form-title" }, title),
    text && h("p", null, text),
    rows,
    says,
    h("div", { class: "dialog-foot" }, leave, ok),
  );
  const box = h("dialog", { class: "dialog wide", "aria-labelledby": "form-title" }, form);
  leave.addEventListener("click", () => box.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    says.hidden = true;
    ok.disabled = true;
    try {
      await send(
        Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()])),
      );
      box.close();
    } catch (error) {
      says.textContent = error.message;
      says.hidden = false;
    }
    ok.disabled = false;
  });
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return form;
}

/** The text of a JSON array as it was typed: numbers and the order of keys stay as they are. */
function array(text) {
  let value;
  try {
    value = JSON.parse(text || "[]");
  } catch (error) {
    throw new Error(`The arguments are not valid JSON: ${error.message}`);
  }
  if (!Array.isArray(value)) throw new Error('The arguments must be a JSON array, such as ["world"].');
  return text || "[]";
}

function milliseconds(text, what) {
  const ms = spanMs(text);
  if (ms === null) throw new Error(`${what}: “${text}” is not a duration. Write 90s, 5m, 2h or 1d.`);
  return Math.round(ms);
}

/** Submit a job. `like` fills the form in. */
export function submitJob(ctx, like = {}) {
  ask({
    title: "Submit a job",
    yes: "Submit",
    fields: [
      field("queue", "Queue", { value: like.queue || "default", required: true }),
      field("type", "Type", {
        value: like.type || "",
        required: true,
        hint: "What the worker is to run: the name of a function or a class.",
      }),
      field("args", "Arguments", { value: like.args || "[]", rows: 4, hint: "A JSON array." }),
      field("wait", "Runs in", {
        placeholder: "at once",
        hint: "Such as 90s, 5m, 2h or 1d. Leave it empty to run the job at once.",
      }),
      field("retry", "Retries", {
        placeholder: "25",
        inputmode: "numeric",
        pattern: "[0-9]*",
        hint: "How often the job is tried again after it fails.",
      }),
    ],
    async send({ queue, type, args, wait, retry }) {
      const members = { queue, type };
      if (wait) members.in_ms = milliseconds(wait, "Runs in");
      if (retry) members.retry = Number(retry);
      const job = await api.submit(members, array(args));
      toast(`Job ${job.id} is ${job.state}.`, {
        label: "Open",
        act: () => ctx.go(`/jobs/${job.id}`),
      });
      ctx.refresh();
    },
  });
}

function zones() {
  try {
    return Intl.supportedValuesOf("timeZone");
  } catch {
    return [];
  }
}

/** Make a schedule, or change `one`. */
export function editSchedule(ctx, one = null) {
  const every = one?.every_ms ? seconds(one.every_ms) : "";
  const args = typeof one?.args === "string" ? one.args : JSON.stringify(one?.args ?? []);
  const form = ask({
    title: one ? `Schedule ${one.id}` : "New schedule",
    text: one ? "" : "It submits a job at a fixed interval or by a cron rule.",
    yes: one ? "Save" : "Create",
    fields: [
      field("id", "Id", { value: one?.id || "", required: true, readonly: Boolean(one) }),
      field("queue", "Queue", { value: one?.queue || "default", required: true }),
      field("type", "Type", { value: one?.type || "", required: true }),
      field("args", "Arguments", { value: args, rows: 3, hint: "A JSON array." }),
      field("cron", "Cron", {
        value: one?.cron || "",
        placeholder: "0 4 * * *",
        hint: "Minute, hour, day, month, weekday. Fill in either Cron or Every.",
      }),
      field("every", "Every", { value: every, placeholder: "10m", hint: "Such as 30s, 10m, 6h or 1d." }),
      field("timezone", "Time zone", {
        value: one?.timezone || "UTC",
        list: "zones",
        hint: "For the cron rule.",
      }),
    ],
    async send(typed) {
      if (Boolean(typed.cron) === Boolean(typed.every))
        throw new Error("Fill in either Cron or Every.");
      const members = {
        queue: typed.queue,
        type: typed.type,
        timezone: typed.timezone || "UTC",
      };
      if (typed.cron) members.cron = typed.cron;
      else members.every_ms = milliseconds(typed.every, "Every");
      // Arguments that are no JSON, as other protocols make them, stay unless they are changed.
      const changed = typed.args === args ? undefined : array(typed.args);
      if (one) await api.putSchedule(one.id, members, changed);
      else await api.addSchedule({ id: typed.id, ...members }, array(typed.args));
      toast(one ? `${typed.id} was saved.` : `${typed.id} was created.`);
      ctx.refresh();
    },
  });
  form.append(
    h(
      "datalist",
      { id: "zones" },
      zones().map((zone) => h("option", { value: zone })),
    ),
  );
}

function seconds(ms) {
  for (const [unit, size] of [
    ["d", 864e5],
    ["h", 36e5],
    ["m", 6e4],
    ["s", 1e3],
  ])
    if (ms % size === 0) return `${ms / size}${unit}`;
  return `${ms}ms`;
}
