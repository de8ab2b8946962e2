// The frame around all pages: who is logged in, where one can go, what is wrong, what has been done.

import { app, begin, dismiss, has, hold, isAdministrator, isMonitor, isPolicymaker, link, parse, query, redraw, refresh, look, remember, remembered, setPaused, setQuery } from './app.js';
import { ask, get, session } from './api.js';
import { h } from './dom.js';
import { bytes, count, duration, number, plain, time } from './format.js';
import { ICONS, button, dialog, dialogs, icon, problem, toConnection } from './parts.js';

/** A page, with modules that it is made with: all of them come at the same time. @param {Promise<any>} page @param {...Promise<any>} modules */
const load = async (page, ...modules) => (await Promise.all([page, ...modules]))[0];
const chart = () => import('./chart.js');
const list = () => [import('./list.js'), import('./filter.js')];

/** What tabs of a page are made with, by their names. @type {Record<string, () => Promise<any>[]>} */
const TABS = {
  '': () => [],
  messages: () => [import('./browse.js'), import('./messages.js'), import('./redrive.js')],
  tail: () => [import('./tail.js'), import('./messages.js')],
  dead: () => [import('./dead.js'), import('./jobs.js'), import('./redrive.js')],
  topology: () => [import('./topology.js'), ...list()],
};
const tab = (/** @type {URLSearchParams} */ query) => (TABS[query.get('tab') ?? ''] ?? TABS[''])();

/** Pages by the first word of their address; each is loaded when it is opened first. @type {Record<string, (parts: string[], query: URLSearchParams) => Promise<any>>} */
const PAGES = {
  '': () => load(import('./pages/overview.js'), chart()),
  queues: (parts, query) => (parts.length > 2 ? load(import('./pages/queue.js'), chart(), ...tab(query)) : load(import('./pages/queues.js'), chart(), ...list())),
  exchanges: (parts, query) => (parts.length > 2 ? load(import('./pages/exchange.js'), chart(), ...tab(query)) : load(import('./pages/exchanges.js'), ...list())),
  connections: (parts) => (parts.length > 1 ? load(import('./pages/connection.js'), chart()) : load(import('./pages/connections.js'), ...list())),
  channels: (parts) => (parts.length > 1 ? load(import('./pages/channel.js'), chart()) : load(import('./pages/channels.js'), ...list())),
  consumers: () => load(import('./pages/consumers.js'), ...list()),
  delayed: () => import('./pages/delayed.js'),
  parameters: () => import('./pages/parameters.js'),
  tracing: () => import('./pages/tracing.js'),
  log: () => import('./pages/log.js'),
  reference: () => import('./pages/reference.js'),
  vhosts: () => load(import('./pages/vhosts.js'), ...list()),
  users: () => load(import('./pages/users.js'), ...list()),
  policies: () => import('./pages/policies.js'),
  limits: () => import('./pages/limits.js'),
  definitions: () => import('./pages/definitions.js'),
  node: () => import('./pages/node.js'),
};

/** Where one can go: address, label, key after `g`, who sees it. @type {[string, [string, string, string, (() => boolean)?][]][]} */
const NAVIGATION = [
  ['', [['', 'Overview', 'o']]],
  ['Messages', [['queues', 'Queues and streams', 'q'], ['exchanges', 'Exchanges', 'e'], ['delayed', 'Delayed', 'y', isAdministrator]]],
  ['Clients', [['connections', 'Connections', 'c'], ['channels', 'Channels', 'h'], ['consumers', 'Consumers', 's']]],
  ['Administration', [
    ['vhosts', 'Virtual hosts', 'v'], ['users', 'Users', 'u', isAdministrator], ['policies', 'Policies', 'p', isPolicymaker], ['limits', 'Limits', 'l', isAdministrator], ['parameters', 'Parameters', 'a', isPolicymaker],
    ['definitions', 'Definitions', 'd', isAdministrator], ['tracing', 'Traces', 't', isAdministrator], ['log', 'Log and events', 'w', isAdministrator], ['node', 'Node', 'n', isMonitor], ['reference', 'API', 'i'],
  ]],
];

// ---- login

const login = { name: '', password: '', problem: '', busy: false, slow: false, was: false, last: '' };

session.ended = () => {
  remember('login', null);
  if (!app.who) return;
  login.was = true;
  login.password = '';
  login.last = app.who.name;
  app.who = null;
  app.page?.close?.();
  app.page = null;
  redraw();
};

async function submit(event) {
  event.preventDefault();
  login.busy = true;
  login.problem = '';
  const slow = setTimeout(() => { login.slow = true; redraw(); }, 1000);
  redraw();
  const answer = await ask('POST', '/login', new URLSearchParams({ username: login.name, password: login.password }));
  clearTimeout(slow);
  login.busy = false;
  login.slow = false;
  if (answer.ok) {
    login.password = '';
    login.was = false;
    remember('login', true);
    await start();
    if (!app.who) login.problem = 'The browser did not keep the session: allow cookies for this page.';
  } else if (answer.data?.error === 'Not_Authorized' || answer.data?.error === 'not_authorized') {
    login.problem = 'Name or password is wrong.';
  } else if (answer.status === 429) {
    login.problem = 'Too many failed logins from your address. Wait some seconds and try again.';
  } else if (/localhost/.test(answer.reason)) {
    login.problem = 'This user can only log in from the node\u2019s machine. Add another user there: leveret ctl add_user.';
  } else {
    login.problem = answer.reason;
  }
  redraw();
}

function loginPage() {
  return h('main', { class: 'login', key: 'login' }, h('form', { onsubmit: submit },
    h('img', { src: new URL('./hare.svg', import.meta.url).href, alt: '', width: 56, height: 56 }),
    h('h1', null, 'Leveret ', environment()),
    login.was && h('p', { class: 'nothing', role: 'status' }, 'Your session has ended. Log in to continue.'),
    h('label', { class: 'control wide' }, h('span', null, 'Name'), h('input', {
      type: 'text', name: 'username', autocomplete: 'username', autocapitalize: 'none', spellcheck: 'false', required: true, value: login.name,
      mounted: (node) => node.focus(), oninput: (event) => { login.name = event.target.value; },
    })),
    h('label', { class: 'control wide' }, h('span', null, 'Password'), h('input', {
      type: 'password', name: 'password', autocomplete: 'current-password', value: login.password, oninput: (event) => { login.password = event.target.value; },
    })),
    login.problem && problem(login.problem),
    login.slow && h('p', { class: 'nothing', role: 'status' }, 'Logins are delayed after failed attempts.'),
    h('button', { type: 'submit', class: 'button primary', disabled: login.busy }, login.busy ? 'Logging in\u2026' : 'Log in')));
}

// ---- themes

const THEMES = [['system', 'System'], ['light', 'Light'], ['dark', 'Dark'], ['contrast', 'High contrast']];

function setTheme(theme) {
  remember('theme', theme);
  document.documentElement.dataset.theme = theme;
  redraw();
  window.dispatchEvent(new Event('theme'));
}

document.documentElement.dataset.theme = remembered('theme', 'system');

// ---- the frame

let isMenuOpen = false;

function navigation() {
  const open = app.route.parts[0] ?? '';
  return h('nav', { class: `navigation ${isMenuOpen ? 'open' : ''}`, id: 'navigation', 'aria-label': 'Pages' },
    NAVIGATION.map(([title, entries]) => {
      const seen = entries.filter(([, , , may]) => !may || may());
      return seen.length > 0 && h('div', { class: 'group', key: title }, title && h('h2', null, title),
        seen.map(([address, label]) => h('a', {
          href: link(address ? [address] : [], query('vhost') && address ? { vhost: query('vhost') } : {}),
          'aria-current': open === address ? 'page' : null, onclick: () => { isMenuOpen = false; redraw(); },
        }, label)));
    }),
    views(),
    h('p', { class: 'version' }, app.overview && ['Leveret ', app.overview.product_version]));
}

const label = /** @type {HTMLMetaElement | null} */ (document.querySelector('meta[name=leveret-label]'));

/** Views that the reader has saved. */
function views() {
  const all = remembered('views', []);
  const forget = (view) => { remember('views', all.filter((it) => it !== view)); redraw(); };
  return all.length > 0 && h('div', { class: 'group', key: 'views' }, h('h2', null, 'Saved views'), all.map((view) => h('div', { class: 'saved' }, h('a', { href: view.address, 'aria-current': location.hash === view.address ? 'page' : null }, plain(view.name)),
    h('button', { type: 'button', class: 'button quiet', 'aria-label': `Delete the view ${plain(view.name)}`, onclick: () => forget(view) }, icon(ICONS.close)))));
}

/** The environment that the node is part of. */
const environment = () => label?.content && h('span', { class: `label-of label-${label.dataset.color}` }, plain(label.content));

function top() {
  const vhost = query('vhost');
  const cluster = app.overview?.cluster_name ?? '';
  return h('header', { class: 'top' },
    h('button', { type: 'button', class: 'button quiet menu', 'aria-label': 'Pages', 'aria-expanded': String(isMenuOpen), 'aria-controls': 'navigation', onclick: () => { isMenuOpen = !isMenuOpen; redraw(); } }, icon(ICONS.menu)),
    h('a', { class: 'brand', href: '#/' }, h('img', { src: new URL('./hare.svg', import.meta.url).href, alt: '', width: 26, height: 26 }), h('span', null, 'Leveret')),
    environment(),
    h('span', { class: 'cluster', title: 'Name of the cluster' }, plain(cluster)),
    h('span', { class: 'grow' }),
    h('button', { type: 'button', class: 'button search', onclick: searchEverything, 'aria-keyshortcuts': 'Control+K' }, icon(ICONS.search), h('span', null, 'Search'), h('kbd', { 'aria-hidden': 'true' }, 'Ctrl K')),
    h('label', { class: 'vhosts' }, h('span', { class: 'hidden' }, 'Virtual host'), h('select', { onchange: (event) => chooseVhost(event.target.value) },
      h('option', { value: '', selected: vhost === '' }, 'All virtual hosts'),
      app.vhosts.map((it) => h('option', { value: it.name, selected: it.name === vhost }, plain(it.name))))),
    h('span', { class: `live ${app.paused ? 'paused' : isOld() ? 'lost' : ''}`, title: app.loadedAt ? `Figures of ${time(app.loadedAt)}` : '' }, app.paused ? 'Paused' : app.loadedAt ? `Updated ${ago() < 2000 ? 'just now' : `${duration(ago())} ago`}` : 'Loading\u2026'),
    button('', () => setPaused(!app.paused), { kind: 'quiet', icon: app.paused ? ICONS.play : ICONS.pause, label: app.paused ? 'Resume' : 'Pause', title: app.paused ? 'Resume (p)' : 'Pause (p)' }),
    jobs(),
    h('details', { class: 'menu-of', key: 'user' }, h('summary', { 'aria-label': `User ${plain(app.who?.name)}` }, icon(ICONS.user), h('span', { class: 'who' }, plain(app.who?.name))),
      h('div', { class: 'popup' },
        h('p', null, h('strong', null, plain(app.who?.name)), h('br'), h('span', { class: 'faint' }, app.who?.tags.join(', ') || 'no tags')),
        h('fieldset', null, h('legend', null, 'Theme'), THEMES.map(([id, label]) => h('label', { class: 'choice' }, h('input', {
          type: 'radio', name: 'theme', value: id, checked: remembered('theme', 'system') === id, onchange: () => setTheme(id),
        }), ' ', label))),
        button('Log out', logout))));
}

/** The view of jobs and of what can be undone, once there is any. @type {(() => any) | null} */
let jobsMenu = null;

function jobs() {
  if (jobsMenu) return jobsMenu();
  if (app.jobs.length + app.undo.length > 0) {
    jobsMenu = () => null;
    import('./jobs.js').then((it) => { jobsMenu = it.jobsMenu; redraw(); });
  }
  return null;
}

function chooseVhost(vhost) {
  const { parts } = app.route;
  if (parts.length > 1) location.hash = link([parts[0]], { vhost });
  else setQuery({ vhost, page: '' }, true);
}

async function logout() {
  // Nothing is asked for with a login that is about to end.
  hold();
  await ask('DELETE', '/login');
  app.dialogs = [];
  session.ended();
  login.was = false;
  redraw();
}

const isOld = () => app.state.lost || app.state.old;
/** Time since the node was heard, ms, in whole seconds. */
const ago = () => Math.floor((Date.now() - app.loadedAt) / 1000) * 1000;
const retry = () => button('Retry', look);

/** A page for which nothing has come, and nothing does. */
const isUnanswered = (page) => isOld() && Object.keys(page.sources()).length > 0 && Object.keys(page.sources()).every((key) => page.data[key] === undefined && page.errors[key] === undefined);

/** An alarm with its figures: what is there, what is wanted, since when, who waits, what helps. */
function alarm({ node, kind }) {
  if (kind === 'maintenance') return ['Node ', plain(node.name), ' is in maintenance: clients cannot connect.'];
  const isMemory = kind === 'memory';
  const since = isMemory ? node.mem_alarm_since : node.disk_free_alarm_since;
  const { items = [], filtered_count: n = 0 } = app.blocked ?? {};
  return [
    `Publishers blocked: ${kind} alarm on `, plain(node.name), since > 0 && ` since ${time(since)}`, '. ',
    isMemory ? `${bytes(node.mem_used)} in use, limit ${bytes(node.mem_limit)}.` : `${bytes(node.disk_free)} free, limit ${bytes(node.disk_free_limit)}.`,
    n > 0 && [` ${count(n, 'connection')} blocked: `, items.map((it, at) => [at > 0 && ', ', toConnection(it.name, it.user_provided_name || it.name)]), n > items.length && ` and ${number(n - items.length)} more`, '.'],
    isMemory ? ' Consume or purge queues, or raise vm_memory_high_watermark.' : ' Free disk space, purge queues, or lower disk_free_limit.',
  ];
}

function alarms() {
  const { alarms, lost, stale } = app.state;
  return h('div', { class: 'alarms', role: 'status' },
    isOld() && h('p', { class: 'alarm bad' }, icon(ICONS.warn), lost ? ' The node does not answer.' : ' The node sends no figures.', app.loadedAt > 0 && [' What you see is of ', time(app.loadedAt)], '. ', retry()),
    stale && h('p', { class: 'alarm' }, icon(ICONS.warn), ' The node serves a newer version of this page. ', button('Reload', () => location.reload())),
    alarms.map((it) => h('p', { class: `alarm ${it.kind === 'maintenance' ? '' : 'bad'}` }, icon(ICONS.warn), ' ', alarm(it))));
}

const notes = () => h('div', { class: 'notes', role: 'status', 'aria-live': 'polite' }, app.notes.map((note) => h('p', { key: note.id, class: `note ${note.bad ? 'bad' : ''}` },
  icon(note.bad ? ICONS.warn : ICONS.check), h('span', null, note.text), note.act && button(note.act.label, () => { note.act?.run(); dismiss(note.id); }),
  h('button', { type: 'button', class: 'button quiet', 'aria-label': 'Dismiss', onclick: () => dismiss(note.id) }, icon(ICONS.close)))));

app.shell = () => {
  if (!app.who) return isStarted ? loginPage() : null;
  const page = app.page;
  return [
    h('a', { class: 'skip', href: '#content', key: 'skip', onclick: (event) => { event.preventDefault(); document.getElementById('content')?.focus(); } }, 'Skip to content'),
    h('div', { class: 'frame', key: 'frame' }, top(), navigation(),
      h('main', { id: 'content', tabindex: -1, class: isOld() ? 'old' : null, 'aria-busy': String(!page) }, alarms(), page ? h('div', { class: 'page', key: pageKey, 'data-address': app.address }, isUnanswered(page) ? [h('h1', null, plain(page.title)), problem(['Nothing has come from the node for this page. ', retry()])] : page.view()) : openProblem && h('div', { class: 'page', key: 'problem' }, h('h1', null, openProblem.title), problem([openProblem.text, ' ', openProblem.again && button('Retry', open)])))),
    dialogs(), notes(), extras.map((view) => view()),
  ];
};

/** Views over the page that are loaded when they are asked for. @type {(() => any)[]} */
const extras = [];

async function searchEverything() {
  const { openPalette, palette } = await import('./palette.js');
  if (!extras.includes(palette)) extras.push(palette);
  openPalette(NAVIGATION.flatMap(([, entries]) => entries).filter(([, , , may]) => !may || may()).map(([address, label]) => ({ label, address: link(address ? [address] : []) })));
}

const KEYS = [['Ctrl K', 'search everything'], ['/', 'filter the list'], ['n, b', 'next, previous page of a list'], ['p', 'pause, resume'], ['?', 'keyboard shortcuts']];

/** The keys, for those who ask. */
function showKeys() {
  dialog({
    title: 'Keyboard shortcuts', act: 'Close', requests: () => [],
    says: h('dl', { class: 'keys' }, [...KEYS, ...NAVIGATION.flatMap(([, entries]) => entries).filter(([, , , may]) => !may || may()).map(([, label, key]) => [`g ${key}`, label])].map(([key, label]) => h('div', null, h('dt', null, h('kbd', null, key)), h('dd', null, label)))),
  });
}

// ---- routes

let pageKey = '';
let openProblem = /** @type {{title: string, text: string, again?: boolean} | null} */ (null);
let isStarted = false;

/** Time within which a page's modules are to come, ms. */
const LOAD_MS = 8000;

/** @template T @param {Promise<T>} it @returns {Promise<T>} */
const inTime = (it) => Promise.race([it, /** @type {Promise<T>} */ (new Promise((_, reject) => { setTimeout(() => reject(new Error('the node does not answer')), LOAD_MS); }))]);

async function open() {
  const before = app.route;
  app.route = parse(location.hash);
  const { parts } = app.route;
  const key = parts.join('/');
  if (app.page && key === pageKey && before.parts.length === parts.length) {
    app.address = location.hash;
    redraw();
    refresh();
    return;
  }
  app.page?.close?.();
  const loads = PAGES[parts[0] ?? ''];
  openProblem = null;
  if (!loads) {
    app.page = null;
    openProblem = { title: 'Page not found', text: `There is no page at ${plain(location.hash)}.` };
    redraw();
    return;
  }
  try {
    const module = await inTime(loads(parts, app.route.query));
    if (app.route.parts.join('/') !== key) return;
    app.page = Object.assign(module.open(parts, app.route.query), { data: {}, errors: {} });
    pageKey = key;
    app.address = location.hash;
  } catch (error) {
    if (app.route.parts.join('/') !== key) return;
    app.page = null;
    app.state.stale = !isOld();
    openProblem = { again: true, title: 'Page not loaded', text: `The page could not be loaded: ${error.message}` };
  }
  document.title = app.page ? `${plain(app.page.title)} \u00b7 Leveret` : 'Leveret';
  window.scrollTo(0, 0);
  redraw();
  refresh();
}

window.addEventListener('hashchange', open);
window.addEventListener('popstate', () => {
  if (app.who && link(app.route.parts, Object.fromEntries(app.route.query)) !== location.hash) open();
});

async function start() {
  isStarted = true;
  const { parts, query } = parse(location.hash);
  // Nobody is asked for whom no login is known: that is no error. The page's modules come meanwhile.
  if (remembered('login', false)) PAGES[parts[0] ?? '']?.(parts, query).catch(() => {});
  const answer = remembered('login', false) ? await get('/whoami?permissions=true') : null;
  if (!answer) {
    redraw();
    return;
  }
  if (answer.ok) {
    app.who = answer.data;
    // A dialog that was being filled in stays, for who filled it in.
    if (login.last !== app.who?.name) app.dialogs = [];
    begin();
    await open();
  } else if (answer.status === 0) {
    app.state.lost = true;
    setTimeout(start, 2000);
  } else if (answer.status === 401 && answer.data?.error === 'not_authorised') {
    login.problem = answer.reason;
  }
  redraw();
}

// ---- the keyboard

let isGoing = 0;

function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

document.addEventListener('keydown', (event) => {
  if (app.who && event.key === 'k' && (event.ctrlKey || event.metaKey) && app.dialogs.length === 0) {
    event.preventDefault();
    searchEverything();
    return;
  }
  if (!app.who || event.altKey || event.metaKey || event.ctrlKey) return;
  if (isTyping(event.target) || app.dialogs.length > 0) return;
  if (Date.now() - isGoing < 1500) {
    isGoing = 0;
    const found = NAVIGATION.flatMap(([, entries]) => entries).find(([, , key, may]) => key === event.key && (!may || may()));
    if (found) location.hash = link(found[0] ? [found[0]] : []);
    return;
  }
  const own = app.page?.keys?.[event.key];
  const act = own ?? {
    g: () => { isGoing = Date.now(); },
    p: () => setPaused(!app.paused),
    '?': showKeys,
    '/': () => /** @type {HTMLElement | null} */ (document.querySelector('[data-filter]'))?.focus(),
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

document.addEventListener('click', (event) => {
  for (const menu of document.querySelectorAll('details.menu-of[open]')) {
    if (event.target instanceof Node && !menu.contains(event.target)) menu.removeAttribute('open');
  }
});

document.addEventListener('keyup', (event) => {
  if (event.key !== 'Escape') return;
  for (const menu of document.querySelectorAll('details.menu-of[open]')) {
    menu.removeAttribute('open');
    /** @type {HTMLElement | null} */ (menu.querySelector('summary'))?.focus();
  }
});

start();
