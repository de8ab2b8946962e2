// The dead letters of a queue: by the reason, where and when they died, to be sent on or removed by groups.

import { queueLink, redraw } from './app.js';
import { ask, path } from './api.js';
import { h } from './dom.js';
import { count, number, plain, time } from './format.js';
import { jobsOf, jobView } from './jobs.js';
import { button, name, nothing, problem, section, table, tag, to, toExchange } from './parts.js';
import { redrive, remove } from './redrive.js';

/** Messages of a page, and those that are looked at before the reader says to go on. */
const PAGE = 500;
const LOOKED_MAX = 10000;
/** Keys of a group that are named. */
const KEYS_SHOWN = 3;
/** Groups that one condition can be for. */
const CHOSEN_MAX = 20;

const DEAD = 'x-death.reason IS NOT NULL';

const text = (it) => `'${String(it).replaceAll("'", "''")}'`;

/** The condition that is true for the messages of a group. @param {any} group */
const conditionOf = ({ reason, queue, exchange }) => `x-death.reason = ${text(reason)} AND x-death.queue = ${text(queue)} AND x-death.exchange = ${text(exchange)}`;

/** Adds a message to its group. @param {Map<string, any>} groups @param {any} message */
function sortIn(groups, message) {
  const [last] = message.deaths ?? [];
  if (!last) return;
  const key = [last.reason, last.queue, last.exchange].join('\0');
  let group = groups.get(key);
  if (!group) groups.set(key, group = { key, reason: last.reason, queue: last.queue, exchange: last.exchange, n: 0, most: 0, first: Infinity, latest: 0, keys: new Set() });
  const times = message.deaths.map((death) => (death.time ?? 0) * 1000).filter((at) => at > 0);
  group.n += 1;
  group.most = Math.max(group.most, ...message.deaths.map((death) => death.count ?? 1));
  group.first = Math.min(group.first, ...times);
  group.latest = Math.max(group.latest, ...times);
  for (const routing of last['routing-keys'] ?? []) group.keys.add(routing);
}

/** The state of the tab. @param {any} queue */
export function deadLetters(queue) {
  const it = {
    queue, groups: /** @type {Map<string, any>} */ (new Map()), n: 0, next: /** @type {any} */ ('head'), problem: '', busy: false, wasRunning: false,
    chosen: /** @type {Set<string>} */ (new Set()), stop: /** @type {AbortController | null} */ (null),
  };
  lookAgain(it);
  return { view: () => view(it), close: () => it.stop?.abort() };
}

function lookAgain(it) {
  Object.assign(it, { groups: new Map(), n: 0, next: 'head', problem: '', chosen: new Set() });
  return goOn(it);
}

async function goOn(it) {
  it.stop?.abort();
  const stop = new AbortController();
  it.stop = stop;
  it.busy = true;
  const upTo = it.n + LOOKED_MAX;
  try {
    while (it.next !== null && it.n < upTo) {
      const answer = await ask('POST', path`/queues/${it.queue.vhost}/${it.queue.name}/browse`, { from: it.next, limit: PAGE, headers_only: true, filter: DEAD }, { signal: stop.signal });
      if (!answer.ok) {
        it.problem = answer.reason;
        break;
      }
      for (const message of answer.data.messages) sortIn(it.groups, message);
      it.n += answer.data.messages.length;
      it.next = answer.data.next;
      redraw();
    }
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
    return;
  }
  it.busy = false;
  redraw();
}

function view(it) {
  const { queue, groups } = it;
  const jobs = jobsOf(queue);
  if (it.wasRunning && jobs.length === 0) lookAgain(it);
  it.wasRunning = jobs.length > 0;
  const all = [...groups.values()].sort((a, b) => b.n - a.n);
  return [
    jobs.length > 0 && section('Running jobs', jobs.map(jobView)),
    it.problem && problem(it.problem),
    h('p', { role: 'status', class: 'lead' }, it.busy ? `Scanning\u2026 ${number(it.n)} so far.` : all.length === 0 ? it.problem ? '' : 'No dead letters' : [h('strong', null, count(it.n, 'dead letter')), it.next !== null && ', and maybe more', ` in ${count(all.length, 'group')}.`]),
    all.length > 0 && choices(it, all),
    all.length > 0 && list(it, all),
    h('div', { class: 'bar' }, it.next !== null && !it.busy && !it.problem && button('Continue', () => goOn(it)), button('Refresh', () => lookAgain(it), { disabled: it.busy })),
    ownWay(queue),
  ];
}

function choices(it, all) {
  const chosen = all.filter((group) => it.chosen.has(group.key));
  const isAll = chosen.length === 0;
  const n = isAll ? it.n : chosen.reduce((sum, group) => sum + group.n, 0);
  const select = { filter: isAll ? DEAD : chosen.map((group) => `(${conditionOf(group)})`).join(' OR ') };
  const what = isAll ? 'all dead letters' : count(n, 'dead letter');
  return h('div', { class: 'bar' }, button(isAll ? 'Redrive all\u2026' : `Redrive ${number(n)}\u2026`, () => redrive(it.queue, select, what), { kind: 'primary', disabled: chosen.length > CHOSEN_MAX }),
    button(isAll ? 'Remove all\u2026' : `Remove ${number(n)}\u2026`, () => remove(it.queue, select, what, () => lookAgain(it)), { kind: 'danger', disabled: chosen.length > CHOSEN_MAX }),
    !isAll && button('Clear', () => { it.chosen.clear(); redraw(); }, { kind: 'quiet' }));
}

function list(it, all) {
  const { vhost, name: queue } = it.queue;
  const choose = (group) => {
    it.chosen.has(group.key) ? it.chosen.delete(group.key) : it.chosen.add(group.key);
    redraw();
  };
  return section('', table([h('span', { class: 'hidden' }, 'Select'), 'Reason', 'Queue', 'Exchange', 'Routing keys', '#Messages', '#Deaths', 'First', 'Last', ''], all.map((group) => [
    h('input', { type: 'checkbox', 'aria-label': `Select ${plain(group.reason)} in ${plain(group.queue)} by ${plain(group.exchange)}`, checked: it.chosen.has(group.key), onchange: () => choose(group) }),
    tag('bad', plain(group.reason)), group.queue === undefined ? '\u2013' : to(queueLink(vhost, group.queue), name(group.queue)), toExchange(vhost, group.exchange), keys(group.keys), number(group.n), number(group.most), time(Number.isFinite(group.first) ? group.first : 0), time(group.latest),
    to(queueLink(vhost, queue, { tab: 'messages', mf: conditionOf(group) }), 'Show'),
  ])));
}

const keys = (all) => [[...all].slice(0, KEYS_SHOWN).map((key, at) => [at > 0 && ', ', name(key, '(empty)')]), all.size > KEYS_SHOWN && ` and ${number(all.size - KEYS_SHOWN)} more`];

/** Where messages go that die in this queue. */
function ownWay({ vhost, arguments: own, effective_policy_definition: policy }) {
  const exchange = own?.['x-dead-letter-exchange'] ?? policy?.['dead-letter-exchange'];
  const key = own?.['x-dead-letter-routing-key'] ?? policy?.['dead-letter-routing-key'];
  if (exchange === undefined) return nothing('No dead-letter exchange: rejected and expired messages of this queue are discarded.');
  return h('p', { class: 'faint' }, 'Dead letters of this queue go to ', toExchange(vhost, exchange), key === undefined ? ' with their own routing key.' : [' with the routing key ', name(key, '(empty)'), '.']);
}
