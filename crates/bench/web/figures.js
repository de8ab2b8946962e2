// The data of charts and tables: one metric, in rows of measured values; names of columns; rows along a
// parameter; findings in words. Never how they are drawn.

import { ratio, short, text } from './numbers.js';

/** The number of colours in the page's style, and of variants of a target that it tells apart. */
const COLOURS = 6;
const VARIANTS = 4;
/** Brokers whose names are written in their own way. */
const SPELLINGS = ['Leveret', 'RabbitMQ', 'LavinMQ'];
/** Characters of a name that are shown. */
const NAME_CHARS_MAX = 32;
/** The metrics that are shown together with a median. */
const TAILS = { latency_median: 'latency_p99', confirm_median: 'confirm_p99', operation_median: 'operation_p99' };
/** Words for a cell without figures. */
const MISSING = { refused: 'refused', not_offered: 'not offered', failed: 'failed' };

export const tailOf = (metric) => TAILS[metric];
export const colourOf = (at) => `c${at % COLOURS}`;
const same = (a, b) => a.toLowerCase() === b.toLowerCase();

function shortened(name) {
  const chars = [...name];
  return chars.length > NAME_CHARS_MAX ? `${chars.slice(0, NAME_CHARS_MAX).join('')}\u2026` : name;
}

/** A target's name on the page: the one it was given. Brokers that are compatible with another one may tell the other's name as their own. */
export const targetName = ({ name }) => shortened(SPELLINGS.find((known) => same(known, name)) ?? name);

/** A target's own name and version: `4.3.6 (Erlang/OTP 27)`, or `calls itself RabbitMQ 4.3.6 (Leveret)`. */
export function toldBy({ name, product, version, platform }) {
  const of = `${version}${platform && ` (${platform})`}`;
  return product === '' || same(product, name) ? of : `calls itself ${product} ${of}`;
}

/** The names of a scenario's columns, each with the class of everything drawn for it: the same for the same broker everywhere. */
export function columnsOf(run, scenario) {
  return scenario.columns.map((column, n) => {
    const at = run.targets.findIndex((it) => it.name === column.target);
    const target = run.targets[at] ? targetName(run.targets[at]) : column.target;
    const nBefore = scenario.columns.slice(0, n).filter((it) => it.target === column.target).length;
    const isRival = at >= 0 && !column.is_floor;
    return {
      text: shortened(column.variant ? `${target} ${column.variant}` : target),
      class: isRival ? `${colourOf(at)} variant-${Math.min(nBefore, VARIANTS - 1)}` : 'floor variant-0',
      isBaseline: column.is_floor, target, variant: column.variant, writtenBy: run.targets[at]?.written_by,
    };
  });
}

/** One metric over the rows of a scenario named in `rows`; over all if none is. */
export function figureOf(run, scenario, columns, name, rows = []) {
  const chosen = scenario.rows.filter((row) => rows.length === 0 || rows.includes(row.name));
  const values = (source) => columns.map((_, at) => valueOf(source.cells[at], name));
  return { metric: run.metrics[name], columns, rows: chosen.map((source) => ({ source, values: values(source) })) };
}

/** A row's value in a column: its spread, its 99th percentile, or the reason why there is none in one word and in the words of whoever knows. */
function valueOf(cell, metric) {
  if (!cell) return { missing: ['not measured', ''] };
  const spread = cell.figures[metric];
  const word = MISSING[cell.outcome.type];
  return { spread: Number.isFinite(spread?.median) ? spread : undefined, p99: cell.figures[TAILS[metric]]?.median ?? undefined, missing: word && [word, cell.outcome.reason] };
}

const valuesOf = (figure) => figure.rows.flatMap((row) => row.values);
export const hasValues = (figure) => valuesOf(figure).some((value) => value.spread);
export const hasP99 = (figure) => valuesOf(figure).some((value) => value.p99 !== undefined);

/** Without the rows to which the metric does not apply, such as latency without a consumer; and the names of those. */
export function applicable(figure) {
  const applies = (row) => row.values.some((value) => value.spread || value.missing);
  return [{ ...figure, rows: figure.rows.filter(applies) }, figure.rows.filter((row) => !applies(row)).map((row) => row.source.name)];
}

/** Every number a chart must have room for. */
export function numbersOf(figure) {
  const spreads = valuesOf(figure).flatMap(({ spread, p99 }) => [spread?.min, spread?.max, p99]);
  return [...spreads, ...figure.rows.map((row) => goalOf(figure, row))].filter((it) => it !== undefined);
}

/** The row's goal for the figure's metric. */
export const goalOf = (figure, { source }) => (source.aim?.metric === figure.metric.name ? source.aim.value : undefined);

/** A row's aim, in the unit of what the first column has reached. */
export function goalText(figure, row) {
  const goal = goalOf(figure, row);
  return goal === undefined ? undefined : text(goal, figure.metric.unit, row.values[0]?.spread?.median ?? goal);
}

/** The first column's median divided by another one's. */
function quotientOf(row, other) {
  const found = row.values[0].spread?.median / row.values[other].spread?.median;
  return Number.isFinite(found) && found > 0 ? found : undefined;
}

/** Ratios of all rows that have both values, taken together: their geometric mean and their ends. None for what is not counted alike. */
export function quotient({ metric, columns, rows }, other) {
  if (metric.name === 'written_each' && columns[0].writtenBy !== columns[other].writtenBy) return undefined;
  const found = rows.map((row) => quotientOf(row, other)).filter((it) => it !== undefined);
  if (found.length === 0) return undefined;
  const mean = Math.exp(found.reduce((sum, it) => sum + Math.log(it), 0) / found.length);
  return { mean, low: Math.min(...found), high: Math.max(...found) };
}

export const inverse = ({ mean, low, high }) => ({ mean: 1 / mean, low: 1 / high, high: 1 / low });

/** ` (12× to 84×)`, where the rows differ. */
export function rangeOfRatios({ low, high }) {
  return ratio(low) === ratio(high) ? '' : ` (${ratio(low)} to ${ratio(high)})`;
}

/** The first column compared with each of the others, in the direction that is above 1 on the whole. */
export function ratiosOf(figure) {
  const [first, ...others] = figure.columns;
  return others.flatMap((other, n) => {
    const total = quotient(figure, n + 1);
    if (!total) return [];
    const isInverse = total.mean < 1;
    const of = (row) => {
      const found = quotientOf(row, n + 1);
      return isInverse && found ? 1 / found : found;
    };
    return [{ other, title: (isInverse ? [other, first] : [first, other]).map((it) => it.text).join(' \u00f7 '), total: isInverse ? inverse(total) : total, of }];
  });
}

/** From the least to the greatest repeat, where they differ. */
export function rangeOf(figure, spread) {
  const [low, high] = [spread.min, spread.max].map((value) => text(value, figure.metric.unit));
  return low === high ? undefined : `${low} \u2013 ${high}`;
}

/** Published figures that can be put beside those of this machine: ratios. */
export const publishedRatios = (figure, { source }) => (figure.metric.unit === 'times' ? source.published.filter((it) => it.metric === figure.metric.name) : []);

/** A published figure as its source has printed it, and as a factor if that is something else. */
export function publishedText(run, { value, metric, printed }) {
  const own = text(value, run.metrics[metric].unit);
  return !printed ? own : printed.endsWith('\u00d7') ? printed : `${printed} (${own})`;
}

/** The text shown when a row is pointed at: its name, then a line per column. */
export function tipOf(run, figure, row) {
  const { name, note } = row.source;
  const goal = goalText(figure, row);
  return [
    `${name}${note ? ` (${note})` : ''}`,
    ...row.values.map((value, at) => `${figure.columns[at].text}: ${inWords(figure, value)}`),
    ...ratiosOf(figure).filter((it) => it.of(row)).map((it) => `${it.title}: ${ratio(it.of(row))}`),
    ...(goal ? [`aim: ${goal}`] : []),
    ...publishedRatios(figure, row).map((it) => `${it.by}: ${publishedText(run, it)}`),
  ].join('\n');
}

function inWords(figure, { spread, p99, missing }) {
  if (!spread) return (missing ?? ['not measured', '']).filter(Boolean).join(': ');
  const range = rangeOf(figure, spread);
  const tail = p99 === undefined ? '' : `, 99th percentile ${text(p99, figure.metric.unit)}`;
  return `${text(spread.median, figure.metric.unit)}${range ? ` (${range})` : ''}${tail}`;
}

/** Who counted bytes written, a sentence for each kind of counter; nothing of other metrics. */
export function counted({ metric, columns }) {
  if (metric.name !== 'written_each') return '';
  const of = (counter) => columns.filter((it) => it.writtenBy === counter).map((it) => it.text).join(', ');
  const [broker, process] = [of('broker'), of('process')];
  return [
    broker && `${broker}: what the broker hands to the system for its data files, by its own count.`,
    process && `${process}: write_bytes of the process, as the system counts it, which can be several times what reaches the disk; not to be compared with a broker's own count.`,
  ].filter(Boolean).join(' ');
}

/** A figure's finding in one sentence: `Leveret: 48× RabbitMQ (12× to 84×) in messages per CPU-second`. Nothing if nothing can be compared. */
export function finding(figure) {
  const { metric, columns } = figure;
  if (!columns[0] || columns[0].isBaseline || ['relative', 'gain'].includes(metric.name)) return '';
  const ahead = /** @type {string[]} */ ([]);
  const behind = /** @type {string[]} */ ([]);
  columns.forEach((other, at) => {
    const found = at === 0 || other.isBaseline ? undefined : quotient(figure, at);
    if (!found) return;
    if (found.mean >= 1 === metric.is_higher_better) ahead.push(compared(found, other.text, metric));
    else behind.push(sentence(other.text, compared(inverse(found), columns[0].text, metric), metric));
  });
  return [...(ahead.length > 0 ? [sentence(columns[0].text, ahead.join(', '), metric)] : []), ...behind].join('; ');
}

const sentence = (subject, compared, { noun, is_higher_better }) => (is_higher_better ? `${subject}: ${compared} in ${noun}` : `${subject}: ${noun} ${compared}`);

/** The better one's value divided by `other`'s, said of the better one. */
function compared(better, other, { is_higher_better }) {
  const found = is_higher_better ? better : inverse(better);
  return `${ratio(found.mean)}${is_higher_better ? ' ' : ' lower than '}${other}${rangeOfRatios(found)}`;
}

export const labelOf = (parameter) => (typeof parameter === 'number' ? short(parameter) : parameter);

/** The rows of a figure along the parameter `x`, those with each value of `lines` in a panel of their own; nothing if fewer than two have it. Shares are 0 at the left end and 1 at the right one. */
export function sweepOf(figure, { x, lines, is_x_log: isLog }) {
  const valuesOfAll = distinct(figure.rows.map((row) => row.source.parameters[x]));
  if (valuesOfAll.length < 2) return undefined;
  const shares = sharesOf(valuesOfAll, isLog);
  const seconds = distinct(figure.rows.map((row) => row.source.parameters[lines]));
  const panel = (value) => ({
    name: value === undefined ? undefined : `${lines} ${labelOf(value)}`,
    label: value === undefined ? '' : labelOf(value),
    rows: figure.rows.filter((row) => row.source.parameters[x] !== undefined && (value === undefined || row.source.parameters[lines] === value))
      .map((row) => ({ share: shares[valuesOfAll.indexOf(row.source.parameters[x])], row })).sort((a, b) => a.share - b.share),
  });
  const stops = valuesOfAll.map((value, at) => ({ share: shares[at], label: labelOf(value) }));
  return { xName: x, stops, panelName: lines ?? '', panels: (seconds.length > 0 ? seconds : [undefined]).map(panel) };
}

/** Numbers rising, then texts in the order in which they come. */
function distinct(values) {
  const found = [...new Set(values.filter((it) => it !== undefined))];
  const numbers = found.filter((it) => typeof it === 'number').sort((a, b) => a - b);
  return [...numbers, ...found.filter((it) => typeof it !== 'number')];
}

/** The places of the values between 0 and 1. A logarithmic axis has no place for zero, and no axis one for text: then all lie at equal distances. */
function sharesOf(values, isLog) {
  const found = values.map((value) => (typeof value !== 'number' || (isLog && value <= 0) ? NaN : isLog ? Math.log(value) : value));
  const places = found.some(Number.isNaN) ? values.map((_, at) => at) : found;
  const [low, high] = [places[0], places[places.length - 1]];
  return places.map((it) => (it - low) / (high - low));
}
