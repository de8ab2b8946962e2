// Command resend publishes jobs and keeps each until it is confirmed: resend URI QUEUE COUNT
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
	window       = 200 // unconfirmed jobs: further ones are left where they come from
	nackPause    = 100 * time.Millisecond
	tick         = 100 * time.Millisecond
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 5 * time.Second
)

// timeout is how long a publish may go without an answer.
var timeout = 30 * time.Second

// job is a job that is not confirmed.
type job struct {
	id    string
	body  []byte
	tries int
	dueAt time.Time
}

// answer is a confirm or a nack for the publish of that try.
type answer struct {
	job   *job
	try   int
	acked bool
}

type publisher struct {
	uri, queue string
	next       func() *job // nil once there are no more
	kept       map[string]*job
	published  int
}

func (p *publisher) run() {
	for pause := reconnectMin; ; pause = min(2*pause, reconnectMax) {
		conn, err := amqp.Dial(p.uri)
		if err == nil {
			pause = reconnectMin
			err = p.publishOn(conn)
			_ = conn.Close()
		}
		if err == nil {
			return
		}
		log.Printf("publishing goes on after: %v", err)
		time.Sleep(pause)
	}
}

// publishOn returns nil once everything is confirmed.
func (p *publisher) publishOn(conn *amqp.Connection) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	arguments := amqp.Table{"x-confirm-on": "ack"}
	if _, err = ch.QueueDeclare(p.queue, true, false, false, false, arguments); err != nil {
		return err
	}
	if err = ch.Confirm(false); err != nil {
		return err
	}
	for _, j := range p.kept {
		j.tries, j.dueAt = 0, time.Time{}
	}
	lost := ch.NotifyClose(make(chan *amqp.Error, 1))
	answers, end := make(chan answer), make(chan struct{})
	defer close(end)
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		if err := p.publishDue(ch, answers, end); err != nil {
			return err
		}
		if len(p.kept) == 0 {
			return nil
		}
		select {
		case a := <-answers:
			p.settle(a)
		case <-ticks.C:
		case reason := <-lost:
			return fmt.Errorf("the connection is lost: %v", reason)
		}
	}
}

// publishDue publishes again what is overdue, and new jobs while there is room.
func (p *publisher) publishDue(ch *amqp.Channel, answers chan<- answer, end <-chan struct{}) error {
	now := time.Now()
	for _, j := range p.kept {
		if !j.dueAt.After(now) {
			if err := p.publish(ch, j, answers, end); err != nil {
				return err
			}
		}
	}
	for len(p.kept) < window {
		j := p.next()
		if j == nil {
			break
		}
		p.kept[j.id] = j
		if err := p.publish(ch, j, answers, end); err != nil {
			return err
		}
	}
	return nil
}

func (p *publisher) publish(ch *amqp.Channel, j *job, answers chan<- answer, end <-chan struct{}) error {
	message := amqp.Publishing{MessageId: j.id, Body: j.body}
	// Confirms come in any order: NotifyPublish would hold each back until those before it are there.
	confirm, err := ch.PublishWithDeferredConfirmWithContext(
		context.Background(), "", p.queue, false, false, message)
	if err != nil {
		return err
	}
	j.dueAt = time.Now().Add(timeout << min(j.tries, 10))
	j.tries++
	p.published++
	go func(try int) {
		<-confirm.Done()
		select {
		case answers <- answer{j, try, confirm.Acked()}:
		case <-end:
		}
	}(j.tries)
	return nil
}

func (p *publisher) settle(a answer) {
	if a.acked {
		delete(p.kept, a.job.id) // whichever publish of the job it answers
	} else if a.try == a.job.tries {
		a.job.dueAt = time.Now().Add(nackPause)
	}
}

func main() {
	uri, queue := os.Args[1], os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	if seconds, err := strconv.Atoi(os.Getenv("RESEND_TIMEOUT_S")); err == nil {
		timeout = time.Duration(seconds) * time.Second
	}
	number := 0
	next := func() *job {
		if number == count {
			return nil
		}
		number++
		return &job{id: fmt.Sprintf("job-%d", number-1), body: []byte("work")}
	}
	p := &publisher{uri: uri, queue: queue, next: next, kept: map[string]*job{}}
	p.run()
	fmt.Printf("%d jobs confirmed, %d publishes\n", count, p.published)
}
