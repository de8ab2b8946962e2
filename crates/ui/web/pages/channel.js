// One channel.

import { link } from '../app.js';
import { path } from '../api.js';
import { chart, rates, samples } from '../chart.js';
import { h } from '../dom.js';
import { duration, number, rate, short } from '../format.js';
import { consumerState, consumersOf, facts, heldBy, name, nothing, section, state, table, tag, tile, to, toConnection, toExchange, toQueue } from '../parts.js';

export function open([, channel]) {
  const page = {
    title: channel, data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}),
    sources: () => ({ it: `/channels${path`/${channel}`}?${samples('600', ['msg_rates'])}`, ages: `/channels${path`/${channel}`}?columns=oldest_unacked_ms,oldest_unconfirmed_ms`, consumers: consumersOf('channel_details.name', channel) }),
    view: () => view(page, channel),
  };
  return page;
}

function view(page, channel) {
  const { it, ages } = page.data;
  const consumers = page.data.consumers?.items ?? [];
  const hung = consumers.find((one) => /^hung/.test(one.state));
  const oldest = (ms) => ms > 0 && `, oldest ${duration(ms)}`;
  const crumb = h('p', { class: 'crumb' }, to(link(['channels']), 'Channels'), it && [' \u203a ', toConnection(it.connection_details?.name, it.connection_details?.user_provided_name || it.connection_details?.name)]);
  if (!it) return [h('div', { class: 'head' }, crumb, h('h1', null, name(channel))), page.errors.it ? nothing(it === null ? 'Channel closed.' : page.errors.it) : h('div', { class: 'tile' }, h('span', { class: 'ghost' }))];
  const stats = it.message_stats ?? {};
  const perSecond = (key) => rate(stats[`${key}_details`]?.rate ?? 0);
  return [
    h('div', { class: 'head' }, crumb, h('h1', null, name(it.name)), hung ? consumerState(hung) : state(it.state), it.confirm && tag('calm', 'confirms'), it.transactional && tag('calm', 'transactions')),
    h('div', { class: 'tiles' }, tile('Unacked', number(it.messages_unacknowledged), [it.prefetch_count ? `prefetch ${number(it.prefetch_count)}` : 'no prefetch limit', it.messages_unacknowledged > 0 && oldest(ages?.oldest_unacked_ms)], hung ? 'bad' : ''), tile('Unconfirmed', number(it.messages_unconfirmed), it.messages_unconfirmed > 0 && ages?.oldest_unconfirmed_ms > 0 && `oldest ${duration(ages.oldest_unconfirmed_ms)}`), tile('Published', perSecond('publish'), `${short(stats.publish ?? 0)} total`),
      tile('Delivered', perSecond('deliver_get'), `${short(stats.deliver_get ?? 0)} total`), tile('Acknowledged', perSecond('ack'), `${short(stats.ack ?? 0)} total`), tile('Redelivered', perSecond('redeliver'), `${short(stats.redeliver ?? 0)} total`)),
    chart({ label: 'Rates', unit: 'rate', series: [['Published', 'publish'], ['Delivered', 'deliver_get'], ['Acknowledged', 'ack'], ['Confirmed', 'confirm']].map(([label, key]) => ({ name: label, points: rates(stats[`${key}_details`]) })) }),
    section('Consumers', table(['Tag', 'Queue', '#Prefetch', '#Unacked', 'State', 'Acknowledgement mode'], consumers.map((one) => [name(one.consumer_tag), toQueue(one.queue.vhost, one.queue.name), one.prefetch_count || 'no limit', heldBy(one), consumerState(one), one.ack_required ? 'manual' : 'automatic']), 'None')),
    h('div', { class: 'cards' },
      section('Publishes to', table(['Exchange', '#Per second', '#Total', '#Unroutable'], (it.publishes ?? []).map((one) => [toExchange(one.exchange.vhost, one.exchange.name), rate(one.stats.publish_details?.rate), number(one.stats.publish), number((one.stats.drop_unroutable ?? 0) + (one.stats.return_unroutable ?? 0))]), 'None')),
      section('Receives from', table(['Queue', '#Per second', '#Total'], (it.deliveries ?? []).map((one) => [toQueue(one.queue.vhost, one.queue.name), rate(one.stats.deliver_get_details?.rate), number(one.stats.deliver_get)]), 'None'))),
    section('Details', facts([['User', name(it.user)], ['Virtual host', name(it.vhost)], ['Number', number(it.number)], ['Uncommitted messages', number(it.messages_uncommitted)], ['Uncommitted acks', number(it.acks_uncommitted)]])),
  ];
}
