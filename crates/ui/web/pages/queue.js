// One queue or stream: how it is, why, who reads it, what is in it.

import { isAdministrator, link, may, mayClose, query, queueLink, redraw, setQuery } from '../app.js';
import { deleteQueue, path, purgeQueue } from '../api.js';
import { chart, levels, RANGES, rates, samples } from '../chart.js';
import { h } from '../dom.js';
import { bytes, count, duration, number, plain, rate, short, time, trend } from '../format.js';
import { asked, bindTo, button, consumerState, dialog, facts, fetchMessages, fields, move, name, nothing, problem, publish, section, state, table, tabs, tag, tile, to, toChannelOf, toConnection, toExchange, unbind, value } from '../parts.js';

export function open([, vhost, queue]) {
  const of = path`/${vhost}/${queue}`;
  const page = {
    title: queue, vhost, queue, data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}),
    sources() {
      const tab = query('tab');
      const sources = /** @type {Record<string, string>} */ ({ queue: `/queues${of}?${samples(query('range', '600'), ['lengths', 'msg_rates'])}`, why: `/explain/why${of}` });
      if (tab === 'bindings') sources.bindings = `/queues${of}/bindings`;
      if (tab === 'settings') sources.settings = `/explain/queue${of}`;
      if (page.data.queue?.type === 'stream') sources.subscriptions = path`/stream/consumers/${vhost}`;
      if (page.data.queue?.type === 'stream' && isAdministrator()) {
        sources.stream = `/leveret/streams${of}`;
        sources.tracking = `/leveret/streams${of}/tracking`;
        sources.groups = path`/leveret/stream-groups/${vhost}`;
      }
      return sources;
    },
    /** Tabs whose modules come when they are opened first. @type {Record<string, {view: () => any, close: () => void}>} */
    parts: {},
    close: () => Object.values(page.parts).forEach((part) => part.close()),
    view: () => view(page),
  };
  return page;
}

function view(page) {
  const { queue } = page.data;
  const { vhost } = page;
  const crumb = h('p', { class: 'crumb' }, to(link(['queues']), 'Queues and streams'), ' \u203a ', to(link(['queues'], { vhost }), name(vhost)));
  if (!queue) return [h('div', { class: 'head' }, crumb, h('h1', null, name(page.queue))), page.errors.queue ? nothing(page.data.queue === null ? 'Queue not found.' : page.errors.queue) : h('div', { class: 'tiles' }, h('div', { class: 'tile' }, h('span', { class: 'ghost' })))];
  const tab = query('tab');
  return [
    h('div', { class: 'head' }, crumb, h('h1', null, name(queue.name)), tag(`type-${queue.type}`, queue.type), state(queue.state),
      !queue.durable && tag('calm', 'transient'), queue.auto_delete && tag('calm', 'auto-delete'), queue.exclusive && tag('calm', 'exclusive'),
      queue.policy && h('span', { class: 'faint' }, 'policy ', name(queue.policy)), h('span', { class: 'grow' }), actions(queue)),
    tabs(/** @type {[string, any][]} */ ([['', 'Overview'], ['messages', 'Messages'], ['tail', 'Live tail'], ...(queue.type === 'stream' ? [] : [['dead', 'Dead letters']]), ['consumers', `Consumers (${number(queue.consumers)})`], ['bindings', 'Bindings'], ['topology', 'Topology'], ['settings', 'Settings']]), tab, (id) => queueLink(vhost, queue.name, { tab: id, range: query('range') })),
    page.errors.queue && problem(page.errors.queue),
    LOADED[tab] ? loaded(page, tab) : tab === 'consumers' ? consumers(page) : tab === 'bindings' ? bindings(page) : tab === 'settings' ? settings(page) : now(page),
  ];
}

function actions(queue) {
  const { vhost } = queue;
  const isStream = queue.type === 'stream';
  const mayRead = may('read', vhost, queue.name);
  return h('div', { class: 'bar' },
    may('write', vhost, '') && button('Publish', () => publish({ vhost, exchange: '', routingKey: queue.name, isFixed: true })),
    mayRead && !isStream && button('Get', () => fetchMessages(queue)),
    mayRead && !isStream && button('Move', () => move(queue)),
    mayRead && !isStream && button('Purge', () => dialog({
      extra: asked(purgeQueue(queue).address),
      title: ['Purge ', name(queue.name), '?'], says: h('p', null, `Deletes ${count(queue.messages_ready, 'ready message')}. Unacked messages stay.`),
      act: `Purge ${number(queue.messages_ready)}`, danger: true, confirm: queue.messages_ready > 0 ? queue.name : undefined, requests: () => [purgeQueue(queue)], told: 'Purged',
    }), { kind: 'danger' }),
    may('configure', vhost, queue.name) && button('Delete', () => dialog({
      extra: asked(deleteQueue(queue).address),
      title: ['Delete ', name(queue.name), '?'], says: h('p', null, `Deletes ${count(queue.messages ?? 0, 'message')} and all bindings of the queue, and cancels ${count(queue.consumers, 'consumer')}.`),
      act: 'Delete the queue', danger: true, confirm: queue.name, requests: () => [deleteQueue(queue)], told: `Deleted ${plain(queue.name)}`, leaves: link(['queues']),
    }), { kind: 'danger' }));
}

function now(page) {
  const { queue, why, stream, tracking, groups } = page.data;
  // What is above the figures comes before them, so that nothing moves.
  if (why === undefined && !page.errors.why) return h('span', { class: 'ghost' });
  const stats = queue.message_stats ?? {};
  const isStream = queue.type === 'stream';
  const perSecond = (key) => rate(stats[`${key}_details`]?.rate ?? 0);
  const open = query('range', '600');
  const { vhost } = queue;
  const subscribed = (Array.isArray(page.data.subscriptions) ? page.data.subscriptions : []).filter((it) => it.queue?.name === queue.name);
  return [
    why && reasons(queue, why),
    h('div', { class: 'tiles' },
      tile(isStream ? 'Messages' : 'Ready', short(queue.messages_ready), trend(queue.messages_ready_details)),
      !isStream && tile('Unacked', short(queue.messages_unacknowledged), trend(queue.messages_unacknowledged_details)),
      tile('In', perSecond('publish'), `${short(stats.publish ?? 0)} total`),
      tile('Out', perSecond('deliver_get'), `${short(stats.deliver_get ?? 0)} total`),
      !isStream && tile('Acknowledged', perSecond('ack'), `${perSecond('redeliver')} redelivered`),
      queue.message_bytes !== undefined && tile('Bytes', bytes(queue.message_bytes), queue.messages ? `${bytes(queue.message_bytes / queue.messages)} each` : ''),
      queue.messages_delayed > 0 && tile('Delayed', short(queue.messages_delayed), queue.next_delayed_at ? `next ${time(queue.next_delayed_at)}` : ''),
      queue.messages_unconfirmed > 0 && tile('Unconfirmed', short(queue.messages_unconfirmed), `oldest ${duration(queue.oldest_unconfirmed_ms)}, ${number(queue.confirms_timed_out)} timed out`),
      why?.oldest_message_age_seconds > 0 && tile('Oldest', duration(why.oldest_message_age_seconds * 1000), 'oldest message')),
    h('div', { class: 'segments', role: 'group', 'aria-label': 'Time', style: { 'align-self': 'flex-start' } }, RANGES.map(([id, label]) => h('button', {
      type: 'button', 'aria-pressed': String(id === open), onclick: () => setQuery({ range: id === '600' ? '' : id }),
    }, label))),
    h('div', { class: 'charts' },
      chart({ label: 'Messages', series: [{ name: isStream ? 'Messages' : 'Ready', points: levels(queue.messages_ready_details) }, { name: 'Unacked', points: levels(queue.messages_unacknowledged_details) }].slice(0, isStream ? 1 : 2) }),
      chart({ label: 'Rates', unit: 'rate', series: [['In', 'publish'], ['Out', 'deliver_get'], ...(isStream ? [] : [['Acknowledged', 'ack'], ['Redelivered', 'redeliver'], ['Get', 'get']])]
        .map(([label, key]) => ({ name: label, points: rates(stats[`${key}_details`]) })).filter((it, at) => at < 3 || it.points.some(([, n]) => n > 0)) })),
    isStream && stream && streamCard(queue, stream, tracking),
    isStream && Array.isArray(groups) && groupsCard(queue, groups.filter((it) => it.stream === queue.name)),
    h('div', { class: 'cards' },
      section('Published by exchange', table(['Exchange', '#Per second', '#Total'], (queue.incoming ?? []).map((it) => [toExchange(it.exchange.vhost, it.exchange.name), rate(it.stats.publish_details?.rate), number(it.stats.publish)]), 'None since the node started')),
      why?.publishers?.length > 0 && section('Publishers', table(['Channel', 'Exchange', '#Total'], why.publishers.slice(0, SHOWN_MAX).map((it) => [toChannelOf(it.channel_details), toExchange(vhost, it.exchange), number(it.messages)]))),
      section('Delivered to', table(['Channel', '#Per second', '#Total'], (queue.deliveries ?? []).map((it) => [toChannelOf(it.channel_details), rate(it.stats.deliver_get_details?.rate), number(it.stats.deliver_get)]), isStream && subscribed.length > 0 ? 'No AMQP consumers' : 'None')),
      isStream && section('Subscriptions over the stream protocol', table(['Connection', '#Subscription', '#Offset', '#Behind', '#Total'], subscribed.map((it) => [toConnection(it.connection_details?.name), number(it.subscription_id), number(it.offset), number(it.offset_lag), number(it.messages_consumed)]), 'None'))),
  ];
}

/** Tabs that look into the queue; the frame has their modules come with the page. */
const LOADED = {
  tail: (queue) => import('../tail.js').then((it) => it.watch(path`/queues/${queue.vhost}/${queue.name}`)),
  messages: (queue) => import('../browse.js').then((it) => it.browser(queue)),
  topology: (queue) => import('../topology.js').then((it) => it.topology('queue', queue.vhost, queue.name)),
  dead: (queue) => import('../dead.js').then((it) => it.deadLetters(queue)),
};

/** A tab that looks into the queue. */
function loaded(page, tab) {
  if (!page.parts[tab]) {
    page.parts[tab] = { view: () => h('span', { class: 'ghost' }), close() {} };
    LOADED[tab](page.data.queue).then((part) => { page.parts[tab] = part; redraw(); });
  }
  return page.parts[tab].view();
}

/** Rows of a table that are shown. */
const SHOWN_MAX = 100;
/** Holders that are named one by one, those that have held messages for longest first. */
const HOLDERS_MAX = 5;

/** Who holds messages, how many and for how long, and what can be done about it. */
function holders(queue, why) {
  const all = [...(why.consumers ?? []), ...(why.other_holders ?? [])].filter((it) => it.messages_held_by_channel > 0 && it.channel_details?.name).sort((a, b) => (b.oldest_held_seconds ?? 0) - (a.oldest_held_seconds ?? 0));
  return all.length > 0 && h('ul', { class: 'some' }, all.slice(0, HOLDERS_MAX).map((it) => {
    const { channel_details: channel } = it;
    return h('li', null, it.consumer_tag === undefined ? 'Channel ' : ['Consumer ', name(it.consumer_tag), ' on '], toChannelOf(channel), ' holds ', to(queueLink(queue.vhost, queue.name, { tab: 'messages', which: 'unacked' }), number(it.messages_held_by_channel)), it.oldest_held_seconds > 0 && ` for ${duration(it.oldest_held_seconds * 1000)}`, it.state && [' ', consumerState(it)], ' ',
      it.consumer_tag !== undefined && mayClose(channel.user) && button('Cancel', () => cancel(queue, it), { kind: 'danger' }), ' ', mayClose(channel.user) && button('Close', () => closeConnection(channel.connection_name), { kind: 'danger' }));
  }), all.length > HOLDERS_MAX && h('li', { class: 'faint' }, `and ${number(all.length - HOLDERS_MAX)} more`));
}

/** Why messages stay, in the node's own words. */
function reasons(queue, why) {
  const [first, ...rest] = why.reasons ?? [];
  const isFine = queue.messages_ready === 0 || /^consumers are ready/.test(first ?? '') || queue.type === 'stream';
  if (queue.type === 'stream') return null;
  return h('div', { class: `why ${isFine ? '' : 'waits'}` }, h('strong', null, isFine ? 'Status: ' : 'Why messages wait: '), [first, ...rest].filter(Boolean).join('; '), '.',
    why.publishers_wait_for?.length > 0 && [' Publishers blocked: ', why.publishers_wait_for.map((it) => tag('bad', `${plain(typeof it === 'string' ? it : it.alarm ?? JSON.stringify(it))} alarm`))], holders(queue, why));
}

function streamCard(queue, members, tracking) {
  const writer = members[0] ?? {};
  const offsets = Array.isArray(tracking) ? tracking.filter((it) => it.type === 'offset' || it.offset !== undefined) : [];
  const span = Math.max(1, writer.committed_offset - writer.first_offset);
  return section('Stream', facts([
    ['First offset', number(writer.first_offset)], ['Last offset', number(writer.committed_offset)], ['Segments', number(writer.segments)], ['Readers', number(writer.readers)],
    ['Retention', [queue.arguments['x-max-age'] && `for ${queue.arguments['x-max-age']} `, queue.arguments['x-max-length-bytes'] && `up to ${bytes(queue.arguments['x-max-length-bytes'])}`, !queue.arguments['x-max-age'] && !queue.arguments['x-max-length-bytes'] && 'unlimited']],
  ]), offsets.length > 0 && table(['Consumer', '#Stored offset', '#Behind', 'Position'], offsets.map((it) => [name(it.reference ?? it.name), number(it.offset ?? it.value), number(Math.max(0, writer.committed_offset - (it.offset ?? it.value))),
    h('span', { class: 'bar-of wide' }, h('span', { style: { width: `${(100 * Math.max(0, (it.offset ?? it.value) - writer.first_offset) / span).toFixed(1)}%` } }))])));
}

/** Consumers of which one at a time is active. */
function groupsCard({ vhost, name: stream }, groups) {
  return groups.length > 0 && section('Single active consumer groups', table(['Group', '#Consumers', '#Partition', ''], groups.map(({ reference, consumers, partition_index: partition }) => [name(reference), number(consumers), partition < 0 ? '\u2013' : number(partition), button('Reelect', () => dialog({
    title: ['Reelect the active consumer of ', name(reference), '?'], says: h('p', null, 'The active consumer stops first.'), act: 'Reelect',
    requests: () => [{ method: 'POST', address: path`/leveret/streams/${vhost}/${stream}/groups/${reference}`, ctl: ['activate_stream_consumer', '--vhost', vhost, '--stream', stream, '--reference', reference] }], told: 'Reelecting the active consumer',
  }))])));
}

function consumers(page) {
  const { queue, why } = page.data;
  const known = new Map((why?.consumers ?? []).map((it) => [`${it.channel_details.name}\0${it.consumer_tag}`, it]));
  return section('Consumers', table(['Tag', 'Channel', 'User', '#Prefetch', '#Unacked', 'State', 'Acknowledgement mode', 'Arguments', ''], (queue.consumer_details ?? []).map((it) => {
    const more = known.get(`${it.channel_details.name}\0${it.consumer_tag}`);
    return [name(it.consumer_tag), toChannelOf(it.channel_details), name(it.channel_details.user), it.prefetch_count || 'no limit', more ? to(queueLink(queue.vhost, queue.name, { tab: 'messages', which: 'unacked' }), number(more.messages_held_by_channel)) : '\u2013',
      consumerState({ ...it, state: more?.state }), it.ack_required ? 'manual' : 'automatic', fields(it.arguments), mayClose(it.channel_details.user) && button('Cancel', () => cancel(queue, it), { kind: 'danger' })];
  }), 'No consumers'));
}

/** Closes the connection that a channel is of. @param {string} connection */
function closeConnection(connection) {
  dialog({
    title: ['Close ', name(connection), '?'], says: h('p', null, 'Its unacked messages return to their queues. Most clients reconnect.'), act: 'Close the connection', danger: true,
    requests: () => [{ method: 'DELETE', address: path`/connections/${connection}`, headers: { 'x-reason': 'Closed by hand' } }], told: 'Closed',
  });
}

/** Ends a consumer. @param {any} queue @param {any} it */
function cancel({ vhost, name: queue }, { consumer_tag: tag, channel_details: { name: channel } }) {
  dialog({
    title: ['Cancel the consumer ', name(tag), '?'], says: h('p', null, 'The consumer gets no more messages, and its client is told. Its unacked messages stay with the channel ', name(channel), ', which can still acknowledge them.'), act: 'Cancel the consumer', danger: true,
    requests: () => [{ method: 'DELETE', address: `${path`/leveret/consumers/${vhost}/${queue}/${tag}`}?${new URLSearchParams({ channel })}`, ctl: ['cancel_consumer', '--vhost', vhost, '--channel', channel, queue, tag] }], told: 'Cancelled',
  });
}

function bindings(page) {
  const { vhost, data: { queue, bindings: all } } = page;
  if (!all) return page.errors.bindings ? problem(page.errors.bindings) : h('span', { class: 'ghost' });
  return section(['Bindings ', may('write', vhost, queue.name) && button('Bind', () => bindTo({ vhost, destination: queue.name, kind: 'q' }))],
    table(['Exchange', 'Routing key', 'Arguments', ''], all.map((it) => [it.source === '' ? h('span', { class: 'faint' }, '(AMQP default)') : toExchange(vhost, it.source), name(it.routing_key, '(empty)'), fields(it.arguments), it.source !== '' && may('write', vhost, queue.name) && button('Unbind', () => unbind(it), { kind: 'danger' })])));
}

function settings(page) {
  const { queue, settings: all } = page.data;
  if (!all) return page.errors.settings ? problem(page.errors.settings) : h('span', { class: 'ghost' });
  const standing = (it) => [name(it.name), h('code', null, plain(it.pattern)), number(it.priority), it.applies ? tag('good', 'in force') : h('span', { class: 'faint' }, plain(it.reason)), fields(it.definition)];
  return [
    section('Settings in force', table(['Setting', 'Value', 'From', 'Argument', 'Policy', 'Operator policy'], all.settings.map((it) => [h('code', null, it.name), value(it.value), tag('calm', it.origin),
      value(it.given.argument), value(it.given.policy), value(it.given.operator_policy)]), 'Defaults only')),
    section('Declared arguments', fields(queue.arguments)),
    section('Policies', table(['Policy', 'Pattern', '#Priority', 'Status', 'Definition'], all.policies.map(standing), 'None in this virtual host')),
    section('Operator policies', table(['Policy', 'Pattern', '#Priority', 'Status', 'Definition'], all.operator_policies.map(standing), 'None in this virtual host')),
    section('Storage', facts([['Node', name(queue.node)], queue.storage_version !== undefined && ['Version', number(queue.storage_version)], queue.conversion && ['Being converted', queue.conversion], queue.memory !== undefined && ['Memory', bytes(queue.memory)], ['Confirms on', value(queue.confirm_on)],
      queue.members && ['Members', queue.members.map((it) => name(it))]])),
  ];
}
