// A page with a list: filter, order, columns, pages, what is selected. All of it is in the address. The node
// filters and orders; the page has one hundred rows at most.

import { listPath, query, redraw, remember, remembered, setQuery, tell } from './app.js';
import { get } from './api.js';
import { h } from './dom.js';
import { parseFilter, toQuery } from './filter.js';
import { count, csv, number, plain } from './format.js';
import { ICONS, button, dialog, download, icon, nothing, problem, saveView } from './parts.js';

const ROWS_MAX = 100;
/** Rows of a page that is fetched for a file or an action. */
const FETCHED = 500;
/** Rows that a file has at most. */
const FILE_ROWS_MAX = 100000;
/** Objects that one action is done to at most. */
const BULK_MAX = 10000;

/**
 * @typedef {{id: string, label: string, path: string, cell: (row: any) => any, num?: boolean, wide?: boolean, hidden?: boolean | (() => boolean), sort?: boolean,
 *   also?: string[], filter?: import('./filter.js').Field, help?: string}} Column
 * `path` is what the column is ordered by, `also` what it needs besides; `wide` has a line of its own on a phone; `nameOf` is the column that stands for
 * a name, where rows have none.
 * @typedef {{title: string, list: string, noun: string, columns: Column[], key: (row: any) => string, needs: string[],
 *   sort?: string, desc?: boolean, buttons?: () => any, bulk?: {label: string, danger?: boolean, act: (rows: any[]) => void}[],
 *   sources?: () => Record<string, string>, nameOf?: string, parameters?: Record<string, string>, none?: any, byVhost?: boolean, fields?: import('./filter.js').Field[], intro?: any}} Spec
 */

/** A filter without a name. @param {import('./filter.js').Parsed} parsed @param {string} path */
const named = (parsed, path) => (parsed.name ? { ...parsed, name: '', isRegex: false, where: [...parsed.where, `${path}:${parsed.name}`] } : parsed);

/** Whether a path is within a virtual host. */
function address(spec) {
  if (spec.byVhost === false) return `/${spec.list}`;
  const within = ['connections', 'channels'].includes(spec.list) && query('vhost');
  return within ? `/vhosts/${encodeURIComponent(within)}/${spec.list}` : listPath(spec.list);
}

/** @param {Spec} spec */
export function listPage(spec) {
  const memory = `columns.${spec.list}`;
  /** @type {Map<string, any>} */
  const selected = new Map();
  let typed = query('filter');
  let typing = 0;
  let seen = query('filter');
  let choosesColumns = false;

  const shownIds = () => (query('columns') ? query('columns').split(',') : remembered(memory, null)) ?? spec.columns.filter(({ hidden }) => !(typeof hidden === 'function' ? hidden() : hidden)).map((column) => column.id);
  const shown = () => {
    const ids = shownIds();
    return /** @type {Column[]} */ (ids.map((id) => spec.columns.find((column) => column.id === id)).filter(Boolean));
  };
  const fields = () => [...spec.columns.map((column) => column.filter).filter(Boolean), ...(spec.fields ?? [])];
  const filter = () => parseFilter(query('filter'), /** @type {any} */ (fields()));
  const order = () => ({ sort: query('sort', spec.sort ?? ''), desc: query('sort') ? query('desc') === '1' : !!spec.desc });

  function url(page, size, columns) {
    const { sort, desc } = order();
    const words = new URLSearchParams([['page', String(page)], ['page_size', String(size)], ...toQuery(spec.nameOf ? named(filter(), spec.nameOf) : filter())]);
    const by = spec.columns.find((column) => column.id === sort);
    if (by) words.set('sort', by.path);
    if (desc) words.set('sort_reverse', 'true');
    for (const [key, it] of Object.entries(spec.parameters ?? {})) words.set(key, it);
    const wanted = new Set([...spec.needs, ...columns.flatMap((column) => [column.path, ...(column.also ?? [])])]);
    words.set('columns', [...wanted].join(','));
    return `${address(spec)}?${words}`;
  }

  const page = {
    title: spec.title,
    data: /** @type {Record<string, any>} */ ({}),
    errors: /** @type {Record<string, string>} */ ({}), texts: /** @type {Record<string, string>} */ ({}),
    sources: () => ({ rows: url(Math.max(1, Number(query('page', '1')) || 1), ROWS_MAX, shown()), ...spec.sources?.() }),
    view,
    keys: {
      n: () => turn(1),
      b: () => turn(-1),
    },
  };

  function turn(by) {
    const data = page.data.rows;
    const to = Number(query('page', '1')) + by;
    if (data && to >= 1 && to <= data.page_count) setQuery({ page: to === 1 ? '' : to }, true);
  }

  function onType(text) {
    typed = text;
    clearTimeout(typing);
    typing = window.setTimeout(() => { seen = typed.trim(); setQuery({ filter: typed.trim(), page: '' }); }, 150);
    redraw();
  }

  function sortBy(column) {
    const { sort, desc } = order();
    const turned = sort === column.id ? !desc : !!column.num;
    setQuery({ sort: column.id, desc: turned ? '1' : '', page: '' }, true);
  }

  async function fetchAll(columns, max, progress) {
    const rows = [];
    for (let at = 1; rows.length < max; at += 1) {
      const answer = await get(url(at, FETCHED, columns));
      if (!answer.ok) throw new Error(answer.reason);
      rows.push(...answer.data.items);
      progress?.(rows.length);
      if (at >= answer.data.page_count) break;
    }
    return rows.slice(0, max);
  }

  async function save(kind) {
    const columns = shown();
    const rows = await fetchAll(columns, FILE_ROWS_MAX);
    const at = (row, path) => path.split('.').reduce((it, step) => it?.[step], row);
    if (kind === 'json') download(`${spec.list}.json`, [JSON.stringify(rows, null, 1)], 'application/json');
    else download(`${spec.list}.csv`, [csv(columns.map((column) => column.path), rows.map((row) => columns.map((column) => at(row, column.path))))], 'text/csv');
  }

  function bar() {
    const parsed = filter();
    return h('div', { class: 'bar' },
      h('label', { class: 'filter' }, icon(ICONS.search), h('span', { class: 'hidden' }, 'Filter'), h('input', {
        type: 'search', 'data-filter': true, placeholder: `Filter by name, /regex/, ${fields().slice(0, 3).map((field) => example(field)).join(', ')} \u2026`,
        value: query('filter') === seen ? typed : (typed = seen = query('filter')), list: 'filter-words', spellcheck: 'false', autocomplete: 'off', oninput: (event) => onType(event.target.value),
        'aria-describedby': 'filter-help',
      })),
      h('datalist', { id: 'filter-words' }, suggestions(typed, /** @type {any} */ (fields())).map((word) => h('option', { value: word }))),
      h('span', { id: 'filter-help', class: 'hidden' }, `Columns: ${fields().map((field) => field?.key).join(', ')}; also no: and has: with a column`),
      parsed.problem && h('span', { class: 'tag warn', role: 'status' }, parsed.problem),
      h('span', { class: 'grow' }),
      h('details', { class: 'menu-of', key: 'columns' }, h('summary', { class: 'button' }, icon(ICONS.columns), h('span', null, 'Columns')), h('div', { class: 'popup columns' }, columnChooser())),
      h('details', { class: 'menu-of', key: 'save' }, h('summary', { class: 'button' }, icon(ICONS.down), h('span', null, 'Export')), h('div', { class: 'popup' },
        h('p', { class: 'faint' }, 'All matching rows'), button('CSV', () => save('csv')), button('JSON', () => save('json')), h('p', { class: 'faint' }, 'Filter, order and columns'), button('Save view\u2026', saveView))),
      spec.buttons?.());
  }

  function columnChooser() {
    const ids = shownIds();
    const set = (to) => {
      remember(memory, to);
      setQuery({ columns: to ? to.join(',') : '' });
    };
    const move = (id, by) => {
      const at = ids.indexOf(id);
      const to = [...ids];
      to.splice(at, 1);
      to.splice(at + by, 0, id);
      set(to);
    };
    const rest = spec.columns.filter((column) => !ids.includes(column.id)).map((column) => column.id);
    return [
      h('ul', null, [...ids, ...rest].map((id, at) => {
        const column = spec.columns.find((it) => it.id === id);
        if (!column) return null;
        const on = ids.includes(id);
        return h('li', { key: id }, h('label', null, h('input', {
          type: 'checkbox', checked: on, onchange: () => set(on ? ids.filter((it) => it !== id) : [...ids, id]),
        }), ' ', column.label),
        on && at > 0 && h('button', { type: 'button', class: 'button quiet', 'aria-label': `Move ${column.label} to the left`, onclick: () => move(id, -1) }, '\u2191'),
        on && at < ids.length - 1 && h('button', { type: 'button', class: 'button quiet', 'aria-label': `Move ${column.label} to the right`, onclick: () => move(id, 1) }, '\u2193'));
      })),
      button('Reset', () => set(null)),
    ];
  }

  function head(columns) {
    const { sort, desc } = order();
    const rows = page.data.rows?.items ?? [];
    const all = rows.length > 0 && rows.every((row) => selected.has(spec.key(row)));
    return h('thead', null, h('tr', null,
      spec.bulk && h('th', { class: 'pick' }, h('input', {
        type: 'checkbox', 'aria-label': 'All rows of this page', checked: all, indeterminate: !all && selected.size > 0,
        onchange: () => {
          for (const row of rows) all ? selected.delete(spec.key(row)) : selected.set(spec.key(row), row);
          redraw();
        },
      })),
      columns.map((column) => h('th', {
        key: column.id, scope: 'col', class: column.num ? 'num' : null, title: column.help,
        'aria-sort': sort === column.id ? (desc ? 'descending' : 'ascending') : null,
      }, column.sort === false ? column.label : h('button', { type: 'button', class: 'sort', onclick: () => sortBy(column) }, column.label,
        h('span', { class: `arrow ${sort === column.id ? (desc ? 'down' : 'up') : ''}`, 'aria-hidden': 'true' }))))));
  }

  /** Rows as they were drawn last. */
  let drawn = /** @type {Map<string, {of: string, view: import('./dom.js').View}>} */ (new Map());

  function body(columns, rows) {
    const ids = columns.map((column) => column.id).join();
    const more = Object.keys(spec.sources?.() ?? {}).map((key) => page.texts?.[key]?.length).join();
    const before = drawn;
    drawn = new Map();
    return h('tbody', null, rows.map((row) => {
      const key = spec.key(row);
      const of = `${ids} ${selected.has(key)} ${JSON.stringify(row)} ${more}`;
      const known = before.get(key);
      drawn.set(key, known?.of === of ? known : { of, view: rowView(columns, row, key) });
      return drawn.get(key)?.view;
    }));
  }

  function rowView(columns, row, key) {
    return h('tr', { key, class: selected.has(key) ? 'selected' : null },
      spec.bulk && h('td', { class: 'pick' }, h('input', {
        type: 'checkbox', 'aria-label': `Select ${plain(row.name ?? key)}`, checked: selected.has(key),
        onchange: () => {
          selected.has(key) ? selected.delete(key) : selected.set(key, row);
          redraw();
        },
      })),
      columns.map((column) => h('td', { key: column.id, class: column.num ? 'num' : column.wide ? 'wide' : null, 'data-label': column.label }, column.cell(row))));
  }

  let gathers = '';

  function bulkBar() {
    const data = page.data.rows;
    if (!spec.bulk || selected.size === 0 || !data) return null;
    const more = data.filtered_count > selected.size;
    const gather = async () => {
      try {
        gathers = 'Selecting\u2026';
        redraw();
        for (const row of await fetchAll([], BULK_MAX, (n) => { gathers = `${number(n)}\u2026`; redraw(); })) selected.set(spec.key(row), row);
        gathers = '';
      } catch (error) {
        gathers = error.message;
      }
      redraw();
    };
    return h('div', { class: 'bulk', role: 'region', 'aria-label': 'Selection' }, h('strong', null, `${count(selected.size, spec.noun)} selected`),
      more && button(gathers || (data.filtered_count > BULK_MAX ? `Select the first ${number(BULK_MAX)}` : `Select all ${number(data.filtered_count)} matching`), gather, { kind: 'quiet' }),
      button('Clear', () => { selected.clear(); redraw(); }, { kind: 'quiet' }),
      h('span', { class: 'grow' }),
      spec.bulk.map(({ label, danger, act }) => button(label, () => act([...selected.values()]), { kind: danger ? 'danger' : '' })));
  }

  function pager() {
    const data = page.data.rows;
    if (!data) return null;
    const from = data.item_count ? (data.page - 1) * data.page_size + 1 : 0;
    const filtered = data.filtered_count !== data.total_count;
    return h('div', { class: 'pager' },
      h('span', { class: 'faint' }, data.page_count > 1 ? `${number(from)}\u2013${number(from + data.item_count - 1)} of ` : '', count(data.filtered_count, spec.noun), filtered && ` (of ${number(data.total_count)})`),
      h('span', { class: 'grow' }),
      data.page_count > 1 && [
        button('Back', () => turn(-1), { disabled: data.page <= 1 }),
        h('label', null, h('span', { class: 'hidden' }, 'Page'), h('input', {
          type: 'number', class: 'at', min: 1, max: data.page_count, value: String(data.page),
          onchange: (event) => setQuery({ page: Math.min(data.page_count, Math.max(1, Number(event.target.value) || 1)) }, true),
        })), h('span', null, ` of ${number(data.page_count)}`),
        button('Next', () => turn(1), { disabled: data.page >= data.page_count }),
      ]);
  }

  function view() {
    const data = page.data.rows;
    const columns = shown();
    const error = page.errors.rows;
    if (error?.startsWith('Page out of range')) setTimeout(() => setQuery({ page: '' }), 0);
    return [
      h('div', { class: 'head' }, h('h1', null, spec.title), data && h('span', { class: 'count' }, number(data.total_count)), spec.intro),
      bar(),
      bulkBar(),
      error && problem(error),
      !data && !error && skeleton(columns),
      data && h('div', { class: 'list', tabindex: 0, role: 'group', 'aria-label': `List of ${spec.noun}s` },
        h('table', { class: 'rows' }, head(columns), body(columns, data.items.slice(0, ROWS_MAX)))),
      data && data.items.length === 0 && (query('filter') ? nothing('No matches. ', button('Clear filter', () => { typed = ''; setQuery({ filter: '', page: '' }); })) : nothing(spec.none ?? `No ${spec.noun}s`)),
      pager(),
    ];
  }

  return page;
}

const example = (field) => (field.kind === 'number' ? `${field.key}>10` : `${field.key}:${field.kind === 'flag' ? 'yes' : (field.help ?? '\u2026')}`);

/** Ways to go on with a filter. */
function suggestions(text, fields) {
  const words = text.split(' ');
  const last = words.pop() ?? '';
  if (last.length < 1) return [];
  const before = words.length ? `${words.join(' ')} ` : '';
  const all = fields.flatMap((field) => (field.kind === 'number' ? [`${field.key}>`, `no:${field.key}`, `has:${field.key}`] : [`${field.key}:`, `no:${field.key}`]));
  return all.filter((word) => word.startsWith(last) && word !== last).slice(0, 8).map((word) => before + word);
}

function skeleton(columns) {
  return h('div', { class: 'list', tabindex: 0, role: 'group', 'aria-label': 'Loading' }, h('table', { class: 'rows', 'aria-hidden': 'true' }, h('thead', null, h('tr', null, columns.map((column) => h('th', null, column.label)))),
    h('tbody', null, Array.from({ length: 8 }, () => h('tr', null, columns.map(() => h('td', null, h('span', { class: 'ghost' }))))))));
}

/** Asks before something is done to many. */
export function bulkDialog(rows, { verb, noun, told, says, request, danger = true, name, bulk = /** @type {any} */ (null) }) {
  const isMany = bulk && rows.length > 1;
  const groups = isMany ? together(rows, name) : [];
  const asked = (group) => ({ method: 'POST', address: bulk.address(group[0]), body: { ...bulk.body, pattern: `^(?:${group.map((row) => escaped(name(row))).join('|')})$` } });
  dialog({
    title: `${verb} ${count(rows.length, noun)}?`,
    says: [says, h('ul', { class: 'some' }, rows.slice(0, 8).map((row) => h('li', null, h('bdi', { class: 'name' }, plain(name(row))))), rows.length > 8 && h('li', { class: 'faint' }, `and ${number(rows.length - 8)} more`))],
    act: `${verb} ${count(rows.length, noun)}`,
    danger,
    confirm: rows.length > 1 && danger ? String(rows.length) : rows.length === 1 && danger ? name(rows[0]) : undefined,
    count: isMany && { requests: () => groups.map(asked), shown: (counted) => h('p', null, `${number(sum(counted, (it) => it.matched))} of them exist. `, bulk.shown((key) => sum(counted, (it) => it.figures?.[key]), counted)) },
    requests: (values, counted) => (isMany ? groups.map((group, at) => ({ ...asked(group), body: { ...asked(group).body, expected: counted[at]?.matched } })) : rows.map(request)),
    told,
    done: (values, answer) => { if (answer?.data?.failures?.length > 0) tell(`${count(answer.data.failures.length, noun)} failed; the first: ${answer.data.failures[0].reason}`, true); },
  });
}

const sum = (all, of) => all.reduce((n, it) => n + (of(it) ?? 0), 0);

/** Longest expression that the node takes, with some room. */
const EXPRESSION_MAX = 3500;

/** Rows of one virtual host, whose names fit into an expression. */
function together(rows, name) {
  const groups = /** @type {any[][]} */ ([]);
  let length = 0;
  for (const row of [...rows].sort((a, b) => (a.vhost < b.vhost ? -1 : a.vhost > b.vhost ? 1 : 0))) {
    const more = new TextEncoder().encode(escaped(name(row))).length + 1;
    const last = groups[groups.length - 1];
    if (!last || last[0].vhost !== row.vhost || length + more > EXPRESSION_MAX) {
      groups.push([row]);
      length = more;
    } else {
      last.push(row);
      length += more;
    }
  }
  return groups;
}

/** A text as an expression that matches it alone. @param {string} text */
export const escaped = (text) => text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');
