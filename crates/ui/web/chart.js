// Lines over time, on a canvas: axes with units, a crosshair, a zoom, gaps where nothing was measured, and a
// table of the same numbers.

import { h, render } from './dom.js';
import { bytes, plain, rate, short, time, told } from './format.js';

/**
 * @typedef {{name: string, points: [number, number][], dash?: boolean}} Series points are time in ms and value, rising
 * @typedef {{label: string, series: Series[], unit?: 'bytes' | 'rate' | '', from?: number, to?: number}} Chart
 */

const HEIGHT = 180;
const MARGIN = { left: 54, right: 10, top: 10, bottom: 22 };
/** Points further apart than so many of the usual steps have a gap between them. */
const GAP_STEPS = 2.5;
/** Times that can be told apart where lines are flat. */
const STEPS_SEEN = 100;
/** Rows of the table at most. */
const TABLE_ROWS = 100;

/** Samples of the API, newest first, as points. @param {any} details @returns {[number, number][]} */
export function levels(details) {
  return (details?.samples ?? []).map(({ timestamp, sample }) => [timestamp, sample]).reverse();
}

/** The same of a counter: its rate between two samples. @param {any} details @returns {[number, number][]} */
export function rates(details) {
  const samples = [...(details?.samples ?? [])].reverse();
  return samples.slice(1).map((sample, at) => {
    const before = samples[at];
    const seconds = (sample.timestamp - before.timestamp) / 1000;
    return [sample.timestamp, Math.max(0, (sample.sample - before.sample) / seconds)];
  });
}

/** Round numbers from 0 to at least `max`. @param {number} max @param {boolean} [binary] */
function ticks(max, binary = false) {
  if (!(max > 0)) return [0, 1];
  const base = binary && max >= 1024 ? 1024 ** Math.floor(Math.log(max) / Math.log(1024)) : 1;
  const scaled = max / base;
  const power = 10 ** Math.floor(Math.log10(scaled / 4));
  const step = [1, 2, 2.5, 5, 10].map((it) => it * power).find((it) => it * 4 >= scaled) ?? power * 10;
  const found = [];
  for (let at = 0; at * step < scaled + step; at += 1) found.push(at * step * base);
  return found;
}

const COLORS = ['--line-1', '--line-2', '--line-3', '--line-4', '--line-5', '--line-6'];
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [], [4, 2]];

class ChartElement extends HTMLElement {
  constructor() {
    super();
    /** @type {Chart} */
    this.chart = { label: '', series: [] };
    this.shown = '';
    this.first = 0;
    /** @type {number | null} */
    this.at = null;
    /** @type {[number, number] | null} */
    this.zoom = null;
    /** @type {number | null} */
    this.dragged = null;
    this.hidden_ = new Set();
    this.tabled = false;
    this.observer = new ResizeObserver(() => this.draw());
    this.themed = () => this.draw();
  }

  /** @param {Chart} chart */
  set data(chart) {
    const shown = JSON.stringify([chart.label, chart.unit, chart.series.map((it) => [it.name, it.points.map(([, value]) => value)])]);
    const points = chart.series[0]?.points ?? [];
    const first = points[0]?.[0] ?? 0;
    // While nothing happens, times go on, by less than is seen.
    const seen = ((points[points.length - 1]?.[0] ?? 0) - first) / STEPS_SEEN;
    if (shown === this.shown && Math.abs(first - this.first) < seen) return;
    this.shown = shown;
    this.first = first;
    this.chart = chart;
    if (this.isConnected) this.update();
  }

  connectedCallback() {
    this.update();
    this.observer.observe(this);
    window.addEventListener('theme', this.themed);
  }

  disconnectedCallback() {
    this.observer.disconnect();
    window.removeEventListener('theme', this.themed);
  }

  get format() {
    const { unit } = this.chart;
    if (unit === 'bytes') return bytes;
    return unit === 'rate' ? rate : short;
  }

  update() {
    const { label, series } = this.chart;
    const nearest = this.at === null ? null : this.at;
    render(this, [h('figure', { class: 'chart' },
      h('figcaption', null, h('strong', null, label),
        h('span', { class: 'legend' }, series.map((it, n) => h('button', {
          type: 'button', class: 'legend-of', 'aria-pressed': String(!this.hidden_.has(it.name)), key: it.name,
          onclick: () => { this.hidden_.has(it.name) ? this.hidden_.delete(it.name) : this.hidden_.add(it.name); this.update(); },
        }, h('span', { class: `swatch s${n + 1}` }), plain(it.name), ' ', h('b', null, this.format(valueAt(it.points, nearest)))))),
        this.zoom && h('button', { type: 'button', class: 'button quiet', onclick: () => { this.zoom = null; this.update(); } }, 'All'),
        h('button', { type: 'button', class: 'button quiet', 'aria-pressed': String(this.tabled), onclick: () => { this.tabled = !this.tabled; this.update(); } }, 'Table')),
      this.tabled ? this.table() : h('canvas', {
        role: 'img', 'aria-label': this.described(), tabindex: 0, key: 'canvas',
        onpointermove: (event) => this.point(event), onpointerleave: () => { this.at = null; this.dragged = null; this.update(); },
        onpointerdown: (event) => { this.dragged = this.timeAt(event.offsetX); },
        onpointerup: (event) => this.release(event), ondblclick: () => { this.zoom = null; this.update(); },
        onkeydown: (event) => this.key(event),
      }))]);
    this.draw();
  }

  described() {
    const { label, series } = this.chart;
    return `${label}: ${series.map((it) => `${it.name} ${this.format(valueAt(it.points, null))}`).join(', ')}. The arrow keys read values; the table has all.`;
  }

  table() {
    const { series } = this.chart;
    const times = [...new Set(series.flatMap((it) => it.points.map(([at]) => at)))].sort((a, b) => b - a).slice(0, TABLE_ROWS);
    return h('div', { class: 'scroll chart-table', tabindex: 0, role: 'group', 'aria-label': this.chart.label }, h('table', { class: 'small' },
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Time'), series.map((it) => h('th', { class: 'num', scope: 'col' }, plain(it.name))))),
      h('tbody', null, times.map((at) => h('tr', { key: at }, h('td', null, time(at)), series.map((it) => {
        const found = it.points.find(([when]) => when === at);
        return h('td', { class: 'num', 'data-label': plain(it.name) }, found ? this.format(found[1]) : '\u2013');
      }))))));
  }

  range() {
    if (this.zoom) return this.zoom;
    const times = this.chart.series.flatMap((it) => (it.points.length ? [it.points[0][0], it.points[it.points.length - 1][0]] : []));
    const to = this.chart.to ?? (times.length ? Math.max(...times) : Date.now());
    const from = this.chart.from ?? (times.length ? Math.min(...times) : to - 60000);
    return /** @type {[number, number]} */ ([from, Math.max(to, from + 1000)]);
  }

  timeAt(x) {
    const [from, to] = this.range();
    const width = this.clientWidth - MARGIN.left - MARGIN.right;
    return from + (Math.min(Math.max(x - MARGIN.left, 0), width) / width) * (to - from);
  }

  point(event) {
    this.at = this.timeAt(event.offsetX);
    this.update();
  }

  release(event) {
    const [from, to] = [this.dragged ?? 0, this.timeAt(event.offsetX)].sort((a, b) => a - b);
    const [least, most] = this.range();
    if (this.dragged !== null && to - from > (most - least) / 50) this.zoom = [from, to];
    this.dragged = null;
    this.update();
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (event.key === 'Escape') this.at = null;
    else if (steps[event.key]) {
      const [from, to] = this.range();
      this.at = Math.min(to, Math.max(from, (this.at ?? to) + steps[event.key] * (to - from) / 60));
    } else return;
    event.preventDefault();
    this.update();
  }

  draw() {
    const canvas = this.querySelector('canvas');
    if (!canvas || !this.isConnected) return;
    const scale = window.devicePixelRatio || 1;
    const width = this.clientWidth;
    if (width < 50) return;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== HEIGHT * scale) {
      canvas.width = Math.round(width * scale);
      canvas.height = HEIGHT * scale;
    }
    const pen = canvas.getContext('2d');
    if (!pen) return;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, HEIGHT);
    paint(pen, width, this, getComputedStyle(this));
  }
}

function valueAt(points, at) {
  if (points.length === 0) return undefined;
  if (at === null) return points[points.length - 1][1];
  return points.reduce((best, point) => (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best))[1];
}

/** @param {CanvasRenderingContext2D} pen @param {number} width @param {ChartElement} chart @param {CSSStyleDeclaration} style */
function paint(pen, width, chart, style) {
  const [from, to] = chart.range();
  const seen = chart.chart.series.filter((it) => !chart.hidden_.has(it.name));
  const inside = seen.flatMap((it) => it.points.filter(([at]) => at >= from && at <= to).map(([, value]) => value));
  const marks = ticks(Math.max(0, ...inside), chart.chart.unit === 'bytes');
  const top = marks[marks.length - 1];
  const right = width - MARGIN.right;
  const bottom = HEIGHT - MARGIN.bottom;
  const x = (at) => MARGIN.left + ((at - from) / (to - from)) * (right - MARGIN.left);
  const y = (value) => bottom - (value / top) * (bottom - MARGIN.top);
  pen.font = `11px ${style.fontFamily}`;
  pen.lineWidth = 1;
  axes(pen, { chart, style, marks: told(marks, chart.format, !chart.chart.unit), x, y, right, bottom, from, to });
  pen.save();
  pen.beginPath();
  pen.rect(MARGIN.left, 0, right - MARGIN.left, bottom + 2);
  pen.clip();
  chart.chart.series.forEach((it, n) => {
    if (!chart.hidden_.has(it.name)) line(pen, it, { x, y, bottom, color: style.getPropertyValue(COLORS[n % 6]), dash: DASHES[n % 6], fill: n === 0 && seen.length <= 2 });
  });
  pen.restore();
  if (chart.at !== null) {
    pen.strokeStyle = style.getPropertyValue('--text-2');
    pen.beginPath();
    pen.moveTo(x(chart.at), MARGIN.top);
    pen.lineTo(x(chart.at), bottom);
    pen.stroke();
    pen.fillStyle = style.getPropertyValue('--text');
    pen.textAlign = x(chart.at) > width / 2 ? 'right' : 'left';
    pen.fillText(clock(chart.at, to - from), x(chart.at) + (x(chart.at) > width / 2 ? -5 : 5), MARGIN.top + 8);
  }
  if (chart.dragged !== null && chart.at !== null) {
    pen.fillStyle = style.getPropertyValue('--shade');
    pen.fillRect(x(chart.dragged), MARGIN.top, x(chart.at) - x(chart.dragged), bottom - MARGIN.top);
  }
}

function axes(pen, { chart, style, marks, x, y, right, bottom, from, to }) {
  pen.textBaseline = 'middle';
  pen.textAlign = 'right';
  for (const mark of marks) {
    pen.strokeStyle = style.getPropertyValue(mark === 0 ? '--border-2' : '--border');
    pen.beginPath();
    pen.moveTo(MARGIN.left, Math.round(y(mark)) + 0.5);
    pen.lineTo(right, Math.round(y(mark)) + 0.5);
    pen.stroke();
    pen.fillStyle = style.getPropertyValue('--text-2');
    pen.fillText(chart.format(mark), MARGIN.left - 6, y(mark));
  }
  pen.textAlign = 'center';
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400].map((it) => it * 1000);
  const step = steps.find((it) => (to - from) / it <= Math.max(2, (right - MARGIN.left) / 90)) ?? 86400000;
  const shift = new Date(from).getTimezoneOffset() * 60000;
  let before = '';
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) {
    const text = clock(at, to - from);
    if (text !== before && x(at) > MARGIN.left + 18 && x(at) < right - 12) pen.fillText(text, x(at), bottom + 13);
    before = text;
  }
}

function line(pen, series, { x, y, bottom, color, dash, fill }) {
  const { points } = series;
  if (points.length === 0) return;
  const steps = points.slice(1).map(([at], n) => at - points[n][0]).sort((a, b) => a - b);
  const usual = steps[Math.floor(steps.length / 2)] ?? 0;
  const runs = [];
  for (const point of points) {
    const run = runs[runs.length - 1];
    if (run && point[0] - run[run.length - 1][0] <= usual * GAP_STEPS) run.push(point);
    else runs.push([point]);
  }
  pen.strokeStyle = color;
  pen.fillStyle = color;
  pen.lineWidth = 1.75;
  pen.lineJoin = 'round';
  for (const run of runs) {
    pen.setLineDash(dash);
    pen.beginPath();
    run.forEach(([at, value], n) => (n === 0 ? pen.moveTo(x(at), y(value)) : pen.lineTo(x(at), y(value))));
    pen.stroke();
    pen.setLineDash([]);
    if (run.length === 1) {
      pen.beginPath();
      pen.arc(x(run[0][0]), y(run[0][1]), 2, 0, 7);
      pen.fill();
    } else if (fill) {
      pen.lineTo(x(run[run.length - 1][0]), bottom);
      pen.lineTo(x(run[0][0]), bottom);
      pen.globalAlpha = 0.09;
      pen.fill();
      pen.globalAlpha = 1;
    }
  }
  pen.lineWidth = 1;
}

function clock(ms, span) {
  const text = time(ms);
  return span > 2 * 86400000 ? text.slice(5, 16) : span > 600000 ? text.slice(11, 16) : text.slice(11);
}

customElements.define('lv-chart', ChartElement);

/** @param {Chart} data */
export const chart = (data) => h('lv-chart', { '.data': data, key: data.label });

/** A line in a row of a table. @param {[number, number][]} points @param {string} label */
export function spark(points, label) {
  if (points.length < 2) return h('span', { class: 'faint' }, '\u2013');
  const max = Math.max(...points.map(([, value]) => value), 1e-9);
  const [first, last] = [points[0][0], points[points.length - 1][0]];
  const at = points.map(([when, value]) => `${(((when - first) / (last - first)) * 78 + 1).toFixed(1)},${(17 - (value / max) * 15).toFixed(1)}`);
  return h('svg', { class: 'spark', viewBox: '0 0 80 18', width: 80, height: 18, role: 'img', 'aria-label': label }, h('polyline', { points: at.join(' ') }));
}

/** Times that charts show. */
export const RANGES = [['60', '1 min', 5], ['600', '10 min', 5], ['3600', '1 h', 60], ['28800', '8 h', 600], ['86400', '24 h', 1800]];

/** The samples to ask for. @param {string} range @param {string[]} kinds */
export function samples(range, kinds) {
  const found = RANGES.find(([id]) => id === range) ?? RANGES[1];
  return kinds.map((kind) => `${kind}_age=${found[0]}&${kind}_incr=${found[2]}`).join('&');
}
