// What a client needs to know of a listener, and a line that pushes a first job through it.

/** {host, port, path, scheme, tls} of "tcp://h:1", "h:1", "[::1]:1", "unix:/p", "ipc:///p", "/p". */
function parts(text, tls) {
  const m = /^(?:([a-z+]+):(?:\/\/)?)?(.*)$/.exec(text);
  const rest = m[2];
  if (rest.startsWith("/")) return { path: rest };
  const at = rest.lastIndexOf(":");
  const host = rest.slice(0, at).replace(/^\[|\]$/g, "");
  const any = host === "0.0.0.0" || host === "::" || host === "*" || host === "";
  return {
    host: any ? location.hostname : host,
    port: rest.slice(at + 1),
    tls: tls || m[1] === "tls",
  };
}

const bracket = (host) => (host.includes(":") ? `[${host}]` : host);
const url = (a, scheme, path = "unix://") =>
  a.path ? `${path}${a.path}` : `${scheme}://${bracket(a.host)}:${a.port}`;

const POINT = {
  faktory: (a) => `export FAKTORY_URL=${url(a, a.tls ? "tcp+tls" : "tcp")}`,
  gearman: (a) =>
    a.path
      ? a.path
      : a.tls
        ? `${bracket(a.host)}:${a.port}`
        : `gearman -h ${a.host} -p ${a.port} -w -f QUEUE -- COMMAND`,
  periodic: (a) =>
    a.tls ? `${bracket(a.host)}:${a.port}` : `export PERIODIC_PORT=${url(a, "tcp")}`,
  memodb: (a) => url(a, a.tls ? "tls+tcp" : "tcp", "ipc://"),
  eventmq: (a, part) => `${part ? "" : "export EMQ_BROKER_ADDR="}${url(a, "tcp", "ipc://")}`,
  web: (a) => url(a, a.tls ? "https" : "http"),
  beanstalkd: (a) => (a.path ? `unix:${a.path}` : `${a.host}:${a.port}`),
};

/** A listener with its protocol apart: the server calls one of EventMQ's "eventmq_publish". */
export function named(listener) {
  const [protocol, part = ""] = listener.protocol.split("_");
  return { ...listener, protocol, part: listener.part || part };
}

/** The line to copy: what tells a client of this protocol where the server is. */
export function point(listener) {
  if (listener.client) return listener.client;
  const address = parts(listener.address, listener.tls);
  return (POINT[listener.protocol] || (() => listener.address))(address, listener.part);
}

const PUSH = {
  faktory: (a) =>
    `printf 'HELLO {"v":2}\\r\\nPUSH {"jid":"hello-world-1","jobtype":"hello","queue":"default","args":["world"]}\\r\\nEND\\r\\n' | nc ${a.host} ${a.port}`,
  gearman: (a) => `gearman -h ${a.host} -p ${a.port} -b -f hello world`,
  beanstalkd: (a) =>
    `printf 'use hello\\r\\nput 0 0 60 5\\r\\nworld\\r\\nquit\\r\\n' | nc ${a.host} ${a.port}`,
};

/** What pushes a job to where this page is from. */
export const overHttp = (web) =>
  `curl ${web?.password ? "-u :PASSWORD " : ""}${new URL("api/v1/jobs", location.origin + location.pathname)} -H 'content-type: application/json' -d '{"queue":"default","type":"hello","args":["world"]}'`;

/** {line, pushes}: a line that pushes a job with Debian's tools where there is one, else where to point a client. */
export function firstLine(listener) {
  const address = parts(listener.address, listener.tls);
  const push = PUSH[listener.protocol];
  if (push && !address.path && !address.tls && !listener.password)
    return { line: push(address), pushes: true };
  return { line: point(listener), pushes: false };
}
