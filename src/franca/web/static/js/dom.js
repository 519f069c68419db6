// Elements, and a patch that changes only what differs. No framework: a view is a function that
// returns a fresh tree, `morph` makes the page look like it, focus, scroll and open details stay.
// Behaviour hangs on `data-act` names, never on closures, so patched nodes cannot lose it.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, kids) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "key") node.setAttribute("data-key", value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  add(node, kids);
  return node;
}

function add(node, kids) {
  for (const kid of kids) {
    if (kid === undefined || kid === null || kid === false || kid === "") continue;
    if (Array.isArray(kid)) add(node, kid);
    else node.append(kid.nodeType ? kid : String(kid));
  }
}

/** An HTML element: h("a", {href: "#/"}, "text", [more, nodes]). */
export const h = (tag, props, ...kids) => fill(document.createElement(tag), props, kids);
/** An SVG element. */
export const s = (tag, props, ...kids) => fill(document.createElementNS(SVG, tag), props, kids);

const keyOf = (node) => (node.nodeType === 1 ? node.getAttribute("data-key") : null);

/** Make `from` look like `to`, keeping every node that can stay. Elements with `data-island` keep
 *  their inside: charts and inputs live there. */
export function morph(from, to) {
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) return from.replaceWith(to);
  if (from.nodeType !== 1) {
    if (from.data !== to.data) from.data = to.data;
    return undefined;
  }
  if (
    from.hasAttribute("data-island") &&
    from.getAttribute("data-island") === to.getAttribute("data-island")
  )
    return undefined;
  for (const { name, value } of to.attributes)
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  const owned = from.nodeName === "DETAILS";
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !(owned && name === "open")) from.removeAttribute(name);
  }
  if (from.nodeName === "INPUT" && from.type === "checkbox") {
    from.checked = to.hasAttribute("checked");
    from.indeterminate = to.hasAttribute("data-some");
  }
  morphKids(from, to);
  return undefined;
}

export function morphKids(from, to) {
  const keyed = new Map();
  for (const kid of from.childNodes) {
    const key = keyOf(kid);
    if (key !== null) keyed.set(key, kid);
  }
  let at = from.firstChild;
  for (const want of [...to.childNodes]) {
    const key = keyOf(want);
    let have = null;
    if (key !== null) have = keyed.get(key) || null;
    else {
      while (at && keyOf(at) !== null) at = at.nextSibling;
      if (at && at.nodeName === want.nodeName) have = at;
    }
    if (have && have.nodeName === want.nodeName) {
      keyed.delete(key);
      if (have !== at) from.insertBefore(have, at);
      else at = at.nextSibling;
      morph(have, want);
    } else from.insertBefore(want, at);
    (have && have.isConnected ? have : want).stay = true;
  }
  for (const kid of [...from.childNodes]) {
    if (kid.stay) delete kid.stay;
    else kid.remove();
  }
}

/** A place in a view whose inside belongs to somebody else (a chart, the filter input). */
export const island = (name, cls = "") =>
  h("div", { "data-island": name, class: cls, key: `island-${name}` });

/** Put what owns the islands of a view into them. */
export function inhabit(root, owners) {
  for (const place of root.querySelectorAll("[data-island]")) {
    const owner = owners[place.getAttribute("data-island")];
    if (owner && owner.parentNode !== place) place.replaceChildren(owner);
  }
}

export const $ = (selector, root = document) => root.querySelector(selector);
