// Drawings of figures as views: bars, lines, timelines, tables of colours, tables of numbers. Lengths across are
// shares of the width and lengths upward are pixels, so that a chart fits any width without its text becoming small.

import { h } from '../../ui/web/dom.js';
import { goalOf, goalText, hasP99, numbersOf, publishedRatios, publishedText, rangeOf, ratiosOf, tipOf } from './figures.js';
import { NONE, axisFromZero, axisOf, compact, percent, ratio, rounded, text, tickText } from './numbers.js';

/** Height of a bar and the space to the next one. */
const BAR_PX = 18;
const ROW_PADDING_PX = 5;
/** Height of the area between the axes of a frame. */
const HEIGHT_PX = 230;
/** Between two names at the ends of lines. */
const NAME_PX = 17;
/** Share of the width that each value at the lower axis needs, on a wide and a narrow screen. */
const TICK_SHARE = 0.06;
const TICK_SHARE_NARROW = 0.13;
/** Share of the width left free before the first and behind the last point. */
const MARGIN = 0.03;
/** Points a line over time is drawn with; of more, the mean of neighbours is. */
const POINTS_MAX = 300;
/** Places along the time that say their values when pointed at. */
const STOPS = 60;
/** Columns whose times differ more have a picture each. */
const SHARED_TIME_RATIO = 4;
/** Below this share of the usual rate nothing moves. */
const PAUSE_SHARE = 0.02;
/** Share of the broker's colour in the darkest cell of a table of colours. */
const STRENGTH_MAX = 0.62;
/** Values of a parameter up to which two tables of colours stand beside each other. */
const WIDE_STOPS = 8;
/** Dots whose shapes tell columns apart where colours do not. */
const MARKERS = ['M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z', 'M-4,-4h8v8h-8z', 'M0,-5.5l5.5,5.5l-5.5,5.5l-5.5,-5.5z', 'M0,-5l5,9h-10z'];
/** What each metric is called in a point of a series. */
const OF_POINT = {
  rate: (it) => it.received_per_second ?? it.sent_per_second, send_rate: (it) => it.sent_per_second, receive_rate: (it) => it.received_per_second,
  latency_mean: (it) => it.latency_mean_us, latency_median: (it) => it.latency_us, confirm_mean: (it) => it.confirm_latency_mean_us,
  confirm_median: (it) => it.confirm_latency_us, memory: (it) => it.rss_bytes, memory_peak: (it) => it.rss_bytes,
};

/** An upright line at a share of the width. */
export const upright = (kind, share, top, bottom) => h('line', { class: kind, x1: percent(share), x2: percent(share), y1: top, y2: bottom });

/** An area that tells something when it is pointed at or reached with the arrow keys. */
export const stop = (left, width, tip) => h('rect', { class: 'stop', x: percent(left), width: percent(width), height: '100%', 'data-tip': tip });

/** A chart whose stops the arrow keys reach. */
export const stopped = (kind, label, props, ...inside) => h('div', { class: kind, 'data-stops': '', role: 'group', ...props, 'aria-label': label }, inside);

/** A part that opens when its heading is clicked. */
export const folded = (heading, isOpen, ...inside) => h('details', isOpen ? { open: true } : null, h('summary', null, heading), inside);

/** A table that scrolls by itself: heads of columns, then rows. */
export const scrolled = (kind, heads, rows, caption = '') => h('div', { class: 'scroll' }, h('table', { class: kind }, caption && h('caption', null, caption), heads && h('thead', null, h('tr', null, heads)), h('tbody', null, rows)));

export const headOf = (name, props = {}) => h('th', { scope: 'col', ...props }, name);

/** The title of the axis of measured values. */
function axisName(figure, axis) {
  const { noun, is_higher_better: isMoreBetter } = figure.metric;
  const goal = figure.rows.some((row) => goalOf(figure, row) !== undefined) ? '; dashed: aim' : '';
  return `${noun}${axis.isLog ? ', logarithmic' : ''} (${isMoreBetter ? 'more' : 'less'} is better${goal}${hasP99(figure) ? '; ring: 99th percentile' : ''})`;
}

/** The row below a chart of bars: the values of its axis, and its name, which may take several lines. */
export const foot = (axis, label, name) => h('div', { class: 'bar-row bar-axis' }, h('div', { class: 'bar-label' }),
  h('div', { class: 'bar-foot' },
    h('svg', { class: 'bar-plot', height: 20, 'aria-hidden': 'true' }, axis.ticks.map((tick) => h('text', { class: 'tick', x: percent(axis.at(tick)), y: 14 }, label(tick)))),
    h('div', { class: 'axis-name' }, name)),
  h('div', { class: 'bar-ratios' }));

/** Rows that have no order: a row each, in it a bar per column. On a logarithmic axis, where a bar's length would mean nothing, a thin stem with a dot takes its place. */
export function bars(run, figure, isLog) {
  const { unit, noun } = figure.metric;
  const axis = axisOf(numbersOf(figure), unit, isLog);
  const ratios = ratiosOf(figure);
  const head = h('div', { class: 'bar-row bar-head' }, h('div', { class: 'bar-label' }), h('div', { class: 'bar-plot' }), h('div', { class: 'bar-ratios' }, ratios.map((it) => h('span', null, it.title))));
  return stopped(hasP99(figure) ? 'bars with-p99' : 'bars', noun, { style: { '--ratios': String(ratios.length) } },
    ratios.length > 0 && head,
    figure.rows.map((row) => barRow(run, figure, row, axis, ratios)),
    foot(axis, (tick) => tickText(tick, unit), axisName(figure, axis)));
}

function barRow(run, figure, row, axis, ratios) {
  const height = row.values.length * BAR_PX + 2 * ROW_PADDING_PX;
  const goal = goalOf(figure, row);
  return h('div', { class: 'bar-row' },
    h('div', { class: 'bar-label' }, row.source.name, row.source.note && h('small', null, row.source.note),
      publishedRatios(figure, row).map((it) => h('small', null, `${it.by}: ${publishedText(run, it)}`))),
    h('svg', { class: 'bar-plot', height },
      axis.ticks.map((tick) => upright('grid', axis.at(tick), '0', '100%')),
      goal !== undefined && upright('aim', axis.at(goal), '2', height - 2),
      row.values.map((value, at) => h('g', { class: figure.columns[at].class }, barOf(figure, value, axis, ROW_PADDING_PX + at * BAR_PX + BAR_PX / 2))),
      stop(0, 1, tipOf(run, figure, row))),
    h('div', { class: 'bar-ratios' }, ratios.map((it) => h('span', null, ratio(it.of(row) ?? null)))));
}

function barOf(figure, { spread, p99, missing }, axis, y) {
  if (!spread) return h('text', { class: 'none', x: 4, y: y + 4 }, missing?.[0] ?? figure.metric.absent);
  const [low, x, high] = [spread.min, spread.median, spread.max].map((value) => percent(axis.at(value)));
  const ends = [spread.min, spread.max].map((end) => upright('range', axis.at(end), y - 4, y + 4));
  const range = spread.min < spread.max && [h('line', { class: 'range', x1: low, x2: high, y1: y, y2: y }), ends];
  const stem = [h('line', { class: 'stem', y1: y, y2: y, x2: x }), h('circle', { class: 'dot', cx: x, cy: y, r: 5 })];
  const bar = h('rect', { class: 'bar', width: x, y: y - BAR_PX / 2 + 2, height: BAR_PX - 4, rx: 2 });
  const label = (value) => text(rounded(value), figure.metric.unit);
  const hasTail = p99 !== undefined;
  return [
    axis.isLog ? [range, stem] : [bar, range],
    hasTail && [h('line', { class: 'tail', x1: x, x2: percent(axis.at(p99)), y1: y, y2: y }), h('circle', { class: 'ring', cx: percent(axis.at(p99)), cy: y, r: 4 })],
    h('text', { class: 'value', x: percent(axis.at(Math.max(spread.max, p99 ?? 0))), dx: 9, y: y + 4 }, `${label(spread.median)}${hasTail ? ` \u00b7 ${label(p99)}` : ''}`),
  ];
}

/** Several charts beside each other with one name of their upright axis. */
const panels = (yName, inside) => [h('div', { class: 'y-name' }, yName), h('div', { class: `panels${['', ' one', ' two', '', ' two'][inside.length] ?? ''}` }, inside)];

/** The distance of a value from the upper edge. */
const yPx = (axis, value) => Math.round((1 - axis.at(value)) * HEIGHT_PX * 10) / 10;

/** A chart with two axes: `stretched` is in coordinates of 0 to 100 across (lines and areas only, as this stretches), `placed` in percent of the width; `ends` are names at the right end of lines. */
export function frame({ heading, y, unit, ticks, xName, ends }, stretched, placed) {
  const narrow = spaced(ticks, TICK_SHARE_NARROW);
  const shown = spaced(ticks, ends.length > 0 ? TICK_SHARE : TICK_SHARE_NARROW);
  return stopped(ends.length > 0 ? 'frame with-ends' : 'frame', heading ?? 'chart', {},
    heading && h('div', { class: 'frame-heading' }, heading),
    h('svg', { class: 'y-labels', height: HEIGHT_PX, 'aria-hidden': 'true' }, y.ticks.map((tick) => h('text', { x: '100%', dx: -7, y: yPx(y, tick) + 4 }, tickText(tick, unit)))),
    h('svg', { class: 'plot', height: HEIGHT_PX },
      y.ticks.map((tick) => h('line', { class: 'grid', x2: '100%', y1: yPx(y, tick), y2: yPx(y, tick) })),
      ticks.map(({ share }) => upright('grid', share, HEIGHT_PX, HEIGHT_PX + 4)),
      h('svg', { class: 'stretch', preserveAspectRatio: 'none', viewBox: `0 0 100 ${HEIGHT_PX}`, width: '100%', height: HEIGHT_PX }, stretched),
      placed),
    h('div', { class: 'ends' }, apart(ends).map((it) => h('div', { class: it.class, style: { top: `${it.px.toFixed(1)}px` } }, it.text))),
    h('svg', { class: 'x-labels', height: 22, 'aria-hidden': 'true' }, shown.map((it) => h('text', { class: narrow.includes(it) ? 'tick' : 'tick if-wide', x: percent(it.share), y: 16 }, it.label))),
    h('div', { class: 'x-name' }, xName));
}

/** Names that do not cover each other. */
function apart(ends) {
  const found = ends.map((it) => ({ ...it })).sort((a, b) => a.px - b.px);
  let [above, below] = [-Infinity, HEIGHT_PX + NAME_PX];
  for (const end of found) above = end.px = Math.max(end.px, above + NAME_PX);
  for (const end of found.reverse()) below = end.px = Math.min(end.px, below - NAME_PX);
  return found.reverse();
}

/** The ticks that leave each other a share of the width. */
function spaced(ticks, room) {
  const kept = [];
  for (const tick of [...ticks].reverse()) if (kept.length === 0 || kept[0].share - tick.share >= room) kept.unshift(tick);
  return kept;
}

const inset = (share) => MARGIN + share * (1 - 2 * MARGIN);

/** A sweep: a line per column along one parameter, and the points that the source `beside` has published. A second parameter makes several such charts beside each other, with the same axes. */
export function lines(run, figure, sweep, { isLog, isFromZero, beside }) {
  const { name, unit } = figure.metric;
  const published = (row) => row.source.published.find((it) => it.metric === name && it.by === beside)?.value;
  const numbers = [...numbersOf(figure), ...figure.rows.map(published).filter((it) => it !== undefined)];
  const y = isFromZero ? axisFromZero(numbers, unit) : axisOf(numbers, unit, isLog);
  const ticks = sweep.stops.map(({ share, label }) => ({ share: inset(share), label }));
  return panels(axisName(figure, y), sweep.panels.map((panel) => {
    const line = (column, at) => ({ class: column.class, name: column.text, shape: at, points: pointsOf(panel, (row) => row.values[at].spread), isJoined: true });
    const own = figure.columns.map(line);
    const once = (value) => (value === undefined ? undefined : { median: value, min: value, max: value });
    const points = pointsOf(panel, (row) => once(published(row)));
    // There are too few of them for a line.
    const all = points.length > 0 ? [...own, { class: 'floor variant-1', name: 'published', shape: own.length, points, isJoined: false }] : own;
    const last = (it) => it.points[it.points.length - 1]?.spread;
    const ends = sweep.panels.length > 1 ? [] : all.filter(last).map((it) => ({ text: it.name, class: it.class, px: yPx(y, last(it).median) }));
    return frame({ heading: panel.name, y, unit, ticks, xName: sweep.xName, ends },
      all.filter((it) => it.isJoined).map((it) => h('polyline', { class: `line ${it.class}`, points: it.points.map(({ x, spread }) => `${(x * 100).toFixed(2)},${yPx(y, spread.median)}`).join(' ') })),
      [all.map((it) => h('g', { class: it.class }, it.points.map((point) => marker(it.shape, y, point)))), stopsOf(run, figure, panel)]);
  }));
}

const pointsOf = (panel, spreadOf) => panel.rows.map(({ share, row }) => ({ x: inset(share), spread: spreadOf(row) })).filter((it) => it.spread);

const marker = (shape, y, { x, spread }) => [
  spread.min < spread.max && upright('range', x, yPx(y, spread.max), yPx(y, spread.min)),
  h('svg', { class: 'marker', x: percent(x), y: yPx(y, spread.median) }, h('path', { class: 'dot', d: MARKERS[shape % MARKERS.length] })),
];

/** One stop per value of the parameter, as wide as halfway to the next ones. */
function stopsOf(run, figure, panel) {
  const places = panel.rows.map(({ share }) => inset(share));
  return panel.rows.map(({ row }, at) => {
    const left = at === 0 ? 0 : (places[at - 1] + places[at]) / 2;
    const right = at + 1 === places.length ? 1 : (places[at + 1] + places[at]) / 2;
    return stop(left, right - left, tipOf(run, figure, row));
  });
}

/** Tables over two parameters whose cells are the darker, the greater their value: one per column, and one per ratio. */
export function heat(run, figure, sweep) {
  const { unit, noun } = figure.metric;
  const table = (caption, kind, cellOf) => scrolled(`heat ${kind}`,
    [headOf(`${sweep.panelName} \\ ${sweep.xName}`), sweep.stops.map((it) => headOf(it.label))],
    sweep.panels.map((panel) => h('tr', null, h('th', { scope: 'row' }, panel.label), sweep.stops.map(({ share }) => {
      const row = panel.rows.find((it) => it.share === share)?.row;
      const found = row && cellOf(row);
      return found ? h('td', { style: { '--v': percent(found[0] * STRENGTH_MAX) }, title: tipOf(run, figure, row) }, found[1]) : h('td', null, NONE);
    }))), caption);
  const ofColumn = (column, at) => {
    const medians = figure.rows.map((row) => row.values[at].spread?.median).filter((it) => it !== undefined);
    const axis = axisOf(medians, unit, true);
    return table(`${column.text}: ${noun}`, column.class, ({ values }) => values[at].spread && [axis.at(values[at].spread.median), compact(values[at].spread.median, unit)]);
  };
  const ofRatio = (it) => {
    const greatest = Math.log(Math.max(it.total.high, 1 / it.total.low));
    return table(it.title, `${it.other.class} is-ratio`, (row) => it.of(row) && [greatest > 0 ? Math.min(1, Math.max(0, Math.log(it.of(row)) / greatest)) : 0, ratio(it.of(row))]);
  };
  return h('div', { class: sweep.stops.length > WIDE_STOPS ? 'heats wide' : 'heats' }, figure.columns.map(ofColumn), ratiosOf(figure).map(ofRatio));
}

/** The numbers under a chart: medians with their spread, and ratios. `data-head` stands in front of a value on a screen too narrow for columns. */
export function table(figure) {
  const { noun, unit, is_higher_better: isMoreBetter, absent } = figure.metric;
  const ratios = ratiosOf(figure);
  const hasGoals = figure.rows.some((row) => goalOf(figure, row) !== undefined);
  const cell = ({ spread, p99, missing }, head, best) => {
    if (!spread) return h('td', { class: 'none', 'data-head': head, title: missing?.[1] ?? '' }, missing?.[0] ?? absent);
    const range = rangeOf(figure, spread);
    return h('td', { 'data-head': head }, h(spread.median === best ? 'b' : 'span', null, text(spread.median, unit)), range && h('small', null, range), p99 !== undefined && h('small', null, `p99 ${text(p99, unit)}`));
  };
  const row = (it) => {
    const medians = it.values.map((value) => value.spread?.median).filter((value) => value !== undefined);
    const best = medians.length > 1 ? (isMoreBetter ? Math.max(...medians) : Math.min(...medians)) : undefined;
    return h('tr', null, h('th', { scope: 'row' }, it.source.name, it.source.note && h('small', null, it.source.note)),
      it.values.map((value, at) => cell(value, figure.columns[at].text, best)),
      ratios.map((of) => h('td', { class: 'ratio', 'data-head': of.title }, ratio(of.of(it) ?? null))),
      hasGoals && h('td', { 'data-head': 'aim' }, goalText(figure, it)));
  };
  const heads = [headOf(''), figure.columns.map((column) => headOf(column.text, { class: column.class })), ratios.map((it) => headOf(it.title)), hasGoals && headOf('aim')];
  return scrolled('numbers', heads, figure.rows.map(row), `${noun}: median of the repeats, below it the least and the greatest${hasP99(figure) ? '; p99: 99th percentile' : ''}`);
}

/** Timelines of samples: a picture per row, or several where columns took very different times, with the stretches shaded in which nothing moved. */
export function timeline(figure, isLog) {
  const { unit } = figure.metric;
  const rows = figure.rows.map((row) => ({ row, traces: tracesOf(figure, row) }));
  const all = rows.flatMap((it) => it.traces);
  const y = axisOf(all.flatMap(extentOf), unit, isLog);
  const pictures = rows.flatMap(({ row, traces }) => split(traces).map((part) => picture(figure, y, row.source.name, part)));
  return panels(`${axisName(figure, y)}${all.some((it) => it.part) ? '; solid: published, dotted: delivered' : ''}; shaded: nothing moved`, pictures);
}

/** Whether any column has this metric over time. */
export const hasTimes = (figure) => figure.rows.some((row) => tracesOf(figure, row).length > 0);

/** Lines over time: one of a column, or two where messages go in and come out at different times. Points are seconds and values, in order. */
function tracesOf({ metric, columns }, row) {
  return row.source.cells.flatMap((cell, at) => {
    const series = cell.samples[0]?.series ?? [];
    const isTwoWay = metric.name === 'rate' && series.some((it) => it.sent_per_second !== undefined && it.received_per_second > 0);
    const parts = isTwoWay ? [['published', 'send_rate'], ['delivered', 'receive_rate']] : [['', metric.name]];
    return parts.map(([part, name], n) => {
      const points = series.map((it) => [it.seconds, OF_POINT[name]?.(it)]).filter(([, value]) => value !== undefined);
      return { column: columns[at], part, points, pauses: n === 0 ? pausesOf(series) : [], seconds: points[points.length - 1]?.[0] ?? 0 };
    }).filter((it) => columns[at] && it.points.length > 1);
  });
}

/** The stretches in which next to nothing was published or delivered. */
export function pausesOf(series) {
  const moved = (it) => Math.max(it.sent_per_second ?? 0, it.received_per_second ?? 0);
  const least = (median(series.map(moved)) ?? 0) * PAUSE_SHARE;
  const pauses = [];
  let start = 0;
  for (const point of series) {
    const last = pauses[pauses.length - 1];
    if (moved(point) < least) last?.[1] === start ? (last[1] = point.seconds) : pauses.push([start, point.seconds]);
    start = point.seconds;
  }
  return pauses;
}

/** Of the values above zero. */
function median(values) {
  const found = values.filter((it) => it > 0).sort((a, b) => a - b);
  return found[Math.floor(found.length / 2)];
}

/** All in one picture, or one per column. */
function split(traces) {
  const seconds = traces.map((it) => it.seconds);
  const isAlike = Math.max(...seconds) <= Math.min(...seconds) * SHARED_TIME_RATIO && !traces.some((it) => it.part);
  if (traces.length === 0 || isAlike) return [traces];
  return [...new Set(traces.map((it) => it.column))].map((column) => traces.filter((it) => it.column === column));
}

/** The values that the axis must show: the usual and the greatest one. Zeros lie at its lower end. */
function extentOf({ points }) {
  const values = points.map(([, value]) => value);
  return [median(values) ?? 0, Math.max(0, ...values)];
}

function picture(figure, y, row, traces) {
  const seconds = Math.max(0, ...traces.map((it) => it.seconds));
  const x = axisFromZero([seconds], 'seconds');
  const ticks = x.ticks.map((tick) => ({ share: x.at(tick), label: text(tick, 'seconds') }));
  const across = (at) => (x.at(at) * 100).toFixed(2);
  const drawn = traces.map(({ column, part, points, pauses }) => [
    pauses.map(([from, to]) => h('rect', { class: `pause ${column.class}`, x: across(from), height: '100%', width: (x.at(to) * 100 - x.at(from) * 100).toFixed(2) })),
    h('polyline', { class: `line ${column.class}${part === 'delivered' ? ' second' : ''}`, points: thinned(points).map(([at, value]) => `${across(at)},${yPx(y, value)}`).join(' ') }),
  ]);
  const stops = Array.from({ length: STOPS }, (_, n) => {
    const [left, right] = [n / STOPS, (n + 1) / STOPS];
    const at = x.high * (left + right) / 2;
    return at <= seconds && stop(left, right - left, tipAt(figure, traces, at));
  });
  return frame({ heading: headingOf(row, traces), y, unit: figure.metric.unit, ticks, xName: 'time', ends: [] }, drawn, stops);
}

function tipAt(figure, traces, at) {
  const value = ({ points }) => points.find(([seconds]) => seconds >= at)?.[1];
  const told = (trace) => (value(trace) === undefined ? 'over' : text(value(trace), figure.metric.unit));
  return [text(at, 'seconds'), ...traces.map((it) => `${it.column.text}${it.part && `, ${it.part}`}: ${told(it)}`)].join('\n');
}

/** The row; the column, if the picture has only one; and how long it stood still. */
function headingOf(row, traces) {
  if (traces.length === 0) return `${row} \u00b7 not measured`;
  const paused = traces.flatMap((it) => it.pauses).map(([from, to]) => to - from);
  const longest = () => text(Math.max(...paused), 'seconds');
  const told = paused.length === 0 ? 'no pause' : paused.length === 1 ? `pause of ${longest()}` : `${paused.length} pauses, up to ${longest()}`;
  const isOne = traces.every((it) => it.column === traces[0].column);
  return [row, ...(isOne ? [traces[0].column.text] : []), told].join(' \u00b7 ');
}

/** The means of neighbours, so that no more points remain than are drawn. @param {[number, number][]} points */
export function thinned(points) {
  const n = Math.max(1, Math.ceil(points.length / POINTS_MAX));
  const mean = (chunk, at) => chunk.reduce((sum, it) => sum + it[at], 0) / chunk.length;
  const chunks = Array.from({ length: Math.ceil(points.length / n) }, (_, at) => points.slice(at * n, (at + 1) * n));
  return chunks.map((chunk) => [mean(chunk, 0), mean(chunk, 1)]);
}
