// The modules of the UI that are pure.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytes, csv, duration, plain, quoted, rate, short } from '../../crates/ui/web/format.js';
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
