// Bindings: made and taken away.

import { path } from './api.js';
import { h } from './dom.js';
import { argumentsOf, dialog, name } from './parts.js';

/**
 * Binds something to an exchange.
 * @param {{vhost: string, source?: string, destination?: string, kind?: string}} known
 */
export function bindTo({ vhost, source, destination, kind }) {
  dialog({
    title: destination === undefined ? ['Bind to ', name(source)] : ['Bind ', name(destination)], act: 'Bind',
    fields: [
      { name: 'source', label: 'Exchange', required: true, value: source ?? '', only: () => source === undefined },
      { name: 'kind', label: 'Destination type', type: 'select', options: [['q', 'Queue'], ['e', 'Exchange']], value: kind ?? 'q', only: () => kind === undefined },
      { name: 'destination', label: 'Destination', required: true, value: destination ?? '', only: () => destination === undefined },
      { name: 'routing_key', label: 'Routing key', help: 'Topic exchanges: words separated by dots; * is one word, # any number' },
      { name: 'arguments', label: 'Arguments', type: 'textarea', rows: 3, placeholder: 'key = value, one a line', help: 'Headers exchanges: required headers, and x-match = all or any' },
    ],
    requests: (values) => [{ method: 'POST', address: path`/bindings/${vhost}/e/${values.source}/${values.kind}/${values.destination}`, body: { routing_key: values.routing_key, arguments: argumentsOf(values.arguments) } }],
    told: 'Bound',
  });
}

/** @param {any} binding */
export function unbind(binding) {
  const kind = binding.destination_type === 'queue' ? 'q' : 'e';
  dialog({
    title: 'Unbind?', says: h('p', null, name(binding.destination), ' gets no more messages from ', name(binding.source), ' with the routing key ', name(binding.routing_key, '(empty)'), '.'), act: 'Unbind', danger: true,
    requests: () => [{ method: 'DELETE', address: path`/bindings/${binding.vhost}/e/${binding.source}/${kind}/${binding.destination}/${binding.properties_key}` }],
    told: 'Unbound',
  });
}
