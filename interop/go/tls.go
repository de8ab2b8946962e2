package main

import (
	"bytes"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
)

func overTLS(run *Run, connect TLSCase) error {
	s := &scenarioRun{run}
	config := amqp.Config{TLSClientConfig: connect.Config}
	if connect.External {
		config.SASL = []amqp.Authentication{&amqp.ExternalAuth{}}
	}
	conn, err := amqp.DialConfig("amqps://guest:guest@localhost:"+os.Getenv("INTEROP_TLS_PORT")+"/", config)
	if err != nil {
		return err
	}
	s.OnEnd(func() { _ = conn.Close() })
	ch := confirming(conn)
	queue := s.durable(ch)
	body := bytes.Repeat([]byte("hare"), TLSBodyBytes/4)
	confirmation, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: body})
	Check(err)
	Equal(confirmation.Wait(), true, "a confirm")
	message, ok, err := ch.Get(queue, true)
	Check(err)
	Equal(ok && bytes.Equal(message.Body, body), true, "the body is the same")
	return nil
}
