// How values are written. One way for each, everywhere: a person learns them once.

const whole = new Intl.NumberFormat("en");
const NB = "\u00a0";

export const num = (n) => (n === null || n === undefined ? "–" : whole.format(Math.round(n)));

/** 947, 12.4k, 124k, 2.41M: three digits that matter. For places where the exact number is a hover away. */
export function short(n) {
  if (n === null || n === undefined) return "–";
  const a = Math.abs(n);
  if (a < 1000) return String(Math.round(n));
  const [by, unit] = a < 999_500 ? [1e3, "k"] : a < 999_500_000 ? [1e6, "M"] : [1e9, "G"];
  const v = n / by;
  return (
    (Math.abs(v) < 9.995
      ? v.toFixed(2)
      : Math.abs(v) < 99.95
        ? v.toFixed(1)
        : v.toFixed(0)
    ).replace(/\.0+$/, "") + unit
  );
}

/** A rate, always per second or per minute, never per hour: 184/s, 3.2/s, 12/min. */
export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  if (perSecond === 0) return "0";
  if (perSecond < 0.995)
    return `${(perSecond * 60).toFixed(perSecond * 60 < 10 ? 1 : 0).replace(/\.0$/, "")}/min`;
  return `${perSecond < 9.95 ? perSecond.toFixed(1).replace(/\.0$/, "") : num(perSecond)}/s`;
}

/** A span: 4 ms, 1.24 s, 12 s, 3m 20s, 42m, 3h 05m, 2d 4h. Two units at most. */
export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 0) ms = 0;
  if (ms < 1) return `<1${NB}ms`;
  if (ms < 1000) return `${Math.round(ms)}${NB}ms`;
  const sec = ms / 1000;
  if (sec < 10) return `${sec.toFixed(2).replace(/\.?0+$/, "")}${NB}s`;
  if (sec < 60) return `${Math.floor(sec)}${NB}s`;
  const min = Math.floor(sec / 60);
  if (min < 10)
    return `${min}m${sec % 60 >= 1 ? `${NB}${String(Math.floor(sec % 60)).padStart(2, "0")}s` : ""}`;
  if (min < 60) return `${min}m`;
  const hr = Math.floor(min / 60);
  if (hr < 24) return `${hr}h${min % 60 ? `${NB}${String(min % 60).padStart(2, "0")}m` : ""}`;
  const day = Math.floor(hr / 24);
  return day < 10 && hr % 24 ? `${day}d${NB}${hr % 24}h` : `${day}d`;
}

/** A span by its larger unit alone: 46 s, 3h, 2d. */
export const roughly = (ms) => span(Math.floor(ms / 1000) * 1000).replace(/([mhd])\s.*/, "$1");

const two = (n) => String(n).padStart(2, "0");
export const clockOf = { utc: false };

function parts(at) {
  const d = new Date(at);
  return clockOf.utc
    ? [
        d.getUTCFullYear(),
        d.getUTCMonth() + 1,
        d.getUTCDate(),
        d.getUTCHours(),
        d.getUTCMinutes(),
        d.getUTCSeconds(),
      ]
    : [
        d.getFullYear(),
        d.getMonth() + 1,
        d.getDate(),
        d.getHours(),
        d.getMinutes(),
        d.getSeconds(),
      ];
}

/** 14:02, 14:02:31 */
export function clock(at, seconds = false) {
  const [, , , hh, mm, ss] = parts(at);
  return `${two(hh)}:${two(mm)}${seconds ? `:${two(ss)}` : ""}`;
}

/** 2026-11-16 14:02:31.250 UTC: for hovers, and for copying. */
export function absolute(at) {
  const [y, mo, d, hh, mm, ss] = parts(at);
  const ms = String(Math.abs(Math.round(at)) % 1000).padStart(3, "0");
  let zone = "UTC";
  if (!clockOf.utc) {
    const off = -new Date(at).getTimezoneOffset();
    zone = off
      ? `UTC${off < 0 ? "−" : "+"}${two(Math.floor(Math.abs(off) / 60))}:${two(Math.abs(off) % 60)}`
      : "UTC";
  }
  return `${y}-${two(mo)}-${two(d)} ${two(hh)}:${two(mm)}:${two(ss)}.${ms} ${zone}`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/** 16 Nov 14:02 */
export function day(at) {
  const [, mo, d, hh, mm] = parts(at);
  return `${d}${NB}${MONTHS[mo - 1]} ${two(hh)}:${two(mm)}`;
}

/** The clock alone within a day of now, else the day as well. */
export const near = (at, now) => (Math.abs(at - now) < 86_400_000 ? clock(at) : day(at));

const seconds = (ms) => span(Math.floor(ms / 1000) * 1000);
export const ago = (at, now = Date.now()) => (now - at < 1000 ? "now" : `${seconds(now - at)} ago`);
export const ahead = (at, now = Date.now()) =>
  at - now < 1000 ? "now" : `in ${seconds(at - now)}`;

export function bytes(n) {
  if (n < 1024) return `${n}${NB}B`;
  let unit = -1;
  do {
    n /= 1024;
    unit += 1;
  } while (n >= 1023.5 && unit < 4);
  return `${n < 10 ? n.toFixed(1) : Math.round(n)}${NB}${["KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}

export const percent = (part, all) =>
  !all
    ? "–"
    : part > 0 && part / all < 0.0005
      ? `<0.1${NB}%`
      : `${((part / all) * 100).toFixed(part > 0 && part / all < 0.1 ? 1 : 0)}${NB}%`;
export const plural = (n, one, many = `${one}s`) => `${num(n)} ${n === 1 ? one : many}`;

/** JSON text in lines, by its tokens alone: numbers, key order and escapes stay as they were sent.
 *  Never parse and print again: 9007199254740993 would come out as ...992. Returns [[class, text], ...] per line,
 *  or null if the text is no JSON. */
export function jsonLines(text) {
  const token =
    /\s*(?:("(?:[^"\\]|\\.)*")|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null)|([[\]{},:]))/gy;
  const lines = [[]];
  let depth = 0;
  let end = 0;
  const tokens = [];
  for (let m = token.exec(text); m; m = token.exec(text)) {
    tokens.push(
      m[1] !== undefined
        ? ["str", m[1]]
        : m[2] !== undefined
          ? ["num", m[2]]
          : m[3] !== undefined
            ? ["word", m[3]]
            : ["p", m[4]],
    );
    end = token.lastIndex;
  }
  if (text.slice(end).trim() !== "" || !tokens.length) return null;
  const turn = () => {
    lines.push([["pad", "  ".repeat(depth)]]);
  };
  tokens.forEach(([cls, word], i) => {
    const next = tokens[i + 1];
    const line = () => lines[lines.length - 1];
    if (cls === "str" && next && next[1] === ":") cls = "key";
    if (word === "{" || word === "[") {
      line().push(["p", word]);
      const closed = next && (next[1] === "}" || next[1] === "]") && next[0] === "p";
      depth += 1;
      if (!closed) turn();
    } else if ((word === "}" || word === "]") && cls === "p") {
      const opened = tokens[i - 1] && tokens[i - 1][0] === "p" && "[{".includes(tokens[i - 1][1]);
      depth -= 1;
      if (!opened) turn();
      line().push(["p", word]);
    } else if (word === "," && cls === "p") {
      line().push(["p", ","]);
      turn();
    } else if (word === ":" && cls === "p") line().push(["p", ": "]);
    else line().push([cls, word]);
  });
  return lines;
}

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/** Common cron rules in words; the rule itself always stands beside it. */
export function cronWords(rule) {
  const f = rule.split(/\s+/);
  if (f.length !== 5) return "";
  const [m, hr, dom, mon, dow] = f;
  const every = /^\*\/(\d+)$/;
  const at = /^\d+$/.test(m) && /^\d+$/.test(hr) ? `${two(hr)}:${two(m)}` : null;
  if (rule === "* * * * *") return "every minute";
  if (every.test(m) && hr === "*" && dom === "*" && dow === "*")
    return `every ${m.match(every)[1]} minutes`;
  if (/^\d+$/.test(m) && hr === "*" && dom === "*" && dow === "*")
    return `every hour at :${two(m)}`;
  if (at && dom === "*" && mon === "*" && dow === "*") return `every day at ${at}`;
  if (at && dom === "*" && dow === "1-5") return `weekdays at ${at}`;
  if (at && dom === "*" && /^\d$/.test(dow)) return `every ${DAYS[dow % 7]} at ${at}`;
  if (at && /^\d+$/.test(dom) && mon === "*") return `monthly, day ${dom}, at ${at}`;
  return "";
}
