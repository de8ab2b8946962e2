package main

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/Azure/go-amqp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	. "leveret.example/interop/harness"
)

const offset = "rabbitmq:stream-offset-spec"

func pointer[T any](value T) *T { return &value }

func goesThrough(b *bench, queueType string) {
	queue := b.queue("q", kind(queueType))
	b.publishNumbers(queue, 0, nMessages)
	receiver := b.receiver(queue, &amqp.ReceiverOptions{Credit: 50})
	Equal(b.take(receiver, nMessages), numbers(0, nMessages), "bodies")
	Check(receiver.Close(b.ctx))
	b.waitReady(queue, 0)
}

func settledBothWays(b *bench) {
	queue := b.queue("q", nil)
	sender := b.sender(address(queue), &amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeSettled.Ptr()})
	for _, body := range numbers(0, 100) {
		Check(sender.Send(b.ctx, message(body), nil))
	}
	settled := amqp.SenderSettleModeSettled.Ptr()
	receiver := b.receiver(queue, &amqp.ReceiverOptions{Credit: 100, RequestedSenderSettleMode: settled})
	bodies := []string{}
	for range 100 {
		bodies = append(bodies, string(b.next(receiver).GetData()))
	}
	Equal(bodies, numbers(0, 100), "bodies")
}

func bareMessage(b *bench) {
	queue := b.queue("q", kind("quorum"))
	sent := &amqp.Message{
		Header:      &amqp.MessageHeader{Durable: true, Priority: 3},
		Annotations: amqp.Annotations{"x-mine": "yes"},
		Properties: &amqp.MessageProperties{MessageID: uint64(7), CorrelationID: amqp.UUID{1, 2, 3}, Subject: pointer("hares"),
			To: pointer("somewhere"), ContentType: pointer("text/plain"), GroupID: pointer("warren")},
		ApplicationProperties: map[string]any{"ears": int32(2), "soft": true, "name": "leveret"},
		Value:                 []any{int32(1), "two", map[any]any{"three": int32(3)}},
		Footer:                amqp.Annotations{"x-foot": "hind"},
	}
	b.publish(address(queue), sent)
	received := b.next(b.receiver(queue, nil))
	show := func(it *amqp.Message) string {
		p := it.Properties
		return fmt.Sprint(it.Header.Durable, it.Header.Priority, it.Annotations["x-mine"], p.MessageID, p.CorrelationID,
			*p.Subject, *p.To, *p.ContentType, *p.GroupID, it.ApplicationProperties, it.Value, it.Footer)
	}
	Equal(show(received), show(sent), "message")
	Equal(received.Annotations["x-routing-key"], any(queue), "annotation of the broker")
}

func fromAmqp091(b *bench) {
	queue := b.queue("q", nil)
	Check(b.channel.PublishWithContext(b.ctx, "", queue, false, false, amqp091.Publishing{
		Headers: amqp091.Table{"ears": int64(2), "x-mine": "yes"}, MessageId: "m", ContentType: "text/plain",
		AppId: "warren", ReplyTo: "r", DeliveryMode: amqp091.Persistent, Body: []byte("hello"),
	}))
	received := b.next(b.receiver(queue, nil))
	properties := received.Properties
	found := fmt.Sprint(string(received.GetData()), received.ApplicationProperties, received.Annotations["x-mine"],
		properties.MessageID, *properties.ContentType, *properties.GroupID, *properties.ReplyTo, received.Header.Durable)
	Equal(found, "hellomap[ears:2]yesmtext/plainwarren/queues/rtrue", "message")
}

func toAmqp091(b *bench) {
	queue := b.queue("q", nil)
	sent := message("hello")
	sent.Properties = &amqp.MessageProperties{MessageID: "m", ReplyTo: pointer("/queues/a%20b"), GroupID: pointer("warren")}
	sent.Annotations = amqp.Annotations{"x-mine": "yes"}
	sent.ApplicationProperties = map[string]any{"ears": int32(2)}
	b.publish(address(queue), sent)
	got, ok, err := b.channel.Get(queue, true)
	Check(err)
	found := fmt.Sprint(ok, string(got.Body), got.MessageId, got.ReplyTo, got.AppId, got.DeliveryMode, got.Headers)
	Equal(found, "truehelloma bwarren2 map[ears:2 x-mine:yes]", "message")
}

func outcomes(b *bench) {
	queue := b.queue("q", kind("quorum"))
	b.publishNumbers(queue, 0, 1)
	receiver := b.receiver(queue, nil)
	header := func(it *amqp.Message) string { return fmt.Sprint(it.Header.FirstAcquirer, it.Header.DeliveryCount) }
	first := b.next(receiver)
	Equal(header(first), "true 0", "the first time")
	Check(receiver.ReleaseMessage(b.ctx, first))
	second := b.next(receiver)
	Equal(header(second), "false 0", "the second time")
	Check(receiver.ModifyMessage(b.ctx, second, &amqp.ModifyMessageOptions{DeliveryFailed: true}))
	third := b.next(receiver)
	Equal(header(third), "false 1", "the third time")
	Check(receiver.AcceptMessage(b.ctx, third))
	Check(receiver.Close(b.ctx))
	b.waitReady(queue, 0)
}

func deadLetters(b *bench) {
	dead := b.queue("dead", nil)
	queue := b.queue("q", amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	b.publishNumbers(queue, 0, 2)
	receiver := b.receiver(queue, nil)
	Check(receiver.RejectMessage(b.ctx, b.next(receiver), nil))
	Check(receiver.ModifyMessage(b.ctx, b.next(receiver), &amqp.ModifyMessageOptions{UndeliverableHere: true}))
	letters := b.receiver(dead, &amqp.ReceiverOptions{Credit: 2})
	first := b.next(letters)
	found := fmt.Sprint(first.Annotations["x-first-death-reason"], " ", first.Annotations["x-first-death-queue"])
	Equal(found, "rejected "+queue, "annotations")
	Equal(string(first.GetData())+string(b.next(letters).GetData()), "01", "bodies")
}

func modifiedAnnotations(b *bench) {
	queue := b.queue("q", kind("quorum"))
	b.publishNumbers(queue, 0, 1)
	receiver := b.receiver(queue, nil)
	options := amqp.ModifyMessageOptions{DeliveryFailed: true, Annotations: amqp.Annotations{"x-by": "go", "x-tries": int32(1)}}
	Check(receiver.ModifyMessage(b.ctx, b.next(receiver), &options))
	again := b.next(receiver)
	Equal(fmt.Sprint(again.Annotations["x-by"], again.Annotations["x-tries"]), "go1", "annotations")
}

// outcomeNames tell the outcomes in words.
func outcomeNames(states []amqp.DeliveryState) []string {
	names := []string{}
	for _, state := range states {
		names = append(names, fmt.Sprintf("%T", state)[len("*encoding.State"):])
	}
	return names
}

func unroutable(b *bench) {
	b.begin()
	sender := b.sender("/exchanges/amq.direct/nowhere", nil)
	Equal(outcomeNames(b.states(sender, message("lost"))), []string{"Released"}, "outcome")
}

func fullQueue(b *bench) {
	queue := b.queue("q", amqp091.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	b.publishNumbers(queue, 0, 1)
	state := b.states(b.sender(address(queue), nil), message("1"))[0]
	rejected, ok := state.(*amqp.StateRejected)
	Equal(ok, true, "rejected")
	Equal(rejected.Error.Info["queue"], any(queue), "queue of the refusal")
}

func anonymousTerminus(b *bench) {
	queue := b.queue("q", nil)
	to := func(node string) *amqp.Message {
		it := message("m")
		it.Properties = &amqp.MessageProperties{To: &node}
		return it
	}
	sender := b.sender("", nil)
	states := b.states(sender, to(address(queue)), message("m"), to("/exchanges/nowhere/k"), to(address("nowhere")), to(address(queue)))
	Equal(outcomeNames(states), []string{"Accepted", "Rejected", "Rejected", "Released", "Accepted"}, "outcomes")
	b.waitReady(queue, 2)
}

func foreignUser(b *bench) {
	queue := b.queue("q", nil)
	sent := message("m")
	sent.Properties = &amqp.MessageProperties{UserID: []byte("somebody")}
	err := b.sender(address(queue), nil).Send(b.ctx, sent, nil)
	Equal(condition(err), amqp.ErrCondUnauthorizedAccess, "condition")
	b.publishNumbers(queue, 0, 1)
}

func topicExchange(b *bench) {
	queue := b.queue("q", nil)
	Check(b.channel.QueueBind(queue, "a.*", "amq.topic", false, nil))
	b.publish("/exchanges/amq.topic/a.b%2Fc", message("0"))
	Equal(b.next(b.receiver(queue, nil)).Annotations["x-routing-key"], any("a.b/c"), "key")
}

func headersExchange(b *bench) {
	queue := b.queue("q", nil)
	Check(b.channel.QueueBind(queue, "", "amq.headers", false, amqp091.Table{"x-match": "all", "ears": 2, "name": queue}))
	sent := message("0")
	sent.ApplicationProperties = map[string]any{"ears": int64(2), "name": queue}
	b.publish("/exchanges/amq.headers", sent)
	other := message("1")
	other.ApplicationProperties = map[string]any{"ears": int64(3), "name": queue}
	Equal(outcomeNames(b.states(b.sender("/exchanges/amq.headers", nil), other)), []string{"Released"}, "outcome")
	b.waitReady(queue, 1)
}

func largeMessages(b *bench) {
	queue := b.queue("q", nil)
	body := string(make([]byte, 1_000_000))
	b.publish(address(queue), message(body), message(body), message(body))
	for _, received := range b.take(b.receiver(queue, nil), 3) {
		Equal(received == body, true, "body")
	}
}

func credit(b *bench) {
	queue := b.queue("q", nil)
	b.publishNumbers(queue, 0, 20)
	receiver := b.receiver(queue, &amqp.ReceiverOptions{Credit: -1})
	Check(receiver.IssueCredit(7))
	Equal(b.take(receiver, 7), numbers(0, 7), "bodies")
	Check(receiver.IssueCredit(20))
	Equal(b.take(receiver, 13), numbers(7, 20), "bodies")
	Check(receiver.DrainCredit(b.ctx, nil))
	b.publishNumbers(queue, 20, 21)
	b.waitReady(queue, 1)
	Equal(receiver.Prefetched() == nil, true, "no more")
}

func temporaryQueue(b *bench) {
	b.begin()
	receiver, err := b.session.NewReceiver(b.ctx, "", &amqp.ReceiverOptions{
		DynamicAddress: true, SourceCapabilities: []string{"temporary-queue"}})
	Check(err)
	Starts(receiver.Address(), "/queues/amq.dyn-", "address")
	b.publish(receiver.Address(), message("0"))
	Equal(b.take(receiver, 1), []string{"0"}, "bodies")
	Check(receiver.Close(b.ctx))
	_, err = b.session.NewSender(b.ctx, receiver.Address(), nil)
	Equal(condition(err), amqp.ErrCondNotFound, "condition once it is gone")
}

func replies(b *bench) {
	queue := b.queue("q", nil)
	receiver, err := b.session.NewReceiver(b.ctx, "", &amqp.ReceiverOptions{
		DynamicAddress: true, SourceCapabilities: []string{"rabbitmq:volatile-queue"}, Credit: 10,
		SourceExpiryPolicy: amqp.ExpiryPolicyLinkDetach, RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr()})
	Check(err)
	sent := message("ask")
	sent.Properties = &amqp.MessageProperties{ReplyTo: pointer(receiver.Address()), MessageID: "c"}
	b.publish(address(queue), sent)
	request := b.next(b.receiver(queue, nil))
	answer := message("answer")
	answer.Properties = &amqp.MessageProperties{CorrelationID: request.Properties.MessageID}
	b.publish(*request.Properties.ReplyTo, answer)
	reply := b.next(receiver)
	Equal(fmt.Sprint(string(reply.GetData()), reply.Properties.CorrelationID), "answerc", "reply")
}

func streamOffsets(b *bench) {
	stream := b.queue("q", kind("stream"))
	b.publishNumbers(stream, 0, 20)
	from := func(spec any) *amqp.Receiver {
		filters := []amqp.LinkFilter{amqp.NewLinkFilter(offset, 0, spec)}
		receiver := b.receiver(stream, &amqp.ReceiverOptions{Credit: 50, Filters: filters})
		Equal(receiver.LinkSourceFilterValue(offset) != nil, true, "the filter is in place")
		return receiver
	}
	Equal(b.take(from("first"), 20), numbers(0, 20), "from the first on")
	Equal(b.take(from(uint64(15)), 5), numbers(15, 20), "from an offset on")
	Equal(b.take(from("1h"), 20), numbers(0, 20), "from an hour ago on")
	next := from("next")
	b.publishNumbers(stream, 20, 21)
	Equal(b.take(next, 1), []string{"20"}, "the next")
}

func propertyFilters(b *bench) {
	stream := b.queue("q", kind("stream"))
	sent := []*amqp.Message{}
	for i, body := range numbers(0, 100) {
		it := message(body)
		it.Properties = &amqp.MessageProperties{Subject: pointer("order." + []string{"us", "eu"}[i%2])}
		it.ApplicationProperties = map[string]any{"n": int64(i), "colour": strconv.FormatBool(i%10 == 0)}
		sent = append(sent, it)
	}
	b.publish(address(stream), sent...)
	read := func(count int, filters ...amqp.LinkFilter) []string {
		filters = append(filters, amqp.NewLinkFilter(offset, 0, "first"))
		return b.take(b.receiver(stream, &amqp.ReceiverOptions{Credit: 100, Filters: filters}), count)
	}
	found := read(10, amqp.NewLinkFilter("amqp:properties-filter", 0x173, map[amqp.Symbol]any{"subject": "&s:.us"}),
		amqp.NewLinkFilter("amqp:application-properties-filter", 0x174, map[string]any{"colour": "true"}))
	Equal(found, []string{"0", "10", "20", "30", "40", "50", "60", "70", "80", "90"}, "by properties")
	found = read(5, amqp.NewLinkFilter("sql-filter", 0x120, "p.subject LIKE '%.eu' AND n > 90"))
	Equal(found, []string{"91", "93", "95", "97", "99"}, "by SQL")
}

func activeConsumer(b *bench) {
	queue := b.queue("q", amqp091.Table{"x-queue-type": "quorum", "x-single-active-consumer": true})
	open := func() (*amqp.Receiver, *atomic.Value) {
		told := &atomic.Value{}
		receiver := b.receiver(queue, &amqp.ReceiverOptions{Credit: 10, OnLinkStateProperties: func(properties map[string]any) {
			if active, ok := properties["rabbitmq:active"]; ok {
				told.Store(active)
			}
		}})
		WaitUntil(func() bool { return told.Load() != nil }, "a flow that tells activity")
		return receiver, told
	}
	first, toldFirst := open()
	second, toldSecond := open()
	Equal(fmt.Sprint(toldFirst.Load(), toldSecond.Load()), "true false", "told at first")
	Check(first.Close(b.ctx))
	WaitUntil(func() bool { return toldSecond.Load() == true }, "a take-over")
	b.publishNumbers(queue, 0, 3)
	Equal(b.take(second, 3), numbers(0, 3), "bodies")
}

func lostClient(b *bench) {
	queue := b.queue("q", nil)
	b.publishNumbers(queue, 0, 10)
	connection, err := b.dial("guest")
	Check(err)
	session, err := connection.NewSession(b.ctx, nil)
	Check(err)
	receiver, err := session.NewReceiver(b.ctx, address(queue), &amqp.ReceiverOptions{Credit: 10})
	Check(err)
	for range 10 {
		b.next(receiver)
	}
	Check(connection.Close())
	b.waitReady(queue, 10)
	again := b.receiver(queue, &amqp.ReceiverOptions{Credit: 10})
	Equal(b.take(again, 10), numbers(0, 10), "bodies")
}

func queueDeleted(b *bench) {
	queue := b.queue("q", nil)
	receiver := b.receiver(queue, nil)
	_, err := b.channel.QueueDelete(queue, false, false, false)
	Check(err)
	_, err = receiver.Receive(b.ctx, nil)
	Equal(condition(err), amqp.ErrCondResourceDeleted, "condition")
}

func badAddresses(b *bench) {
	b.begin()
	for target, expected := range map[string]amqp.ErrCond{
		address("nowhere"):     amqp.ErrCondNotFound,
		"/exchanges/nowhere/k": amqp.ErrCondNotFound,
		"/queue/q":             amqp.ErrCondInvalidField,
	} {
		_, err := b.session.NewSender(b.ctx, target, nil)
		Equal(condition(err), expected, target)
	}
	_, err := b.session.NewReceiver(b.ctx, address("nowhere"), nil)
	Equal(condition(err), amqp.ErrCondNotFound, "receiver")
}

func refusedLogins(b *bench) {
	_, err := b.dial("wrong")
	Equal(err != nil, true, "refused")
}

func restart(b *bench) {
	b.OwnNode()
	queue := b.queue("q", kind("quorum"))
	b.publishNumbers(queue, 0, nMessages)
	b.Node.Kill9()
	b.Node.Start()
	b.begin()
	Equal(b.take(b.receiver(queue, &amqp.ReceiverOptions{Credit: nMessages}), nMessages), numbers(0, nMessages), "bodies")
}
