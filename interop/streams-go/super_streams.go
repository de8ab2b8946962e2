package main

import (
	"maps"
	"slices"
	"sync"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/message"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"

	. "leveret.example/interop/harness"
)

var regions = []string{"emea", "amer", "apac"}

func body(message message.StreamMessage) string { return string(message.GetData()[0]) }

// superStream declares one that is deleted at the scenario's end.
func (b *bench) superStream(options stream.SuperStreamOptions) string {
	name := b.Name("super")
	Check(b.env().DeclareSuperStream(name, options))
	b.OnEnd(func() { _ = b.env().DeleteSuperStream(name) })
	return name
}

func (b *bench) publishSuper(name string, by stream.RoutingStrategy, bodies []string) {
	producer, err := b.env().NewSuperStreamProducer(name, stream.NewSuperStreamProducerOptions(by))
	Check(err)
	confirmed := &tally{}
	confirms := producer.NotifyPublishConfirmation(1)
	go func() {
		for partition := range confirms {
			confirmed.add(partition.ConfirmationStatus)
		}
	}()
	for _, body := range bodies {
		Check(producer.Send(text(body)))
	}
	confirmed.wait(len(bodies))
	Check(producer.Close())
}

func (b *bench) readSuper(name string, count int) *inbox {
	got := &inbox{}
	options := stream.NewSuperStreamConsumerOptions().SetOffset(stream.OffsetSpecification{}.First())
	consumer, err := b.env().NewSuperStreamConsumer(name, got.take, options)
	Check(err)
	got.wait(count)
	Check(consumer.Close())
	return got
}

func superHash(b *bench) {
	name := b.superStream(stream.NewPartitionsOptions(3))
	keys := numbers(0, 300)
	twice := slices.Concat(keys, keys)
	b.publishSuper(name, stream.NewHashRoutingStrategy(body), twice)
	got := b.readSuper(name, len(twice))
	Equal(slices.Sorted(slices.Values(got.texts)), slices.Sorted(slices.Values(twice)), "messages")
	partitions := slices.Compact(slices.Sorted(maps.Values(got.partitions)))
	Equal(partitions, []string{name + "-0", name + "-1", name + "-2"}, "a key comes from one partition, all have some")
	Check(b.env().DeleteSuperStream(name))
	exists, err := b.env().StreamExists(name + "-0")
	Check(err)
	Equal(exists, false, "a partition is left")
}

func superKey(b *bench) {
	name := b.superStream(stream.NewBindingsOptions(regions))
	b.publishSuper(name, stream.NewKeyRoutingStrategy(body), slices.Repeat(regions, 100))
	expected := map[string]string{}
	for _, region := range regions {
		expected[region] = name + "-" + region
	}
	Equal(b.readSuper(name, 300).partitions, expected, "partition of each key")
}

// member is a consumer of a group; it goes on behind what the group has stored.
type member struct {
	inbox
	mutex  sync.Mutex
	active map[string]bool
}

func (b *bench) member() (*member, *stream.SingleActiveConsumer) {
	m := &member{active: map[string]bool{}}
	return m, stream.NewSingleActiveConsumer(func(name string, active bool) stream.OffsetSpecification {
		m.mutex.Lock()
		m.active[name] = active
		m.mutex.Unlock()
		stored, err := b.env().QueryOffset("group", name)
		if err != nil {
			return stream.OffsetSpecification{}.First()
		}
		return stream.OffsetSpecification{}.Offset(stored + 1)
	})
}

// nActive is how many streams the member is the active consumer of.
func (m *member) nActive() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	count := 0
	for _, active := range m.active {
		if active {
			count++
		}
	}
	return count
}

func (b *bench) join(name string) (*member, *stream.Consumer) {
	m, single := b.member()
	options := first().SetConsumerName("group").SetManualCommit().SetSingleActiveConsumer(single)
	consumer, err := b.env().NewConsumer(name, m.take, options)
	Check(err)
	return m, consumer
}

func singleActive(b *bench) {
	name := b.stream()
	one, consumer := b.join(name)
	WaitUntil(func() bool { return one.nActive() == 1 }, "the first is active")
	other, waiting := b.join(name)
	b.publish(name, stream.NewProducerOptions(), texts(numbers(0, 100)))
	Equal(one.wait(100), numbers(0, 100), "messages of the first")
	Check(consumer.StoreCustomOffset(99))
	Equal(other.seen(), []string{}, "messages of the second")
	Check(consumer.Close())
	b.publish(name, stream.NewProducerOptions(), texts(numbers(100, 200)))
	Equal(other.wait(100), numbers(100, 200), "messages of the second")
	Check(waiting.Close())
}

func (b *bench) joinSuper(name string) (*member, *stream.SuperStreamConsumer) {
	m, single := b.member()
	options := stream.NewSuperStreamConsumerOptions().SetOffset(stream.OffsetSpecification{}.First()).
		SetConsumerName("group").SetManualCommit().SetSingleActiveConsumer(single)
	consumer, err := b.env().NewSuperStreamConsumer(name, m.take, options)
	Check(err)
	return m, consumer
}

func superSingleActive(b *bench) {
	name := b.superStream(stream.NewPartitionsOptions(3))
	one, consumer := b.joinSuper(name)
	WaitUntil(func() bool { return one.nActive() == 3 }, "the first has all")
	other, left := b.joinSuper(name)
	WaitUntil(func() bool { return one.nActive() == 2 && other.nActive() == 1 }, "two partitions and one")
	bodies := numbers(0, 300)
	b.publishSuper(name, stream.NewHashRoutingStrategy(body), bodies)
	WaitUntil(func() bool { return len(one.seen())+len(other.seen()) == 300 }, "all messages")
	Equal(slices.Sorted(slices.Values(slices.Concat(one.seen(), other.seen()))),
		slices.Sorted(slices.Values(bodies)), "messages")
	Check(consumer.Close())
	WaitUntil(func() bool { return other.nActive() == 3 }, "the second has all")
	Check(left.Close())
}
