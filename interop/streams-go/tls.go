package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/message"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"

	. "leveret.example/interop/harness"
)

func overTLS(run *Run, connect TLSCase) error {
	port, err := strconv.Atoi(os.Getenv("INTEROP_TLS_STREAM_PORT"))
	Check(err)
	options := stream.NewEnvironmentOptions().SetHost("localhost").SetPort(port).
		IsTLS(true).SetTLSConfig(connect.Config)
	if connect.External {
		options.SetSaslConfiguration(stream.SaslConfigurationExternal)
	}
	if connect.IsRefused {
		options.SetRPCTimeout(time.Second) // it does not notice that the connection has gone
	}
	b := newBench(run)
	if b.environment, err = stream.NewEnvironment(options); err != nil {
		return err
	}
	b.OnEnd(func() { _ = b.environment.Close() })
	name, body := b.stream(), strings.Repeat("hare", TLSBodyBytes/4)
	b.publish(name, stream.NewProducerOptions(), []message.StreamMessage{text(body)})
	Equal(b.read(name, 1, first())[0] == body, true, "the body is the same")
	return nil
}
