package main

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/ha"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"

	. "leveret.example/interop/harness"
)

const (
	confirmedBeforeKill = 5_000
	// The client waits up to eleven seconds, by chance, before it connects again.
	reconnectDeadline = 45 * time.Second
)

// ledger is what has been confirmed, and what has been seen.
type ledger struct {
	mutex           sync.Mutex
	confirmed, seen map[string]bool
}

func (l *ledger) confirm(statuses []*stream.ConfirmationStatus) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, status := range statuses {
		if status.IsConfirmed() {
			l.confirmed[string(status.GetMessage().GetData()[0])] = true
		}
	}
}

func (l *ledger) take(_ stream.ConsumerContext, message *amqp.Message) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.seen[string(message.Data[0])] = true
}

func (l *ledger) nConfirmed() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.confirmed)
}

func (l *ledger) allSeen() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for text := range l.confirmed {
		if !l.seen[text] {
			return false
		}
	}
	return true
}

// kills has the client's consumer connect again by itself after the node was killed, and a publisher that
// connects anew: the client's own waits up to half a minute before it does, and sometimes for ever.
func kills(b *bench) {
	node := b.OwnNode()
	name, l := b.stream(), &ledger{confirmed: map[string]bool{}, seen: map[string]bool{}}
	consumer, err := ha.NewReliableConsumer(b.env(), name, first(), l.take)
	Check(err)
	Check(l.publishTo(b.env(), name, confirmedBeforeKill, func() {
		node.Kill9()
		node.Start()
	}))
	for err := errors.New("lost"); err != nil; {
		b.environment = nil
		err = l.publishTo(b.env(), name, 2*confirmedBeforeKill, func() {})
	}
	WaitUntilFor(reconnectDeadline, l.allSeen, "everything confirmed is seen")
	Check(consumer.Close())
	again := &ledger{confirmed: l.confirmed, seen: map[string]bool{}}
	reader, err := b.env().NewConsumer(name, again.take, first())
	Check(err)
	WaitUntil(again.allSeen, "everything confirmed is in the stream")
	Check(reader.Close())
}

// publishTo publishes until so many messages are confirmed in all, then does what comes next in the middle of it.
func (l *ledger) publishTo(env *stream.Environment, name string, count int, then func()) error {
	producer, err := env.NewProducer(name, stream.NewProducerOptions())
	if err != nil {
		return err
	}
	confirms := producer.NotifyPublishConfirmation()
	go func() {
		for statuses := range confirms {
			l.confirm(statuses)
		}
	}()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for next := l.nConfirmed(); ; next++ {
			select {
			case <-ended:
				return
			default:
				if producer.Send(text(strconv.Itoa(next))) != nil {
					return
				}
			}
		}
	}()
	WaitUntil(func() bool { return l.nConfirmed() >= count }, fmt.Sprintf("%d confirms", count))
	then()
	return nil
}
