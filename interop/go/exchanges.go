package main

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
)

func (s *scenarioRun) exchange(ch *amqp.Channel, kind, suffix string, args amqp.Table) string {
	exchange := s.Name(suffix)
	Check(ch.ExchangeDeclare(exchange, kind, true, false, false, false, args))
	return exchange
}

func (s *scenarioRun) bound(ch *amqp.Channel, exchange, suffix string, args amqp.Table, keys ...string) string {
	queue := s.queue(ch, suffix, queueOptions{})
	for _, key := range keys {
		Check(ch.QueueBind(queue, key, exchange, false, args))
	}
	return queue
}

func exchangeDirect(s *scenarioRun) {
	ch := confirming(s.connect())
	exchange := s.exchange(ch, "direct", "x", nil)
	first := s.bound(ch, exchange, "q1", nil, "a")
	second := s.bound(ch, exchange, "q2", nil, "a", "b")
	for _, key := range []string{"a", "b", "c"} {
		publish(ch, exchange, key, key)
	}
	Equal(bodies(ch, first), []string{"a"}, "first queue")
	Equal(bodies(ch, second), []string{"a", "b"}, "second queue")
}

func exchangeFanout(s *scenarioRun) {
	ch := confirming(s.connect())
	exchange := s.exchange(ch, "fanout", "x", nil)
	queues := []string{s.bound(ch, exchange, "q1", nil, "one"), s.bound(ch, exchange, "q2", nil, "two")}
	publish(ch, exchange, "three", "1")
	publish(ch, exchange, "", "2")
	for _, queue := range queues {
		Equal(bodies(ch, queue), []string{"1", "2"}, queue)
	}
}

func exchangeTopic(s *scenarioRun) {
	ch := confirming(s.connect())
	exchange := s.exchange(ch, "topic", "x", nil)
	published := []string{"a.b.c", "a..c", "a", "a.b.c.d", "", "x"}
	expected := map[string][]string{
		"a.*.c": {"a.b.c", "a..c"},
		"a.#":   {"a.b.c", "a..c", "a", "a.b.c.d"},
		"#":     published,
		"*":     {"a", "x"},
	}
	queues := map[string]string{}
	for pattern := range expected {
		queues[pattern] = s.bound(ch, exchange, fmt.Sprintf("q%d", len(queues)), nil, pattern)
	}
	for _, key := range published {
		publish(ch, exchange, key, "m")
	}
	for pattern, queue := range queues {
		var keys []string
		for _, message := range getAll(ch, queue) {
			keys = append(keys, message.RoutingKey)
		}
		Equal(keys, expected[pattern], "keys matched by "+pattern)
	}
}

type headersBinding struct {
	args    amqp.Table
	matched []string
}

// headersCase publishes each header set under a number and expects each binding's list of numbers.
func headersCase(s *scenarioRun, published []amqp.Table, bindings ...headersBinding) {
	ch := confirming(s.connect())
	exchange := s.exchange(ch, "headers", "x", nil)
	var queues []string
	for i, binding := range bindings {
		queues = append(queues, s.bound(ch, exchange, fmt.Sprintf("q%d", i), binding.args, ""))
	}
	for i, headers := range published {
		message := persistent(fmt.Sprint(i + 1))
		message.Headers = headers
		Check(publishAll(ch, exchange, "", false, message))
	}
	for i, binding := range bindings {
		Equal(bodies(ch, queues[i]), binding.matched, fmt.Sprint("matched by ", binding.args))
	}
}

const one = int32(1)

func exchangeHeadersAll(s *scenarioRun) {
	published := []amqp.Table{{"k": one, "s": "v"}, {"k": one}, {"k": "1", "s": "v"}, {"k": one, "s": "v", "more": true}}
	headersCase(s, published, headersBinding{amqp.Table{"x-match": "all", "k": one, "s": "v"}, []string{"1", "4"}})
}

func exchangeHeadersAny(s *scenarioRun) {
	published := []amqp.Table{{"k": one}, {"s": "v"}, {"k": int32(2), "s": "w"}, {}}
	headersCase(s, published, headersBinding{amqp.Table{"x-match": "any", "k": one, "s": "v"}, []string{"1", "2"}})
}

func exchangeHeadersAllWithX(s *scenarioRun) {
	headersCase(s, []amqp.Table{{"k": one, "x-tag": "t"}, {"k": one}},
		headersBinding{amqp.Table{"x-match": "all-with-x", "k": one, "x-tag": "t"}, []string{"1"}},
		headersBinding{amqp.Table{"x-match": "all", "k": one, "x-tag": "t"}, []string{"1", "2"}})
}

func exchangeHeadersAnyWithX(s *scenarioRun) {
	headersCase(s, []amqp.Table{{"x-tag": "t"}, {"k": one}, {"k": int32(2)}},
		headersBinding{amqp.Table{"x-match": "any-with-x", "k": one, "x-tag": "t"}, []string{"1", "2"}},
		headersBinding{amqp.Table{"x-match": "any", "k": one, "x-tag": "t"}, []string{"2"}})
}

func exchangeDefault(s *scenarioRun) {
	conn := s.connect()
	ch := confirming(conn)
	queue := s.durable(ch)
	publish(ch, "", queue, "to the queue's name")
	Equal(bodies(ch, queue), []string{"to the queue's name"}, "bodies")
	text := "ACCESS_REFUSED - operation not permitted on the default exchange"
	closesChannel(conn, 403, text, func(ch *amqp.Channel) error {
		return ch.QueueBind(queue, "another-name", "", false, nil)
	})
}

func exchangeAlternate(s *scenarioRun) {
	ch := confirming(s.connect())
	fallback := s.exchange(ch, "fanout", "ae", nil)
	exchange := s.exchange(ch, "direct", "x", amqp.Table{"alternate-exchange": fallback})
	routed := s.bound(ch, exchange, "q1", nil, "a")
	unrouted := s.bound(ch, fallback, "q2", nil, "")
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	publish(ch, exchange, "a", "a")
	Check(publishAll(ch, exchange, "b", true, persistent("b")))
	Equal(bodies(ch, routed), []string{"a"}, "routed")
	messages := getAll(ch, unrouted)
	Equal(bodiesOf(messages), []string{"b"}, "unrouted")
	Equal([]string{messages[0].Exchange, messages[0].RoutingKey}, []string{exchange, "b"}, "exchange and key")
	Equal(len(returned), 0, "returns")
}

func exchangeInternal(s *scenarioRun) {
	conn := s.connect()
	ch := confirming(conn)
	inner := s.Name("i")
	Check(ch.ExchangeDeclare(inner, "fanout", true, false, true, false, nil))
	outer := s.exchange(ch, "direct", "x", nil)
	Check(ch.ExchangeBind(inner, "k", outer, false, nil))
	queue := s.bound(ch, inner, "q", nil, "")
	publish(ch, outer, "k", "through")
	Equal(bodies(ch, queue), []string{"through"}, "bodies")
	text := fmt.Sprintf("ACCESS_REFUSED - cannot publish to internal exchange '%s' in vhost '/'", inner)
	closesChannel(conn, 403, text, func(ch *amqp.Channel) error {
		return publishAll(ch, inner, "k", false, persistent("refused"))
	})
}

func exchangePassive(ch *amqp.Channel, exchange string) error {
	return ch.ExchangeDeclarePassive(exchange, "direct", false, false, false, false, nil)
}

func exchangeAutoDelete(s *scenarioRun) {
	conn := s.connect()
	ch := plain(conn)
	exchange := s.Name("x")
	Check(ch.ExchangeDeclare(exchange, "fanout", true, true, false, false, nil))
	first := s.bound(ch, exchange, "q1", nil, "")
	second := s.bound(ch, exchange, "q2", nil, "")
	Check(ch.QueueUnbind(first, "", exchange, nil))
	Check(exchangePassive(ch, exchange))
	Check(ch.QueueUnbind(second, "", exchange, nil))
	text := fmt.Sprintf("NOT_FOUND - no exchange '%s' in vhost '/'", exchange)
	closesChannel(conn, 404, text, func(ch *amqp.Channel) error { return exchangePassive(ch, exchange) })
}

func exchangeToExchange(s *scenarioRun) {
	ch := confirming(s.connect())
	source := s.exchange(ch, "topic", "s", nil)
	destination := s.exchange(ch, "fanout", "d", nil)
	Check(ch.ExchangeBind(destination, "a.#", source, false, nil))
	Check(ch.ExchangeBind(source, "a.#", destination, false, nil))
	queue := s.bound(ch, destination, "q", nil, "")
	publish(ch, source, "a.b", "yes")
	publish(ch, source, "z", "no")
	Equal(bodies(ch, queue), []string{"yes"}, "bodies")
	Check(ch.ExchangeUnbind(destination, "a.#", source, false, nil))
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	Check(publishAll(ch, source, "a.b", true, persistent("unbound")))
	Equal(len(returned), 1, "returns after the unbind")
}

func passiveMissing(s *scenarioRun) {
	conn := s.connect()
	missingQueue(conn, s.Name("q"))
	exchange := s.Name("x")
	text := fmt.Sprintf("NOT_FOUND - no exchange '%s' in vhost '/'", exchange)
	closesChannel(conn, 404, text, func(ch *amqp.Channel) error { return exchangePassive(ch, exchange) })
}

func redeclareInequivalent(s *scenarioRun) {
	conn := s.connect()
	ch := plain(conn)
	exchange := s.exchange(ch, "direct", "x", nil)
	withTTL := func(ttl int32) queueOptions { return queueOptions{args: amqp.Table{"x-message-ttl": ttl}} }
	queue := s.queue(ch, "q", withTTL(60000))
	_, err := declare(ch, queue, withTTL(60000))
	Check(err)
	text := fmt.Sprintf("PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '%s' in vhost '/': "+
		"received '70000' but current is '60000'", queue)
	closesChannel(conn, 406, text, func(ch *amqp.Channel) error {
		_, err := declare(ch, queue, withTTL(70000))
		return err
	})
	text = fmt.Sprintf("PRECONDITION_FAILED - inequivalent arg 'type' for exchange '%s' in vhost '/': "+
		"received 'fanout' but current is 'direct'", exchange)
	closesChannel(conn, 406, text, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil)
	})
}
