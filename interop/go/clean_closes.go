package main

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	streadway "github.com/streadway/amqp"
	amqp110 "leveret.example/amqp091-go-1.10"
	amqp114 "leveret.example/amqp091-go-1.14"
	. "leveret.example/interop/harness"
)

// Versions of the library that are in use, and its ancestor.
var (
	cleanClosesNewest    = cleanCloses(amqp.Dial)
	cleanCloses114       = cleanCloses(amqp114.Dial)
	cleanCloses110       = cleanCloses(amqp110.Dial)
	cleanClosesStreadway = cleanCloses(streadway.Dial)
)

type connection[Problem, Channel any] interface {
	NotifyClose(chan *Problem) chan *Problem
	Channel() (Channel, error)
	Close() error
}

// cleanCloses: the library looks for the end of the stream before it has closed its socket, and reports it as an error;
// where that report goes to a channel without a buffer that is read after Close, Close blocks for ever.
func cleanCloses[Problem, Channel any, C connection[Problem, Channel]](dial func(string) (C, error)) func(*scenarioRun) {
	return func(s *scenarioRun) {
		const count = 300
		failures := 0
		for range count {
			conn, err := dial("amqp://guest:guest@" + s.Node.Addr)
			Check(err)
			unbuffered := conn.NotifyClose(make(chan *Problem))
			buffered := conn.NotifyClose(make(chan *Problem, 1))
			_, err = conn.Channel()
			Check(err)
			Check(conn.Close())
			if first, second := <-unbuffered, <-buffered; first != nil || second != nil {
				failures++
			}
		}
		Equal(failures, 0, fmt.Sprintf("errors reported of %d clean closes", count))
	}
}
