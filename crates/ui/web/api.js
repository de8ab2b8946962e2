// The node's HTTP API.

/** The address that all of it is below: the files are two levels under it. */
export const root = new URL('../..', import.meta.url).pathname.replace(/\/$/, '');

/** Time within which the node is to answer: what is read, and what changes something, ms. */
const READ_MS = 8000;
const CHANGE_MS = 30000;

/** Called when the login has ended. */
export const session = { ended: () => {} };

/**
 * @typedef {{ok: boolean, status: number, data: any, reason: string, column?: number, undo?: string[]}} Answer
 * `undo` are the numbers of what was taken away and can be brought back.
 */

/** An address below `/api`, with its parts escaped. @param {TemplateStringsArray} texts @param {...any} parts */
export function path(texts, ...parts) {
  return texts.reduce((all, text, at) => all + (/^\.\.?$/.test(parts[at - 1]) ? `{${parts[at - 1]}}` : encodeURIComponent(parts[at - 1])) + text);
}

/**
 * An address as it can be asked for: browsers take `.` and `..` for steps, however they are written, so that
 * the query has names that are only that. @param {string} address of `path`
 */
export function sent(address) {
  const [steps, query] = address.split('?', 2);
  const words = query ? [query] : [];
  const parts = steps.split('/').map((part, at) => {
    const dots = /^\{(\.\.?)\}$/.exec(part)?.[1];
    if (dots) words.push(`:${at - 1}=${dots}`);
    return dots ? '-' : part;
  });
  return parts.join('/') + (words.length > 0 ? `?${words.join('&')}` : '');
}

/**
 * @param {string} method
 * @param {string} address below `/api`
 * @param {any} [body]
 * @param {{signal?: AbortSignal, headers?: Record<string, string>, raw?: boolean, patience?: number}} [options] `patience` is the time that the answer may take, ms; 0 is any
 * @returns {Promise<Answer>}
 */
export async function ask(method, address, body, options = {}) {
  const headers = { 'x-requested-with': 'leveret', ...options.headers };
  const patience = options.patience ?? (body instanceof Blob ? 0 : method === 'GET' ? READ_MS : CHANGE_MS);
  const signal = AbortSignal.any([...(options.signal ? [options.signal] : []), ...(patience ? [AbortSignal.timeout(patience)] : [])]);
  const init = /** @type {RequestInit} */ ({ method, headers, signal, cache: 'no-cache' });
  if (body instanceof URLSearchParams || body instanceof Blob || typeof body === 'string') init.body = body;
  else if (body !== undefined) {
    headers['content-type'] = 'application/json';
    init.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(`${root}/api${sent(address)}`, init);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return { ok: false, status: 0, data: null, reason: unanswered(error, method, patience) };
  }
  let text = '';
  try {
    text = await response.text();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return { ok: false, status: 0, data: null, reason: error.name === 'TimeoutError' ? unanswered(error, method, patience) : 'the answer broke off' };
  }
  const { ok, status } = response;
  let data = null;
  try {
    data = text && !(options.raw && ok) ? JSON.parse(text) : text;
  } catch {
    data = text;
  }
  const reason = ok ? '' : reasonOf(data, status);
  if (status === 401 && !address.startsWith('/login') && data?.error !== 'not_authorised') session.ended();
  const kept = response.headers.get('x-leveret-undo');
  const undo = kept ? [kept] : [data?.undo ?? []].flat().map((it) => it.id).filter(Boolean);
  return { ok, status, data, reason, column: data?.column, undo };
}

function unanswered(error, method, patience) {
  if (error.name !== 'TimeoutError') return 'the node does not answer';
  return `the node has not answered for ${patience / 1000} s${method === 'GET' ? '' : ': it may still do what was asked'}`;
}

/** The texts of an answer without Erlang's terms, which tools may want and people do not. @param {string} text */
export const humane = (text) => text.replace(/<<"((?:[^"\\]|\\.)*)"(?:\/utf8)?>>/g, '"$1"').replace(/#\{([^{}]*)\}/g, (_, inner) => `{${inner.replaceAll(' => ', ': ')}}`);

/**
 * A response that goes on, once it has begun.
 * @param {string} address below `/api` @param {RequestInit} init @param {AbortSignal} signal
 */
export async function stream(address, init, signal) {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new DOMException('late', 'TimeoutError')), READ_MS);
  try {
    const headers = { 'x-requested-with': 'leveret', ...init.headers };
    return await fetch(`${root}/api${sent(address)}`, { ...init, headers, cache: 'no-store', signal: AbortSignal.any([signal, late.signal]) });
  } finally {
    clearTimeout(timer);
  }
}

function reasonOf(data, status) {
  if (data?.reason && typeof data.reason === 'string') return humane(data.reason);
  if (status === 401) return 'you are not logged in';
  if (status === 404) return 'not found';
  if (status === 429) return 'too many requests at a time: try again';
  return `the node answered with status ${status}`;
}

/** @param {string} address @param {{signal?: AbortSignal, headers?: Record<string, string>}} [options] */
export const get = (address, options) => ask('GET', address, undefined, options);

/**
 * Events of a stream of them, with their data as text.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {() => void} [heard] called when anything comes
 */
export async function* events(stream, heard) {
  const reader = stream.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard?.();
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n');
      text = text.slice(end + 2);
      const field = (/** @type {string} */ key) => lines.filter((line) => line.startsWith(`${key}: `)).map((line) => line.slice(key.length + 2)).join('\n');
      if (lines.some((line) => line.startsWith('data:'))) yield { id: field('id'), event: field('event') || 'message', data: field('data') };
    }
  }
}

// ---- requests that more than one page makes

/** @param {any} row */
export const deleteQueue = (row) => ({ method: 'DELETE', address: path`/queues/${row.vhost}/${row.name}`, ctl: ['delete_queue', '--vhost', row.vhost, row.name] });
/** @param {any} row */
export const purgeQueue = (row) => ({ method: 'DELETE', address: path`/queues/${row.vhost}/${row.name}/contents`, ctl: ['purge_queue', '--vhost', row.vhost, row.name] });
/** @param {any} row */
export const deleteExchange = (row) => ({ method: 'DELETE', address: path`/exchanges/${row.vhost}/${row.name}` });
