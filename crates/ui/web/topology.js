// The way of messages: from publishers over exchanges and queues to consumers, for one object and its
// neighbours, as a picture and as a list. Dead ends are marked.

import { exchangeLink, link, queueLink, redraw } from './app.js';
import { get, path } from './api.js';
import { h } from './dom.js';
import { count, number, plain } from './format.js';
import { escaped } from './list.js';
import { button, name, problem, section, table, tag, to } from './parts.js';

/** Objects of each kind around one that are shown. */
const NEIGHBOURS_MAX = 12;
/** Exchanges behind each other that are followed. */
const DEPTH_MAX = 3;
const BOX = { width: 184, height: 56, across: 84, down: 14 };

/**
 * @typedef {{id: string, kind: 'publisher' | 'exchange' | 'queue' | 'consumer', label: string, address: string, note?: string, bad?: string}} Stop
 * @typedef {{from: string, to: string, keys: string[], kind?: string}} Way
 */

/**
 * Places for stops: kinds from left to right, exchanges one behind the other, each near those that lead to it. Pure.
 * @param {Stop[]} stops @param {Way[]} ways
 */
function layout(stops, ways) {
  const byId = new Map(stops.map((stop) => [stop.id, stop]));
  const isForward = (way) => byId.has(way.from) && byId.has(way.to) && !way.kind;
  const depths = new Map();
  const depth = (id, seen) => {
    if (depths.has(id)) return depths.get(id);
    const before = ways.filter((way) => way.to === id && isForward(way) && byId.get(way.from)?.kind === 'exchange' && !seen.has(way.from));
    const found = Math.max(0, ...before.map((way) => depth(way.from, new Set([...seen, way.from])) + 1));
    depths.set(id, found);
    return found;
  };
  const exchanges = stops.filter((stop) => stop.kind === 'exchange');
  const last = Math.max(0, ...exchanges.map((stop) => depth(stop.id, new Set([stop.id]))));
  const leads = (id) => ways.some((way) => way.from === id && isForward(way));
  // Where the way ends it is at the right, whatever it is.
  const columnOf = ({ id, kind }) => ({ publisher: 0, exchange: leads(id) || exchanges.length === stops.length ? 1 + (depths.get(id) ?? 0) : last + 2, queue: last + 2, consumer: last + 3 }[kind]);
  const used = [...new Set(stops.map(columnOf))].sort((a, b) => a - b);
  const rows = /** @type {Map<string, number>} */ (new Map());
  for (const column of used) {
    const here = stops.filter((stop) => columnOf(stop) === column).map((stop, at) => {
      const from = ways.filter((way) => way.to === stop.id && isForward(way) && rows.has(way.from)).map((way) => rows.get(way.from) ?? 0);
      return { stop, by: from.length > 0 ? from.reduce((sum, row) => sum + row, 0) / from.length : at };
    });
    here.sort((a, b) => a.by - b.by).forEach(({ stop }, at) => rows.set(stop.id, at));
  }
  const places = new Map(stops.map((stop) => [stop.id, { x: used.indexOf(columnOf(stop)) * (BOX.width + BOX.across), y: (rows.get(stop.id) ?? 0) * (BOX.height + BOX.down) }]));
  const height = Math.max(0, ...[...places.values()].map(({ y }) => y + BOX.height));
  return { places, width: used.length * (BOX.width + BOX.across) - BOX.across, height };
}

/** The graph around an object, as it is found. */
class Graph {
  constructor(vhost) {
    this.vhost = vhost;
    this.stops = /** @type {Map<string, Stop>} */ (new Map());
    this.ways = /** @type {Map<string, Way>} */ (new Map());
    this.problem = '';
    /** Who publishes to the queue by the default exchange. @type {any[] | null} */
    this.publishers = null;
  }

  add(kind, label, address, more = /** @type {Partial<Stop>} */ ({})) {
    const id = more.id ?? `${kind} ${label}`;
    if (!this.stops.has(id)) this.stops.set(id, { id, kind, label, address, ...more });
    return id;
  }

  exchange = (label) => this.add('exchange', label, exchangeLink(this.vhost, label));

  queue = (label, more) => this.add('queue', label, queueLink(this.vhost, label), more);

  way(from, to, key, kind) {
    const id = `${from}\0${to}\0${kind ?? ''}`;
    const way = this.ways.get(id) ?? { from, to, keys: /** @type {any[]} */ ([]), kind };
    if (key !== undefined && !way.keys.includes(key)) way.keys.push(key);
    this.ways.set(id, way);
  }

  publisher(channel, to) {
    const known = channel.user_provided_name ? `${plain(channel.user_provided_name)} (${channel.number})` : channel.name;
    this.way(this.add('publisher', known, link(['channels', channel.name]), { id: `publisher ${channel.name}`, note: channel.user && `publisher, ${plain(channel.user)}` }), to);
  }

  async ask(address) {
    const answer = await get(address);
    if (!answer.ok && answer.status !== 404) this.problem ||= answer.reason;
    return answer.ok ? answer.data : null;
  }

  /** An exchange with who publishes to it, and the exchanges before it. */
  async before(label, depth = 0) {
    const id = this.exchange(label);
    const of = path`/exchanges/${this.vhost}/${label || 'amq.default'}`;
    const [it, into] = await Promise.all([this.ask(of), label === '' ? null : this.ask(`${of}/bindings/destination?page=1&page_size=${NEIGHBOURS_MAX}`)]);
    if (!it) return;
    const stop = this.stops.get(id);
    if (stop) stop.note = it.type;
    // Everybody publishes to the default exchange: who does so to this queue is known besides.
    for (const { channel_details: channel } of label === '' && this.publishers ? this.publishers : it.incoming ?? []) {
      if (channel?.name && [...this.ways.values()].filter((way) => way.to === id).length < NEIGHBOURS_MAX) this.publisher(channel, id);
    }
    const alternate = it.arguments?.['alternate-exchange'];
    if (alternate) this.way(id, this.exchange(alternate), undefined, 'unroutable messages');
    for (const binding of into?.items ?? []) {
      const isNew = !this.stops.has(`exchange ${binding.source}`);
      this.way(this.exchange(binding.source), id, binding.routing_key);
      if (isNew && depth < DEPTH_MAX) await this.before(binding.source, depth + 1);
    }
  }

  /** Where an exchange leads. */
  async after(label, depth = 0) {
    if (label === '') return;
    const id = this.exchange(label);
    const from = await this.ask(`${path`/exchanges/${this.vhost}/${label}`}/bindings/source?page=1&page_size=${NEIGHBOURS_MAX * 2}`);
    const stop = this.stops.get(id);
    if (stop && from?.filtered_count === 0) stop.bad = 'no bindings';
    for (const binding of from?.items ?? []) {
      const isQueue = binding.destination_type === 'queue';
      const isNew = !this.stops.has(`exchange ${binding.destination}`);
      this.way(id, isQueue ? this.queue(binding.destination) : this.exchange(binding.destination), binding.routing_key);
      if (!isQueue && isNew && depth < DEPTH_MAX) await this.after(binding.destination, depth + 1);
    }
    if (stop && from && from.filtered_count > from.items.length) stop.note = `${stop.note ?? ''} and ${count(from.filtered_count - from.items.length, 'more binding')}`;
  }

  /** What a queue has besides its bindings. */
  async queues() {
    const queues = [...this.stops.values()].filter((stop) => stop.kind === 'queue');
    if (queues.length === 0) return;
    const hung = await this.ask(`${path`/consumers/${this.vhost}`}?page=1&page_size=500&columns=queue.name&where=state:hung`);
    const expression = `^(${queues.map((stop) => escaped(stop.label)).join('|')})$`;
    const columns = 'name,type,consumers,messages';
    const found = await this.ask(`${path`/queues/${this.vhost}`}?page=1&page_size=500&use_regex=true&columns=${columns}&name=${encodeURIComponent(expression)}`);
    for (const it of found?.items ?? []) {
      const stop = this.stops.get(`queue ${it.name}`);
      if (!stop) continue;
      stop.note = `${it.type}, ${count(it.messages ?? 0, 'message')}`;
      if (it.consumers === 0) stop.bad ??= 'no consumers';
      else {
        const n = (hung?.items ?? []).filter((one) => one.queue?.name === it.name).length;
        this.way(stop.id, this.add('consumer', count(it.consumers, 'consumer'), queueLink(this.vhost, it.name, { tab: 'consumers' }), { id: `consumer ${it.name}`, bad: n > 0 ? `${number(n)} hung` : undefined }));
      }
    }
  }

  /** Where messages go that die in a queue. */
  async deaths(queue) {
    const exchange = queue.arguments?.['x-dead-letter-exchange'] ?? queue.effective_policy_definition?.['dead-letter-exchange'];
    const key = queue.arguments?.['x-dead-letter-routing-key'] ?? queue.effective_policy_definition?.['dead-letter-routing-key'];
    if (exchange === undefined) return;
    if (exchange === '') this.way(`queue ${queue.name}`, this.queue(key ?? queue.name), undefined, 'dead letters');
    else {
      this.way(`queue ${queue.name}`, this.exchange(exchange), undefined, 'dead letters');
      await this.after(exchange, DEPTH_MAX);
    }
  }

  async ofQueue(label) {
    const of = path`/queues/${this.vhost}/${label}`;
    const [queue, bindings, why] = await Promise.all([this.ask(of), this.ask(`${of}/bindings`), this.ask(path`/explain/why/${this.vhost}/${label}`)]);
    if (!queue) return;
    this.publishers = (why?.publishers ?? []).filter((it) => it.exchange === '');
    const id = this.queue(label);
    const own = (bindings ?? []).filter((binding) => binding.source !== '');
    const byName = (queue.incoming ?? []).some((it) => it.exchange.name === '');
    const stop = this.stops.get(id);
    if (own.length === 0 && stop) stop.bad = byName ? undefined : 'no bindings';
    for (const binding of own.slice(0, NEIGHBOURS_MAX)) this.way(this.exchange(binding.source), id, binding.routing_key);
    if (byName) this.way(this.exchange(''), id, label);
    for (const exchange of [...this.stops.values()].filter((it) => it.kind === 'exchange')) await this.before(exchange.label);
    await this.deaths(queue);
    await this.queues();
  }

  async ofExchange(label) {
    await this.before(label);
    await this.after(label);
    await this.queues();
  }
}

/** The state of the tab. @param {'queue' | 'exchange'} kind @param {string} vhost @param {string} label */
export function topology(kind, vhost, label) {
  const it = { graph: new Graph(vhost), busy: true, id: `${kind} ${label}` };
  const look = async () => {
    const graph = new Graph(vhost);
    it.busy = true;
    await (kind === 'queue' ? graph.ofQueue(label) : graph.ofExchange(label));
    Object.assign(it, { graph, busy: false });
    redraw();
  };
  look();
  return { view: () => view(it, look), close() {} };
}

function view(it, look) {
  const stops = [...it.graph.stops.values()];
  const ways = [...it.graph.ways.values()];
  if (it.busy && stops.length === 0) return h('span', { class: 'ghost' });
  const bad = stops.filter((stop) => stop.bad);
  return [
    it.graph.problem && problem(it.graph.problem),
    bad.length > 0 ? h('p', { class: 'lead' }, tag('warn', count(bad.length, 'dead end')), ' ', bad.map((stop, at) => [at > 0 && '; ', to(stop.address, label(stop)), ` ${stop.bad}`])) : h('p', { class: 'lead' }, tag('good', 'No dead end'), ' Every path leads to a consumer.'),
    h('div', { class: 'bar' }, legend(), h('span', { class: 'grow' }), button('Refresh', look, { disabled: it.busy })),
    picture(stops, ways, it.id),
    section('Paths', table(['From', 'Routing key', 'To'], ways.map((way) => [step(it.graph, way.from), way.kind ? tag('calm', way.kind) : keys(way.keys), step(it.graph, way.to)]), 'No paths')),
  ];
}

const KINDS = /** @type {[string, string][]} */ ([['publisher', 'Publishers'], ['exchange', 'Exchanges'], ['queue', 'Queues'], ['consumer', 'Consumers']]);
const legend = () => h('ul', { class: 'kinds' }, KINDS.map(([kind, text]) => h('li', null, h('span', { class: `mark ${kind}` }), text)));
const label = (stop) => name(stop.label, '(AMQP default)');
const keys = (all) => (all.length === 0 ? h('span', { class: 'faint' }, '\u2013') : [all.slice(0, 5).map((key, at) => [at > 0 && ', ', name(key, '(empty)')]), all.length > 5 && ` and ${number(all.length - 5)} more`]);

function step(graph, id) {
  const stop = graph.stops.get(id);
  return [h('span', { class: 'faint' }, `${stop.kind} `), to(stop.address, label(stop)), stop.bad && [' ', tag('warn', stop.bad)]];
}

function picture(stops, ways, own) {
  const { places, width, height } = layout(stops, ways);
  const line = (way) => {
    const [from, to] = [places.get(way.from), places.get(way.to)];
    if (!from || !to) return null;
    const isBack = to.x <= from.x;
    // What goes back leaves and comes lower, where nothing else does, and between the columns.
    const low = BOX.height * (isBack ? 0.75 : 0.5);
    const [x1, y1, x2, y2] = [from.x + (from.x > to.x ? 0 : BOX.width), from.y + low, to.x + (isBack ? BOX.width : 0), to.y + low];
    const bend = from.x === to.x ? BOX.across / 2 : Math.max(30, Math.abs(x2 - x1) / 2);
    const [out, into] = [x1 + (from.x > to.x ? -bend : bend), x2 + (isBack ? bend : -bend)];
    return h('path', { d: `M${x1} ${y1} C${out} ${y1} ${into} ${y2} ${x2 + (isBack ? 6 : -6)} ${y2}`, class: way.kind ? 'aside' : null, 'marker-end': 'url(#to)' });
  };
  return h('div', { class: 'list way', tabindex: 0, role: 'group', 'aria-label': 'Topology', mounted: (node) => { node.scrollLeft = (places.get(own)?.x ?? 0) - BOX.across; } },
    h('div', { class: 'stops', style: { width: `${width}px`, height: `${height}px` } },
      h('svg', { width, height, 'aria-hidden': 'true' }, h('defs', null, h('marker', { id: 'to', viewBox: '0 0 8 8', refX: 3, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' }, h('path', { d: 'M0 0 8 4 0 8z' }))), ways.map(line)),
      stops.map((stop) => {
        const { x, y } = places.get(stop.id) ?? { x: 0, y: 0 };
        return h('a', { key: stop.id, href: stop.address, class: `stop ${stop.kind} ${stop.id === own ? 'own' : ''} ${stop.bad ? 'bad' : ''}`, 'aria-current': stop.id === own ? 'true' : null, style: { left: `${x}px`, top: `${y}px`, width: `${BOX.width}px`, height: `${BOX.height}px` }, title: plain(stop.label) },
          h('span', { class: 'name' }, plain(stop.label).replace(/ -> \S+/, '') || '(AMQP default)'), h('span', { class: 'below' }, stop.bad ?? stop.note ?? stop.kind));
      })));
}
