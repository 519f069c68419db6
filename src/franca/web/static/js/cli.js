// What a page shows, as a command of the command line.

const filter = (state, query) =>
  `'${[`state:${state}`, query].filter(Boolean).join(" ").replace(/'/g, "'\\''")}'`;

export const listCommand = (state, query) => `franca jobs ls ${filter(state, query)}`;
export const showCommand = (id) => `franca jobs show ${id}`;
export const pushCommand = "franca push default hello world";
export const scheduleCommand =
  "franca schedules add nightly default nightly_report --cron '0 4 * * *' --timezone Europe/Berlin";

/** `ids`, or all that a state and a filter fit. */
export const actCommand = (action, { ids, state, q }) =>
  `franca jobs ${action} ${ids ? ids.join(" ") : `--filter ${filter(state, q)}`}`;
