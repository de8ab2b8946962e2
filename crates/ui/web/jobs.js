// Jobs of the node: work that goes on after its request, how far it is, and who may pause or end it.

import { app, has, look, queueLink, tell } from './app.js';
import { ask } from './api.js';
import { h } from './dom.js';
import { count, number, plain, time } from './format.js';
import { ICONS, button, dialog, icon, name, tag, to, toExchange, toQueue } from './parts.js';

/** Entries of each kind that are shown. */
const SHOWN_MAX = 20;

const isOver = (job) => !['running', 'paused'].includes(job.state);
const KINDS = { running: 'good', paused: 'warn', cancelled: 'calm', done: 'good', failed: 'bad' };

/** Jobs that are not over, of a queue. @param {any} [queue] */
export const jobsOf = (queue) => app.jobs.filter((job) => !isOver(job) && (!queue || (job.request.queue === queue.name && job.request.vhost === queue.vhost)));

async function steer(job, method, body, told) {
  const answer = await ask(method, `/jobs/${job.id}`, body);
  tell(answer.ok ? told : answer.reason, !answer.ok);
  look();
}

function target({ vhost, to: where }) {
  if (where === undefined) return null;
  if (where === 'origin') return ' to their original exchanges';
  return where.queue === undefined ? [' to ', toExchange(vhost, where.exchange), ' with routing key ', name(where.routing_key, '(empty)')] : [' to ', toQueue(vhost, where.queue)];
}

/** One job, with what can be done about it. @param {any} job */
export function jobView(job) {
  const { request, total, done } = job;
  const stayed = Object.entries(job.stayed ?? {});
  const n = stayed.reduce((sum, [, of]) => sum + of, 0);
  const may = has('administrator') || job.user === app.who?.name;
  return h('section', { class: 'job', key: job.id, 'aria-label': `Job ${job.id}` },
    h('p', null, h('strong', null, `Job ${job.id}`), ' ', tag(KINDS[job.state] ?? 'calm', job.state), ' ', count(total, 'message'), request.undo ? ' back to ' : ' of ', to(queueLink(request.vhost, request.queue, request.undo ? {} : { tab: 'dead' }), name(request.queue)), target(request), job.user !== app.who?.name && [', by ', name(job.user)]),
    h('progress', { max: Math.max(1, total), value: done + n, 'aria-label': `Job ${job.id}` }),
    h('p', { class: 'faint' }, `${number(done)} done`, n > 0 && `, ${number(n)} stayed`, job.error && `; ${plain(job.error)}`),
    stayed.length > 0 && h('ul', { class: 'some' }, stayed.map(([reason, of]) => h('li', null, `${number(of)}: ${plain(reason)}`))),
    !isOver(job) && may && h('div', { class: 'bar' },
      job.state === 'paused' ? button('Resume', () => steer(job, 'PUT', { state: 'running' }, `Job ${job.id} resumed`)) : button('Pause', () => steer(job, 'PUT', { state: 'paused' }, `Job ${job.id} paused`)),
      button('Stop', () => dialog({
        title: `Stop job ${job.id}?`, says: h('p', null, `${number(done)} of ${count(total, 'message')} are done and stay done.`), act: 'Stop the job', danger: true,
        requests: () => [{ method: 'DELETE', address: `/jobs/${job.id}` }], told: `Job ${job.id} stopped`, done: () => look(),
      }), { kind: 'danger' })));
}

/** Brings back what was taken away. @param {(string | number)[]} ids */
export async function bringBack(ids) {
  for (const id of ids) {
    const answer = await ask('POST', `/undo/${id}`);
    tell(answer.ok ? `Job ${answer.data?.job}: restoring ${count(answer.data?.total ?? 0, 'message')}` : answer.reason, !answer.ok);
  }
  look();
}

const ACTS = { purge: 'Purged', delete: 'Deleted', remove: 'Removed from' };

function undoView(it) {
  return h('section', { class: 'job', key: `undo-${it.id}`, 'aria-label': `Undo of ${plain(it.queue)}` },
    h('p', null, h('strong', null, ACTS[it.what] ?? plain(it.what)), ' ', to(queueLink(it.vhost, it.queue), name(it.queue)), `: ${count(it.messages, 'message')}`, it.left_out > 0 && [', ', tag('warn', `${number(it.left_out)} more cannot be restored`)], it.is_damaged && [' ', tag('bad', 'damaged')]),
    h('p', { class: 'faint' }, `${time(it.at)}, by `, name(it.user), `, until ${time(it.until)}`),
    h('div', { class: 'bar' }, ['kept', 'interrupted'].includes(it.state) ? button('Restore', () => bringBack([it.id])) : tag('calm', it.state.replace('_', ' ')),
      button('Discard', () => dialog({ title: 'Discard these messages?', says: h('p', null, `${count(it.messages, 'message')} of `, name(it.queue), ' cannot be restored then.'), act: 'Discard', danger: true, requests: () => [{ method: 'DELETE', address: `/undo/${it.id}`, ctl: ['forget_undo', String(it.id)] }], told: 'Discarded', done: () => look() }), { kind: 'quiet' })));
}

/** Jobs, and what can be undone, in the frame around all pages. */
export function jobsMenu() {
  if (app.jobs.length + app.undo.length === 0) return null;
  const n = jobsOf().length;
  return h('details', { class: 'menu-of', key: 'jobs' }, h('summary', { 'aria-label': n > 0 ? `Jobs: ${n} under way` : 'Jobs and undo' }, icon(ICONS.jobs), n > 0 && h('span', { class: 'badge' }, number(n))),
    h('div', { class: 'popup jobs' },
      app.undo.length > 0 && [h('h2', null, 'Undo'), app.undo.slice(0, SHOWN_MAX).map(undoView), app.undo.length > SHOWN_MAX && h('p', { class: 'faint' }, `and ${number(app.undo.length - SHOWN_MAX)} more: leveret ctl list_undo`)],
      app.jobs.length > 0 && [h('h2', null, 'Jobs'), app.jobs.slice(0, SHOWN_MAX).map(jobView)]));
}
