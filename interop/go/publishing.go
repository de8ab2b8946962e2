package main

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
)

const (
	body15Mb = 15_000_000
	body20Mb = 20 * 1024 * 1024
)

func confirmSingle(s *scenarioRun) {
	ch := confirming(s.connect())
	queue := s.durable(ch)
	publish(ch, "", queue, "kept")
	publish(ch, "", s.Name("nowhere"), "dropped")
	Equal(bodies(ch, queue), []string{"kept"}, "bodies")
}

func confirmBatch(s *scenarioRun) {
	ch := confirming(s.connect())
	queue := s.durable(ch)
	for range 10 {
		publish(ch, "", queue, numbers(0, 100)...)
	}
	waitReady(ch, queue, 1000)
}

func confirmMixed(s *scenarioRun) {
	ch := confirming(s.connect())
	queues := []string{
		s.queue(ch, "durable", queueOptions{}),
		s.queue(ch, "transient", queueOptions{transient: true, exclusive: true}),
	}
	expected := [2][]string{}
	var pending []*amqp.DeferredConfirmation
	for i := range 500 {
		target, body := i/2%2, strconv.Itoa(i)
		expected[target] = append(expected[target], body)
		message := amqp.Publishing{DeliveryMode: amqp.Transient + uint8(i%2), Body: []byte(body)}
		confirmation, err := ch.PublishWithDeferredConfirm("", queues[target], false, false, message)
		Check(err)
		pending = append(pending, confirmation)
	}
	for _, confirmation := range pending {
		Equal(confirmation.Wait(), true, "acked")
	}
	for target, queue := range queues {
		Equal(bodies(ch, queue), expected[target], queue)
	}
}

// confirmMultiple sees the confirms after the library has split multiple acks and put them in order.
func confirmMultiple(s *scenarioRun) {
	ch := confirming(s.connect())
	queue := s.durable(ch)
	const total = 2000
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, total+1))
	for i := range total {
		Check(ch.Publish("", queue, false, false, persistent(strconv.Itoa(i))))
	}
	for tag := uint64(1); tag <= total; tag++ {
		select {
		case confirm := <-confirms:
			Equal(confirm, amqp.Confirmation{DeliveryTag: tag, Ack: true}, "confirm")
		case <-time.After(WaitDeadline):
			Failf("no confirm for %d", tag)
		}
	}
	waitReady(ch, queue, total)
	Equal(len(confirms), 0, "confirms beyond the last publish")
}

// mandatoryReturnBeforeAck listens on unbuffered channels, so that the library hands over in the order of the wire.
func mandatoryReturnBeforeAck(s *scenarioRun) {
	ch := confirming(s.connect())
	key := s.Name("nowhere")
	returns := ch.NotifyReturn(make(chan amqp.Return))
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation))
	message := persistent("come back")
	message.MessageId, message.Headers = "m-1", amqp.Table{"h": "v"}
	Check(ch.Publish("", key, true, false, message))
	select {
	case returned := <-returns:
		Equal(returned.ReplyCode, 312, "reply code")
		Equal(returned.ReplyText, "NO_ROUTE", "reply text")
		Equal([]string{returned.Exchange, returned.RoutingKey}, []string{"", key}, "exchange and key")
		Equal(string(returned.Body), "come back", "body")
		Equal(returned.MessageId, "m-1", "message id")
		Equal(returned.Headers, amqp.Table{"h": "v"}, "headers")
		Equal(returned.DeliveryMode, amqp.Persistent, "delivery mode")
	case confirm := <-confirms:
		Failf("confirm before the return: %v", confirm)
	case <-time.After(WaitDeadline):
		Failf("no return")
	}
	select {
	case confirm := <-confirms:
		Equal(confirm, amqp.Confirmation{DeliveryTag: 1, Ack: true}, "confirm")
	case <-time.After(WaitDeadline):
		Failf("no confirm")
	}
}

func publishMissingExchange(s *scenarioRun) {
	exchange := s.Name("x")
	text := fmt.Sprintf("NOT_FOUND - no exchange '%s' in vhost '/'", exchange)
	closesChannel(s.connect(), 404, text, func(ch *amqp.Channel) error {
		return publishAll(ch, exchange, "k", false, persistent("m"))
	})
}

func propertiesIntact(s *scenarioRun) {
	ch := confirming(s.connect())
	queue := s.durable(ch)
	moment := time.Unix(1_700_000_000, 0)
	sent := amqp.Publishing{
		Headers: amqp.Table{
			"text": "grün", "bytes": []byte{0, 255}, "byte": byte(200), "int8": int8(-5), "int16": int16(-300),
			"int": int32(7), "negative": int32(-7), "long": int64(1 << 40), "flag": true, "float": float32(0.5),
			"double": 1.5, "decimal": amqp.Decimal{Scale: 2, Value: 314}, "when": moment, "nothing": nil,
			"array": []any{int32(1), "two", amqp.Table{"three": int32(3)}},
			"table": amqp.Table{"inner": amqp.Table{"deep": "yes"}},
		},
		ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: amqp.Persistent, Priority: 5,
		CorrelationId: "correlation", ReplyTo: "reply", Expiration: "600000", MessageId: "message", Timestamp: moment,
		Type: "kind", UserId: "guest", AppId: "interop",
	}
	Check(publishAll(ch, "", queue, false, sent))
	got := get(ch, queue, true)
	Equal(len(got.Body), 0, "body size")
	received := amqp.Publishing{
		Headers: got.Headers, ContentType: got.ContentType, ContentEncoding: got.ContentEncoding,
		DeliveryMode: got.DeliveryMode, Priority: got.Priority, CorrelationId: got.CorrelationId, ReplyTo: got.ReplyTo,
		Expiration: got.Expiration, MessageId: got.MessageId, Timestamp: got.Timestamp, Type: got.Type,
		UserId: got.UserId, AppId: got.AppId,
	}
	Equal(received, sent, "properties")
}

func body15MbIntact(s *scenarioRun) {
	ch := confirming(s.connect())
	queue := s.durable(ch)
	body := make([]byte, body15Mb)
	_, err := rand.Read(body)
	Check(err)
	Check(publishAll(ch, "", queue, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}))
	received := consume(ch, queue, consumeOptions{noAck: true}).wait(1)[0].Body
	Equal(sha256.Sum256(received), sha256.Sum256(body), "SHA-256")
}

func body20MbRefused(s *scenarioRun) {
	conn := s.connect()
	queue := s.durable(plain(conn))
	text := fmt.Sprintf("PRECONDITION_FAILED - message size %d is larger than configured max size 16777216", body20Mb)
	closesChannel(conn, 406, text, func(ch *amqp.Channel) error {
		return publishAll(ch, "", queue, false, amqp.Publishing{Body: make([]byte, body20Mb)})
	})
	ch := confirming(conn)
	publish(ch, "", queue, "still usable")
	Equal(bodies(ch, queue), []string{"still usable"}, "bodies")
}

func send(ch *amqp.Channel, queue string, contents ...string) {
	for _, content := range contents {
		Check(ch.Publish("", queue, false, false, persistent(content)))
	}
}

func txCommit(s *scenarioRun) {
	conn := s.connect()
	ch, watcher := plain(conn), plain(conn)
	queue := s.durable(ch)
	Check(ch.Tx())
	send(ch, queue, "1", "2", "3")
	Check(ch.Qos(1, 0, false)) // a round trip: the publishes have been read
	Equal(ready(watcher, queue), 0, "ready before the commit")
	Check(ch.TxCommit())
	waitReady(watcher, queue, 3)
	for _, expected := range []string{"1", "2", "3"} {
		message := get(ch, queue, false)
		Equal(string(message.Body), expected, "body")
		Check(message.Ack(false))
	}
	Check(ch.TxCommit())
	Check(ch.Close())
	Equal(ready(watcher, queue), 0, "ready after the acks were committed")
}

func txRollback(s *scenarioRun) {
	conn := s.connect()
	ch, watcher := plain(conn), plain(conn)
	queue := s.durable(ch)
	Check(ch.Tx())
	send(ch, queue, "1", "2")
	Check(ch.TxRollback())
	send(ch, queue, "3")
	Check(ch.TxCommit())
	waitReady(watcher, queue, 1)
	message := get(ch, queue, false)
	Equal(string(message.Body), "3", "body")
	Check(message.Ack(false))
	Check(ch.TxRollback())
	Check(ch.Close())
	waitReady(watcher, queue, 1)
	Equal(flags(getAll(watcher, queue)), []string{"3 again"}, "after the close")
}
