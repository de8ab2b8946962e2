package main

import (
	"errors"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
)

const heartbeat = time.Second

func capabilities(s *scenarioRun) {
	properties := s.connect().Properties
	announced, _ := properties["capabilities"].(amqp.Table)
	for _, name := range []string{
		"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked",
		"consumer_priorities", "authentication_failure_close", "per_consumer_qos", "direct_reply_to",
	} {
		Equal(announced[name], any(true), name)
	}
	for _, name := range []string{"product", "version"} {
		if text, _ := properties[name].(string); text == "" {
			Failf("no %s in the server properties", name)
		}
	}
}

func channels2000(s *scenarioRun) {
	conn := s.connect()
	channels := make([]*amqp.Channel, 2000)
	for i := range channels {
		channels[i] = plain(conn)
	}
	queue := s.durable(channels[0])
	for _, ch := range channels {
		_, ok, err := ch.Get(queue, false)
		Check(err)
		Equal(ok, false, "get-ok")
	}
	Check(conn.Close())
}

func refusal(addr string, config amqp.Config) *amqp.Error {
	conn, err := dial(addr, config)
	if err == nil {
		_ = conn.Close()
		Failf("the connection was not refused")
	}
	var refused *amqp.Error
	if !errors.As(err, &refused) {
		Failf("not an AMQP error: %v", err)
	}
	return refused
}

// authWrongPassword: the library does not announce authentication_failure_close, so the server closes without a word.
func authWrongPassword(s *scenarioRun) {
	sasl := []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "wrong"}}
	Equal(*refusal(s.Node.Addr, amqp.Config{SASL: sasl}), *amqp.ErrCredentials, "error")
}

// amqplain: the mechanism of AMQP 0-8, which other libraries offer too.
func amqplain(s *scenarioRun) {
	sasl := []amqp.Authentication{&amqp.AMQPlainAuth{Username: "guest", Password: "guest"}}
	s.durable(plain(s.connectAt(s.Node.Addr, amqp.Config{SASL: sasl})))
	sasl = []amqp.Authentication{&amqp.AMQPlainAuth{Username: "guest", Password: "wrong"}}
	Equal(*refusal(s.Node.Addr, amqp.Config{SASL: sasl}), *amqp.ErrCredentials, "error")
}

func vhostUnknown(s *scenarioRun) {
	refused := refusal(s.Node.Addr, amqp.Config{Vhost: "interop-missing"})
	Equal(refused.Code, 530, "reply code")
	Equal(refused.Reason, "NOT_ALLOWED - vhost interop-missing not found", "reply text")
}

func updateSecret(s *scenarioRun) {
	conn := s.connect()
	Check(conn.UpdateSecret("guest", "interop"))
	s.durable(plain(conn))
}

func heartbeatIdle(s *scenarioRun) {
	r := s.relay()
	conn := s.connectAt(r.Addr, amqp.Config{Heartbeat: heartbeat})
	Equal(conn.Config.Heartbeat, heartbeat, "negotiated heartbeat")
	WaitUntilFor(20*time.Second, func() bool {
		return r.fromServer.count.Load() >= 4 && r.fromClient.count.Load() >= 4
	}, "4 heartbeats from each side")
	s.durable(plain(conn))
}

func heartbeatSilent(s *scenarioRun) {
	r := s.relay()
	Check(plain(s.connectAt(r.Addr, amqp.Config{Heartbeat: heartbeat})).Close())
	mutedAt := r.muteClient()
	select {
	case closedAt := <-r.serverClosedAt:
		if silent := closedAt.Sub(mutedAt); silent < heartbeat {
			Failf("closed after %v, before one interval", silent)
		}
	case <-time.After(5*heartbeat + 2*time.Second):
		Failf("not closed for silence")
	}
}

func redeliveredAfterLoss(s *scenarioRun) {
	_, watcher, queue := s.filled(5)
	r := s.relay()
	ch := plain(s.connectAt(r.Addr, amqp.Config{}))
	Check(ch.Qos(3, 0, false))
	consume(ch, queue, consumeOptions{}).wait(3)
	r.cut()
	received := flags(consume(watcher, queue, consumeOptions{noAck: true}).wait(5))
	slices.Sort(received)
	Equal(received, append(again(numbers(0, 3)), numbers(3, 5)...), "deliveries")
	Equal(bodies(watcher, queue), []string{}, "left")
}
