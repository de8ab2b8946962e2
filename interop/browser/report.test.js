// Whole pages of small runs of `leveret bench`: what they say, and how numbers, axes and lines are made.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { frame, pausesOf, thinned } from '../../crates/bench/web/charts.js';
import { axisFromZero, axisOf, compact, percent, ratio, rounded, short, text, tickText } from '../../crates/bench/web/numbers.js';
import { page } from '../../crates/bench/web/page.js';

const CPU = 'per_cpu_second';
const MIB = 1024 * 1024;

const metric = (name, unit, noun, { button = noun, absent = 'not measured', is_higher_better = true } = {}) => [name, { name, unit, noun, button, absent, is_higher_better }];
const metrics = Object.fromEntries([
  metric(CPU, CPU, 'messages per CPU-second'),
  metric('rate', 'per_second', 'messages per second', { button: 'per second' }),
  metric('send_rate', 'per_second', 'published messages per second'),
  metric('receive_rate', 'per_second', 'delivered messages per second'),
  metric('gain', 'times', 'times what the base has'),
  metric('duration', 'seconds', 'duration', { is_higher_better: false }),
  metric('written_each', 'bytes', 'bytes written to disk per message', { is_higher_better: false }),
  metric('latency_median', 'microseconds', 'median latency', { absent: 'nothing is consumed', is_higher_better: false }),
  metric('latency_p99', 'microseconds', '99th percentile latency', { absent: 'nothing is consumed', is_higher_better: false }),
]);

const escaped = (it) => String(it).replace(/[&<>"\n]/g, (char) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', '\n': '|' })[char] ?? '');
const attribute = ([name, value]) => (value === null || value === undefined || value === false ? '' : ` ${name}="${escaped(name === 'style' ? Object.entries(value).map((it) => it.join(':')).join(';') : value)}"`);

/** A view as text, with plain spaces. @returns {string} */
const shown = (view) => (view.tag ? `<${view.tag}${Object.entries(view.props).map(attribute).join('')}>${view.children.map(shown).join('')}</${view.tag}>` : escaped(view.key)).replaceAll('\u202f', ' ');
const pageOf = (run) => shown(page(run));
const says = (html, ...parts) => parts.forEach((part) => assert.ok(html.includes(part), `${part} is not in ${html}`));
const plain = (it) => it.replaceAll('\u202f', ' ');

const target = (name, product, written_by) => ({ name, product, written_by, uri: 'amqp://localhost', version: '1.2.3', platform: 'a platform', pid: 4242 });
const column = (name, variant = null, is_floor = false) => ({ target: name, variant, is_floor });

/** A run against Leveret and RabbitMQ. @returns {any} */
const runOf = (...scenarios) => ({
  tool_version: '0.1.0', started_at: '2026-01-31T12:00:00Z', seconds: 90, command: 'leveret bench features', scale: 0.1, repeats: 3, baseline: 'leveret',
  machine: { cpu: 'a processor', n_cores: 2, kernel: '', memory_bytes: 0, system: null, governor: null }, warnings: [], metrics,
  targets: [target('leveret', 'Leveret', 'broker'), target('rabbitmq', 'RabbitMQ', 'process')], scenarios,
});

/** A scenario on both, with a chart of its first metric. */
const scenarioOf = (kind, names, rows) => ({
  name: 'some-scenario', title: 'Some scenario', about: 'What it is about.', source: 'a source', columns: [column('leveret'), column('rabbitmq')], metrics: names,
  charts: names.slice(0, 1).map((name) => ({ title: 'a chart', kind, metric: name, is_log: false, rows: [] })), rows, left_out: [],
});
const BARS = { type: 'bars' };
const OVER_TIME = { type: 'over_time' };
const linesOver = (x, is_x_log, lines = null) => ({ type: 'lines', x, is_x_log, lines });

/** @returns {any} */
const row = (name, ...cells) => ({ name, parameters: {}, commands: ['leveret perf -h URI'], aim: null, published: [], cells });
const rowAt = (parameters, ...cells) => ({ ...row(Object.entries(parameters).map((it) => it.join(' ')).join(', '), ...cells), parameters });

/** Medians, with repeats a tenth below and above. */
const measured = (values) => ({ outcome: { type: 'measured' }, figures: Object.fromEntries(Object.entries(values).map(([name, median]) => [name, { median, min: median * 0.9, max: median * 1.1 }])), samples: /** @type {any[]} */ ([]) });
const refused = (reason) => ({ outcome: { type: 'refused', reason }, figures: {}, samples: [] });

/** A cell of one sample with a series of sent and received messages per second, a second each. */
const overTime = (...rates) => ({ ...measured({ duration: 3 }), samples: [{ series: rates.map(([sent_per_second, received_per_second], at) => ({ seconds: at + 1, sent_per_second, received_per_second })) }] });

function features() {
  const both = (ours, theirs) => [measured({ [CPU]: ours }), measured({ [CPU]: theirs })];
  const first = { ...row('auto-ack', ...both(5.6e6, 7e4)), aim: { metric: CPU, value: 6e6 }, published: [{ by: 'RabbitMQ 2.8.1', metric: 'rate', value: 44824 }] };
  const immediate = row('immediate', measured({ [CPU]: 1e6 }), refused('NOT_IMPLEMENTED - immediate=true'));
  return runOf(scenarioOf(BARS, [CPU, 'rate'], [first, row('acked', ...both(1e6, 5e4)), immediate]));
}

test('bars say what was found, in rows and in one sentence', () => {
  const html = pageOf(features());
  says(html,
    '<h3>Leveret: 40\u00d7 RabbitMQ (20\u00d7 to 80\u00d7) in messages per CPU-second</h3>',
    '<b>40\u00d7</b> RabbitMQ',
    '<th scope="col">Leveret \u00f7 RabbitMQ</th>',
    '<td class="ratio" data-head="Leveret \u00f7 RabbitMQ">80\u00d7</td>',
    '<td data-head="Leveret"><b>5.6 M</b><small>5.04 M \u2013 6.16 M</small></td>',
    'data-tip="auto-ack|Leveret: 5.6 M (5.04 M \u2013 6.16 M)|RabbitMQ: 70 000 (63 000 \u2013 77 000)|Leveret \u00f7 RabbitMQ: 80\u00d7|aim: 6 M"',
    '<td>RabbitMQ 2.8.1</td><td>messages per second</td><td class="number">44 824/s</td>');
  assert.ok(!html.includes('>per second<'), 'a metric that nobody measured has no button');
});

test('an axis over decades is logarithmic and says so', () => {
  says(pageOf(features()), '>100 000</text>', '>1 M</text>', '>10 M</text>', 'messages per CPU-second, logarithmic (more is better; dashed: aim)');
});

test('what was refused is said in the chart and below', () => {
  says(pageOf(features()),
    '<text class="none" x="4" y="36">refused</text>',
    '<td class="none" data-head="RabbitMQ" title="NOT_IMPLEMENTED - immediate=true">refused</td>',
    '<li>immediate, RabbitMQ: refused: NOT_IMPLEMENTED - immediate=true</li>',
    '<td class="ratio" data-head="Leveret \u00f7 RabbitMQ">\u2013</td>');
});

test('bytes written say who counted them, and are compared only with their like', () => {
  const cell = (bytes) => measured({ written_each: bytes });
  const run = runOf(scenarioOf(BARS, ['written_each'], [row('fan-out', cell(5000), cell(60000))]));
  const html = pageOf(run);
  says(html, 'Leveret: what the broker hands to the system for its data files, by its own count.', 'RabbitMQ: write_bytes of the process, as the system counts it');
  assert.ok(!html.includes('Leveret \u00f7 RabbitMQ') && !html.includes('12\u00d7'), html);
  run.targets[0].written_by = run.targets[1].written_by;
  says(pageOf(run), 'Leveret, RabbitMQ: write_bytes', '12\u00d7 lower than RabbitMQ');
});

test('published variants stand beside those of the run, with their ratios', () => {
  const cell = (rate) => measured({ rate });
  const published = [['RabbitMQ 3.13', 'v2', 52e3], ['RabbitMQ 3.12', 'v2', 45e3], ['RabbitMQ 3.13', 'v1', 26e3]].map(([by, variant, value]) => ({ by, variant, value, metric: 'rate' }));
  const scenario = { ...scenarioOf(BARS, ['rate'], [{ ...row('publish only', cell(9000), cell(6000)), published }]), columns: [column('leveret', 'v2'), column('leveret', 'v1')] };
  says(pageOf(runOf(scenario)),
    '<th scope="col">RabbitMQ 3.13 v2 \u00f7 v1</th><th scope="col">Leveret v2 \u00f7 v1</th></tr>',
    'publish only<small>messages per second</small></th><td data-head="RabbitMQ 3.13 v2">52 000/s</td>',
    '<td data-head="Leveret v1">6 000/s</td><td class="ratio" data-head="RabbitMQ 3.13 v2 \u00f7 v1">2.0\u00d7',
    '<td class="ratio" data-head="Leveret v2 \u00f7 v1">1.50\u00d7</td>');
});

test('rows that are not shown say why', () => {
  const latency = () => measured({ latency_median: 480 });
  const rows = [row('one at a time', latency(), latency()), row('publish only', measured({ [CPU]: 1e6 }), measured({ [CPU]: 2e4 }))];
  const run = runOf({ ...scenarioOf(BARS, ['latency_median'], rows), left_out: ['mandatory'] });
  run.warnings = ['The machine was busy.'];
  says(pageOf(run), 'Not shown (nothing is consumed): publish only</p>', 'Not asked for (--rows): mandatory</p>', '<p class="warning" role="note">The machine was busy.</p>');
});

test('a picture of some variants stands on axes from zero, with what was published beside', () => {
  const by = 'level 1 of the paper';
  const cell = (send_rate, gain) => measured({ send_rate, gain });
  const queues = (n, published) => ({ ...rowAt({ queues: n }, cell(1000 * n, 1), cell(20000 * n, 20), cell(7000 * n, 7)), published });
  const gain = (value, printed) => [{ by, metric: 'gain', value, printed }];
  const rows = [queues(1, gain(3.08, '3.08\u00d7')), queues(2, []), { ...queues(15, gain(1.409, '+40.9 %')), note: '7 of 27 rows' }];
  const scenario = scenarioOf(linesOver('queues', false), ['send_rate'], rows);
  scenario.columns = ['base', 'ack', 'enqueue'].map((variant) => column('leveret', variant));
  scenario.charts = [{ ...scenario.charts[0], variants: ['ack', 'base'] }, { ...scenario.charts[0], metric: 'gain', variants: ['ack'], beside: by }];
  const html = pageOf(runOf(scenario));
  const [, rates, gains, ...more] = html.split('<div class="picture">');
  assert.equal(more.length, 0);
  says(rates, '>Leveret base</div>', '>Leveret ack</div>', '>0</text>', '>300 000</text>');
  assert.ok(!rates.includes('Leveret enqueue') && !rates.includes('logarithmic'));
  const first = gains.split('<table')[0];
  says(first, '>published</div>', 'level 1 of the paper: 3.08\u00d7', 'queues 15 (7 of 27 rows)', '+40.9 % (1.41\u00d7)');
  assert.equal(first.split('<polyline').length - 1, 1, 'what was published is no line');
  assert.equal(first.split('class="marker"').length - 1, 3 + 2);
  says(html, '<td class="number">+40.9 % (1.41\u00d7)</td>', '<small>7 of 27 rows</small>');
});

test('courses over time are there for every scenario that has some', () => {
  const steady = () => overTime([9, 0], [9, 0], [0, 9], [0, 9]);
  says(pageOf(runOf(scenarioOf(BARS, ['rate'], [row('a million', steady(), steady())]))), '<summary>Over time</summary>', 'a million \u00b7 Leveret \u00b7 no pause');
});

test('of latencies the lower one is spoken of', () => {
  const latency = (median) => measured({ latency_median: median, latency_p99: median * 5 });
  says(pageOf(runOf(scenarioOf(BARS, ['latency_median', 'latency_p99'], [row('one at a time', latency(480), latency(160))]))),
    '<h3>RabbitMQ: median latency 3.0\u00d7 lower than Leveret</h3>', '<small>p99 2.4 ms</small>', 'median latency, logarithmic (less is better; ring: 99th percentile)', '<b>0.33\u00d7</b> RabbitMQ');
});

test('another baseline leaves colours as they are', () => {
  const run = features();
  run.baseline = 'rabbitmq';
  run.scenarios[0].columns.reverse();
  run.scenarios[0].rows.forEach((it) => it.cells.reverse());
  says(pageOf(run),
    '<h3>Leveret: 40\u00d7 RabbitMQ (20\u00d7 to 80\u00d7) in messages per CPU-second</h3>',
    '<li class="c1 variant-0">RabbitMQ</li><li class="c0 variant-0">Leveret</li>', '<b>40\u00d7</b> RabbitMQ');
});

test('variants share a colour, and the machine\'s limit is no rival', () => {
  const run = features();
  run.scenarios[0].columns = [column('leveret', 'v1'), column('leveret', 'v2'), column('relay', null, true)];
  run.scenarios[0].rows = [row('a', ...[2e6, 1e6, 9e6].map((value) => measured({ [CPU]: value })))];
  says(pageOf(run),
    '<li class="c0 variant-0">Leveret v1</li><li class="c0 variant-1">Leveret v2</li><li class="floor variant-0">relay</li>',
    '<h3>Leveret v1: 2.0\u00d7 Leveret v2 in messages per CPU-second</h3>');
});

test('a sweep is lines with names at their ends', () => {
  const rows = [1, 10, 100].map((queues) => rowAt({ queues }, measured({ [CPU]: 1e6 + queues }), measured({ [CPU]: 2e4 + queues })));
  says(pageOf(runOf(scenarioOf(linesOver('queues', true), [CPU], rows))),
    '<div class="panels one">', '<polyline class="line c0 variant-0" points="3.00,', '<text class="tick" x="50%" y="16">10</text>', 'px">Leveret</div>', '<div class="x-name">queues</div>');
});

test('a second parameter makes small charts and tables of colours', () => {
  const rows = [0, 1000].flatMap((size) => [1, 2].map((producers) => rowAt({ size, producers }, measured({ [CPU]: 4e6 - size }), measured({ [CPU]: 1e5 * producers })))).slice(0, 3);
  says(pageOf(runOf(scenarioOf(linesOver('producers', false, 'size'), [CPU], rows))),
    '<div class="frame-heading">size 1 000</div>', '<caption>Leveret: messages per CPU-second</caption>', '<caption>Leveret \u00f7 RabbitMQ</caption>', '>40\u00d7</td>', '>20\u00d7</td>', '<td>\u2013</td>');
});

test('a sweep with one value or without numbers is still drawn', () => {
  const at = (mode) => ({ ...row(mode, measured({ [CPU]: 1 }), measured({ [CPU]: 2 })), parameters: { mode } });
  const of = (...rows) => pageOf(runOf(scenarioOf(linesOver('mode', true), [CPU], rows)));
  says(of(at('base')), '<div class="bar-label">base</div>');
  says(of(at('base'), at('ack')), 'y="16">base</text>', 'y="16">ack</text>');
});

test('pauses over time are shaded and counted', () => {
  const rows = [row('a million', overTime([9, 0], [9, 0], [0, 9], [0, 9]), overTime([9, 0], [0, 0], [0, 0], [0, 9]))];
  says(pageOf(runOf(scenarioOf(OVER_TIME, ['rate', 'duration'], rows))),
    'a million \u00b7 Leveret \u00b7 no pause', 'a million \u00b7 RabbitMQ \u00b7 pause of 2 s',
    '<rect class="pause c1 variant-0" x="25.00" height="100%" width="50.00"></rect>', 'Leveret, published: 9/s', '>duration</label>');
});

test('a broker has the name it was given, and says what it calls itself', () => {
  const run = features();
  Object.assign(run.targets[0], { product: 'RabbitMQ', platform: 'Leveret' });
  says(pageOf(run), 'Leveret<small> calls itself RabbitMQ 1.2.3 (Leveret)</small>', 'RabbitMQ<small> 1.2.3 (a platform)</small>');
});

test('brokers have a head for every fact, and words of the command line are code', () => {
  const run = features();
  run.scenarios[0].about = 'A target with `version=both` is measured twice.';
  says(pageOf(run), 'A target with <code>version=both</code> is measured twice.', '<td data-head="version">1.2.3</td>', '<td data-head="process">');
});

test('identifiers are unique, and references lead somewhere', () => {
  const html = pageOf(features());
  const all = (name) => [...html.matchAll(new RegExp(` ${name}="#?([^"]*)"`, 'g'))].map((it) => it[1]);
  const ids = all('id');
  assert.equal(new Set(ids).size, ids.length);
  assert.ok(all('href').length > 0 && [...all('href'), ...all('for')].every((it) => ids.includes(it)));
});

test('odd runs are drawn too', () => {
  pageOf({ ...runOf(), targets: [] });
  const odd = features();
  odd.scenarios[0].columns = [];
  odd.scenarios[0].charts[0].rows = ['no such row'];
  pageOf(odd);
  for (const value of [0, -1, null, 1e300]) {
    const run = features();
    run.scenarios[0].rows[0].cells[0].figures[CPU] = { median: value, min: value, max: value };
    const html = pageOf(run);
    assert.ok(!html.includes('NaN') && !html.includes('Infinity') && !html.includes('undefined'), String(value));
  }
});

test('numbers have few digits', () => {
  for (const [value, told] of /** @type {[number, string][]} */ ([
    [0, '0'], [0.0004, '0.0004'], [0.1784, '0.178'], [5, '5'], [9.999, '10'], [67.123, '67.1'], [999.7, '1 000'], [12345.4, '12 345'], [-12345.4, '-12 345'], [-123, '-123'],
    [999499, '999 499'], [1e6, '1 M'], [1249999, '1.25 M'], [149910000, '150 M'], [2.5e9, '2.5 G'], [NaN, '\u2013'], [Infinity, '\u2013'],
  ])) assert.equal(plain(short(value)), told);
});

test('units follow the size', () => {
  for (const [value, unit, told] of /** @type {[number, string, string][]} */ ([
    [5612345, 'per_second', '5.61 M/s'], [5612345, CPU, '5.61 M'], [0, 'microseconds', '0'], [0.18, 'microseconds', '180 ns'], [174, 'microseconds', '174 \u00b5s'],
    [999.7, 'microseconds', '1 ms'], [2060, 'microseconds', '2.06 ms'], [1500000, 'microseconds', '1.5 s'], [0.2, 'seconds', '200 ms'], [330, 'seconds', '330 s'],
    [12, 'bytes', '12 B'], [5.5 * MIB, 'bytes', '5.5 MiB'], [1024 * MIB, 'bytes', '1 GiB'], [45 * MIB, 'bytes_per_second', '45 MiB/s'], [0.5, 'times', '0.50\u00d7'],
  ])) assert.equal(plain(text(value, unit)), told);
  for (const [value, beside, unit, told] of /** @type {[number, number, string, string][]} */ ([
    [950, 1150, 'microseconds', '0.95 ms'], [1150, 950, 'microseconds', '1 150 \u00b5s'], [962000, 1.2e6, CPU, '0.962 M'], [6e6, 144129, 'per_second', '6 000 000/s'], [MIB / 4, 2 * MIB, 'bytes', '0.25 MiB'],
  ])) assert.equal(plain(text(value, unit, beside)), told);
  assert.equal(plain(tickText(45 * MIB, 'bytes_per_second')), '45 MiB');
  assert.deepEqual([92261, 1043000].map((it) => plain(compact(it, 'per_second'))), ['92.3 k', '1.04 M']);
  assert.equal(plain(text(rounded(962447), CPU)), '962 000');
  assert.equal(rounded(0), 0);
});

test('ratios say no more than they know, and shares become percent', () => {
  for (const [value, told] of /** @type {[number, string][]} */ ([
    [12345, '12 345\u00d7'], [120.2, '120\u00d7'], [48.4, '48\u00d7'], [9.96, '10\u00d7'], [3.12, '3.1\u00d7'], [1.996, '2.0\u00d7'], [1, '1.00\u00d7'], [0.834, '0.83\u00d7'], [0.012, '0.012\u00d7'], [NaN, '\u2013'],
  ])) assert.equal(plain(ratio(value)), told);
  assert.deepEqual([0.5, 0.123456, 0].map(percent), ['50%', '12.35%', '0%']);
});

test('axes have few values, between which all others lie', () => {
  const ticks = (values, unit = CPU) => axisOf(values, unit, false).ticks.map((it) => plain(text(it, unit)));
  assert.deepEqual(ticks([67e3, 5.6e6]), ['100 000', '1 M', '10 M'], 'only powers of ten when there are enough of them');
  const wide = axisOf([67e3, 5.6e6], CPU, false);
  assert.deepEqual([wide.isLog, wide.low, wide.high], [true, 5e4, 1e7]);
  assert.deepEqual(ticks([22e3, 440e3]), ['10 000', '20 000', '50 000', '100 000', '200 000', '500 000'], 'little more than a decade has values between');
  assert.deepEqual(ticks([1, 1e9]), ['1', '100', '10 000', '1 M', '100 M'], 'many decades are thinned out');
  assert.deepEqual(ticks([870, 1400, 0]), ['0', '500', '1 000', '1 500'], 'a zero makes no axis logarithmic');
  assert.equal(ticks([300, 2100], 'microseconds').at(-1), '2.5 ms');
  assert.deepEqual(ticks([35 * MIB], 'bytes'), ['0', '10 MiB', '20 MiB', '30 MiB', '40 MiB'], 'bytes are counted in their own steps');
  assert.equal(ticks([20 * MIB, 400 * MIB], 'bytes')[0], '10 MiB');
  const log = axisOf([1, 100], CPU, false);
  assert.ok(Math.abs(log.at(Math.sqrt(50)) - 0.5) < 1e-9, 'halfway from 0.5 to 100');
  assert.deepEqual([0, 1e9, NaN].map(log.at), [0, 1, 0]);
  assert.deepEqual([0, 2, 4].map(axisOf([2, 4], CPU, false).at), [0, 0.5, 1]);
  assert.equal(axisOf([], CPU, false).ticks[0], 0);
});

test('names at the ends of lines do not cover each other, nor do values at the axis', () => {
  const ends = [['low', 229], ['lower', 230], ['high', 3]].map(([name, px]) => ({ text: name, class: 'c0', px }));
  const ticks = [[0, '1'], [0.01, '2'], [0.5, '50']].map(([share, label]) => ({ share, label }));
  says(shown(frame({ heading: undefined, y: axisFromZero([1], 'per_second'), unit: 'per_second', ticks, xName: 'queues', ends }, [], [])),
    '<div class="c0" style="top:3.0px">high</div>', '<div class="c0" style="top:213.0px">low</div>', '<div class="c0" style="top:230.0px">lower</div>',
    'aria-hidden="true"><text class="tick" x="1%" y="16">2</text><text class="tick" x="50%"');
});

test('a pause is where neither side moves', () => {
  const series = [[100, 0], [1, 0], [0, 0], [0, 90], [0, 0], [0, 95]].map(([sent_per_second, received_per_second], at) => ({ seconds: at + 1, sent_per_second, received_per_second }));
  assert.deepEqual(pausesOf(series), [[1, 3], [4, 5]]);
  assert.deepEqual(pausesOf([]), []);
});

test('many points become few', () => {
  const few = thinned(Array.from({ length: 1000 }, (_, at) => [at, 2]));
  assert.deepEqual([few.length, few[0]], [250, [1.5, 2]]);
  assert.deepEqual(thinned([[1, 2]]), [[1, 2]]);
});
