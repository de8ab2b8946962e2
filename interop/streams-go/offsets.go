package main

import (
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"

	. "leveret.example/interop/harness"
)

func offsetFirst(b *bench) {
	Equal(b.read(b.filled(), nMessages, first()), numbers(0, nMessages), "messages")
}

func offsetNumber(b *bench) {
	options := from(stream.OffsetSpecification{}.Offset(777))
	Equal(b.read(b.filled(), nMessages-777, options), numbers(777, nMessages), "messages")
}

func offsetLast(b *bench) {
	name := b.filled()
	b.publish(name, stream.NewProducerOptions(), texts([]string{"last"}))
	Equal(b.read(name, 1, from(stream.OffsetSpecification{}.Last())), []string{"last"}, "messages")
}

func offsetNext(b *bench) {
	name, got := b.filled(), &inbox{}
	consumer, err := b.env().NewConsumer(name, got.take, from(stream.OffsetSpecification{}.Next()))
	Check(err)
	b.more(name)
	Equal(got.wait(10), numbers(nMessages, nMessages+10), "messages")
	Check(consumer.Close())
}

func offsetTimestamp(b *bench) {
	name := b.filled()
	filled := now()
	WaitUntil(func() bool { return now() > filled+1 }, "a later time")
	since := now()
	b.more(name)
	options := from(stream.OffsetSpecification{}.Timestamp(since))
	Equal(b.read(name, 10, options), numbers(nMessages, nMessages+10), "messages")
}

// offsetStored ends a consumer that has stored an offset; another of its name goes on behind it.
func offsetStored(b *bench) {
	name := b.filled()
	options := first().SetConsumerName("reader").SetManualCommit()
	consumer, err := b.env().NewConsumer(name, (&inbox{}).take, options)
	Check(err)
	Check(consumer.StoreCustomOffset(499))
	Check(consumer.Close())
	stored, err := b.env().QueryOffset("reader", name)
	Check(err)
	Equal(stored, 499, "stored offset")
	again := from(stream.OffsetSpecification{}.Offset(stored + 1)).SetConsumerName("reader")
	Equal(b.read(name, nMessages-500, again), numbers(500, nMessages), "messages")
}

func (b *bench) more(name string) {
	b.publish(name, stream.NewProducerOptions(), texts(numbers(nMessages, nMessages+10)))
}
