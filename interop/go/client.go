package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
)

func dial(addr string, config amqp.Config) (*amqp.Connection, error) {
	if config.Vhost == "" {
		config.Vhost = "/"
	}
	return amqp.DialConfig("amqp://guest:guest@"+addr, config)
}

// connect opens a connection that is closed at the scenario's end.
func (s *scenarioRun) connect() *amqp.Connection { return s.connectAt(s.Node.Addr, amqp.Config{}) }

func (s *scenarioRun) connectAt(addr string, config amqp.Config) *amqp.Connection {
	conn, err := dial(addr, config)
	Check(err)
	s.OnEnd(func() { _ = conn.Close() })
	return conn
}

func plain(conn *amqp.Connection) *amqp.Channel {
	ch, err := conn.Channel()
	Check(err)
	return ch
}

func confirming(conn *amqp.Connection) *amqp.Channel {
	ch := plain(conn)
	Check(ch.Confirm(false))
	return ch
}

func cleanUp(n *Node, names []string) {
	conn, err := dial(n.Addr, amqp.Config{})
	Check(err)
	defer conn.Close()
	ch := plain(conn)
	for _, name := range names {
		_, err := ch.QueueDelete(name, false, false, false)
		Check(err)
		Check(ch.ExchangeDelete(name, false, false))
	}
}

type queueOptions struct {
	transient, autoDelete, exclusive bool
	args                             amqp.Table
}

func declare(ch *amqp.Channel, queue string, o queueOptions) (amqp.Queue, error) {
	return ch.QueueDeclare(queue, !o.transient, o.autoDelete, o.exclusive, false, o.args)
}

func (s *scenarioRun) queue(ch *amqp.Channel, suffix string, o queueOptions) string {
	queue := s.Name(suffix)
	_, err := declare(ch, queue, o)
	Check(err)
	return queue
}

func (s *scenarioRun) durable(ch *amqp.Channel) string { return s.queue(ch, "q", queueOptions{}) }

func passive(ch *amqp.Channel, queue string) (amqp.Queue, error) {
	return ch.QueueDeclarePassive(queue, false, false, false, false, nil)
}

func ready(ch *amqp.Channel, queue string) int {
	found, err := passive(ch, queue)
	Check(err)
	return found.Messages
}

func waitReady(ch *amqp.Channel, queue string, count int) {
	WaitUntil(func() bool { return ready(ch, queue) == count }, fmt.Sprintf("%d ready in %s", count, queue))
}

func persistent(body string) amqp.Publishing {
	return amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
}

// publishAll publishes on a confirm channel and waits for all acks.
func publishAll(ch *amqp.Channel, exchange, key string, mandatory bool, messages ...amqp.Publishing) error {
	pending := make([]*amqp.DeferredConfirmation, 0, len(messages))
	for _, message := range messages {
		confirmation, err := ch.PublishWithDeferredConfirm(exchange, key, mandatory, false, message)
		if err != nil {
			return err
		}
		pending = append(pending, confirmation)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, confirmation := range pending {
		if acked, err := confirmation.WaitContext(ctx); err != nil || !acked {
			return fmt.Errorf("message %d acked=%t: %w", confirmation.DeliveryTag, acked, err)
		}
	}
	return nil
}

func publish(ch *amqp.Channel, exchange, key string, contents ...string) {
	messages := make([]amqp.Publishing, 0, len(contents))
	for _, content := range contents {
		messages = append(messages, persistent(content))
	}
	Check(publishAll(ch, exchange, key, false, messages...))
}

// getAll takes everything ready in the queue, with no-ack.
func getAll(ch *amqp.Channel, queue string) []amqp.Delivery {
	var messages []amqp.Delivery
	for {
		message, ok, err := ch.Get(queue, true)
		Check(err)
		if !ok {
			return messages
		}
		messages = append(messages, message)
	}
}

func get(ch *amqp.Channel, queue string, noAck bool) amqp.Delivery {
	message, ok, err := ch.Get(queue, noAck)
	Check(err)
	Equal(ok, true, "get-ok")
	return message
}

func bodiesOf(messages []amqp.Delivery) []string {
	contents := []string{}
	for _, message := range messages {
		contents = append(contents, string(message.Body))
	}
	return contents
}

func bodies(ch *amqp.Channel, queue string) []string { return bodiesOf(getAll(ch, queue)) }

// flags writes bodies with their redelivered flag: "3" or "3 again".
func flags(messages []amqp.Delivery) []string {
	seen := []string{}
	for _, message := range messages {
		seen = append(seen, flagged(string(message.Body), message.Redelivered))
	}
	return seen
}

func flagged(body string, redelivered bool) string {
	if redelivered {
		return body + " again"
	}
	return body
}

func numbers(from, to int) []string {
	list := []string{}
	for i := from; i < to; i++ {
		list = append(list, strconv.Itoa(i))
	}
	return list
}

func again(bodies []string) []string {
	list := slices.Clone(bodies)
	for i := range list {
		list[i] = flagged(list[i], true)
	}
	return list
}

// filled gives a connection, a confirm channel and a queue holding bodies 0..count-1.
func (s *scenarioRun) filled(count int) (*amqp.Connection, *amqp.Channel, string) {
	conn := s.connect()
	ch := confirming(conn)
	queue := s.durable(ch)
	publish(ch, "", queue, numbers(0, count)...)
	return conn, ch, queue
}

// consumer keeps what arrives.
type consumer struct {
	ch       *amqp.Channel
	tag      string
	mutex    sync.Mutex
	messages []amqp.Delivery
}

type consumeOptions struct {
	noAck, exclusive bool
	args             amqp.Table
}

var consumerCount int

func tryConsume(ch *amqp.Channel, queue string, o consumeOptions) (*consumer, error) {
	consumerCount++
	c := &consumer{ch: ch, tag: fmt.Sprintf("consumer-%d", consumerCount)}
	deliveries, err := ch.Consume(queue, c.tag, o.noAck, o.exclusive, false, false, o.args)
	if err != nil {
		return nil, err
	}
	go func() {
		for delivery := range deliveries {
			c.mutex.Lock()
			c.messages = append(c.messages, delivery)
			c.mutex.Unlock()
		}
	}()
	return c, nil
}

func consume(ch *amqp.Channel, queue string, o consumeOptions) *consumer {
	c, err := tryConsume(ch, queue, o)
	Check(err)
	return c
}

func (c *consumer) seen() []amqp.Delivery {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.messages)
}

func (c *consumer) wait(count int) []amqp.Delivery {
	WaitUntil(func() bool { return len(c.seen()) >= count }, fmt.Sprintf("%d deliveries", count))
	Equal(len(c.seen()), count, "deliveries")
	return c.seen()
}

func (c *consumer) stop() { Check(c.ch.Cancel(c.tag, false)) }

// closesChannel expects the work to make the server close its channel with this code and text; the connection survives.
func closesChannel(conn *amqp.Connection, code int, text string, work func(*amqp.Channel) error) {
	closed := closeError(conn, code, text, work)
	Equal(closed.Reason, text, "reply text")
}

func closesChannelPrefix(conn *amqp.Connection, code int, prefix string, work func(*amqp.Channel) error) {
	Starts(closeError(conn, code, prefix, work).Reason, prefix, "reply text")
}

func closeError(conn *amqp.Connection, code int, text string, work func(*amqp.Channel) error) *amqp.Error {
	ch := confirming(conn)
	notified := ch.NotifyClose(make(chan *amqp.Error, 1))
	_ = work(ch) // what the channel was closed with is what counts
	select {
	case closed := <-notified:
		if closed == nil {
			Failf("channel closed without an error, expected %d %s", code, text)
		}
		Equal(closed.Code, code, "reply code")
		Check(plain(conn).Close())
		return closed
	case <-time.After(WaitDeadline):
		Failf("channel not closed with %d %s", code, text)
		return nil
	}
}

func missingQueue(conn *amqp.Connection, queue string) {
	closesChannel(conn, 404, fmt.Sprintf("NOT_FOUND - no queue '%s' in vhost '/'", queue), func(ch *amqp.Channel) error {
		_, err := passive(ch, queue)
		return err
	})
}
