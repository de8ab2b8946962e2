// The modules of the UI that are pure.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { humane } from '../../crates/ui/web/api.js';
import { bytes, csv, duration, plain, quoted, rate, short, told } from '../../crates/ui/web/format.js';
import { numberOf, parseFilter, toQuery } from '../../crates/ui/web/filter.js';

const FIELDS = /** @type {any} */ ([
  { key: 'ready', path: 'messages_ready', kind: 'number' }, { key: 'consumers', path: 'consumers', kind: 'number' },
  { key: 'type', path: 'type', kind: 'text' }, { key: 'policy', path: 'policy', kind: 'text' }, { key: 'durable', path: 'durable', kind: 'flag' }, { key: 'oldest', path: 'age', kind: 'number', isSeconds: true },
]);

test('filters become queries of the node', () => {
  for (const [text, query] of [
    ['', []],
    ['orders', [['name', 'orders']]],
    ['two words', [['name', 'two words']]],
    ['/^a b$/', [['name', '^a b$'], ['use_regex', 'true']]],
    ['ready>10k type:quorum', [['where', 'messages_ready>10000'], ['where', 'type:quorum']]],
    ['no:consumers has:policy', [['where', 'consumers=0'], ['where', 'policy!=']]],
    ['durable:no', [['where', 'durable=false']]],
    ['oldest>10min oldest<90', [['where', 'age>600'], ['where', 'age<90']]],
    ['other:thing', [['name', 'other:thing']]],
    ['policy:"a b" x', [['name', 'x'], ['where', 'policy:a b']]],
  ]) assert.deepEqual(toQuery(parseFilter(/** @type {any} */ (text), FIELDS)), query, String(text));
});

test('filters that cannot be are told', () => {
  for (const text of ['ready>x', 'no:nothing', 'type:', '/a/ b']) assert.notEqual(parseFilter(text, FIELDS).problem, '', text);
});

test('numbers have units', () => {
  assert.equal(numberOf('2GiB'), 2 * 1024 ** 3);
  assert.equal(numberOf('1.5k'), 1500);
  assert.equal(numberOf('1h'), 3600000);
  assert.ok(Number.isNaN(numberOf('1x')));
});

test('nothing in a name is hidden', () => {
  assert.equal(plain('a\tb\x01\u202e'), 'a\u27e8TAB\u27e9b\u27e8x01\u27e9\u27e8RLO\u27e9');
  assert.equal(plain(' a  b '), '\u2423a\u2423\u2423b\u2423');
  assert.equal(plain('<b>'), '<b>');
});

test('values are short', () => {
  assert.deepEqual([0, 5, 999, 12345, 1.5e6, 0.25].map(short), ['0', '5', '999', '12.3k', '1.5M', '0.25']);
  assert.equal(rate(undefined), '\u2013');
  assert.equal(bytes(1536), '1.5 KiB');
  assert.equal(duration(90061000), '1 d 1 h');
});

test('words of a shell and cells of a table are only that', () => {
  assert.equal(quoted("it's; rm"), "'it'\\''s; rm'");
  assert.equal(quoted('a\nb'), "$'a\\x0ab'");
  assert.equal(csv(['a'], [['=1+1'], ['x,"y"']]), 'a\r\n\'=1+1\r\n"x,""y"""');
});

test('no label of an axis stands twice', () => {
  assert.deepEqual(told([0, 0.25, 0.5, 0.75, 1], short, true), [0, 1]);
  const small = told([0, 0.0025, 0.005, 0.0075, 0.01], rate, false).map(rate);
  assert.equal(new Set(small).size, small.length);
  const few = told([0, 0.5, 1, 1.5, 2], bytes, false).map(bytes);
  assert.equal(new Set(few).size, few.length);
});

test('terms of Erlang are not shown', () => {
  assert.equal(humane('<<"x">> is not a valid maximum length'), '"x" is not a valid maximum length');
  assert.equal(humane('value #{a => <<"\u00e9"/utf8>>}'), 'value {a: "\u00e9"}');
});
