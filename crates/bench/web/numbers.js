// Numbers as people read them: few digits, grouped by thousands, with a unit; and axes, the places of values
// between two ends. Pure.

/** Between groups of digits, and between a number and its unit: a narrow space that breaks no line. */
const SPACE = '\u202f';
export const NONE = '\u2013';
/** Multiples of a microsecond and of a byte. */
const TIMES = [[1e-3, 'ns'], [1, '\u00b5s'], [1e3, 'ms'], [1e6, 's']];
const SIZES = [[1, 'B'], [1024, 'KiB'], [1024 ** 2, 'MiB'], [1024 ** 3, 'GiB']];
/** The multiples that a unit is told in, what one of it is in the first one's unit, and what follows. */
const MULTIPLES = { microseconds: [TIMES, 1, ''], seconds: [TIMES, 1e6, ''], bytes: [SIZES, 1, ''], bytes_per_second: [SIZES, 1, '/s'] };

/** A value with its unit, in the multiple that fits it, or that fits `beside`: a goal next to what is reached. */
export function text(value, unit, beside = value) {
  if (unit === 'times') return ratio(value);
  const suffix = unit === 'per_second' ? '/s' : '';
  if (!MULTIPLES[unit]) {
    const [isLarge, wasLarge] = [value >= 999.5e3, beside >= 999.5e3];
    if (unit === 'count' || isLarge === wasLarge) return `${short(value)}${suffix}`;
    return wasLarge ? `${significant(value / 1e6)}${SPACE}M${suffix}` : `${grouped(value.toFixed(0))}${suffix}`;
  }
  const [multiples, factor, end] = MULTIPLES[unit];
  if (value === 0) return `0${end}`;
  const [base, name] = multiple(beside * factor, multiples);
  return `${short(value * factor / base)}${SPACE}${name}${end}`;
}

/** The text at a tick of an axis whose title says that it counts per second. */
export function tickText(value, unit) {
  if (unit === 'per_second') return short(value);
  return text(value, unit === 'bytes_per_second' ? 'bytes' : unit);
}

/** As short as it gets, without a unit of time: `92.3 k`, `1.04 M`. */
export function compact(value, unit) {
  const it = rounded(value);
  const isCount = unit === 'per_second' || unit === 'per_cpu_second';
  return isCount && it >= 1e3 && it < 1e6 ? `${significant(it / 1e3)}${SPACE}k` : tickText(it, unit);
}

/** The value with three digits that count: for labels, where the next ones would be noise. */
export function rounded(value) {
  const step = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 2);
  const found = Math.round(value / step) * step;
  return Number.isFinite(found) ? found : value;
}

/** The largest one of which `value`, rounded as it will be shown, is at least one. */
const multiple = (value, multiples) => multiples.findLast(([base]) => Math.abs(value) >= base * 0.9995) ?? multiples[0];

/** Three digits that count, more only left of the decimal point: `0.178`, `5.6`, `12 345`, `1.25 M`. */
export function short(value) {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return NONE;
  if (size >= 999.5e6) return `${significant(value / 1e9)}${SPACE}G`;
  if (size >= 999.5e3) return `${significant(value / 1e6)}${SPACE}M`;
  return size >= 99.95 ? grouped(value.toFixed(0)) : significant(value);
}

/** A ratio: `48×`, `3.1×`, `1.24×`, `0.83×`. */
export function ratio(value) {
  if (value === null || !Number.isFinite(value)) return NONE;
  const digits = value >= 9.95 ? 0 : value >= 1.995 ? 1 : 2;
  return `${value >= 0.1 ? grouped(value.toFixed(digits)) : significant(value)}\u00d7`;
}

/** A share of 1 of a length, as CSS and SVG want it. */
export const percent = (share) => `${trimmed((share * 100).toFixed(2))}%`;

/** At most three digits, none of them a zero at the end behind the decimal point. */
function significant(value) {
  const size = Math.abs(value);
  const digits = [[99.95, 0], [9.995, 1], [0.9995, 2], [0.0005, 3]].find(([from]) => size >= from)?.[1] ?? 6;
  const found = trimmed(value.toFixed(digits));
  return found === '-0' ? '0' : grouped(found);
}

const trimmed = (text) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);

/** Puts a space between thousands. Figures behind a decimal point stay together. */
const grouped = (text) => text.replace(/^-?\d+/, (whole) => whole.replace(/(?<=\d)(?=(\d{3})+$)/g, SPACE));

/** Values further apart than this are drawn on a logarithmic axis; and where one is wished. */
const LINEAR_RATIO_MAX = 10;
const WISHED_LOG_RATIO = 3;
/** Decades up to which 2 and 5 times a power of ten are written as well. */
const FINE_DECADES_MAX = 1.8;
/** Powers of ten that are written; with more, every second. */
const DECADES_MAX = 6;
/** Least distance of the least value from the low end of a logarithmic axis, as a factor. */
const LOG_ROOM = 1.3;
/** About how many values stand at a linear axis. */
const LINEAR_TICKS = 5;

/** An axis that holds all values and, unless it is logarithmic, zero. It is logarithmic when the values above zero span more than a decade, or if that is wished and they differ much. @param {number[]} values */
export function axisOf(values, unit, isLog) {
  const [low, high] = ends(values);
  return high / low > (isLog ? WISHED_LOG_RATIO : LINEAR_RATIO_MAX) ? logAxis(low, high, stepBase(low, unit)) : linearAxis(high, stepBase(high, unit));
}

/** An axis from zero, whatever the values span. */
export function axisFromZero(values, unit) {
  const [, high] = ends(values);
  return linearAxis(high, stepBase(high, unit));
}

/** A logarithmic axis for ratios. */
export function axisOfRatios(ratios) {
  const [low, high] = ends(ratios);
  return high > low ? logAxis(low, high, 1) : logAxis(low / 2, high * 2, 1);
}

/** In which steps an axis counts whose values are about as large as `value`. */
const stepBase = (value, unit) => (MULTIPLES[unit]?.[0] === SIZES ? multiple(value, SIZES)[0] : 1);

function linearAxis(high, base) {
  const step = nextNice(high / base / LINEAR_TICKS) * base;
  const n = Math.max(1, Math.ceil(high / step - 1e-9));
  const ticks = Array.from({ length: Math.min(n, 20) + 1 }, (_, at) => at * step);
  return axis(0, n * step, false, ticks);
}

function logAxis(least, greatest, base) {
  const low = lastNice(least / base / LOG_ROOM) * base;
  const high = nextNice(greatest / base) * base;
  const isFine = Math.log10(high / low) <= FINE_DECADES_MAX;
  const ticks = [];
  for (let tick = low; tick <= high * 1.000001 && ticks.length < 100; tick = nextNice(tick / base * 1.01) * base) {
    if (isFine || isPowerOfTen(tick / base)) ticks.push(tick);
  }
  const step = Math.max(1, Math.ceil(ticks.length / DECADES_MAX));
  return axis(low, high, true, ticks.filter((_, at) => at % step === 0));
}

/** `at` is the place of a value: 0 at the low end, 1 at the high end, never beyond. */
function axis(low, high, isLog, ticks) {
  const share = (value) => (isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  return { low, high, isLog, ticks, at: (value) => Math.min(1, Math.max(0, share(value))) || 0 };
}

/** The least and the greatest of the values above zero; 1 and 1 if there are none. */
function ends(values) {
  const found = values.filter((value) => Number.isFinite(value) && value > 0);
  return found.length === 0 ? [1, 1] : [Math.min(...found), Math.max(...found)];
}

/** The least of 1, 2 and 5 times a power of ten that is not less than `value`. */
function nextNice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5].map((it) => it * power).find((nice) => nice >= value * 0.999999) ?? 10 * power;
}

/** The greatest of 1, 2 and 5 times a power of ten that is not more than `value`. */
function lastNice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [5, 2].map((it) => it * power).find((nice) => nice <= value * 1.000001) ?? power;
}

const isPowerOfTen = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
