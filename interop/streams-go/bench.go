package main

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/message"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"

	. "leveret.example/interop/harness"
)

const nMessages = 1000

// bench is one run of a scenario with the client's environment, from when it is first asked for.
type bench struct {
	*Run
	environment *stream.Environment
}

func newBench(run *Run) *bench { return &bench{Run: run} }

func (b *bench) env() *stream.Environment {
	if b.environment == nil {
		host, _, err := net.SplitHostPort(b.Node.Addr)
		Check(err)
		options := stream.NewEnvironmentOptions().SetHost(host).SetPort(b.Node.StreamPort)
		b.environment, err = stream.NewEnvironment(options)
		Check(err)
		b.OnEnd(func() { _ = b.environment.Close() })
	}
	return b.environment
}

// stream declares one that is deleted at the scenario's end.
func (b *bench) stream() string {
	name := b.Name("s")
	Check(b.env().DeclareStream(name, stream.NewStreamOptions()))
	b.OnEnd(func() { _ = b.env().DeleteStream(name) })
	return name
}

// filled is a stream with the texts "0", "1", ...
func (b *bench) filled() string {
	name := b.stream()
	b.publish(name, stream.NewProducerOptions(), texts(numbers(0, nMessages)))
	return name
}

func text(body string) message.StreamMessage { return amqp.NewMessage([]byte(body)) }

func texts(bodies []string) []message.StreamMessage {
	list := []message.StreamMessage{}
	for _, body := range bodies {
		list = append(list, text(body))
	}
	return list
}

func numbers(from, to int) []string {
	list := []string{}
	for i := from; i < to; i++ {
		list = append(list, strconv.Itoa(i))
	}
	return list
}

// publish opens a producer, sends, waits until each message is confirmed, and closes it.
func (b *bench) publish(name string, options *stream.ProducerOptions, messages []message.StreamMessage) {
	producer, err := b.env().NewProducer(name, options)
	Check(err)
	confirmed := counted(producer.NotifyPublishConfirmation())
	for _, message := range messages {
		Check(producer.Send(message))
	}
	confirmed.wait(len(messages))
	Check(producer.Close())
}

// tally counts what is confirmed.
type tally struct {
	mutex            sync.Mutex
	confirmed, other int
}

func counted(confirms stream.ChannelPublishConfirm) *tally {
	t := &tally{}
	go func() {
		for statuses := range confirms {
			t.add(statuses)
		}
	}()
	return t
}

func (t *tally) add(statuses []*stream.ConfirmationStatus) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, status := range statuses {
		if status.IsConfirmed() {
			t.confirmed++
		} else {
			t.other++
		}
	}
}

func (t *tally) wait(count int) {
	WaitUntil(func() bool {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		Equal(t.other, 0, "messages that failed")
		return t.confirmed >= count
	}, fmt.Sprintf("%d confirms", count))
}

// inbox is what a consumer is given.
type inbox struct {
	mutex      sync.Mutex
	texts      []string
	partitions map[string]string
}

func (i *inbox) take(context stream.ConsumerContext, message *amqp.Message) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	body := string(message.Data[0])
	i.texts = append(i.texts, body)
	if i.partitions == nil {
		i.partitions = map[string]string{}
	}
	from := context.Consumer.GetStreamName()
	if before, seen := i.partitions[body]; seen && before != from {
		from = "several"
	}
	i.partitions[body] = from
}

func (i *inbox) seen() []string {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return append([]string{}, i.texts...)
}

func (i *inbox) wait(count int) []string {
	WaitUntil(func() bool { return len(i.seen()) >= count }, fmt.Sprintf("%d messages", count))
	return i.seen()
}

// read gives the first texts that a consumer with these options is given.
func (b *bench) read(name string, count int, options *stream.ConsumerOptions) []string {
	got := &inbox{}
	consumer, err := b.env().NewConsumer(name, got.take, options)
	Check(err)
	seen := got.wait(count)
	Check(consumer.Close())
	return seen
}

func from(offset stream.OffsetSpecification) *stream.ConsumerOptions {
	return stream.NewConsumerOptions().SetOffset(offset)
}

func first() *stream.ConsumerOptions { return from(stream.OffsetSpecification{}.First()) }

func now() int64 { return time.Now().UnixMilli() }
