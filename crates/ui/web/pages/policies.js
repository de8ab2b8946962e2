// Policies and operator policies, in the order in which they count; what each would change is seen before.

import { isAdministrator, isPolicymaker, listPath, redraw } from '../app.js';
import { ask, path } from '../api.js';
import { h } from '../dom.js';
import { count, number, plain } from '../format.js';
import { ICONS, QUEUE_TYPES, argumentsOf, button, dialog, fields, name, problem, section, table, tag, toExchange, toQueue, vhostField } from '../parts.js';

const APPLY_TO = ['all', 'queues', ...QUEUE_TYPES.map((it) => it.policies), 'exchanges'];
const KEYS = 'max-length, max-length-bytes, overflow, message-ttl, expires, dead-letter-exchange, dead-letter-routing-key, delivery-limit, consumer-timeout, confirm-on, alternate-exchange, max-age';

/** Asks what a policy would change, and shows it in the dialog. */
function preview(kind, it) {
  const seen = { answer: /** @type {any} */ (null), problem: '' };
  return {
    seen,
    async look() {
      try {
        const { vhost, name: policy } = it.values;
        const answer = await ask('POST', path`/explain/${kind}/${vhost}/${policy || 'policy'}`, bodyOf(it.values));
        seen.problem = answer.ok ? '' : answer.reason;
        seen.answer = answer.ok ? answer.data : null;
      } catch (error) {
        seen.problem = error.message;
      }
      redraw();
    },
  };
}

const bodyOf = (values) => ({ pattern: values.pattern, definition: argumentsOf(values.definition), priority: Number(values.priority), 'apply-to': values.apply });

function edit(operator, policy) {
  const [kind, list] = operator ? ['operator-policy', 'operator-policies'] : ['policy', 'policies'];
  /** @type {any} */
  let looks = null;
  const it = dialog({
    title: policy ? ['Edit ', name(policy.name)] : operator ? 'Add operator policy' : 'Add policy', act: 'Set', wide: true,
    fields: [
      policy ? { name: 'vhost', label: '', value: policy.vhost, only: () => false } : vhostField(),
      { name: 'name', label: 'Name', required: true, value: policy?.name, only: () => !policy },
      { name: 'pattern', label: 'Pattern', required: true, value: policy?.pattern ?? '', help: 'A regular expression for names' },
      { name: 'apply', label: 'Applies to', type: 'select', options: APPLY_TO, value: policy?.['apply-to'] ?? 'queues' },
      { name: 'priority', label: 'Priority', type: 'number', value: String(policy?.priority ?? 0), help: 'The matching policy with the highest priority applies' },
      { name: 'definition', label: 'Definition', type: 'textarea', rows: 4, placeholder: 'max-length = 10000', value: Object.entries(policy?.definition ?? {}).map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join('\n'), help: `One a line: ${KEYS} and others` },
    ],
    requests: (values) => [{
      method: 'PUT', address: `/${list}${path`/${values.vhost}/${values.name}`}`, body: bodyOf(values),
      ctl: [operator ? 'set_operator_policy' : 'set_policy', '--vhost', values.vhost, '--priority', values.priority, '--apply-to', values.apply, values.name, values.pattern, JSON.stringify(argumentsOf(values.definition))],
    }],
    extra: () => looks && h('div', null, button('Preview changes', looks.look), looks.seen.problem && problem(looks.seen.problem), looks.seen.answer && changes(looks.seen.answer, it.values.vhost)),
    told: (values) => `Set ${plain(values.name)}`,
  });
  looks = preview(kind, it);
  redraw();
}

function changes(answer, vhost) {
  return h('div', { role: 'status' }, h('p', null, h('strong', null, answer.changed_count === 0 ? 'Nothing would change.' : `${count(answer.changed_count, 'object')} would change:`)),
    answer.changes.length > 0 && table(['Name', 'Before', 'After'], answer.changes.slice(0, 50).map((it) => [it.kind === 'queue' ? toQueue(vhost, it.name) : toExchange(vhost, it.name), fields(it.before), fields(it.after)])),
    answer.changed_count > 50 && h('p', { class: 'faint' }, `and ${number(answer.changed_count - 50)} more`));
}

function remove(operator, policy) {
  dialog({
    title: ['Delete ', name(policy.name), '?'], says: h('p', null, 'The next matching policy applies then, or none.'), act: 'Delete the policy', danger: true, confirm: policy.name,
    requests: () => [{ method: 'DELETE', address: `/${operator ? 'operator-policies' : 'policies'}${path`/${policy.vhost}/${policy.name}`}`, ctl: [operator ? 'clear_operator_policy' : 'clear_policy', '--vhost', policy.vhost, policy.name] }], told: 'Deleted',
  });
}

export function open() {
  const page = {
    title: 'Policies', data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}),
    sources: () => ({ policies: listPath('policies'), operator: listPath('operator-policies') }),
    view: () => [h('div', { class: 'head' }, h('h1', null, 'Policies')), list(page, false), list(page, true)],
  };
  return page;
}

/** Patterns that match every name. */
const OF_ALL = /^(\^|\$|\.|\^\.|\.\$|\^?\.[*+]\$?)?$/;
const isFor = (one, it) => one === 'all' || one === it || (one === 'queues' && /queues|streams/.test(it));

/** The policy that goes before one wherever that matches, if there is one: of the same pattern, or one for every name. */
function outranks(all, it) {
  const first = all.find((one) => one === it || (one.vhost === it.vhost && (one.pattern === it.pattern || OF_ALL.test(one.pattern)) && isFor(one['apply-to'], it['apply-to'])));
  return first !== it && [' ', tag('warn', ['outranked by ', name(first.name)])];
}

function list(page, operator) {
  const key = operator ? 'operator' : 'policies';
  const rows = page.data[key];
  if (!rows) return page.errors[key] ? problem(page.errors[key]) : h('span', { class: 'ghost' });
  const may = operator ? isAdministrator() : isPolicymaker();
  const sorted = [...rows].sort((a, b) => a.vhost.localeCompare(b.vhost) || b.priority - a.priority || a.name.localeCompare(b.name));
  return section([operator ? 'Operator policies ' : 'Policies ', may && button(operator ? 'Add operator policy' : 'Add policy', () => edit(operator, null), { icon: ICONS.plus, kind: operator ? '' : 'primary' })],
    h('p', { class: 'faint' }, operator ? 'Limits set by operators, merged with the policy in force key by key.' : 'The matching policy with the highest priority applies.'),
    table(['Name', 'Virtual host', '#Priority', 'Pattern', 'Applies to', 'Definition', ''], sorted.map((it) => [[name(it.name), outranks(sorted, it)], name(it.vhost), number(it.priority), h('code', null, plain(it.pattern)), tag('calm', it['apply-to']), fields(it.definition),
      may && h('div', { class: 'bar' }, button('Edit', () => edit(operator, it)), button('Delete', () => remove(operator, it), { kind: 'danger' }))])));
}
