// The language of the filters of lists. Pure: a text in, the query for the node out.
//
//   orders            the name contains it        /^ord.*s$/   the name matches a regular expression
//   type:quorum       a column is, or contains    ready>1000   a column compared; 10k, 5M, 2GiB, 1h are numbers
//   no:consumers      nothing in a column         has:policy   something in it

const UNITS = {
  k: 1e3, m: 1e6, g: 1e9, kb: 1e3, mb: 1e6, gb: 1e9, kib: 1024, mib: 1024 ** 2, gib: 1024 ** 3,
  ms: 1, s: 1e3, min: 6e4, h: 36e5, d: 864e5,
};

/**
 * @typedef {{key: string, path: string, kind: 'number' | 'text' | 'flag', isSeconds?: boolean, help?: string}} Field
 * @typedef {{name: string, isRegex: boolean, where: string[], problem: string}} Parsed
 */

/** Words, of which those in quotes are one. @param {string} text */
function words(text) {
  return [...text.matchAll(/(?:[^\s"/]|"[^"]*"|\/(?:\\.|[^/])*\/|\/)+/g)].map((match) => match[0]);
}

/** @param {string} text @param {Field[]} fields @returns {Parsed} */
export function parseFilter(text, fields) {
  const parsed = { name: '', isRegex: false, where: /** @type {string[]} */ ([]), problem: '' };
  const names = [];
  const byKey = new Map(fields.map((field) => [field.key, field]));
  for (const word of words(text)) {
    const regex = /^\/(.+)\/$/.exec(word);
    const typed = /^([a-z][\w-]*)(:|>=|<=|!=|>|<|=)(.*)$/i.exec(word);
    if (regex) {
      parsed.name = regex[1];
      parsed.isRegex = true;
    } else if (typed && (byKey.has(typed[1].toLowerCase()) || ['no', 'has'].includes(typed[1].toLowerCase()))) {
      condition(parsed, byKey, typed[1].toLowerCase(), typed[2], typed[3].replaceAll('"', ''));
    } else {
      names.push(word.replaceAll('"', ''));
    }
  }
  if (names.length > 0) {
    if (parsed.isRegex) parsed.problem ||= 'use either a regular expression or a name';
    else parsed.name = names.join(' ');
  }
  return parsed;
}

function condition(parsed, byKey, key, operator, value) {
  if (key === 'no' || key === 'has') {
    const field = byKey.get(value.toLowerCase());
    if (!field) parsed.problem ||= value ? `no column "${value}"` : `a column is missing: ${key}:consumers`;
    else if (field.kind === 'number') parsed.where.push(`${field.path}${key === 'no' ? '=0' : '>0'}`);
    else parsed.where.push(`${field.path}${key === 'no' ? '=' : '!='}`);
    return;
  }
  const field = byKey.get(key);
  if (value === '') {
    parsed.problem ||= `${key}: a value is missing`;
  } else if (field.kind === 'number') {
    const n = numberOf(value) / (field.isSeconds && /\d(ms|s|min|h|d)$/i.test(value) ? 1000 : 1);
    if (Number.isNaN(n)) parsed.problem ||= `"${value}" is not a number`;
    else parsed.where.push(`${field.path}${operator === ':' ? '=' : operator}${n}`);
  } else if (field.kind === 'flag') {
    const yes = ['yes', 'true', '1', 'on'].includes(value.toLowerCase());
    parsed.where.push(`${field.path}${operator === '!=' ? '!=' : '='}${yes}`);
  } else {
    parsed.where.push(`${field.path}${operator}${value}`);
  }
}

/** A number with its unit. @param {string} text */
export function numberOf(text) {
  const match = /^(-?\d+(?:\.\d+)?)([a-z]*)$/i.exec(text);
  if (!match) return NaN;
  const unit = match[2].toLowerCase();
  return unit === '' ? Number(match[1]) : Number(match[1]) * (UNITS[unit] ?? NaN);
}

/** The words of a list's query. @param {Parsed} parsed @returns {[string, string][]} */
export function toQuery(parsed) {
  const pairs = /** @type {[string, string][]} */ ([]);
  if (parsed.name) pairs.push(['name', parsed.name]);
  if (parsed.isRegex) pairs.push(['use_regex', 'true']);
  return [...pairs, ...parsed.where.map((where) => /** @type {[string, string]} */ (['where', where]))];
}
