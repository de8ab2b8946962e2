// The page of a run as a view: a summary of ratios, the scenarios with their pictures, and what is needed to judge
// or repeat the run.

import { h } from '../../ui/web/dom.js';
import { bars, folded, foot, hasTimes, headOf, heat, lines, scrolled, stop, stopped, table, timeline, upright } from './charts.js';
import { applicable, colourOf, columnsOf, counted, figureOf, finding, hasValues, inverse, labelOf, publishedText, quotient, rangeOfRatios, sweepOf, tailOf, targetName, toldBy } from './figures.js';
import { NONE, axisOfRatios, percent, ratio, short, text } from './numbers.js';

/** Height of a broker's line in the summary. */
const LINE_PX = 24;
/** Metrics one picture can be switched between; the style has rules for as many. */
const TABS_MAX = 10;
/** Charts beside each other that are still seen at a glance; of more, a table of colours is. */
const PANELS_MAX = 6;
/** Rows whose course over time is drawn where nobody asked for it; `result.json` has all of them. */
const COURSES_MAX = 12;
const SUMMARY = 'How many times better, per scenario: the dot is the geometric mean over its rows, the line goes from the least to the greatest row. Left of 1\u00d7 the other one is better.';
/** The facts about a broker beside its name. */
const FACTS = ['product', 'version', 'platform', 'address', 'process'];

const what = (...inside) => h('p', { class: 'what' }, inside);
const legend = (items) => h('ul', { class: 'legend' }, items);

/** The names of all targets. */
export const titleOf = (run) => run.targets.map(targetName).join(', ') || 'leveret bench';

export function page(run) {
  return h('main', null, header(run), summary(run), run.scenarios.map((scenario, at) => section(run, scenario, at)), details(run));
}

function header(run) {
  const { machine, repeats } = run;
  return h('header', null,
    h('p', { class: 'kicker' }, 'leveret bench'),
    h('h1', null, titleOf(run)),
    legend(run.targets.map((target, at) => h('li', { class: `${colourOf(at)} variant-0` }, targetName(target), h('small', null, ` ${toldBy(target)}`)))),
    h('p', { class: 'source' }, `${run.started_at} \u00b7 ${machine.n_cores} cores of ${machine.cpu} \u00b7 ${machine.kernel} \u00b7 ${repeats} repeat${repeats === 1 ? '' : 's'} at scale ${short(run.scale)}`),
    run.warnings.map((warning) => h('p', { class: 'warning', role: 'note' }, warning)),
    h('div', { class: 'all-tabs', hidden: true }));
}

/** A ratio per scenario and broker; nothing if there is nothing to compare. */
function summary(run) {
  const compared = run.scenarios.map((scenario, at) => ({ scenario, at, ...headline(run, scenario) })).filter((it) => it.gains?.length > 0);
  if (compared.length === 0) return null;
  const gains = compared.flatMap((it) => it.gains);
  const axis = axisOfRatios([1, ...gains.flatMap(({ gain }) => [gain.low, gain.high])]);
  const isOne = gains.every((it) => it.subject === gains[0].subject);
  return h('section', { class: 'summary', id: 'summary' },
    h('h2', null, isOne ? `${gains[0].subject} at a glance` : 'At a glance'),
    h('p', { class: 'about' }, SUMMARY),
    stopped('bars', 'summary', {}, compared.map((it) => summaryRow(it, axis)), foot(axis, (tick) => `${short(tick)}\u00d7`, 'times better, logarithmic')));
}

/** The first metric that says what the broker costs rather than what the machine had left, else the scenario's first that two brokers have. */
function headline(run, scenario) {
  const wanted = ['per_cpu_second', 'cpu_per_operation'].filter((it) => scenario.metrics.includes(it));
  const metrics = [...wanted, ...scenario.metrics.filter((it) => it !== 'relative' && it !== 'gain')];
  return metrics.map((name) => ({ metric: run.metrics[name], gains: gainsOf(run, scenario, name) })).find((it) => it.gains.length > 0);
}

/** Comparisons of pairs of brokers: who is spoken of, whom it is compared with, and the ratio by which it is better. */
function gainsOf(run, scenario, name) {
  const columns = columnsOf(run, scenario);
  const figure = figureOf(run, scenario, columns, name);
  const [first] = columns;
  if (!first || first.isBaseline) return [];
  return columns.flatMap((other, at) => {
    const found = at === 0 || other.isBaseline ? undefined : quotient(figure, at);
    if (!found) return [];
    const gain = figure.metric.is_higher_better ? found : inverse(found);
    // With RabbitMQ as the baseline the others are spoken of, not RabbitMQ.
    const isAboutOthers = run.targets[0] && run.targets[0].name !== run.baseline;
    const [subject, than] = isAboutOthers ? [other, first] : [first, other];
    return [{ subject: subject.text, other: than.text, class: other.class, gain: isAboutOthers ? inverse(gain) : gain }];
  });
}

function summaryRow({ scenario, at, metric, gains }, axis) {
  const tips = gains.map((it) => `${it.subject}: ${ratio(it.gain.mean)} ${it.other}${rangeOfRatios(it.gain)}`);
  return h('div', { class: 'bar-row' },
    h('div', { class: 'bar-label' }, h('a', { href: `#scenario-${at}` }, scenario.title), h('small', null, metric.noun)),
    h('svg', { class: 'bar-plot', height: gains.length * LINE_PX + 12 },
      axis.ticks.map((tick) => upright(tick === 1 ? 'grid even' : 'grid', axis.at(tick), '0', '100%')),
      gains.map((it, n) => gainLine(it, axis, 6 + n * LINE_PX + LINE_PX / 2)),
      stop(0, 1, [scenario.title, ...tips].join('\n'))),
    h('div', { class: 'bar-ratios verdicts' }, gains.map((it) => h('span', null, h('b', null, ratio(it.gain.mean)), ` ${it.other}`))));
}

function gainLine(it, axis, y) {
  const [low, mean, high] = [it.gain.low, it.gain.mean, it.gain.high].map((value) => percent(axis.at(value)));
  return h('g', { class: it.class }, h('line', { class: 'reach', x1: low, x2: high, y1: y, y2: y }), h('circle', { class: 'dot', cx: mean, cy: y, r: 6 }));
}

/** A scenario: its pictures, each with buttons for the metrics it can show. */
function section(run, scenario, at) {
  const columns = columnsOf(run, scenario);
  return h('section', { class: 'scenario', id: `scenario-${at}` },
    h('h2', null, scenario.title, h('code', null, scenario.name)),
    // Words between backticks are code.
    h('p', { class: 'about' }, scenario.about.split('`').map((part, n) => (n % 2 === 1 ? h('code', null, part) : part))),
    scenario.source && h('p', { class: 'source' }, `Source: ${scenario.source}`),
    legend(columns.map((column) => h('li', { class: column.class }, column.text))),
    picturesOf(scenario).map((picture, n) => pictured(run, ...ofVariants(scenario, columns, picture.variants ?? []), picture, `s${at}p${n}`)),
    courses(run, scenario, columns, at),
    notes(run, scenario, columns));
}

/** A scenario with the columns of some variants alone, and their names; with all if none is named. */
function ofVariants(scenario, columns, variants) {
  if (variants.length === 0) return [scenario, columns];
  const kept = (all) => all.filter((_, at) => variants.includes(scenario.columns[at]?.variant));
  return [{ ...scenario, columns: kept(scenario.columns), rows: scenario.rows.map((row) => ({ ...row, cells: kept(row.cells) })) }, kept(columns)];
}

/** Charts that differ in nothing but the metric are one picture. What has no chart but those over time has bars as well, for its figures. */
function picturesOf(scenario) {
  const pictures = new Map();
  for (const chart of scenario.charts) {
    const key = JSON.stringify([chart.kind, chart.rows, chart.variants, chart.beside]);
    if (!pictures.has(key)) pictures.set(key, { ...chart, charts: [] });
    pictures.get(key).charts.push(chart);
  }
  const found = [...pictures.values()];
  return found.every((it) => it.kind.type === 'over_time') ? [...found, { kind: { type: 'bars' }, charts: [], rows: [] }] : found;
}

/** The metrics of a picture's charts, then the scenario's others, as far as there is something to show. */
function metricsOf(run, scenario, columns, { charts, rows, kind }) {
  const found = [];
  for (const name of [...charts.map((it) => it.metric), ...scenario.metrics]) {
    const figure = figureOf(run, scenario, columns, name, rows);
    const isThere = kind.type === 'over_time' ? hasTimes(figure) : hasValues(figure);
    if (isThere && !found.some((it) => it === name || tailOf(it) === name) && found.length < TABS_MAX) found.push(name);
  }
  return found.filter((name) => !found.some((it) => tailOf(it) === name));
}

function pictured(run, scenario, columns, picture, id) {
  const metrics = metricsOf(run, scenario, columns, picture);
  if (metrics.length === 0) return null;
  const buttons = metrics.map((name) => run.metrics[name].button);
  return h('div', { class: 'picture' },
    buttons.map((button, at) => h('input', { type: 'radio', name: id, id: `${id}-${at}`, class: 'pick', 'data-metric': button, ...(at === 0 ? { checked: true } : {}) })),
    h('div', { class: 'tabs' }, buttons.map((button, at) => h('label', { for: `${id}-${at}` }, button))),
    h('div', { class: 'sheets' }, metrics.map((name) => {
      const all = figureOf(run, scenario, columns, name, picture.rows);
      const [figure, others] = picture.kind.type === 'over_time' ? [all, []] : applicable(all);
      return h('div', { class: 'sheet' }, sheet(run, figure, picture), others.length > 0 && what(`Not shown (${figure.metric.absent}): ${others.join(', ')}`));
    })));
}

function sheet(run, figure, picture) {
  const { metric } = figure;
  const chart = picture.charts.find((it) => it.metric === metric.name);
  const [title, found, who] = [chart?.title ?? metric.noun, finding(figure), counted(figure)];
  return [
    h('h3', null, found || title), found && what(title), who && what(who),
    drawn(run, figure, picture, chart?.is_log ?? false),
    hasValues(figure) && folded('Table', picture.kind.type === 'bars', table(figure)),
  ];
}

function drawn(run, figure, { kind, variants, beside }, isLog) {
  if (kind.type === 'over_time') return timeline(figure, isLog);
  const sweep = kind.type === 'lines' ? sweepOf(figure, kind) : undefined;
  if (!sweep) return bars(run, figure, isLog);
  // Sources draw their gains and rates from zero.
  const asLines = () => lines(run, figure, sweep, { isLog, isFromZero: variants?.length > 0, beside });
  if (sweep.panels.length <= 1) return asLines();
  const asHeat = heat(run, figure, sweep);
  return sweep.panels.length <= PANELS_MAX ? [asLines(), asHeat] : [asHeat, folded('As lines', false, asLines())];
}

/** Timelines of the measurements, where the scenario has no picture of its own for that. */
function courses(run, scenario, columns, at) {
  if (scenario.charts.some((chart) => chart.kind.type === 'over_time')) return null;
  const isCourse = (row) => row.cells.some((cell) => cell.samples.some((sample) => sample.series.length > 1));
  const rows = scenario.rows.filter(isCourse).slice(0, COURSES_MAX).map((row) => row.name);
  if (rows.length === 0) return null;
  return folded('Over time', false, pictured(run, scenario, columns, { kind: { type: 'over_time' }, charts: [], rows }, `s${at}time`));
}

/** The rows that could not be measured and why, published figures, then the commands that repeat each row. */
function notes(run, scenario, columns) {
  const missing = scenario.rows.flatMap((row) => row.cells.flatMap(({ outcome }, at) => (outcome.type === 'measured' || !columns[at] ? [] : [`${row.name}, ${columns[at].text}: ${outcome.type.replace('_', ' ')}: ${outcome.reason}`])));
  const all = scenario.rows.flatMap((row) => row.published);
  const heading = 'Published for the same, on other machines';
  return [
    missing.length > 0 && h('ul', { class: 'missing' }, missing.map((line) => h('li', null, line))),
    scenario.left_out.length > 0 && what(`Not asked for (--rows): ${scenario.left_out.join(', ')}`),
    all.some((it) => it.variant) ? folded(`${heading}, beside this run`, true, publishedVariants(run, scenario, columns))
      : all.length > 0 && folded(heading, false, published(run, scenario)),
    folded('Commands and parameters', false, scenario.rows.map(commands)),
  ];
}

const published = (run, scenario) => scrolled('facts', null, scenario.rows.flatMap((row) => row.published.map((it) => h('tr', null,
  h('th', { scope: 'row' }, row.name), h('td', null, it.by), h('td', null, run.metrics[it.metric].noun), h('td', { class: 'number' }, publishedText(run, it))))));

function commands(row) {
  const parameters = Object.entries(row.parameters).map(([name, value]) => `${name} ${labelOf(value)}`);
  return [
    h('h4', null, row.name),
    parameters.length > 0 && h('p', { class: 'parameters' }, parameters.join(' \u00b7 ')),
    row.commands.length > 0 && h('pre', null, row.commands.join('\n')),
  ];
}

/** Figures that others have published for variants of a broker, beside those of this run: values first, then of every broker its first variant divided by its last. Machines differ; ratios can be compared. */
function publishedVariants(run, scenario, columns) {
  const all = scenario.rows.flatMap((row) => row.published);
  const foreign = [...new Map(all.map((it) => [`${it.by} ${it.variant ?? ''}`, { broker: it.by, variant: it.variant ?? '', isOwn: false }])).values()];
  const sources = [...foreign, ...columns.map((it) => ({ broker: it.target, variant: it.variant ?? '', isOwn: true }))];
  const isOf = (first) => (it) => it.broker === first.broker && it.isOwn === first.isOwn;
  const pairs = sources.flatMap((first, above) => {
    const below = sources.map(isOf(first)).lastIndexOf(true);
    const isPair = sources.findIndex(isOf(first)) === above && below > above;
    return isPair ? [{ title: `${first.broker} ${first.variant} \u00f7 ${sources[below].variant}`, above, below }] : [];
  });
  const heads = sources.map((it) => `${it.broker} ${it.variant}`);
  const valuesOf = (row, metric) => [
    ...foreign.map((it) => row.published.find((figure) => figure.metric === metric && figure.by === it.broker && (figure.variant ?? '') === it.variant)?.value),
    ...columns.map((_, at) => row.cells[at]?.figures[metric]?.median),
  ];
  const line = (row, metric) => {
    const values = valuesOf(row, metric);
    const { noun, unit } = run.metrics[metric];
    return h('tr', null, h('th', { scope: 'row' }, row.name, h('small', null, noun)),
      values.map((value, at) => h('td', { 'data-head': heads[at] }, value === undefined ? NONE : text(value, unit))),
      pairs.map((it) => h('td', { class: 'ratio', 'data-head': it.title }, ratio(values[it.above] / values[it.below]))));
  };
  return scrolled('numbers', [headOf(''), [...heads, ...pairs.map((it) => it.title)].map((it) => headOf(it))],
    scenario.rows.map((row) => [...new Set(row.published.map((it) => it.metric))].map((metric) => line(row, metric))));
}

/** The machine, the brokers and the call. */
function details(run) {
  const { machine } = run;
  const facts = [
    ['processor', machine.cpu], ['cores', machine.n_cores], ['memory', text(machine.memory_bytes, 'bytes')], ['kernel', machine.kernel],
    ['system', machine.system ?? 'unknown'], ['frequency governor', machine.governor ?? 'not visible'],
  ];
  const brokers = run.targets.map((it, at) => h('tr', null, h('th', { scope: 'row', class: colourOf(at) }, it.name),
    [it.product, it.version, it.platform, it.uri, it.pid ?? 'elsewhere'].map((fact, n) => h('td', { 'data-head': FACTS[n] }, fact))));
  return h('section', { id: 'run' },
    h('h2', null, 'The run'),
    folded('Brokers', true, scrolled('facts brokers', ['broker', ...FACTS].map((it) => headOf(it)), brokers)),
    folded('Machine', true, h('table', { class: 'facts' }, h('tbody', null, facts.map(([name, fact]) => h('tr', null, h('th', { scope: 'row' }, name), h('td', null, fact)))))),
    folded('Command', true, h('pre', null, run.command),
      h('p', null, `leveret bench ${run.tool_version}, begun ${run.started_at}, ${text(run.seconds, 'seconds')} long; ${run.repeats} repeats of each row; scale ${short(run.scale)} (1: durations and message counts are the sources').`)));
}
