package main

import (
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
)

const (
	recoveryMessages = 1000
	killAfter        = 300
)

func numbered(i int) amqp.Publishing {
	message := persistent(fmt.Sprintf("body %d", i))
	message.Headers = amqp.Table{"number": int32(i)}
	return message
}

// fillAndRestart makes definitions and messages before the restart and expects all that must be there after it.
func fillAndRestart(s *scenarioRun, restart func()) {
	outer, inner, queue := s.Name("outer"), s.Name("inner"), s.Name("plain")
	priorities, fleeting := s.Name("arguments"), s.Name("fleeting")
	priorityOptions := queueOptions{args: amqp.Table{"x-max-priority": int32(3)}}
	s.OwnNode()
	before := confirming(s.connect())
	Check(before.ExchangeDeclare(outer, "topic", true, false, false, false, nil))
	Check(before.ExchangeDeclare(inner, "fanout", true, false, false, false, nil))
	Check(before.ExchangeBind(inner, "a.#", outer, false, nil))
	for name, options := range map[string]queueOptions{
		queue: {}, priorities: priorityOptions, fleeting: {transient: true},
	} {
		_, err := declare(before, name, options)
		Check(err)
	}
	Check(before.QueueBind(priorities, "", inner, false, nil))
	var messages []amqp.Publishing
	for i := range 1000 {
		messages = append(messages, numbered(i))
		if i%5 == 0 {
			messages = append(messages, amqp.Publishing{DeliveryMode: amqp.Transient, Body: []byte("transient")})
		}
	}
	Check(publishAll(before, "", queue, false, messages...))

	restart()
	conn := s.connect()
	ch := confirming(conn)
	count := 0
	for _, message := range getAll(ch, queue) {
		if string(message.Body) == "transient" {
			continue
		}
		expected := numbered(count)
		Equal(string(message.Body), string(expected.Body), "body")
		Equal(message.Headers, expected.Headers, "headers")
		Equal(message.DeliveryMode, amqp.Persistent, "delivery mode")
		count++
	}
	Equal(count, 1000, "persistent messages")
	Check(ch.ExchangeDeclarePassive(outer, "topic", true, false, false, false, nil))
	Check(ch.ExchangeDeclare(outer, "topic", true, false, false, false, nil))
	_, err := declare(ch, priorities, priorityOptions)
	Check(err)
	publish(ch, outer, "a.b", "routed")
	Equal(bodies(ch, priorities), []string{"routed"}, "bodies")
	missingQueue(conn, fleeting)
}

func restartDurable(s *scenarioRun) {
	fillAndRestart(s, func() {
		s.Node.Kill9()
		s.Node.Start()
	})
}

func restartCleanStop(s *scenarioRun) {
	fillAndRestart(s, func() {
		Check(s.Node.Stop())
		s.Node.Start()
	})
}

// recovery is shared by a publisher and a consumer that reconnect until done.
type recovery struct {
	s         *scenarioRun
	queue     string
	done      chan struct{}
	mutex     sync.Mutex
	confirmed []string
	seen      map[string][]bool
}

func (r *recovery) reconnecting(work func(*amqp.Channel, chan *amqp.Error) error) {
	for {
		if conn, err := dial(r.s.Node.Addr, amqp.Config{}); err == nil {
			lost := conn.NotifyClose(make(chan *amqp.Error, 1))
			if ch, err := conn.Channel(); err == nil {
				_ = work(ch, lost)
			}
			_ = conn.Close()
		}
		select {
		case <-r.done:
			return
		case <-time.After(20 * time.Millisecond): // before the next attempt to connect
		}
	}
}

func (r *recovery) publishAll(ch *amqp.Channel, _ chan *amqp.Error) error {
	if err := ch.Confirm(false); err != nil {
		return err
	}
	for attempt := 0; r.confirmedCount() < recoveryMessages; attempt++ {
		body := fmt.Sprintf("%d:%d", r.confirmedCount(), time.Now().UnixNano())
		if err := publishAll(ch, "", r.queue, false, persistent(body)); err != nil {
			return err
		}
		r.mutex.Lock()
		r.confirmed = append(r.confirmed, body)
		r.mutex.Unlock()
	}
	<-r.done
	return nil
}

func (r *recovery) consumeAll(ch *amqp.Channel, lost chan *amqp.Error) error {
	if err := ch.Qos(20, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(r.queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for {
		select {
		case <-r.done:
			return nil
		case <-lost:
			return nil
		case delivery, open := <-deliveries:
			if !open {
				return nil
			}
			r.mutex.Lock()
			body := string(delivery.Body)
			r.seen[body] = append(r.seen[body], delivery.Redelivered)
			r.mutex.Unlock()
			if err := delivery.Ack(false); err != nil {
				return err
			}
		}
	}
}

func (r *recovery) confirmedCount() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.confirmed)
}

func (r *recovery) complete() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, body := range r.confirmed {
		if r.seen[body] == nil {
			return false
		}
	}
	return len(r.confirmed) == recoveryMessages
}

func restartClientRecovery(s *scenarioRun) {
	r := &recovery{s: s, queue: s.Name("q"), done: make(chan struct{}), seen: map[string][]bool{}}
	n := s.OwnNode()
	s.OnEnd(func() { close(r.done) })
	_, err := declare(plain(s.connect()), r.queue, queueOptions{})
	Check(err)
	go r.reconnecting(r.publishAll)
	go r.reconnecting(r.consumeAll)
	WaitUntil(func() bool { return r.confirmedCount() >= killAfter }, "confirms before the kill")
	n.Kill9()
	n.Start()
	WaitUntilFor(35*time.Second, r.complete, "every confirmed message consumed")
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for body, redelivered := range r.seen {
		for _, flag := range redelivered[1:] {
			Equal(flag, true, "redelivered on the second delivery of "+body)
		}
	}
}
