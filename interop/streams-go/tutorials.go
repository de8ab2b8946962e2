package main

import (
	"errors"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"

	. "leveret.example/interop/harness"
)

// tutorials does what the two programs of each of RabbitMQ's tutorials about streams do together.
func tutorials(b *bench) {
	name := b.keeping("hello", 5)
	b.publish(name, stream.NewProducerOptions(), texts([]string{"Hello"}))
	Equal(b.read(name, 1, first()), []string{"Hello"}, "the first tutorial")
	tracked := b.keeping("tracked", 2)
	for run := range 2 {
		b.publish(tracked, stream.NewProducerOptions(), texts(numbers(run*100, run*100+100)))
		Equal(b.readTracked(tracked, 100), numbers(run*100, run*100+100), "the second tutorial")
	}
}

// keeping is a stream of so many gigabytes at most.
func (b *bench) keeping(what string, gigabytes int64) string {
	name := b.Name(what)
	options := &stream.StreamOptions{MaxLengthBytes: stream.ByteCapacity{}.GB(gigabytes)}
	Check(b.env().DeclareStream(name, options))
	b.OnEnd(func() { _ = b.env().DeleteStream(name) })
	return name
}

// readTracked goes on behind the offset that is stored, and stores one for every tenth message and the last.
func (b *bench) readTracked(name string, count int) []string {
	begin := stream.OffsetSpecification{}.First()
	stored, err := b.env().QueryOffset("tutorial", name)
	if !errors.Is(err, stream.OffsetNotFoundError) {
		Check(err)
		begin = stream.OffsetSpecification{}.Offset(stored + 1)
	}
	got := &inbox{}
	take := func(context stream.ConsumerContext, message *amqp.Message) {
		got.take(context, message)
		if n := len(got.seen()); n%10 == 0 || n == count {
			Check(context.Consumer.StoreOffset())
		}
	}
	options := from(begin).SetConsumerName("tutorial").SetManualCommit()
	consumer, err := b.env().NewConsumer(name, take, options)
	Check(err)
	seen := got.wait(count)
	Check(consumer.Close())
	last := func() bool {
		now, err := b.env().QueryOffset("tutorial", name)
		return err == nil && now > stored
	}
	WaitUntil(last, "the offset is stored")
	return seen
}
