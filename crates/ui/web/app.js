// What the page knows, and how it is kept up to date: the address says what is open, a page says what it
// wants to know, and that is asked for again and again while somebody looks.

import { ask, events, path, sent, session, stream } from './api.js';
import { render } from './dom.js';

/** Shortest time between two looks, ms; what takes the node long is asked for less often. */
const LOOK_EVERY_MS = 1000;
/** Part of the time that asking may take. */
const ASKING_SHARE = 20;
const LOOK_MAX_MS = 15000;
/** Time between two looks at what the frame shows, ms, where the node sends nothing by itself. */
const AROUND_EVERY_MS = 5000;
/** Time after which figures count as old, beside that until they are asked for again, ms. */
const OLD_MS = 5000;
/** Time after which a node that sends nothing at all is asked again, ms. */
const SILENT_MAX_MS = 10000;
/** Time until it is asked again to send figures, where it would not, ms. */
const LIVE_AGAIN_MS = 30000;
/** Shortest time between two draws of what comes by itself, ms. */
const FED_EVERY_MS = 200;
/** Time until what is known is on the screen, ms. */
const SHOWN_WITHIN_MS = 300;
/** Time that a result is shown, ms. */
const SHOWN_MS = 8000;

/**
 * @typedef {import('./dom.js').View} View
 * @typedef {{title: string, sources: () => Record<string, string>, view: () => any, wide?: boolean,
 *   data: Record<string, any>, errors: Record<string, string>, texts?: Record<string, string>, keys?: Record<string, () => void>, close?: () => void}} Page
 */

export const app = {
  /** @type {{name: string, tags: string[], permissions?: any[]} | null} */
  who: null,
  /** @type {any[]} */
  vhosts: [],
  /** What was taken away and can be brought back, the last first. @type {any[]} */
  undo: [],
  /** Work that goes on after its request, the last first. @type {any[]} */
  jobs: [],
  /** @type {any} */
  overview: null,
  /** Connections that wait for an alarm to end. @type {any} */
  blocked: null,
  /** What is wrong with the node right now; `old` is why and since when there are no figures. @type {{alarms: any[], lost: boolean, old: boolean, stale: boolean}} */
  state: { alarms: [], lost: false, old: false, stale: false },
  route: { parts: /** @type {string[]} */ ([]), query: new URLSearchParams() },
  /** The address of what is shown; another one while a page is on its way. */
  address: '',
  /** @type {Page | null} */
  page: null,
  paused: false,
  /** When the node was heard last, and until when it is to be heard again. */
  loadedAt: 0,
  dueAt: 0,
  /** @type {{id: number, text: string, bad: boolean, act?: {label: string, run: () => void}}[]} */
  notes: [],
  /** @type {any[]} */
  dialogs: [],
  /** @type {() => any} */
  shell: () => [],
};

let isDrawn = true;

/** Brings the page in line with what is known, once a frame for all that changed. */
export function redraw() {
  if (!isDrawn) return;
  isDrawn = false;
  const draw = () => {
    takeFed();
    isDrawn = true;
    render(document.body, app.shell());
  };
  if (document.hidden) queueMicrotask(draw);
  else requestAnimationFrame(draw);
}

let fedTimer = 0;
let fedAt = -FED_EVERY_MS;

/** The same for what comes by itself, however often it does. @param {number} [every] shortest time between two draws, ms */
export function redrawFed(every = FED_EVERY_MS) {
  if (fedTimer !== 0) return;
  fedTimer = window.setTimeout(() => {
    fedTimer = 0;
    fedAt = performance.now();
    redraw();
  }, Math.max(0, every - (performance.now() - fedAt)));
}

/** Tells the result of something. @param {string} text @param {boolean} [bad] @param {{label: string, run: () => void}} [act] what can be done about it */
export function tell(text, bad = false, act = undefined) {
  const note = { id: Math.random(), text, bad, act };
  app.notes = [...app.notes.slice(-3), note];
  redraw();
  if (!bad) setTimeout(() => dismiss(note.id), act ? 3 * SHOWN_MS : SHOWN_MS);
}

export function dismiss(id) {
  app.notes = app.notes.filter((note) => note.id !== id);
  redraw();
}

/** @param {...string} tags */
export const has = (...tags) => !!app.who?.tags.some((tag) => tags.includes(tag));
export const isAdministrator = () => has('administrator');
export const isMonitor = () => has('administrator', 'monitoring');
export const isPolicymaker = () => has('administrator', 'policymaker');

/**
 * Whether who is here has a permission for a name in a virtual host, as far as the page can tell; without a name, for any.
 * @param {'configure' | 'write' | 'read'} operation @param {string} vhost @param {string} [name]
 */
export function may(operation, vhost, name) {
  const all = app.who?.permissions;
  if (!all) return true;
  const patterns = all.filter((it) => vhost === '' || it.vhost === vhost).map((it) => it[operation]).filter((it) => it !== '' && it !== '^$');
  return patterns.some((pattern) => {
    try {
      return name === undefined || new RegExp(pattern, 'u').test(name || 'amq.default');
    } catch {
      return true;
    }
  });
}
/** Whether a connection of this user may be closed. @param {string} user */
export const mayClose = (user) => isMonitor() || user === app.who?.name;

/** The virtual host that is looked at, or none. */
export const vhostNow = () => query('vhost') || (['queues', 'exchanges', 'delayed'].includes(app.route.parts[0]) && app.route.parts[1]) || '';

// ---- the address

/** An address within the page. @param {string[]} parts @param {Record<string, any>} [query] */
export function link(parts, query = {}) {
  const words = Object.entries(query).filter(([, value]) => value !== '' && value !== null && value !== undefined && value !== false);
  const search = new URLSearchParams(words.map(([key, value]) => [key, String(value)])).toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${search ? `?${search}` : ''}`;
}

/** RabbitMQ's addresses have a name of its own for the exchange without one. */
export const exchangeLink = (vhost, name) => link(['exchanges', vhost, name === '' ? 'amq.default' : name]);
export const queueLink = (vhost, name, query) => link(['queues', vhost, name], query);

export function parse(hash) {
  const [address, search] = hash.replace(/^#?\/?/, '').split('?', 2);
  const decoded = (part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  return { parts: address.split('/').filter((part) => part !== '').map(decoded), query: new URLSearchParams(search ?? '') };
}

/** Whether all that is shown is of one virtual host, so that a row need not say which. */
export const isOneVhost = () => query('vhost') !== '' || app.vhosts.length < 2;

/** A word of the address's query. @param {string} name */
export const query = (name, otherwise = '') => app.route.query.get(name) ?? otherwise;

/**
 * Changes words of the query; the same page stays.
 * @param {Record<string, any>} changes
 * @param {boolean} [keeps] whether the way back leads to what was before
 */
export function setQuery(changes, keeps = false) {
  const words = new URLSearchParams(app.route.query);
  for (const [key, value] of Object.entries(changes)) {
    if (value === '' || value === null || value === undefined || value === false) words.delete(key);
    else words.set(key, String(value));
  }
  app.route = { parts: app.route.parts, query: words };
  const address = link(app.route.parts, Object.fromEntries(words));
  if (keeps) history.pushState(null, '', address);
  else history.replaceState(null, '', address);
  app.address = location.hash;
  redraw();
  refresh();
}

// ---- figures

let timer = 0;
let isChanged = false;
let asking = new AbortController();
/** When the node is asked again for a stream of figures that it has refused. */
let liveFrom = 0;
let lookedAround = 0;

/** What the frame around all pages shows: what is wrong with the node, which virtual hosts and jobs there are. */
const around = /** @type {any} */ ({
  data: {}, errors: {}, texts: {},
  sources: () => ({
    vhosts: '/vhosts?columns=name,description,tracing',
    overview: '/overview?columns=node,cluster_name,product_version,rabbitmq_version,object_totals,queue_totals.messages',
    ...(isMonitor() ? { nodes: '/nodes?columns=name,being_drained,mem_used,mem_limit,mem_alarm,mem_alarm_since,disk_free,disk_free_limit,disk_free_alarm,disk_free_alarm_since' } : {}),
    ...(app.state.alarms.some(({ kind }) => kind !== 'maintenance') ? { blocked: '/connections?page=1&page_size=3&columns=name,user_provided_name&where=state:block' } : {}),
    jobs: '/jobs',
    undo: '/undo',
  }),
});

/** Forgets what was shown to who was here before. */
export function begin() {
  Object.assign(around, { data: {}, errors: {}, texts: {} });
  lookedAround = 0;
  liveFrom = 0;
  settle();
}

const sourcesOf = (/** @type {any} */ holder) => Object.entries(holder.sources()).map(([key, address]) => ({ holder, key, address: /** @type {string} */ (address) }));

/** What is looked at now. @param {boolean} [withAround] */
const wanted = (withAround = true) => [...(app.page && !app.paused ? sourcesOf(app.page) : []), ...(withAround ? sourcesOf(around) : [])];

/** Asks for everything anew, now. */
export function refresh() {
  hold();
  asking = new AbortController();
  return load(asking.signal);
}

/** The same, with what the frame shows. */
export function look() {
  lookedAround = 0;
  return refresh();
}

/** Asks for nothing any more until `refresh`. */
export function hold() {
  clearTimeout(timer);
  asking.abort();
}

async function load(signal) {
  if (!app.who) return;
  const wasLost = app.state.lost;
  const began = performance.now();
  const withAround = Date.now() - lookedAround >= AROUND_EVERY_MS;
  try {
    await Promise.all(asked(withAround, signal));
  } catch (error) {
    if (error.name === 'AbortError') return;
    throw error;
  }
  if (signal.aborted) return;
  if (withAround) lookedAround = Date.now();
  if (!app.state.lost) heard();
  if (isChanged || app.state.lost || wasLost) redraw();
  isChanged = false;
  if (document.hidden || !app.who) return;
  await shown();
  if (signal.aborted) return;
  if (!app.state.lost && Date.now() >= liveFrom && await follow(signal)) return;
  if (signal.aborted) return;
  const took = performance.now() - began;
  const wait = Math.min(LOOK_MAX_MS, Math.max(LOOK_EVERY_MS, took * ASKING_SHARE));
  app.dueAt = Math.max(app.dueAt, app.loadedAt + wait + OLD_MS);
  timer = window.setTimeout(() => load(signal), wait);
}

/** The node is there: what is shown is as it is now. */
function heard() {
  app.loadedAt = Date.now();
  app.dueAt = app.loadedAt + OLD_MS;
  if (app.state.old) redraw();
  app.state.old = false;
}

setInterval(() => {
  if (!app.who || document.hidden || app.paused) return;
  app.state.old = app.loadedAt > 0 && Date.now() > app.dueAt;
  redraw();
}, 1000);

/** Waits until what is known is on the screen: a stream of figures is not to be in its way. */
const shown = () => new Promise((resolve) => { setTimeout(resolve, SHOWN_WITHIN_MS); });

/** Answers as they come and are taken. A page is drawn once it is known which virtual hosts there are, so that nothing moves then. */
function asked(withAround, signal) {
  const isNew = around.texts.vhosts === undefined;
  const answers = wanted(withAround).map((source) => ({ source, answer: ask('GET', source.address, undefined, { signal, raw: true }) }));
  const vhosts = answers.find(({ source }) => isNew && source.holder === around && source.key === 'vhosts')?.answer;
  return answers.map(async ({ source, answer }) => {
    const [it] = await Promise.all([answer, vhosts]);
    one(source, it, signal);
  });
}

function one({ holder, key }, answer, signal) {
  if (signal.aborted || (holder !== around && holder !== app.page)) return;
  app.state.lost = answer.status === 0;
  if (answer.status !== 0) take(holder, key, answer, answer.ok ? answer.data : answer.reason);
}

/** Takes an answer. What has come before is neither taken apart nor drawn again. */
function take(holder, key, { ok, status }, text) {
  const texts = (holder.texts ??= {});
  if (texts[key] === text) return;
  const isFirst = texts[key] === undefined;
  texts[key] = text;
  isChanged = true;
  if (ok) {
    holder.data[key] = parsed(text);
    delete holder.errors[key];
  } else {
    holder.errors[key] = text;
    if (status === 404) holder.data[key] = null;
  }
  if (holder === around) settle();
  if (isFirst) redraw();
}

/** Figures that have come by themselves and are not drawn: of each source the last. @type {Map<string, () => void>} */
const fed = new Map();

function takeFed() {
  const all = [...fed.values()];
  fed.clear();
  all.forEach((it) => it());
}

function settle() {
  const { vhosts, overview, jobs, undo, nodes } = around.data;
  app.vhosts = vhosts ?? [];
  app.overview = overview ?? null;
  app.jobs = jobs ?? [];
  app.undo = undo ?? [];
  app.state.alarms = alarmsOf(nodes ?? []);
  app.blocked = around.data.blocked;
}

/** Takes figures as the node sends them, until it does no more; false if it would not. */
async function follow(signal) {
  const sources = wanted();
  const addresses = sources.map(({ address }) => address).join('\n');
  const stop = new AbortController();
  const given = () => stop.abort();
  signal.addEventListener('abort', given, { once: true });
  let patience = window.setTimeout(given, SILENT_MAX_MS);
  try {
    const words = new URLSearchParams(sources.map(({ address }) => ['topics', sent(address)]));
    const response = await stream(`/live?${words}`, {}, stop.signal);
    if (!response.ok || !response.body) {
      liveFrom = Date.now() + LIVE_AGAIN_MS;
      return false;
    }
    const told = () => {
      heard();
      clearTimeout(patience);
      patience = window.setTimeout(given, SILENT_MAX_MS);
    };
    for await (const { id, event, data } of events(response.body, told)) {
      if (signal.aborted) return true;
      const told = event === 'shown' ? { status: 200, reason: data } : JSON.parse(data);
      const isOut = told.status === 401 && told.error !== 'not_authorised';
      if (isOut) session.ended();
      // Too long to be sent again and again.
      if (told.status === 413) liveFrom = Date.now() + LIVE_AGAIN_MS;
      if (isOut || told.status === 413) break;
      for (const { holder, key, address } of sources) {
        if (sent(address) !== id) continue;
        fed.set(`${holder === around} ${key}`, () => (holder === around || holder === app.page) && take(holder, key, { ok: told.status === 200, status: told.status }, told.reason ?? 'not found'));
      }
      redrawFed();
      if (wanted().map(({ address }) => address).join('\n') !== addresses) break;
    }
  } catch {
    // It broke off: what follows says why.
  } finally {
    clearTimeout(patience);
    stop.abort();
  }
  if (!signal.aborted) timer = window.setTimeout(() => load(signal), 0);
  return true;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function setPaused(paused) {
  app.paused = paused;
  app.dueAt = Date.now() + OLD_MS;
  redraw();
  refresh();
}

document.addEventListener('visibilitychange', () => {
  app.dueAt = Date.now() + OLD_MS;
  if (document.hidden) hold();
  else look();
});

function alarmsOf(nodes) {
  return nodes.flatMap((node) => [
    node.mem_alarm && { node, kind: 'memory' },
    node.disk_free_alarm && { node, kind: 'disk' },
    node.being_drained && { node, kind: 'maintenance' },
  ].filter(Boolean));
}

/** The beginning of an address of a list: of one virtual host, or of all. @param {string} list */
export function listPath(list) {
  const vhost = query('vhost');
  return vhost ? `/${list}${path`/${vhost}`}` : `/${list}`;
}

// ---- what a browser remembers

export function remembered(key, otherwise) {
  try {
    const text = localStorage.getItem(`leveret.${key}`);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

export function remember(key, value) {
  try {
    if (value === null) localStorage.removeItem(`leveret.${key}`);
    else localStorage.setItem(`leveret.${key}`, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing.
  }
}
