// The tables of a page as a file.

import { app } from './app.js';
import { csv } from './format.js';
import { download } from './parts.js';

const text = (cell) => (cell.querySelector('[title]')?.getAttribute('title') ?? cell.textContent ?? '').trim();

/** Saves tables, all that are on the page. @param {'csv' | 'json'} kind @param {Iterable<Element>} [shown] */
export function saveTables(kind, shown = document.querySelectorAll('main table')) {
  const tables = [...shown].map((table) => ({
    heads: [...table.querySelectorAll('thead th:not(.act, .pick)')].map(text),
    rows: [...table.querySelectorAll('tbody tr')].map((row) => [...row.querySelectorAll('td:not(.act, .pick)')].map(text)),
  }));
  const file = String(app.page?.title ?? 'page').replace(/[^\w.-]+/g, '-').toLowerCase();
  if (kind === 'csv') download(`${file}.csv`, [tables.map(({ heads, rows }) => csv(heads, rows)).join('\r\n\r\n')], 'text/csv');
  else download(`${file}.json`, [JSON.stringify(tables.map(({ heads, rows }) => rows.map((row) => Object.fromEntries(row.map((cell, at) => [heads[at] || String(at), cell])))), null, 1)], 'application/json');
}
