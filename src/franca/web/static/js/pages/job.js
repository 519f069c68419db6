// One job: its whole story, with nothing left out that would explain why it is where it is.
import { api } from "../api.js";
import { actCommand, showCommand } from "../cli.js";
import { h } from "../dom.js";
import { absolute, bytes, num, span } from "../format.js";
import { stateMark } from "../icons.js";
import { withTerm } from "../query.js";
import { life, story } from "../story.js";
import { button, code, command, confirm, copy, head, proto, section, toast, when } from "../ui.js";
import { ACTIONS, consequence, may, protocolName, verb } from "../words.js";

const BACKOFF = {
  fixed: "constant",
  power: "grows with each failure",
  doubling: "doubles with each failure",
};
const fact = (name, ...value) => [h("dt", null, name), h("dd", null, ...value)];
const mono = (text) => h("span", { class: "mono" }, text);

/** What was sent, as it was sent. */
function content(body, title) {
  if (!body) return null;
  const shown = body.text ?? body.base64 ?? "";
  const notes = [
    bytes(body.bytes),
    body.text === undefined || body.text === null ? "in base64" : "as sent",
    body.cut && "truncated",
  ].filter(Boolean);
  return section(title, { note: notes.join(", ") }, code(shown, { media: body.media }));
}

function policy(job) {
  const { max_failures: failures, max_losses: losses, lease_ms: lease, backoff } = job.policy;
  return h(
    "dl",
    { class: "facts" },
    fact("Retries", failures < 0 ? "unlimited" : num(failures)),
    backoff && failures !== 0 && fact("Retry delay", BACKOFF[backoff] || String(backoff)),
    fact("Lease", lease ? span(lease) : "server default"),
    fact(
      "Losses",
      `${num(job.losses)}, limit: ${losses < 0 ? "server default" : num(losses)}`,
    ),
    fact(
      "When dead",
      job.policy.bury ? (job.policy.keep_dead ? "kept until removed" : "kept") : "not kept",
    ),
  );
}

export function page(ctx) {
  let job = null;
  const id = () => ctx.params[0];

  async function act(action) {
    if (!job || !ctx.may() || !may(job.state, action)) return;
    const words = verb(action);
    const lasting =
      action === "delete" || action === "cancel" || (action === "kill" && job.state === "running");
    if (
      lasting &&
      !(await confirm({
        title: `${words.yes} job ${job.id}?`,
        text: consequence(action, job.state, true),
        yes: words.yes,
      }))
    )
      return;
    const done = await api.act(action, { ids: [job.id] });
    const back =
      action === "kill"
        ? { label: "Retry", act: () => api.act("retry", { ids: [job.id] }).then(ctx.refresh) }
        : {};
    toast(
      done.changed
        ? `Job ${job.id} was ${words.ed}.`
        : `Job ${job.id} has changed its state: nothing was done.`,
      back,
    );
    ctx.refresh();
  }
  async function another() {
    const like = {
      queue: job.queue,
      type: job.type,
      args: (job.body?.text || "").startsWith("[") && !job.body.cut ? job.body.text : "[]",
    };
    (await import("../forms.js")).submitJob(ctx, like);
  }

  function tools() {
    const buttons = (ACTIONS[job.state] || []).map(([action, label, ico], i) =>
      button(label, "do", {
        ico,
        kind: action === "delete" ? "danger" : i === 0 && action === "retry" ? "primary" : "",
        "data-do": action,
      }),
    );
    return [
      buttons,
      job.body?.text?.startsWith("[") && button("Submit another", "submit"),
      button("", "copy", {
        ico: "copy",
        kind: "icon-btn",
        title: "Copy the id (y)",
        "data-text": String(job.id),
      }),
    ];
  }
  function facts() {
    const types = new URLSearchParams({ state: job.state, q: withTerm("", "type", job.type) });
    return h(
      "dl",
      { class: "facts" },
      fact("Id", job.id),
      job.name && fact("Name", mono(job.name)),
      fact(
        "Queue",
        h("a", { class: "inline", href: `#/queues/${encodeURIComponent(job.queue)}` }, job.queue),
      ),
      fact("Type", h("a", { class: "inline", href: `#/jobs?${types}` }, job.type)),
      fact(
        "Submitted",
        proto(job.via),
        " ",
        h("span", { "aria-hidden": "true" }, protocolName(job.via)),
      ),
      fact(
        "Run by",
        job.by
          ? [proto(job.by), " ", h("span", { "aria-hidden": "true" }, protocolName(job.by))]
          : h("span", { class: "dim" }, "not run yet"),
      ),
      fact(
        "Created",
        when(job.created_at),
        h("span", { class: "sub-line" }, absolute(job.created_at)),
      ),
      fact(
        "Attempts",
        num(job.attempts),
        h("span", { class: "dim" }, `, ${num(job.failures)} failed, ${num(job.losses)} lost`),
      ),
      job.key && fact("Key", mono(job.key)),
      fact("Priority", num(job.priority)),
      fact("Stored", job.durable ? "on disk" : "in memory only"),
    );
  }

  return {
    title: () => (job ? `${job.type} ${job.id}` : "Job"),
    async load() {
      job = await api.job(id());
      job.attempt_log ||= [];
    },
    view() {
      const badge = h("span", { class: `badge is-${job.state}` }, stateMark(job.state), job.state);
      return [
        head(h("span", { class: "job-title" }, job.type, badge), {
          sub: [
            h(
              "a",
              { class: "crumb", href: `#/jobs?state=${encodeURIComponent(job.state)}` },
              "Jobs",
            ),
            ` / ${job.id} in `,
            h(
              "a",
              { class: "inline", href: `#/queues/${encodeURIComponent(job.queue)}` },
              job.queue,
            ),
          ],
          tools: tools(),
        }),
        h(
          "div",
          { class: "job-cols" },
          h(
            "div",
            null,
            section("Story", { cls: "flush" }, life(job), story(job)),
            content(job.body, "Arguments"),
            content(job.result, "Result"),
          ),
          h(
            "aside",
            null,
            section("Facts", { cls: "flush" }, facts()),
            job.policy && section("Policy", null, policy(job)),
            job.error_class &&
              section(
                "Same error",
                null,
                h(
                  "p",
                  null,
                  h(
                    "a",
                    {
                      class: "inline",
                      href: `#/errors?${new URLSearchParams({ open: job.error_class })}`,
                    },
                    (job.error || "this error").split(": ")[0],
                  ),
                  h("span", { class: "dim" }, ": all jobs with this error"),
                ),
              ),
            section(
              "On the command line",
              null,
              command(showCommand(job.id)),
              ACTIONS[job.state]?.length > 0 &&
                command(actCommand(ACTIONS[job.state][0][0], { ids: [job.id] })),
            ),
          ),
        ),
      ];
    },
    actions: { do: (el) => act(el.dataset.do), submit: another },
    keys: {
      r: () => act("retry"),
      c: () => act("cancel"),
      d: () => act("delete"),
      "#": () => act("delete"),
      y: () => copy(String(job.id)),
      Escape: () => (history.length > 1 ? history.back() : ctx.go("/jobs")),
    },
  };
}
