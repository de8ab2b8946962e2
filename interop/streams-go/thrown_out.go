package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/message"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"

	. "leveret.example/interop/harness"
)

// guests are a publisher and a consumer with a user and a virtual host of their own.
type guests struct {
	user, vhost string
	told        []stream.ChannelClose
}

func newGuests(b *bench, suffix string) guests {
	user, vhost, password := b.Name("hare"+suffix), b.Name("burrow"+suffix), "ears"
	b.Node.Ctl("await_startup")
	b.Node.Ctl("add_user", user, password)
	b.Node.Ctl("add_vhost", vhost)
	b.Node.Ctl("set_permissions", "-p", vhost, user, ".*", ".*", ".*")
	b.OnEnd(func() { b.Node.Ctl("delete_user", user) })
	b.OnEnd(func() { b.Node.Ctl("delete_vhost", vhost) })
	host, _, err := net.SplitHostPort(b.Node.Addr)
	Check(err)
	env, err := stream.NewEnvironment(stream.NewEnvironmentOptions().SetHost(host).SetPort(b.Node.StreamPort).
		SetUser(user).SetPassword(password).SetVHost(vhost))
	Check(err)
	b.OnEnd(func() { _ = env.Close() })
	Check(env.DeclareStream("s", stream.NewStreamOptions()))
	own := &bench{Run: b.Run, environment: env}
	own.publish("s", stream.NewProducerOptions(), []message.StreamMessage{text("0")})
	producer, err := env.NewProducer("s", stream.NewProducerOptions())
	Check(err)
	consumer, err := env.NewConsumer("s", func(stream.ConsumerContext, *amqp.Message) {}, first())
	Check(err)
	return guests{user, vhost, []stream.ChannelClose{producer.NotifyClose(), consumer.NotifyClose()}}
}

// areTold waits until both are, which takes a second at most, or what INTEROP_TOLD_MS says.
func (g guests) areTold(how string) {
	limit := time.Second
	if named := os.Getenv("INTEROP_TOLD_MS"); named != "" {
		milliseconds, err := strconv.Atoi(named)
		Check(err)
		limit = time.Duration(milliseconds) * time.Millisecond
	}
	late := time.After(limit)
	for i, told := range g.told {
		select {
		case event := <-told:
			// With a virtual host its streams go, of which either may be told first.
			isEnd := event.Reason == stream.SocketClosed || event.Reason == stream.MetaDataUpdate
			Equal(isEnd, true, fmt.Sprintf("%s: what %d is told, %s", how, i, event.Reason))
		case <-late:
			Failf("%s: %d is not told within %v", how, i, limit)
		}
	}
}

// thrownOut has an operator end the connections.
func thrownOut(b *bench) {
	ways := []func(guests){
		func(g guests) { b.Node.Ctl("close_all_connections", "-p", g.vhost, "enough") },
		func(g guests) { b.Node.Ctl("delete_user", g.user) },
		func(g guests) { b.Node.Ctl("delete_vhost", g.vhost) },
	}
	for at, throwOut := range ways {
		g := newGuests(b, fmt.Sprintf("-%d", at))
		throwOut(g)
		g.areTold(fmt.Sprintf("way %d", at))
	}
}

// thrownOutByEnd has the node end.
func thrownOutByEnd(b *bench) {
	node := b.OwnNode()
	g := newGuests(b, "")
	ended := make(chan error, 1)
	go func() { ended <- node.Stop() }()
	g.areTold("the end of the node")
	Check(<-ended)
}
