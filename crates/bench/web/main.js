// Draws the run that is in the page, and adds what moves: values at the pointer or, with the arrow keys, of the
// chart that has the focus; and buttons that switch all charts to one metric.

import { render } from '../../ui/web/dom.js';
import { page, titleOf } from './page.js';

/** Characters that turn the reading direction of what follows (a name could pass for another one), and controls. */
const UNREADABLE = /[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -9999, End: 9999 };

const tip = document.createElement('div');
tip.id = 'tip';
tip.setAttribute('role', 'status');
tip.hidden = true;
/** The stop that is told. @type {any} */
let here = null;

function show(stop, x, y) {
  if (here !== stop) hide();
  here = stop;
  stop.classList.add('here');
  tip.textContent = stop.dataset.tip;
  tip.hidden = false;
  const left = Math.max(8, Math.min(x + 14, document.documentElement.clientWidth - tip.offsetWidth - 8));
  const below = y + 18;
  const fits = innerHeight - tip.offsetHeight - 8 > below;
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(8, fits ? below : y - tip.offsetHeight - 12)}px`;
}

function hide() {
  here?.classList.remove('here');
  here = null;
  tip.hidden = true;
}

function step(chart, by) {
  const stops = [...chart.querySelectorAll('.stop')];
  if (stops.length === 0) return;
  const next = stops[Math.max(0, Math.min(stops.length - 1, stops.indexOf(here) + by))];
  const box = next.getBoundingClientRect();
  show(next, box.left + box.width / 2, Math.min(box.bottom - 14, box.top + 80));
}

function tellValues(chart) {
  chart.tabIndex = 0;
  chart.addEventListener('pointermove', (event) => (event.target.matches('.stop') ? show(event.target, event.clientX, event.clientY) : hide()));
  chart.addEventListener('pointerleave', hide);
  chart.addEventListener('blur', hide);
  chart.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') hide();
    if (STEPS[event.key] === undefined) return;
    event.preventDefault();
    step(chart, STEPS[event.key]);
  });
}

function addCommonTabs() {
  const picks = /** @type {any[]} */ ([...document.querySelectorAll('.pick')]);
  const metrics = picks.map((pick) => pick.dataset.metric);
  const common = [...new Set(metrics)].filter((it) => metrics.indexOf(it) !== metrics.lastIndexOf(it));
  const bar = /** @type {HTMLElement} */ (document.querySelector('.all-tabs'));
  if (common.length === 0) return;
  bar.append('All charts: ', ...common.map((metric) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = metric;
    button.addEventListener('click', () => picks.filter((pick) => pick.dataset.metric === metric).forEach((pick) => { pick.checked = true; }));
    return button;
  }));
  bar.hidden = false;
}

const run = JSON.parse((document.getElementById('run-data')?.textContent ?? '').replace(UNREADABLE, '\ufffd'));
document.title = `${titleOf(run)}, ${run.started_at}`;
render(document.body, [page(run)]);
document.body.append(tip);
document.querySelectorAll('[data-stops]').forEach(tellValues);
addEventListener('scroll', () => { if (!document.activeElement?.matches('[data-stops]')) hide(); }, { passive: true });
addCommonTabs();
