// One connection.

import { link, mayClose, query } from '../app.js';
import { path } from '../api.js';
import { chart, rates, samples } from '../chart.js';
import { h } from '../dom.js';
import { bytes, client, duration, number, protocol, time } from '../format.js';
import { button, consumerState, consumersOf, dialog, facts, fields, heldBy, name, nothing, problem, section, state, table, tag, tile, to, toChannel, toChannelOf, toQueue, value } from '../parts.js';

export function open([, connection]) {
  const page = {
    title: connection, data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}),
    sources: () => ({ it: `/connections${path`/${connection}`}?${samples('600', ['data_rates'])}`, channels: `/connections${path`/${connection}`}/channels?columns=name,number,state,messages_unacknowledged,messages_unconfirmed,prefetch_count,confirm,transactional`, consumers: consumersOf('channel_details.connection_name', connection), ...(page.data.it?.protocol === 'AMQP 1-0' ? { sessions: `/connections${path`/${connection}`}/sessions` } : {}) }),
    view: () => view(page, connection),
  };
  return page;
}

function view(page, connection) {
  const { it, channels } = page.data;
  const consumers = page.data.consumers?.items ?? [];
  const hungOf = (channel) => consumers.find((one) => /^hung/.test(one.state) && (!channel || one.channel_details.name === channel));
  const crumb = h('p', { class: 'crumb' }, to(link(['connections']), 'Connections'));
  if (!it) return [h('div', { class: 'head' }, crumb, h('h1', null, name(connection))), page.errors.it ? nothing(it === null ? 'Connection closed.' : page.errors.it) : h('div', { class: 'tile' }, h('span', { class: 'ghost' }))];
  return [
    h('div', { class: 'head' }, crumb, h('h1', null, name(it.user_provided_name || it.name)), it.user_provided_name && name(it.name), hungOf('') ? consumerState(hungOf('')) : state(it.state), it.ssl && tag('good', 'TLS'), h('span', { class: 'grow' }), mayClose(it.user) && button('Close', () => dialog({
      title: ['Close ', name(it.name), '?'], says: h('p', null, 'Its unacked messages return to their queues. Most clients reconnect.'), act: 'Close the connection', danger: true,
      fields: [{ name: 'reason', label: 'Reason shown to the client', value: 'Closed by hand', wide: true }],
      requests: (values) => [{ method: 'DELETE', address: path`/connections/${it.name}`, headers: { 'x-reason': values.reason } }], told: 'Closed', leaves: link(['connections'], { vhost: query('vhost') }),
    }), { kind: 'danger' })),
    page.errors.it && problem(page.errors.it),
    h('div', { class: 'tiles' }, tile('From client', `${bytes(it.recv_oct_details?.rate ?? 0)}/s`, `${bytes(it.recv_oct)} total`), tile('To client', `${bytes(it.send_oct_details?.rate ?? 0)}/s`, `${bytes(it.send_oct)} total`),
      tile('Channels', number(it.channels), it.channel_max > 0 && `of ${number(it.channel_max)} at most`), tile('Connected for', duration(Date.now() - it.connected_at), time(it.connected_at))),
    chart({ label: 'Bytes per second', unit: 'bytes', series: [{ name: 'From client', points: rates(it.recv_oct_details) }, { name: 'To client', points: rates(it.send_oct_details) }] }),
    section('Channels', table(['Channel', 'State', '#Unacked', '#Unconfirmed', '#Prefetch', 'Mode'], (Array.isArray(channels) ? channels : []).map((one) => [toChannel(one.name), hungOf(one.name) ? consumerState(hungOf(one.name)) : state(one.state), number(one.messages_unacknowledged), number(one.messages_unconfirmed), one.prefetch_count || 'no limit',
      one.confirm ? 'confirms' : one.transactional ? 'transactions' : '\u2013']), 'No channels')),
    consumers.length > 0 && section('Consumers', table(['Tag', 'Queue', 'Channel', '#Prefetch', '#Unacked', 'State', 'Acknowledgement mode'], consumers.map((one) => [name(one.consumer_tag), toQueue(one.queue.vhost, one.queue.name), toChannelOf(one.channel_details), one.prefetch_count || 'no limit', heldBy(one), consumerState(one), one.ack_required ? 'manual' : 'automatic']))),
    (Array.isArray(page.data.sessions) ? page.data.sessions : []).map(sessionOf),
    section('Client', facts([
      ['User', name(it.user)], ['Virtual host', name(it.vhost)], ['Client', client(it) || '\u2013'], ['Protocol', protocol(it.protocol)], it.container_id && ['Container', name(it.container_id)], ['Authentication', name(it.auth_mechanism)],
      ['From', it.peer_port ? `${it.peer_host}:${it.peer_port}` : it.peer_host], it.port > 0 && ['To', `${it.host}:${it.port}`], ['Heartbeat', it.timeout ? `${it.timeout} s` : 'none'], it.frame_max > 0 && ['Maximum frame size', bytes(it.frame_max)],
      it.ssl && ['TLS', `${it.ssl_protocol} ${it.ssl_cipher ?? ''}`], it.peer_cert_subject && ['Certificate', name(it.peer_cert_subject)],
    ])),
    section('Client properties', fields(it.client_properties)),
  ];
}

/** A session of AMQP 1.0 with its links. */
function sessionOf(it) {
  const links = [...it.incoming_links.map((one) => [one, 'from client', one.target_address ?? '(of each message)', one.snd_settle_mode, one.unconfirmed_messages]), ...it.outgoing_links.map((one) => [one, 'to client', one.source_address, one.send_settled ? 'settled' : 'unsettled', '\u2013'])];
  return section(`Session ${it.channel_number}`, [
    facts([['Window from client', `${number(it.incoming_window)}, next transfer ${it.next_incoming_id}`], ['Window to client', `${number(it.remote_incoming_window)}, next transfer ${it.next_outgoing_id}`], ['Unsettled deliveries', number(it.outgoing_unsettled_deliveries)]]),
    links.length > 0 && table(['Handle', 'Link', 'Direction', 'Address', '#Deliveries', '#Credit', '#Unconfirmed', 'Settlement'], links.map(([one, direction, address, mode, unconfirmed]) => [one.handle, name(one.link_name), direction, name(address), number(one.delivery_count), number(one.credit), unconfirmed, mode])),
  ]);
}
