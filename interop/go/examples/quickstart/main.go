package main

import (
	"context"
	"fmt"
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	url := os.Getenv("AMQP_URL")
	if url == "" {
		url = "amqp://guest:guest@localhost:5672"
	}
	connection, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	durable := true
	if _, err := channel.QueueDeclare("hello", durable, false, false, false, nil); err != nil {
		return err
	}

	if err := channel.Confirm(false); err != nil {
		return err
	}
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("Hello, hare!")}
	confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", "hello", true, false, message)
	if err != nil {
		return err
	}
	// Confirmed once the broker has the message on disk.
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		return fmt.Errorf("the broker has not taken the message: %v", err)
	}

	if err := channel.Qos(100, 0, false); err != nil {
		return err
	}
	deliveries, err := channel.ConsumeWithContext(ctx, "hello", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	delivery, ok := <-deliveries
	if !ok {
		return fmt.Errorf("the consumer was cancelled")
	}
	fmt.Println(string(delivery.Body))
	return delivery.Ack(false)
}
