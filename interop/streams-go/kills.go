package main

import (
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
	// The client waits three seconds and more, by chance, before each attempt to connect again.
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

// kills has the client's producer and consumer connect again by themselves after the node was killed.
func kills(b *bench) {
	node := b.OwnNode()
	name, l := b.stream(), &ledger{confirmed: map[string]bool{}, seen: map[string]bool{}}
	producer, err := ha.NewReliableProducer(b.env(), name, stream.NewProducerOptions(), l.confirm)
	Check(err)
	consumer, err := ha.NewReliableConsumer(b.env(), name, first(), l.take)
	Check(err)
	done, ended := make(chan struct{}), make(chan struct{})
	go publishUntil(producer, done, ended)
	WaitUntil(func() bool { return l.nConfirmed() >= confirmedBeforeKill }, "confirms before the kill")
	node.Kill9()
	node.Start()
	before := l.nConfirmed()
	WaitUntilFor(reconnectDeadline, func() bool { return l.nConfirmed() >= before+confirmedBeforeKill },
		fmt.Sprintf("%d more confirms", confirmedBeforeKill))
	close(done)
	<-ended
	Check(producer.Close())
	WaitUntilFor(reconnectDeadline, l.allSeen, "everything confirmed is seen")
	Check(consumer.Close())
	again := &ledger{confirmed: l.confirmed, seen: map[string]bool{}}
	reader, err := b.env().NewConsumer(name, again.take, first())
	Check(err)
	WaitUntil(again.allSeen, "everything confirmed is in the stream")
	Check(reader.Close())
}

func publishUntil(producer *ha.ReliableProducer, done, ended chan struct{}) {
	defer close(ended)
	for next := 0; ; next++ {
		select {
		case <-done:
			return
		default:
			Check(producer.Send(text(strconv.Itoa(next))))
		}
	}
}
