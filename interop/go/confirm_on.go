package main

import (
	"fmt"
	"slices"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
)

var consumedModes = []string{"ack", "ack-direct"}

// confirmHandler is a channel in confirm mode that keeps the bodies of what was acked and nacked.
type confirmHandler struct {
	ch      *amqp.Channel
	mutex   sync.Mutex
	waiting map[uint64]string
	acked   []string
	nacked  []string
}

func (s *scenarioRun) confirmHandler() *confirmHandler {
	conn := s.connect()
	if conn.Properties["leveret_version"] == nil {
		panic(Skip("only Leveret confirms after consuming"))
	}
	h := &confirmHandler{ch: confirming(conn), waiting: map[uint64]string{}}
	confirms := h.ch.NotifyPublish(make(chan amqp.Confirmation, 100))
	go func() {
		for confirm := range confirms {
			h.settled(confirm)
		}
	}()
	return h
}

func (h *confirmHandler) settled(confirm amqp.Confirmation) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	body := h.waiting[confirm.DeliveryTag]
	if confirm.Ack {
		h.acked = append(h.acked, body)
	} else {
		h.nacked = append(h.nacked, body)
	}
}

func (h *confirmHandler) publishTo(exchange, key string, contents ...string) {
	for i, content := range contents {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent - uint8(i%2), Body: []byte(content)}
		h.mutex.Lock()
		h.waiting[h.ch.GetNextPublishSeqNo()] = content
		h.mutex.Unlock()
		Check(h.ch.Publish(exchange, key, false, false, message))
	}
}

func (h *confirmHandler) publish(queue string, contents ...string) {
	h.publishTo("", queue, contents...)
}

func (h *confirmHandler) heard() ([]string, []string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return sorted(h.acked), sorted(h.nacked)
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// hears expects exactly these to be settled. The library hands out a confirm only after all before it, so that those
// of a scenario have to come in the order of its publishes.
func (h *confirmHandler) hears(acked, nacked []string) {
	WaitUntil(func() bool {
		a, n := h.heard()
		return len(a) >= len(acked) && len(n) >= len(nacked)
	}, fmt.Sprintf("acks of %v and nacks of %v", acked, nacked))
	for range 2 { // what the node had to say before is heard after these
		Check(h.ch.ExchangeDeclarePassive("amq.direct", "direct", true, false, false, false, nil))
	}
	a, n := h.heard()
	Equal(a, sorted(acked), "acked")
	Equal(n, sorted(nacked), "nacked")
}

func (s *scenarioRun) confirmingOn(ch *amqp.Channel, mode, suffix string, more amqp.Table) string {
	args := amqp.Table{"x-confirm-on": mode}
	for name, value := range more {
		args[name] = value
	}
	return s.queue(ch, suffix, queueOptions{args: args})
}

func confirmOnAck(s *scenarioRun) {
	for _, mode := range consumedModes {
		h, ch := s.confirmHandler(), plain(s.connect())
		queue := s.confirmingOn(ch, mode, mode, nil)
		all := numbers(0, 4)
		h.publish(queue, all...)
		h.hears(nil, nil)
		messages := consume(ch, queue, consumeOptions{}).wait(4)
		h.hears(nil, nil)
		Check(messages[1].Ack(true))
		h.hears(all[:2], nil)
		Check(messages[2].Ack(false))
		h.hears(all[:3], nil)
		Check(messages[3].Ack(false))
		h.hears(all, nil)
	}
}

func confirmOnEnqueue(s *scenarioRun) {
	h, ch := s.confirmHandler(), plain(s.connect())
	h.publish(s.confirmingOn(ch, "enqueue", "q", nil), "kept")
	h.hears([]string{"kept"}, nil)
}

func confirmOnRequeue(s *scenarioRun) {
	h, ch := s.confirmHandler(), plain(s.connect())
	queue := s.confirmingOn(ch, "ack", "q", nil)
	c := consume(ch, queue, consumeOptions{})
	h.publish(queue, "back")
	Check(c.wait(1)[0].Reject(true))
	Check(c.wait(2)[1].Nack(false, true))
	Equal(flags(c.wait(3)), []string{"back", "back again", "back again"}, "deliveries")
	h.hears(nil, nil)
	Check(c.seen()[2].Ack(false))
	heard := []string{"back"}
	h.hears(heard, nil)
	for _, mode := range consumedModes {
		lost := s.connect()
		queue := s.confirmingOn(ch, mode, mode, nil)
		h.publish(queue, mode)
		consume(plain(lost), queue, consumeOptions{}).wait(1)
		Check(lost.Close())
		other := consume(ch, queue, consumeOptions{})
		Equal(flags(other.wait(1)), []string{mode + " again"}, "deliveries")
		h.hears(heard, nil)
		Check(other.seen()[0].Ack(false))
		heard = append(heard, mode)
		h.hears(heard, nil)
	}
}

func confirmOnDiscard(s *scenarioRun) {
	h, ch := s.confirmHandler(), plain(s.connect())
	rejecting := s.confirmingOn(ch, "ack", "rejecting", nil)
	h.publish(rejecting, "rejected")
	Check(consume(ch, rejecting, consumeOptions{}).wait(1)[0].Reject(false))
	heard := []string{"rejected"}
	h.hears(nil, heard)
	h.publish(s.confirmingOn(ch, "ack", "expiring", amqp.Table{"x-message-ttl": 50}), "expired")
	heard = append(heard, "expired")
	h.hears(nil, heard)
	purged := s.confirmingOn(ch, "ack", "purged", nil)
	h.publish(purged, "purged")
	h.hears(nil, heard)
	_, err := ch.QueuePurge(purged, false)
	Check(err)
	heard = append(heard, "purged")
	h.hears(nil, heard)
	h.publish(purged, "deleted")
	h.hears(nil, heard)
	_, err = ch.QueueDelete(purged, false, false, false)
	Check(err)
	heard = append(heard, "deleted")
	h.hears(nil, heard)
	h.publish(s.confirmingOn(ch, "ack", "dropping", amqp.Table{"x-max-length": 1}), "dropped", "stays")
	heard = append(heard, "dropped")
	h.hears(nil, heard)
	full := amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}
	other := s.confirmHandler()
	refusing := s.confirmingOn(ch, "ack", "refusing", full)
	other.publish(refusing, "taken", "refused")
	other.hears(nil, nil)
	Check(get(ch, refusing, false).Ack(false))
	other.hears([]string{"taken"}, []string{"refused"})
}

func confirmOnLimits(s *scenarioRun) {
	h, ch := s.confirmHandler(), plain(s.connect())
	queue := s.confirmingOn(ch, "ack", "few", amqp.Table{"x-confirm-on-max-pending": 2})
	h.publish(queue, "1", "2", "3")
	h.hears(nil, nil)
	c := consume(ch, queue, consumeOptions{})
	Check(c.wait(2)[0].Ack(false))
	h.hears([]string{"1"}, nil)
	h.publish(queue, "4")
	c.wait(3)
	Check(c.seen()[2].Ack(true))
	h.hears([]string{"1", "2", "4"}, []string{"3"})
	other := s.confirmHandler()
	queue = s.confirmingOn(ch, "ack", "small", amqp.Table{"x-confirm-on-max-pending-bytes": 5})
	other.publish(queue, "1234", "56")
	other.hears(nil, nil)
	Check(get(ch, queue, false).Ack(false))
	other.hears([]string{"1234"}, []string{"56"})
	queue = s.confirmingOn(ch, "ack", "served", amqp.Table{"x-confirm-on-no-consumer": "nack"})
	other.publish(queue, "nobody")
	other.hears([]string{"1234"}, []string{"56", "nobody"})
	c = consume(ch, queue, consumeOptions{})
	other.publish(queue, "somebody")
	Check(c.wait(1)[0].Ack(false))
	other.hears([]string{"1234", "somebody"}, []string{"56", "nobody"})
}

func confirmOnTwoQueues(s *scenarioRun) {
	h, ch := s.confirmHandler(), plain(s.connect())
	exchange := s.exchange(ch, "fanout", "x", nil)
	var consumers []*consumer
	for _, mode := range consumedModes {
		queue := s.confirmingOn(ch, mode, mode, nil)
		Check(ch.QueueBind(queue, "", exchange, false, nil))
		consumers = append(consumers, consume(ch, queue, consumeOptions{}))
	}
	Check(ch.QueueBind(s.queue(ch, "plain", queueOptions{}), "", exchange, false, nil))
	h.publishTo(exchange, "", "both")
	Check(consumers[0].wait(1)[0].Ack(false))
	h.hears(nil, nil)
	Check(consumers[1].wait(1)[0].Ack(false))
	h.hears([]string{"both"}, nil)
	h.publishTo(exchange, "", "one")
	Check(consumers[0].wait(2)[1].Reject(false))
	h.hears([]string{"both"}, []string{"one"})
	Check(consumers[1].wait(2)[1].Ack(false))
	h.hears([]string{"both"}, []string{"one"})
}

func confirmOnDeadLetter(s *scenarioRun) {
	h, ch := s.confirmHandler(), plain(s.connect())
	dead := s.confirmingOn(ch, "ack", "dead", nil)
	queue := s.confirmingOn(ch, "ack", "q", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	h.publish(queue, "1", "2")
	Check(consume(ch, queue, consumeOptions{}).wait(2)[1].Nack(true, false))
	letters := consume(ch, dead, consumeOptions{}).wait(2)
	h.hears(nil, nil)
	Check(letters[0].Ack(false))
	h.hears([]string{"1"}, nil)
	Check(letters[1].Reject(false))
	h.hears([]string{"1"}, []string{"2"})
}

func confirmOnDirect540(s *scenarioRun) {
	h, conn := s.confirmHandler(), s.connect()
	queue := s.confirmingOn(plain(conn), "ack-direct", "q", nil)
	h.publish(queue, "1", "2")
	text := fmt.Sprintf("NOT_IMPLEMENTED - basic.reject and basic.nack are not implemented for queue '%s' in vhost '/': "+
		"it confirms on ack-direct (x-confirm-on)", queue)
	closesChannel(conn, 540, text, func(ch *amqp.Channel) error {
		return consume(ch, queue, consumeOptions{}).wait(2)[0].Reject(true)
	})
	h.hears(nil, nil)
	c := consume(plain(conn), queue, consumeOptions{})
	Equal(flags(c.wait(2)), []string{"1 again", "2 again"}, "deliveries")
	Check(c.seen()[1].Ack(true))
	h.hears([]string{"1", "2"}, nil)
}

func confirmOnAutoAck(s *scenarioRun) {
	for _, mode := range consumedModes {
		h, ch := s.confirmHandler(), plain(s.connect())
		queue := s.confirmingOn(ch, mode, mode, nil)
		h.publish(queue, "1", "2")
		h.hears(nil, nil)
		c := consume(ch, queue, consumeOptions{noAck: true})
		c.wait(2)
		h.hears([]string{"1", "2"}, nil)
		c.stop()
		h.publish(queue, "3")
		h.hears([]string{"1", "2"}, nil)
		Equal(string(get(ch, queue, true).Body), "3", "body")
		h.hears([]string{"1", "2", "3"}, nil)
	}
}

func confirmOnTimeout(s *scenarioRun) {
	for _, mode := range consumedModes {
		h, ch, holder := s.confirmHandler(), plain(s.connect()), plain(s.connect())
		queue := s.confirmingOn(ch, mode, mode, amqp.Table{"x-confirm-timeout": 300})
		h.publish(queue, "ready")
		h.hears(nil, []string{"ready"})
		getEmpty(ch, queue)
		c := consume(holder, queue, consumeOptions{})
		h.publish(queue, "held", "lost")
		messages := c.wait(2)
		h.hears(nil, []string{"ready", "held", "lost"})
		Check(messages[0].Ack(false))
		Check(holder.Close())
		h.hears(nil, []string{"ready", "held", "lost"})
		getEmpty(ch, queue)
	}
}

func getEmpty(ch *amqp.Channel, queue string) {
	_, ok, err := ch.Get(queue, true)
	Check(err)
	Equal(ok, false, "get-ok")
}

func confirmOnDirectTimeout(s *scenarioRun) {
	h, ch := s.confirmHandler(), plain(s.connect())
	queue := s.confirmingOn(ch, "ack-direct", "q", amqp.Table{"x-consumer-timeout": 500})
	h.publish(queue, "1", "2")
	text := "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 500 ms. " +
		"This timeout value can be configured, see consumers doc guide to learn more"
	closesChannel(s.connect(), 406, text, func(ch *amqp.Channel) error {
		consume(ch, queue, consumeOptions{}).wait(2)
		return nil
	})
	h.hears(nil, nil)
	c := consume(ch, queue, consumeOptions{})
	Equal(flags(c.wait(2)), []string{"1 again", "2 again"}, "deliveries")
	Check(c.seen()[1].Ack(true))
	h.hears([]string{"1", "2"}, nil)
}

func restartConfirmOn(s *scenarioRun) {
	n := s.OwnNode()
	for _, mode := range consumedModes {
		h := s.confirmHandler()
		queue := s.confirmingOn(plain(s.connect()), mode, mode, nil)
		h.publish(queue, "before")
		h.hears(nil, nil)
		n.Kill9()
		n.Start()
		h = s.confirmHandler()
		h.publish(queue, "again")
		h.hears(nil, nil)
		c := consume(plain(s.connect()), queue, consumeOptions{})
		Equal(flags(c.wait(1)), []string{"again"}, "deliveries")
		Check(c.seen()[0].Ack(false))
		h.hears([]string{"again"}, nil)
	}
}
