// The filter language, the same in the dashboard, the REST API and `franca jobs ls`.
//   queue:mail type:Send* error:Timeout age>1h tries>=3 -via:gearman "free text"
// Terms are joined by AND; `a,b` in a value is OR; `*` stands for anything; `-` in front means not.
export const FIELDS = {
  queue: { hint: "the queue it is in", ops: [":"] },
  type: { hint: "the function or class to run", ops: [":"] },
  via: { hint: "protocol that submitted it", ops: [":"] },
  by: { hint: "protocol that ran it", ops: [":"] },
  worker: { hint: "who runs or ran it", ops: [":"] },
  error: { hint: "kind or text of its last error", ops: [":"] },
  class: { hint: "jobs with the same error, by its id", ops: [":"] },
  arg: { hint: "text in its arguments", ops: [":"] },
  id: { hint: "the server's number for it", ops: [":"] },
  name: { hint: "what its protocol calls it: jid, handle", ops: [":"] },
  key: { hint: "what makes it unique", ops: [":"] },
  age: { hint: "since it was submitted: age>1h", ops: [">", "<"] },
  ended: { hint: "since it ended or died: ended<1h", ops: [">", "<"] },
  ran: { hint: "how long it ran: ran>30s", ops: [">", "<"] },
  tries: { hint: "runs so far: tries>3", ops: [":", ">", "<"] },
};

const SPANS = new Set(["age", "ended", "ran"]);
const TERM = /(-?)(?:([a-z]+)(:|>=|<=|>|<))?("(?:[^"\\]|\\.)*"?|\S+)/gy;

/** {terms: [{not, field, op, value, from, to}], error: text | null} */
export function parse(text) {
  const terms = [];
  let error = null;
  let at = 0;
  while (at < text.length) {
    if (/\s/.test(text[at])) {
      at += 1;
      continue;
    }
    TERM.lastIndex = at;
    const m = TERM.exec(text);
    if (!m) break;
    let [, not, field, op, value] = m;
    if (!field && /^[a-z]+[:<>]=?$/.test(value)) {
      at = TERM.lastIndex;
      continue;
    } // still being typed
    if (field && !FIELDS[field]) error = `There is no field “${field}”. ${nearest(field)}`;
    if (value.startsWith('"')) value = value.slice(1).replace(/"$/, "").replace(/\\(.)/g, "$1");
    if (SPANS.has(field) && spanMs(value) === null)
      error = `“${value}” is not a duration. Write 90s, 5m, 2h or 1d.`;
    terms.push({
      not: not === "-",
      field: field || "text",
      op: op || ":",
      value,
      from: at,
      to: TERM.lastIndex,
    });
    at = TERM.lastIndex;
  }
  return { terms, error };
}

export function spanMs(text) {
  const m = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text);
  return m ? Number(m[1]) * { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 }[m[2]] : null;
}

function nearest(word) {
  const close = Object.keys(FIELDS).filter(
    (name) => name[0] === word[0] || distance(name, word) <= 2,
  );
  close.sort((a, b) => distance(a, word) - distance(b, word));
  return close.length
    ? `Did you mean “${close[0]}”?`
    : `The fields are ${Object.keys(FIELDS).join(", ")}.`;
}

function distance(a, b) {
  let row = [...Array(b.length + 1).keys()];
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1)
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    row = next;
  }
  return row[b.length];
}

export const quote = (value) =>
  /[\s"]/.test(value) ? `"${value.replace(/(["\\])/g, "\\$1")}"` : value;

/** What could follow at the caret: [{text, insert, from, to, hint}]. `known` has values per field, with counts. */
export function complete(text, caret, known) {
  const head = text.slice(0, caret);
  const word = /(-?)([^\s]*)$/.exec(head);
  const from = caret - word[2].length;
  const m = /^([a-z]+)(:|>=|<=|>|<)(.*)$/.exec(word[2]);
  if (m && FIELDS[m[1]]) {
    const typed = m[3].split(",").pop();
    const start = caret - typed.length;
    const values =
      known[m[1]] ||
      (SPANS.has(m[1])
        ? ["30s", "5m", "1h", "1d"].map((v) => ({ value: v }))
        : []);
    return values
      .filter(
        ({ value }) =>
          value.toLowerCase().includes(typed.toLowerCase().replace(/^"|\*/g, "")) &&
          value !== typed,
      )
      .slice(0, 8)
      .map(({ value, hint }) => ({
        text: value,
        insert: `${quote(value)} `,
        from: start,
        to: caret,
        hint: hint || "",
      }));
  }
  return Object.entries(FIELDS)
    .filter(([name]) => name.startsWith(word[2]))
    .map(([name, { hint, ops }]) => ({
      text: name + ops[0],
      insert: name + ops[0],
      from,
      to: caret,
      hint,
    }))
    .slice(0, 12);
}

/** One value for a field, replacing those it had: what a click on a queue's name in the table does. */
export function withTerm(text, field, value) {
  const { terms } = parse(text);
  const kept = terms.filter((t) => t.field !== field).map((t) => text.slice(t.from, t.to));
  return [...kept, `${field}:${quote(value)}`].join(" ");
}
