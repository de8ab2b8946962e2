package main

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"github.com/Azure/go-amqp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	. "leveret.example/interop/harness"
)

const nMessages = 500

var persistent = &amqp.MessageHeader{Durable: true}

// bench is what a scenario works with: a session, and a channel of AMQP 0-9-1.
type bench struct {
	*Run
	ctx     context.Context
	session *amqp.Session
	channel *amqp091.Channel
}

func newBench(run *Run) *bench {
	ctx, cancel := context.WithTimeout(context.Background(), WaitDeadline)
	run.OnEnd(cancel)
	return &bench{Run: run, ctx: ctx}
}

// begin connects with both protocols.
func (b *bench) begin() {
	old, err := amqp091.Dial("amqp://guest:guest@" + b.Node.Addr)
	Check(err)
	b.OnEnd(func() { _ = old.Close() })
	b.channel, err = old.Channel()
	Check(err)
	b.session = b.newSession()
}

func (b *bench) dial(password string) (*amqp.Conn, error) {
	options := amqp.ConnOptions{SASLType: amqp.SASLTypePlain("guest", password)}
	return amqp.Dial(b.ctx, "amqp://"+b.Node.Addr, &options)
}

func (b *bench) newSession() *amqp.Session {
	connection, err := b.dial("guest")
	Check(err)
	b.OnEnd(func() { _ = connection.Close() })
	session, err := connection.NewSession(b.ctx, nil)
	Check(err)
	return session
}

// queue declares one that is deleted at the scenario's end.
func (b *bench) queue(suffix string, arguments amqp091.Table) string {
	if b.session == nil {
		b.begin()
	}
	name := b.Name(suffix)
	_, err := b.channel.QueueDeclare(name, true, false, false, false, arguments)
	Check(err)
	b.OnEnd(func() { _, _ = b.channel.QueueDelete(name, false, false, false) })
	return name
}

func (b *bench) waitReady(queue string, count int) {
	WaitUntil(func() bool {
		found, err := b.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		Check(err)
		return found.Messages == count
	}, strconv.Itoa(count)+" ready messages")
}

func kind(name string) amqp091.Table { return amqp091.Table{"x-queue-type": name} }

func address(queue string) string { return "/queues/" + url.PathEscape(queue) }

func numbers(from, to int) []string {
	list := []string{}
	for i := from; i < to; i++ {
		list = append(list, strconv.Itoa(i))
	}
	return list
}

func message(body string) *amqp.Message {
	return &amqp.Message{Header: persistent, Data: [][]byte{[]byte(body)}}
}

func (b *bench) sender(target string, options *amqp.SenderOptions) *amqp.Sender {
	sender, err := b.session.NewSender(b.ctx, target, options)
	Check(err)
	return sender
}

// states are the outcomes of messages, in their order.
func (b *bench) states(sender *amqp.Sender, messages ...*amqp.Message) []amqp.DeliveryState {
	receipts := []amqp.SendReceipt{}
	for _, message := range messages {
		receipt, err := sender.SendWithReceipt(b.ctx, message, nil)
		Check(err)
		receipts = append(receipts, receipt)
	}
	states := []amqp.DeliveryState{}
	for _, receipt := range receipts {
		state, err := receipt.Wait(b.ctx)
		Check(err)
		states = append(states, state)
	}
	return states
}

// publish sends messages and wants all of them accepted.
func (b *bench) publish(target string, messages ...*amqp.Message) {
	sender := b.sender(target, nil)
	for _, state := range b.states(sender, messages...) {
		if _, ok := state.(*amqp.StateAccepted); !ok {
			Failf("outcome %v", state)
		}
	}
	Check(sender.Close(b.ctx))
}

func (b *bench) publishNumbers(queue string, from, to int) {
	messages := []*amqp.Message{}
	for _, body := range numbers(from, to) {
		messages = append(messages, message(body))
	}
	b.publish(address(queue), messages...)
}

func (b *bench) receiver(queue string, options *amqp.ReceiverOptions) *amqp.Receiver {
	receiver, err := b.session.NewReceiver(b.ctx, address(queue), options)
	Check(err)
	return receiver
}

func (b *bench) next(receiver *amqp.Receiver) *amqp.Message {
	message, err := receiver.Receive(b.ctx, nil)
	Check(err)
	return message
}

// take accepts so many messages and gives their bodies.
func (b *bench) take(receiver *amqp.Receiver, count int) []string {
	bodies := []string{}
	for range count {
		message := b.next(receiver)
		Check(receiver.AcceptMessage(b.ctx, message))
		bodies = append(bodies, string(message.GetData()))
	}
	return bodies
}

// condition is the one that an error of a link or session has.
func condition(err error) amqp.ErrCond {
	var link *amqp.LinkError
	var peer *amqp.Error
	switch {
	case errors.As(err, &link) && link.RemoteErr != nil:
		return link.RemoteErr.Condition
	case errors.As(err, &peer):
		return peer.Condition
	}
	Failf("no condition in %v", err)
	return ""
}
