package main

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
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
	Equal(bodies(owner, queue), []string{"from elsewhere"}, "bodies")
}

func queueExclusiveGone(s *scenarioRun) {
	first, second, watcher := s.connect(), s.connect(), s.connect()
	options := queueOptions{transient: true, exclusive: true}
	ch := confirming(first)
	queue := s.queue(ch, "q", options)
	publish(ch, "", queue, "dies with its connection")
	Check(first.Close())
	declared, err := declare(plain(second), queue, options)
	Check(err)
	Equal(declared.Messages, 0, "messages")
	Check(second.Close())
	missingQueue(watcher, queue)
}

func queueServerNamed(s *scenarioRun) {
	conn := s.connect()
	ch := confirming(conn)
	exchange := s.exchange(ch, "direct", "x", nil)
	options := queueOptions{transient: true, exclusive: true}
	declared, err := declare(ch, "", options)
	Check(err)
	Starts(declared.Name, "amq.gen-", "name")
	Check(ch.QueueBind("", "key", exchange, false, nil))
	c := consume(ch, "", consumeOptions{noAck: true})
	publish(ch, exchange, "key", "1")
	publish(ch, "", declared.Name, "2")
	Equal(bodiesOf(c.wait(2)), []string{"1", "2"}, "bodies")
	_, err = passive(ch, declared.Name)
	Check(err)
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
	Check(err)
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
	Check(err)
	Equal(purged, 3, "purge-ok")
	Equal(ready(watcher, queue), 0, "ready")
	Check(ch.Nack(2, true, true))
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
	Check(remove(ch))
	missingQueue(conn, queue)
}

func queueDeleteIfEmpty(s *scenarioRun) {
	conn, ch, queue := s.filled(1)
	remove := func(ch *amqp.Channel) error { _, err := ch.QueueDelete(queue, false, true, false); return err }
	closesChannel(conn, 406, fmt.Sprintf("PRECONDITION_FAILED - queue '%s' in vhost '/' not empty", queue), remove)
	_, err := ch.QueuePurge(queue, false)
	Check(err)
	Check(remove(ch))
	missingQueue(conn, queue)
	count, err := ch.QueueDelete(queue, false, false, false)
	Check(err)
	Equal(count, 0, "deleted messages")
}
