package main

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
)

func consumePrefetch(s *scenarioRun) {
	conn, watcher, queue := s.filled(20)
	ch := plain(conn)
	Check(ch.Qos(5, 0, false))
	c := consume(ch, queue, consumeOptions{})
	c.wait(5)
	Equal(ready(watcher, queue), 15, "ready")
	for acked := 1; acked <= 20; acked++ {
		Check(ch.Ack(uint64(acked), false))
		c.wait(min(5+acked, 20))
		Equal(ready(watcher, queue), max(15-acked, 0), "ready")
	}
	Equal(flags(c.seen()), numbers(0, 20), "deliveries")
	for i, message := range c.seen() {
		Equal(message.DeliveryTag, uint64(i+1), "delivery tag")
	}
}

func qosPerConsumer(s *scenarioRun) {
	conn, watcher, queueA := s.filled(10)
	queueB := s.queue(watcher, "b", queueOptions{})
	publish(watcher, "", queueB, numbers(0, 10)...)
	ch := plain(conn)
	Check(ch.Qos(2, 0, false))
	consumerA := consume(ch, queueA, consumeOptions{})
	Check(ch.Qos(3, 0, false))
	consumerB := consume(ch, queueB, consumeOptions{})
	consumerA.wait(2)
	consumerB.wait(3)
	Equal([]int{ready(watcher, queueA), ready(watcher, queueB)}, []int{8, 7}, "ready")
	Equal([]int{len(consumerA.seen()), len(consumerB.seen())}, []int{2, 3}, "held")
}

func ackMultiple(s *scenarioRun) {
	conn, watcher, queue := s.filled(10)
	ch := plain(conn)
	consume(ch, queue, consumeOptions{}).wait(10)
	Check(ch.Ack(7, true))
	Check(ch.Close())
	waitReady(watcher, queue, 3)
	Equal(flags(getAll(watcher, queue)), again(numbers(7, 10)), "left")
}

func nackRequeueOrder(s *scenarioRun) {
	conn, watcher, queue := s.filled(5)
	ch := plain(conn)
	c := consume(ch, queue, consumeOptions{})
	c.wait(5)
	c.stop()
	Check(ch.Nack(3, false, true))
	waitReady(watcher, queue, 1)
	Check(ch.Nack(0, true, true))
	waitReady(watcher, queue, 5)
	Equal(flags(getAll(watcher, queue)), again(numbers(0, 5)), "requeued")
}

func nackDiscard(s *scenarioRun) {
	conn, watcher, queue := s.filled(3)
	ch := plain(conn)
	consume(ch, queue, consumeOptions{}).wait(3)
	Check(ch.Nack(3, true, false))
	Check(ch.Close())
	Equal(bodies(watcher, queue), []string{}, "left")
}

func rejectRequeue(s *scenarioRun) {
	conn, _, queue := s.filled(2)
	ch := plain(conn)
	first := get(ch, queue, false)
	Check(ch.Reject(first.DeliveryTag, true))
	second := get(ch, queue, false)
	Equal(flags([]amqp.Delivery{first, second}), []string{"0", "0 again"}, "the same message twice")
	Equal(second.DeliveryTag, 2, "delivery tag")
}

func rejectDiscard(s *scenarioRun) {
	conn, watcher, queue := s.filled(1)
	ch := plain(conn)
	Check(ch.Reject(get(ch, queue, false).DeliveryTag, false))
	Check(ch.Close())
	Equal(bodies(watcher, queue), []string{}, "left")
}

func basicGet(s *scenarioRun) {
	conn, watcher, queue := s.filled(3)
	ch := plain(conn)
	first := get(ch, queue, false)
	second := get(ch, queue, true)
	Equal(flags([]amqp.Delivery{first, second}), []string{"0", "1"}, "got")
	Equal([]uint32{first.MessageCount, second.MessageCount}, []uint32{2, 1}, "message counts")
	Check(ch.Close())
	waitReady(watcher, queue, 2)
	Equal(flags(getAll(watcher, queue)), []string{"0 again", "2"}, "left")
}

func basicGetEmpty(s *scenarioRun) {
	ch := plain(s.connect())
	_, ok, err := ch.Get(s.durable(ch), false)
	Check(err)
	Equal(ok, false, "get-ok")
}

func basicRecover(s *scenarioRun) {
	conn, watcher, queue := s.filled(3)
	ch := plain(conn)
	for range 3 {
		get(ch, queue, false)
	}
	Check(ch.Recover(true))
	waitReady(watcher, queue, 3)
	Equal(flags(getAll(watcher, queue)), again(numbers(0, 3)), "recovered")
}

func unknownDeliveryTag(s *scenarioRun) {
	conn, _, queue := s.filled(1)
	closesChannel(conn, 406, "PRECONDITION_FAILED - unknown delivery tag 99", func(ch *amqp.Channel) error {
		return ch.Ack(99, false)
	})
	closesChannel(conn, 406, "PRECONDITION_FAILED - unknown delivery tag 1", func(ch *amqp.Channel) error {
		message := get(ch, queue, false)
		Check(message.Ack(false))
		return message.Ack(false)
	})
}

func consumerCancel(s *scenarioRun) {
	conn, watcher, queue := s.filled(4)
	ch := plain(conn)
	Check(ch.Qos(2, 0, false))
	c := consume(ch, queue, consumeOptions{})
	c.wait(2)
	c.stop()
	Check(ch.Ack(1, false))
	Check(ch.Ack(2, false))
	Check(ch.Qos(1, 0, false)) // a round trip: the acks have been read and accepted
	Equal(ready(watcher, queue), 2, "ready")
	Equal(len(c.seen()), 2, "deliveries")
}

func consumerCancelNotify(s *scenarioRun) {
	conn := s.connect()
	ch := plain(conn)
	queue := s.durable(ch)
	cancelled := ch.NotifyCancel(make(chan string, 1))
	c := consume(ch, queue, consumeOptions{})
	_, err := plain(conn).QueueDelete(queue, false, false, false)
	Check(err)
	select {
	case tag := <-cancelled:
		Equal(tag, c.tag, "cancelled consumer")
	case <-time.After(WaitDeadline):
		Failf("no basic.cancel from the server")
	}
	s.queue(ch, "other", queueOptions{})
}

func consumerExclusive(s *scenarioRun) {
	conn := s.connect()
	ch := plain(conn)
	shared, owned := s.queue(ch, "shared", queueOptions{}), s.queue(ch, "owned", queueOptions{})
	consume(ch, shared, consumeOptions{})
	consume(ch, owned, consumeOptions{exclusive: true})
	for queue, exclusive := range map[string]bool{shared: true, owned: false} {
		text := fmt.Sprintf("ACCESS_REFUSED - queue '%s' in vhost '/' in exclusive use", queue)
		closesChannel(conn, 403, text, func(ch *amqp.Channel) error {
			_, err := tryConsume(ch, queue, consumeOptions{exclusive: exclusive})
			return err
		})
	}
}

func consumerPriority(s *scenarioRun) {
	conn := s.connect()
	watcher, lowChannel, highChannel := confirming(conn), plain(conn), plain(conn)
	queue := s.durable(watcher)
	Check(lowChannel.Qos(2, 0, false))
	Check(highChannel.Qos(2, 0, false))
	low := consume(lowChannel, queue, consumeOptions{args: amqp.Table{"x-priority": int32(1)}})
	high := consume(highChannel, queue, consumeOptions{args: amqp.Table{"x-priority": int32(10)}})
	publish(watcher, "", queue, numbers(0, 6)...)
	Equal(bodiesOf(high.wait(2)), numbers(0, 2), "high")
	Equal(bodiesOf(low.wait(2)), numbers(2, 4), "low")
	Equal(ready(watcher, queue), 2, "ready")
	Check(highChannel.Ack(1, false))
	Equal(bodiesOf(high.wait(3))[2], "4", "after an ack")
	Equal(len(low.seen()), 2, "low")
}

func consumerTagServerMade(*scenarioRun) {
	panic(Skip("amqp091-go makes its own tag when none is given"))
}

func directReplyTo(s *scenarioRun) {
	conn := s.connect()
	client, server := plain(conn), plain(conn)
	queue := s.durable(server)
	replies := consume(client, "amq.rabbitmq.reply-to", consumeOptions{noAck: true})
	requests := consume(server, queue, consumeOptions{noAck: true})
	request := amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: "c-1", Body: []byte("request")}
	Check(client.Publish("", queue, false, false, request))
	received := requests.wait(1)[0]
	Starts(received.ReplyTo, "amq.rabbitmq.reply-to.", "reply-to")
	reply := amqp.Publishing{CorrelationId: received.CorrelationId, Body: []byte("reply")}
	Check(server.Publish("", received.ReplyTo, false, false, reply))
	answer := replies.wait(1)[0]
	Equal([]string{string(answer.Body), answer.CorrelationId}, []string{"reply", "c-1"}, "reply")
}
