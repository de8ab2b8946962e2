package main

import (
	"errors"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/message"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"

	. "leveret.example/interop/harness"
)

func declareDelete(b *bench) {
	name := b.Name("s")
	Check(b.env().DeclareStream(name, stream.NewStreamOptions()))
	Check(b.env().DeclareStream(name, stream.NewStreamOptions()))
	other := b.env().DeclareStream(name, stream.NewStreamOptions().SetMaxAge(time.Minute))
	Equal(errors.Is(other, stream.PreconditionFailed), true, "17 for another age")
	Check(b.env().DeleteStream(name))
	exists, err := b.env().StreamExists(name)
	Check(err)
	Equal(exists, false, "it is there still")
	Equal(errors.Is(b.env().DeleteStream(name), stream.StreamDoesNotExist), true, "2 for a second delete")
}

func publishConfirm(b *bench) {
	name := b.stream()
	b.publish(name, stream.NewProducerOptions(), texts(numbers(0, 10_000)))
	Equal(b.read(name, 10_000, first()), numbers(0, 10_000), "messages")
	stats, err := b.env().StreamStats(name)
	Check(err)
	offset, err := stats.FirstOffset()
	Check(err)
	Equal(offset, 0, "first offset")
}

func deduplication(b *bench) {
	name := b.stream()
	options := stream.NewProducerOptions().SetProducerName("writer")
	for _, begin := range []int{0, 50} {
		messages := texts(numbers(begin, begin+100))
		for i, message := range messages {
			message.SetPublishingId(int64(begin + i))
		}
		b.publish(name, options, messages)
		last, err := b.env().QuerySequence("writer", name)
		Check(err)
		Equal(last, int64(begin+99), "last publishing id")
	}
	b.publish(name, stream.NewProducerOptions(), texts([]string{"marker"}))
	Equal(b.read(name, 151, first()), append(numbers(0, 150), "marker"), "messages")
}

// filter publishes waves, each a chunk or several of one filter value: those of another are passed over.
func filter(b *bench) {
	name := b.stream()
	for _, region := range []string{"north", "south", "", "north"} {
		options := stream.NewProducerOptions()
		if region != "" {
			value := func(message.StreamMessage) string { return region }
			options.SetFilter(stream.NewProducerFilter(value))
		}
		b.publish(name, options, texts(slices.Repeat([]string{region}, 200)))
	}
	north := slices.Repeat([]string{"north"}, 200)
	none := slices.Repeat([]string{""}, 200)
	Equal(b.read(name, 400, filtered(false)), slices.Concat(north, north), "north alone")
	Equal(b.read(name, 600, filtered(true)), slices.Concat(north, none, north), "north, and what has no value")
}

// filtered takes everything: what is left out, the broker left out.
func filtered(unfiltered bool) *stream.ConsumerOptions {
	all := func(*amqp.Message) bool { return true }
	return first().SetFilter(stream.NewConsumerFilter([]string{"north"}, unfiltered, all))
}

// compressed reads sub-batches over both protocols.
func compressed(by stream.Compression) func(*bench) {
	return func(b *bench) {
		name := b.stream()
		options := stream.NewProducerOptions().SetSubEntrySize(100).SetCompression(by)
		b.publish(name, options, texts(numbers(0, nMessages)))
		Equal(b.read(name, nMessages, first()), numbers(0, nMessages), "messages")
		Equal(b.read091(name, nMessages), numbers(0, nMessages), "messages over AMQP 0-9-1")
	}
}

func (b *bench) read091(name string, count int) []string {
	conn, err := amqp091.Dial("amqp://guest:guest@" + b.Node.Addr)
	Check(err)
	defer conn.Close()
	channel, err := conn.Channel()
	Check(err)
	Check(channel.Qos(100, 0, false))
	deliveries, err := channel.Consume(name, "", false, false, false, false, amqp091.Table{"x-stream-offset": "first"})
	Check(err)
	bodies := []string{}
	for len(bodies) < count {
		select {
		case delivery := <-deliveries:
			bodies = append(bodies, string(delivery.Body))
			Check(delivery.Ack(false))
		case <-time.After(WaitDeadline):
			Failf("%d messages of %d", len(bodies), count)
		}
	}
	return bodies
}
