"use strict";
// A browser that does what it is told.

const axe = require("axe-core");
const { chromium } = require("playwright-core");
const { obey, spec } = require("../../real/node/program.js");

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--hide-scrollbars", "--disable-component-update", "--disable-sync",
];
const PATIENCE = { timeout: 25_000 };
let browser, context, page, origin, isClocked;
let elsewhere = [];
let complaints = [];

// A window that has never been used.
async function renew(clock = false) {
  if (context) await context.close();
  context = await browser.newContext({ reducedMotion: "reduce", timezoneId: "UTC", locale: "en-GB" });
  page = await context.newPage();
  isClocked = clock;
  if (clock) await page.clock.install();
  page.on("request", (request) => { if (new URL(request.url()).origin !== origin) elsewhere.push(request.url()); });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") complaints.push(`${message.text()} ${message.location().url}`); });
}

// Whether the window that is there knows nothing any more: that takes a third of what a new one does.
async function forgotten() {
  if (!page || isClocked) return false;
  try {
    await page.evaluate("Storage.prototype.setItem = () => {}; localStorage.clear(); sessionStorage.clear()");
    await page.goto("about:blank");
    await context.clearCookies();
    return true;
  } catch {
    return false;
  }
}

const verbs = {
  // A new window; `look` is {width, height, scheme, url}. What it asks of another origin, and what it complains of, is kept.
  async open(look = {}) {
    if (look.clock || !(await forgotten())) await renew(look.clock);
    await page.setViewportSize({ width: look.width || 1440, height: look.height || 900 });
    await page.emulateMedia({ colorScheme: look.scheme || "light" });
    origin = look.url && new URL(look.url).origin;
    elsewhere = [];
    complaints = [];
    if (look.url) await verbs.go(look.url);
  },
  async go(url) {
    await page.goto(url);
    await verbs.until("document.documentElement.dataset.ready === 'yes' || Boolean(document.querySelector('form'))");
  },
  resize: (width, height) => page.setViewportSize({ width, height }),
  js: (expression) => page.evaluate(expression),
  // Asked again and again from outside: the page's policy lets no text be run in it.
  async until(expression) {
    for (const end = Date.now() + PATIENCE.timeout; Date.now() < end; ) {
      if (await page.evaluate(expression).catch((error) => /context|navigat/i.test(error.message) ? false : Promise.reject(error))) return true;
      await new Promise((later) => setTimeout(later, 25));
    }
    throw new Error(`never true: ${expression}`);
  },
  // Time goes by in a page that was opened with `clock`, all at once.
  pass: (ms) => page.clock.runFor(ms),
  press: (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve()),
  click: (selector) => page.click(selector, PATIENCE),
  fill: (selector, text) => page.fill(selector, text, PATIENCE),
  type: (text) => page.keyboard.type(text),
  text: (selector) => page.textContent(selector, PATIENCE),
  shot: (path, whole = false) => page.screenshot({ path, fullPage: whole }).then(() => true),
  // A picture of all of a file, which needs no server.
  async pictureOfFile(url, path, width) {
    await verbs.open({ width });
    await page.goto(url);
    await page.screenshot({ path, fullPage: true });
    return true;
  },
  elsewhere: () => elsewhere,
  complaints: () => complaints,
  // What axe finds: [{id, impact, help, nodes}]. Its own code runs apart from the page's policy.
  async axe(scope = "document") {
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate((where) => window.axe.run(where === "document" ? document : where), scope);
    return violations.map(({ id, impact, help, nodes }) => ({ id, impact, help, nodes: nodes.slice(0, 6).map(({ html, failureSummary }) => `${html.slice(0, 200)} | ${failureSummary}`) }));
  },
};

(async () => {
  browser = await chromium.launch({ executablePath: spec.chromium, args: FLAGS });
  await obey(verbs, () => browser.close());
})();
