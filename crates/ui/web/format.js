// Values as people read them. Pure.

const NAMED = new Map([
  [0x00ad, 'SHY'], [0x061c, 'ALM'], [0x200b, 'ZWSP'], [0x200c, 'ZWNJ'], [0x200d, 'ZWJ'], [0x200e, 'LRM'], [0x200f, 'RLM'],
  [0x2028, 'LS'], [0x2029, 'PS'], [0x202a, 'LRE'], [0x202b, 'RLE'], [0x202c, 'PDF'], [0x202d, 'LRO'], [0x202e, 'RLO'],
  [0x2060, 'WJ'], [0x2066, 'LRI'], [0x2067, 'RLI'], [0x2068, 'FSI'], [0x2069, 'PDI'], [0xfeff, 'BOM'],
]);

const CONTROLS = new Map([[0, 'NUL'], [9, 'TAB'], [10, 'LF'], [13, 'CR'], [27, 'ESC'], [127, 'DEL']]);

/**
 * A text of somebody else's on one line, with everything in it to be seen: control characters, marks that
 * change direction, spaces at its ends and runs of them.
 * @param {unknown} text
 */
export function plain(text) {
  const visible = [...String(text ?? '')].map((char) => {
    const code = char.codePointAt(0) ?? 0;
    if (code < 0x20 || code === 0x7f) return `\u27e8${CONTROLS.get(code) ?? `x${code.toString(16).padStart(2, '0')}`}\u27e9`;
    if (NAMED.has(code)) return `\u27e8${NAMED.get(code)}\u27e9`;
    if ((code >= 0x80 && code < 0xa0) || (code >= 0xe0000 && code < 0xe1000)) return `\u27e8U+${code.toString(16).toUpperCase()}\u27e9`;
    return char;
  }).join('');
  return visible.replace(/^ +| +$| {2,}/g, (spaces) => '\u2423'.repeat(spaces.length));
}

/** @param {number | undefined | null} value */
export function number(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return '\u2013';
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** A number in at most five characters, for axes and tiles. */
export function short(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return '\u2013';
  const size = Math.abs(value);
  for (const [from, unit] of /** @type {[number, string][]} */ ([[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']])) {
    if (size >= from) {
      const scaled = value / (unit === 'k' ? 1e3 : from);
      return `${digits(scaled)}${unit}`;
    }
  }
  return size >= 100 || Number.isInteger(value) ? number(value) : digits(value);
}

function digits(value) {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size < 0.01) return '<0.01';
  return String(Number(value.toFixed(size < 1 ? 2 : size < 100 ? 1 : 0)));
}

/** @param {number | undefined | null} value per second */
export function rate(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return '\u2013';
  return `${short(value)}/s`;
}

/** @param {number | undefined | null} value */
export function bytes(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return '\u2013';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let at = 0;
  let scaled = Math.abs(value);
  while (scaled >= 1024 && at < units.length - 1) {
    scaled /= 1024;
    at += 1;
  }
  const text = at === 0 || scaled >= 100 ? Math.round(scaled) : Number(scaled.toFixed(1));
  return `${value < 0 ? '-' : ''}${text} ${units[at]}`;
}

/** @param {number | undefined | null} ms */
export function duration(ms) {
  if (ms === undefined || ms === null || Number.isNaN(ms)) return '\u2013';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  let seconds = Math.floor(ms / 1000);
  const parts = [];
  for (const [unit, size] of /** @type {[string, number][]} */ ([['d', 86400], ['h', 3600], ['min', 60], ['s', 1]])) {
    const n = Math.floor(seconds / size);
    if (n > 0) parts.push(`${n} ${unit}`);
    seconds -= n * size;
  }
  return parts.slice(0, 2).join(' ') || '0 s';
}

/** A moment in the reader's own time, to the second. @param {number | undefined | null} ms */
export function time(ms) {
  if (!ms) return '\u2013';
  const at = new Date(ms);
  const two = (it) => String(it).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} `
    + `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** `1 queue`, `2 queues`. @param {number} n @param {string} noun */
export function count(n, noun) {
  const plural = noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : noun.endsWith('s') || noun.endsWith('ch') ? `${noun}es` : `${noun}s`;
  return `${number(n)} ${n === 1 ? noun : plural}`;
}

/** Words of a shell. @param {string} text */
export function quoted(text) {

  if (/^[A-Za-z0-9_./:=@%+,-]+$/.test(text)) return text;

  if (/[\x00-\x1f\x7f]/.test(text)) {

    const escaped = text.replace(/[\\']/g, '\\$&').replace(/[\x00-\x1f\x7f]/g, (it) => `\\x${it.charCodeAt(0).toString(16).padStart(2, '0')}`);
    return `$'${escaped}'`;
  }
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Rows as CSV. @param {string[]} columns @param {any[][]} rows */
export function csv(columns, rows) {
  const cell = (value) => {
    let text = value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
    // A spreadsheet would take it for a formula.
    if (typeof value === 'string' && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(',')).join('\r\n');
}

/** The library of a client, as it calls itself. @param {any} connection */
export const client = (connection) => [connection.client_properties?.product, connection.client_properties?.version].filter(Boolean).map(plain).join(' ');

/** What a protocol is called. @param {any} text */
export const protocol = (text) => ({ '{0,9,1}': 'AMQP 0-9-1', '{0,8,0}': 'AMQP 0-8', '{1,0}': 'AMQP 1.0', 'AMQP 1-0': 'AMQP 1.0', "{'stream','1.0'}": 'Stream' }[text] ?? plain(text ?? ''));

/** How a figure changes. @param {any} details of the API */
export const trend = (details) => {
  const by = details?.rate ?? 0;
  return Math.abs(by) < 0.05 ? 'steady' : `${by > 0 ? '\u25b2 grows' : '\u25bc falls'} ${rate(Math.abs(by))}`;
};

/** Marks of an axis that are told apart: a message is a whole one, and no label stands twice. @param {number[]} marks @param {(value: number) => string} format @param {boolean} isWhole */
export function told(marks, format, isWhole) {
  const whole = isWhole ? marks.filter(Number.isInteger) : marks;
  return whole.filter((mark, at) => at === 0 || format(mark) !== format(whole[at - 1]));
}
