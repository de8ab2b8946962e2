package main

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

func queueExclusive(s *scenarioRun) {
	owner, other := plain(s.connect()), s.connect()
	queue := s.queue(owner, "q", queueOptions{transient: true, exclusive: true})
	text := fmt.Sprintf("RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '%s' in vhost '/'", queue)
	attempts := []func(*amqp.Channel) error{
		func(ch *amqp.Channel) error { _, err := passive(ch, queue); return err },
		func(ch *amqp.Channel) error { _, err := tryConsume(ch, queue, consumeOptions{}); return err },
		func(ch *amqp.Channel) error { _, _, err := ch.Get(queue, false); return err },
		func(ch *amqp.Channel) error { _, err := ch.QueuePurge(queue, false); return err },
		func(ch *amqp.Channel) error { _, err := ch.QueueDelete(queue, false, false, false); return err },
	}
	for _, attempt := range attempts {
		closesChannelPrefix(other, 405, text, attempt)
	}
	publish(confirming(other), "", queue, "from elsewhere")
	equal(bodies(owner, queue), []string{"from elsewhere"}, "bodies")
}

func queueExclusiveGone(s *scenarioRun) {
	first, second, watcher := s.connect(), s.connect(), s.connect()
	options := queueOptions{transient: true, exclusive: true}
	ch := confirming(first)
	queue := s.queue(ch, "q", options)
	publish(ch, "", queue, "dies with its connection")
	check(first.Close())
	declared, err := declare(plain(second), queue, options)
	check(err)
	equal(declared.Messages, 0, "messages")
	check(second.Close())
	missingQueue(watcher, queue)
}

func queueServerNamed(s *scenarioRun) {
	conn := s.connect()
	ch := confirming(conn)
	exchange := s.exchange(ch, "direct", "x", nil)
	options := queueOptions{transient: true, exclusive: true}
	declared, err := declare(ch, "", options)
	check(err)
	starts(declared.Name, "amq.gen-", "name")
	check(ch.QueueBind("", "key", exchange, false, nil))
	c := consume(ch, "", consumeOptions{noAck: true})
	publish(ch, exchange, "key", "1")
	publish(ch, "", declared.Name, "2")
	equal(bodiesOf(c.wait(2)), []string{"1", "2"}, "bodies")
	_, err = passive(ch, declared.Name)
	check(err)
	closesChannelPrefix(conn, 403, "ACCESS_REFUSED - queue name 'amq.gen-", func(ch *amqp.Channel) error {
		_, err := declare(ch, declared.Name, options)
		return err
	})
}

func queueAutoDelete(s *scenarioRun) {
	conn := s.connect()
	ch := plain(conn)
	queue := s.queue(ch, "q", queueOptions{transient: true, autoDelete: true})
	first, second := consume(ch, queue, consumeOptions{}), consume(ch, queue, consumeOptions{})
	first.stop()
	_, err := passive(ch, queue)
	check(err)
	second.stop()
	missingQueue(conn, queue)
}

func queuePurge(s *scenarioRun) {
	conn, watcher, queue := s.filled(5)
	ch := plain(conn)
	for range 2 {
		get(ch, queue, false)
	}
	purged, err := watcher.QueuePurge(queue, false)
	check(err)
	equal(purged, 3, "purge-ok")
	equal(ready(watcher, queue), 0, "ready")
	check(ch.Nack(2, true, true))
	waitReady(watcher, queue, 2)
}

func queueDeleteIfUnused(s *scenarioRun) {
	conn := s.connect()
	ch := plain(conn)
	queue := s.durable(ch)
	c := consume(ch, queue, consumeOptions{})
	remove := func(ch *amqp.Channel) error { _, err := ch.QueueDelete(queue, true, false, false); return err }
	closesChannel(conn, 406, fmt.Sprintf("PRECONDITION_FAILED - queue '%s' in vhost '/' in use", queue), remove)
	c.stop()
	check(remove(ch))
	missingQueue(conn, queue)
}

func queueDeleteIfEmpty(s *scenarioRun) {
	conn, ch, queue := s.filled(1)
	remove := func(ch *amqp.Channel) error { _, err := ch.QueueDelete(queue, false, true, false); return err }
	closesChannel(conn, 406, fmt.Sprintf("PRECONDITION_FAILED - queue '%s' in vhost '/' not empty", queue), remove)
	_, err := ch.QueuePurge(queue, false)
	check(err)
	check(remove(ch))
	missingQueue(conn, queue)
	count, err := ch.QueueDelete(queue, false, false, false)
	check(err)
	equal(count, 0, "deleted messages")
}
