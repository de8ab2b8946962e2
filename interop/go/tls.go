package main

import (
	"bytes"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
)

func overTLS(run *Run, connect TLSCase) error {
	s := &scenarioRun{run}
	dial := amqp.DialTLS
	if connect.External {
		dial = amqp.DialTLS_ExternalAuth
	}
	conn, err := dial("amqps://localhost:"+os.Getenv("INTEROP_TLS_PORT")+"/", connect.Config)
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
