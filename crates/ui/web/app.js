// What the page knows, and how it is kept up to date: the address says what is open, a page says what it
// wants to know, and that is asked for again and again while somebody looks.

import { ask, get, path } from './api.js';
import { render } from './dom.js';

/** Shortest time between two looks, ms; what takes the node long is asked for less often. */
const LOOK_EVERY_MS = 1000;
/** Part of the time that asking may take. */
const ASKING_SHARE = 20;
const LOOK_MAX_MS = 15000;
/** Time that a result is shown, ms. */
const SHOWN_MS = 8000;

/**
 * @typedef {import('./dom.js').View} View
 * @typedef {{title: string, sources: () => Record<string, string>, view: () => any, wide?: boolean,
 *   data: Record<string, any>, errors: Record<string, string>, texts?: Record<string, string>, keys?: Record<string, () => void>, close?: () => void}} Page
 */

export const app = {
  /** @type {{name: string, tags: string[]} | null} */
  who: null,
  /** @type {any[]} */
  vhosts: [],
  /** @type {any} */
  overview: null,
  /** What is wrong with the node right now. @type {{alarms: any[], lost: boolean, stale: boolean}} */
  state: { alarms: [], lost: false, stale: false },
  route: { parts: /** @type {string[]} */ ([]), query: new URLSearchParams() },
  /** The address of what is shown; another one while a page is on its way. */
  address: '',
  /** @type {Page | null} */
  page: null,
  paused: false,
  /** When the page's figures came. */
  loadedAt: 0,
  /** @type {{id: number, text: string, bad: boolean}[]} */
  notes: [],
  /** @type {any[]} */
  dialogs: [],
  /** @type {() => any} */
  shell: () => [],
};

let isDrawn = true;

/** Brings the page in line with what is known, once for all that changed. */
export function redraw() {
  if (!isDrawn) return;
  isDrawn = false;
  queueMicrotask(() => {
    isDrawn = true;
    render(document.body, app.shell());
  });
}

/** Tells the result of something. @param {string} text @param {boolean} [bad] */
export function tell(text, bad = false) {
  const note = { id: Math.random(), text, bad };
  app.notes = [...app.notes.slice(-3), note];
  redraw();
  if (!bad) setTimeout(() => dismiss(note.id), SHOWN_MS);
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

/** Asks for everything anew, now. */
export function refresh() {
  clearTimeout(timer);
  asking.abort();
  asking = new AbortController();
  return load(asking.signal);
}

/** Asks for nothing any more until `refresh`. */
export function hold() {
  clearTimeout(timer);
  asking.abort();
}

async function load(signal) {
  const page = app.page;
  if (!page || !app.who) return;
  const wasLost = app.state.lost;
  const began = performance.now();
  try {
    await Promise.all(Object.entries(page.sources()).map(([key, address]) => one(page, key, address, signal)));
  } catch (error) {
    if (error.name === 'AbortError') return;
    throw error;
  }
  if (signal.aborted) return;
  app.loadedAt = app.state.lost ? app.loadedAt : Date.now();
  if (isChanged || app.state.lost || wasLost) redraw();
  isChanged = false;
  const took = performance.now() - began;
  schedule(Math.min(LOOK_MAX_MS, Math.max(LOOK_EVERY_MS, took * ASKING_SHARE)));
}

async function one(page, key, address, signal) {
  const answer = await ask('GET', address, undefined, { signal, raw: true });
  if (signal.aborted || page !== app.page) return;
  app.state.lost = answer.status === 0;
  if (answer.status === 0) return;
  // What has come before is neither taken apart nor drawn again.
  const texts = (page.texts ??= {});
  const text = answer.ok ? answer.data : answer.reason;
  if (texts[key] === text) return;
  const isFirst = texts[key] === undefined;
  texts[key] = text;
  isChanged = true;
  if (answer.ok) {
    page.data[key] = parsed(text);
    delete page.errors[key];
  } else {
    page.errors[key] = answer.reason;
    if (answer.status === 404) page.data[key] = null;
  }
  if (isFirst) redraw();
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function schedule(ms) {
  clearTimeout(timer);
  if (app.paused || document.hidden || !app.who) return;
  timer = window.setTimeout(() => load(asking.signal), ms);
}

export function setPaused(paused) {
  app.paused = paused;
  redraw();
  if (paused) clearTimeout(timer);
  else refresh();
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden) clearTimeout(timer);
  else if (!app.paused) refresh();
});

// ---- what the frame around all pages shows

let around = 0;

/** Looks at what is wrong with the node, and which virtual hosts there are. */
export async function lookAround() {
  clearTimeout(around);
  if (!app.who) return;
  if (!document.hidden) {
    const [vhosts, overview, nodes] = await Promise.all([
      get('/vhosts?columns=name,description,tracing'),
      get('/overview?columns=node,cluster_name,product_version,rabbitmq_version,object_totals,queue_totals.messages'),
      isMonitor() ? get('/nodes?columns=name,mem_alarm,disk_free_alarm,being_drained,running,mem_used,mem_limit,disk_free,disk_free_limit') : null,
    ]);
    if (vhosts.ok) app.vhosts = vhosts.data;
    if (overview.ok) app.overview = overview.data;
    if (nodes?.ok) app.state.alarms = alarmsOf(nodes.data);
    if (vhosts.status === 0) app.state.lost = true;
    redraw();
  }
  around = window.setTimeout(lookAround, 5000);
}

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
