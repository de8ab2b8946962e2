// Command once publishes jobs to a quorum queue, each exactly once however often it reconnects:
// once URI QUEUE PUBLISHER COUNT
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	window         = 200 // unconfirmed jobs: further ones are left where they come from
	reconnectPause = 100 * time.Millisecond
	nackPause      = 100 * time.Millisecond
)

// job has its publishing id, by which the queue knows it when it comes again.
type job struct {
	id   int64
	body []byte
}

// answer is a confirm or a nack.
type answer struct {
	job   *job
	acked bool
}

type publisher struct {
	uri, queue, name string
	next             func() *job // nil once there are no more
	kept             []*job      // without a confirm, by rising id
	published        int
}

func (p *publisher) run() {
	for {
		conn, err := amqp.Dial(p.uri)
		if err == nil {
			err = p.publishOn(conn)
			_ = conn.Close()
		}
		if err == nil {
			return
		}
		log.Printf("publishing goes on after: %v", err)
		time.Sleep(reconnectPause)
	}
}

// publishOn returns nil once everything is confirmed.
func (p *publisher) publishOn(conn *amqp.Connection) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	arguments := amqp.Table{"x-queue-type": "quorum"}
	if _, err = ch.QueueDeclare(p.queue, true, false, false, false, arguments); err != nil {
		return err
	}
	if err = ch.Confirm(false); err != nil {
		return err
	}
	lost := ch.NotifyClose(make(chan *amqp.Error, 1))
	answers, end := make(chan answer, window), make(chan struct{})
	defer close(end)
	for _, j := range p.kept { // the queue drops what it has
		if err := p.publish(ch, j, answers, end); err != nil {
			return err
		}
	}
	for {
		for len(p.kept) < window {
			j := p.next()
			if j == nil {
				break
			}
			p.kept = append(p.kept, j)
			if err := p.publish(ch, j, answers, end); err != nil {
				return err
			}
		}
		if len(p.kept) == 0 {
			return nil
		}
		select {
		case a := <-answers:
			if a.acked {
				p.forget(a.job)
				continue
			}
			time.Sleep(nackPause) // refused, and not in the queue: it may come again
			if err := p.publish(ch, a.job, answers, end); err != nil {
				return err
			}
		case reason := <-lost:
			return fmt.Errorf("the connection is lost: %v", reason)
		}
	}
}

func (p *publisher) publish(ch *amqp.Channel, j *job, answers chan<- answer, end <-chan struct{}) error {
	headers := amqp.Table{"x-publisher-id": p.name, "x-publishing-id": j.id}
	message := amqp.Publishing{Headers: headers, Body: j.body}
	confirm, err := ch.PublishWithDeferredConfirmWithContext(
		context.Background(), "", p.queue, false, false, message)
	if err != nil {
		return err
	}
	p.published++
	go func() {
		<-confirm.Done()
		select {
		case answers <- answer{j, confirm.Acked()}:
		case <-end:
		}
	}()
	return nil
}

func (p *publisher) forget(confirmed *job) {
	for at, j := range p.kept {
		if j == confirmed {
			p.kept = append(p.kept[:at], p.kept[at+1:]...)
			return
		}
	}
}

func main() {
	count, err := strconv.ParseInt(os.Args[4], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	last := int64(0)
	next := func() *job {
		if last == count {
			return nil
		}
		last++
		return &job{id: last, body: fmt.Appendf(nil, "job-%d", last-1)}
	}
	p := &publisher{uri: os.Args[1], queue: os.Args[2], name: os.Args[3], next: next}
	p.run()
	fmt.Printf("%d jobs confirmed, %d publishes\n", count, p.published)
}
