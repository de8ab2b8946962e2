// The node at a glance: what is wrong right now, and how much goes through.

import { app, isMonitor, isOneVhost, link, query, setQuery } from '../app.js';
import { chart, levels, RANGES, rates, samples } from '../chart.js';
import { h } from '../dom.js';
import { bytes, count, duration, number, plain, rate, short, trend } from '../format.js';
import { facts, name, nothing, problem, section, table, tag, tile, to, toQueue } from '../parts.js';

const NODE = 'name,running,being_drained,mem_used,mem_limit,mem_alarm,disk_free,disk_free_limit,disk_free_alarm,fd_used,fd_total,sockets_used,sockets_total,uptime,io_write_bytes_details,io_sync_avg_time,io_sync_count_details,processors,db_dir';
const COLUMNS = 'name,vhost,type,messages_ready,messages,consumers,messages_details.rate,oldest_message_age_seconds';
/** Age of messages that are told of although somebody consumes, seconds. */
const OLD_S = 600;

export function open() {
  const page = {
    title: 'Overview', data: /** @type {Record<string, any>} */ ({}), errors: {},
    sources() {
      const vhost = query('vhost') ? `/${encodeURIComponent(query('vhost'))}` : '';
      const range = samples(query('range', '600'), ['lengths', 'msg_rates']);
      const list = (words) => `/queues${vhost}?page=1&page_size=6&columns=${COLUMNS}&${words}`;
      return {
        all: vhost ? `/vhosts${vhost}?${range}` : `/overview?${range}`,
        idle: list('where=messages_ready%3E0&where=consumers=0&where=type!=stream&sort=messages_ready&sort_reverse=true'),
        grow: list('where=messages_details.rate%3E0&where=type!=stream&sort=messages_details.rate&sort_reverse=true'),
        old: list(`where=consumers%3E0&where=oldest_message_age_seconds%3E${OLD_S}&where=type!=stream&sort=oldest_message_age_seconds&sort_reverse=true`),
        ...(isMonitor() ? { nodes: `/nodes?columns=${NODE}` } : {}),
      };
    },
    view: () => view(page),
  };
  return page;
}

function view(page) {
  const { all, idle, grow, old, nodes } = page.data;
  if (page.errors.all && !all) return problem(page.errors.all);
  // At once, so that nothing moves.
  const isHere = (key) => page.data[key] !== undefined || page.errors[key];
  if (!Object.keys(page.sources()).every(isHere)) return [head(), h('div', { class: 'tiles' }, ['Ready', 'Unacked', 'Published', 'Delivered', 'Unroutable', 'Queues', 'Connections'].map((label) => tile(label, '\u2013')))];
  const totals = withoutStreams(all.queue_totals ?? all);
  const stats = all.message_stats ?? {};
  const objects = all.object_totals;
  return [
    head(),
    h('div', { class: 'tiles' },
      tile('Ready', short(totals.messages_ready ?? 0), trend(totals.messages_ready_details), '', link(['queues'], { sort: 'ready', desc: 1, vhost: query('vhost') })),
      totals.messages_in_streams > 0 && tile('In streams', short(totals.messages_in_streams), trend(totals.messages_in_streams_details), '', link(['queues'], { filter: 'type:stream', vhost: query('vhost') })),
      tile('Unacked', short(totals.messages_unacknowledged ?? 0), trend(totals.messages_unacknowledged_details), '', link(['queues'], { sort: 'unacked', desc: 1, vhost: query('vhost') })),
      tile('Published', rate(stats.publish_details?.rate ?? 0), `${short(stats.publish ?? 0)} total`),
      tile('Delivered', rate(stats.deliver_get_details?.rate ?? 0), `${short(stats.deliver_get ?? 0)} total`),
      tile('Unroutable', rate((stats.drop_unroutable_details?.rate ?? 0) + (stats.return_unroutable_details?.rate ?? 0)), `${short((stats.drop_unroutable ?? 0) + (stats.return_unroutable ?? 0))} total`,
        (stats.drop_unroutable_details?.rate ?? 0) > 0 ? 'warn' : ''),
      objects && tile('Queues', short(objects.queues), count(objects.consumers, 'consumer'), '', link(['queues'])),
      objects && tile('Connections', short(objects.connections), count(objects.channels, 'channel'))),
    objects?.queues === 0 && nothing('No queues yet. ', to(link(['queues']), 'Create one'), ' or connect a client: see the ports below.'),
    now(idle, grow, old),
    h('div', { class: 'charts' },
      chart({ label: 'Messages', series: [{ name: 'Ready', points: levels(totals.messages_ready_details) }, { name: 'Unacked', points: levels(totals.messages_unacknowledged_details) }] }),
      chart({ label: 'Rates', unit: 'rate', series: [['Published', 'publish'], ['Delivered', 'deliver_get'], ['Acknowledged', 'ack'], ['Confirmed', 'confirm'], ['Redelivered', 'redeliver']]
        .map(([name, key]) => ({ name, points: rates(stats[`${key}_details`]) })).filter((it, at) => at < 3 || it.points.some(([, value]) => value > 0)) })),
    nodes && nodes.map(nodeCard),
    !query('vhost') && listeners(all),
  ];
}

/** Figures of queues without those of streams, whose messages are ready for nobody in particular. */
function withoutStreams(totals) {
  const { messages_ready: ready = 0, messages_in_streams: inStreams = 0, messages_ready_details: of, messages_in_streams_details: less } = totals;
  const at = new Map((less?.samples ?? []).map(({ timestamp, sample }) => [timestamp, sample]));
  const details = of && { ...of, rate: of.rate - (less?.rate ?? 0), samples: of.samples?.map(({ timestamp, sample }) => ({ timestamp, sample: Math.max(0, sample - (at.get(timestamp) ?? 0)) })) };
  return { ...totals, messages_ready: Math.max(0, ready - inStreams), messages_ready_details: details };
}

function head() {
  const open = query('range', '600');
  const vhost = query('vhost');
  return h('div', { class: 'head' }, h('h1', null, vhost ? ['Overview of ', h('bdi', null, plain(vhost))] : 'Overview'), h('span', { class: 'grow' }), h('div', { class: 'segments', role: 'group', 'aria-label': 'Time' }, RANGES.map(([id, label]) => h('button', {
    type: 'button', 'aria-pressed': String(id === open), onclick: () => setQuery({ range: id === '600' ? '' : id }),
  }, label))));
}

/** What wants a look right now. */
function now(idle, grow, old) {
  const lists = [idle, grow, old];
  if (!lists.every(Boolean)) return null;
  if (app.state.alarms.length === 0 && lists.every((it) => it.filtered_count === 0)) return h('p', { class: 'calm-line' }, tag('good', 'OK'), ' No growing queues, no ready messages without consumers, no old messages.');
  const row = (queue) => [[toQueue(queue.vhost, queue.name), !isOneVhost() && h('span', { class: 'faint' }, ' in ', name(queue.vhost))], number(queue.messages_ready), number(queue.consumers)];
  const card = (title, list, none, filter, sort, head = '#Change', cell = (queue) => signed(queue.messages_details?.rate)) => section([title, ' ', list.filtered_count > 0 && tag('warn', number(list.filtered_count))],
    table(['Queue', '#Ready', '#Consumers', head], list.items.map((queue) => [...row(queue), cell(queue)]), none),
    list.filtered_count > list.items.length && h('p', null, to(link(['queues'], { filter: `${filter} type!=stream`, sort, desc: 1, vhost: query('vhost') }), `All ${number(list.filtered_count)}`)));
  return h('div', { class: 'cards' },
    card('Messages without consumers', idle, 'All queues with messages have consumers.', 'ready>0 no:consumers', 'ready'),
    card('Growing queues', grow, 'No growing queues', 'change>0', 'change'),
    old.filtered_count > 0 && card('Old messages', old, '', `has:consumers oldest>${OLD_S / 60}min`, 'oldest', '#Oldest', (queue) => duration((queue.oldest_message_age_seconds ?? 0) * 1000)));
}

const signed = (by) => (by === undefined ? '\u2013' : `${by > 0 ? '+' : ''}${rate(by)}`);

function nodeCard(node) {
  return section(['Node ', h('bdi', { class: 'name' }, plain(node.name)), ' ', tag(node.running ? 'good' : 'bad', node.running ? 'running' : 'stopped'), node.being_drained && tag('warn', 'maintenance')],
    h('div', { class: 'gauges' },
      gauge('Memory', node.mem_used, node.mem_limit, bytes, node.mem_alarm, 'publishers are blocked above it'),
      gauge('Disk free', node.disk_free, node.disk_free_limit, bytes, node.disk_free_alarm, 'publishers are blocked below it', true),
      gauge('File descriptors', node.fd_used, node.fd_total, number),
      gauge('Sockets', node.sockets_used, node.sockets_total, number)),
    facts([
      ['Up for', duration(node.uptime)],
      ['Written to disk', node.io_write_bytes_details && `${bytes(node.io_write_bytes_details.rate)}/s`],
      node.io_sync_avg_time !== undefined && ['fsync', `${short(node.io_sync_avg_time)} ms, ${rate(node.io_sync_count_details?.rate)}`],
      ['Cores', number(node.processors)],
      ['Data', h('code', null, plain(node.db_dir))],
    ]));
}

function gauge(label, used, limit, format, alarm = false, meaning = '', floor = false) {
  if (used === undefined) return null;
  const share = floor ? Math.min(1, (limit ?? 0) / Math.max(used, 1)) : Math.min(1, used / Math.max(limit ?? used, 1));
  return h('div', { class: `gauge ${alarm ? 'bad' : share > 0.8 ? 'warn' : ''}` }, h('span', { class: 'label' }, label),
    h('span', null, h('strong', null, format(used)), floor ? ` (minimum ${format(limit)})` : ` of ${format(limit)}`),
    h('span', { class: 'bar-of', title: meaning, 'aria-hidden': 'true' }, h('span', { style: { width: `${Math.max(1, share * 100).toFixed(1)}%` } })), alarm && tag('bad', 'alarm'));
}

function listeners(all) {
  if (!all.listeners) return null;
  return section('Ports', table(['Protocol', '#Port', 'Address', 'TLS'], all.listeners.map((it) => [it.protocol, String(it.port), h('code', null, it.ip_address), it.tls ? tag('good', 'TLS') : 'no'])),
    all.churn_rates && facts([
      ['Connections opened', rate(all.churn_rates.connection_created_details?.rate)], ['Closed', rate(all.churn_rates.connection_closed_details?.rate)],
      ['Channels opened', rate(all.churn_rates.channel_created_details?.rate)], ['Queues declared', rate(all.churn_rates.queue_declared_details?.rate)],
      ['Queues deleted', rate(all.churn_rates.queue_deleted_details?.rate)],
    ]));
}
