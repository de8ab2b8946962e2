// Views as values, and the page brought in line with them: what is the same stays, with focus, selection and
// what is being typed. Texts are only ever texts: nothing here makes markup of a string.

/**
 * @typedef {{tag: string, key: any, props: Record<string, any>, children: View[], node?: any}} View
 * A view of an element; of a text, `tag` is empty and `key` the text.
 */

const SVG = new Set(['svg', 'path', 'circle', 'rect', 'line', 'g', 'polyline', 'text', 'marker', 'defs', 'title:svg']);
/** Set as properties: as attributes they would not follow. */
const PROPERTIES = new Set(['value', 'checked', 'disabled', 'selected', 'indeterminate', 'open', 'hidden']);

/**
 * A view of an element.
 * @param {string} tag
 * @param {Record<string, any> | null} [props] attributes; functions are handlers; `.name` is a property
 * @param {...any} children views, texts, numbers, lists of them; nothing for null and false
 * @returns {View}
 */
export function h(tag, props, ...children) {
  const views = [];
  flatten(children, views);
  return { tag, key: props?.key, props: props ?? {}, children: views };
}

function flatten(children, into) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === true) continue;
    if (Array.isArray(child)) flatten(child, into);
    else if (typeof child === 'object') into.push(child);
    else into.push({ tag: '', key: String(child), props: {}, children: [] });
  }
}

/**
 * Brings the children of a node in line.
 * @param {any} parent
 * @param {any} children
 */
export function render(parent, children) {
  const views = [];
  flatten([children], views);
  const active = document.activeElement;
  patchChildren(parent, parent.views ?? [], views);
  parent.views = views;
  if (active instanceof HTMLElement && active !== document.activeElement && active.isConnected) {
    active.focus({ preventScroll: true });
  }
}

/** What an old view is found again by. */
function keyOf(view, counts) {
  if (view.key !== undefined && view.tag) return `${view.tag} ${view.key}`;
  const n = counts.get(view.tag) ?? 0;
  counts.set(view.tag, n + 1);
  return `${view.tag}#${n}`;
}

function patchChildren(parent, old, views) {
  const known = new Map();
  let counts = new Map();
  for (const view of old) known.set(keyOf(view, counts), view);
  counts = new Map();
  const pairs = views.map((view) => {
    const key = keyOf(view, counts);
    const before = known.get(key);
    known.delete(key);
    return [view, before];
  });
  for (const gone of known.values()) gone.node.remove();
  let place = parent.firstChild;
  for (const [view, before] of pairs) {
    if (before) patch(before, view);
    else create(view);
    if (view.node === place) place = place.nextSibling;
    else parent.insertBefore(view.node, place);
    if (!before && view.props.mounted) view.props.mounted(view.node);
  }
}

function create(view) {
  if (!view.tag) {
    view.node = document.createTextNode(view.key);
    return;
  }
  const node = SVG.has(view.tag)
    ? document.createElementNS('http://www.w3.org/2000/svg', view.tag)
    : document.createElement(view.tag);
  view.node = node;
  patchChildren(node, [], view.children);
  for (const [name, value] of Object.entries(view.props)) setProp(node, name, value, undefined);
}

function patch(before, view) {
  // Kept by who made it, since nothing in it has changed.
  if (before === view) return;
  view.node = before.node;
  if (!view.tag) {
    if (before.key !== view.key) view.node.data = view.key;
    return;
  }
  patchChildren(view.node, before.children, view.children);
  for (const name of Object.keys(before.props)) {
    if (!(name in view.props)) setProp(view.node, name, undefined, before.props[name]);
  }
  for (const [name, value] of Object.entries(view.props)) {
    if (value !== before.props[name]) setProp(view.node, name, value, before.props[name]);
  }
}

function setProp(node, name, value, before) {
  if (name === 'key' || name === 'mounted') return;
  if (name.startsWith('on')) node[name] = value ?? null;
  else if (name.startsWith('.')) node[name.slice(1)] = value;
  else if (name === 'style') {
    for (const key of Object.keys(before ?? {})) if (!value || !(key in value)) node.style.removeProperty(key);
    for (const [key, it] of Object.entries(value ?? {})) node.style.setProperty(key, it);
  } else if (PROPERTIES.has(name)) node[name] = value ?? (name === 'value' ? '' : false);
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? '' : String(value));
}
