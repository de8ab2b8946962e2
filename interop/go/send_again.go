package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
)

const (
	jobs         = 2000
	heldJob      = "job-1901" // is published once the node has been killed for the last time
	jobsDeadline = 45 * time.Second
)

// worker acknowledges jobs; it refuses one in ten the first time, and holds one until it is sent again.
type worker struct {
	queue        string
	mutex        sync.Mutex
	seen         map[string]int
	acknowledged map[string]bool
}

func (w *worker) consume(ch *amqp.Channel, lost chan *amqp.Error) error {
	arguments := amqp.Table{"x-confirm-on": "ack"}
	if _, err := ch.QueueDeclare(w.queue, true, false, false, false, arguments); err != nil {
		return err
	}
	if err := ch.Qos(50, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(w.queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for {
		select {
		case <-lost:
			return nil
		case delivery, open := <-deliveries:
			if !open {
				return nil
			}
			if err := w.settle(delivery); err != nil {
				return err
			}
		}
	}
}

func (w *worker) settle(delivery amqp.Delivery) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	job := delivery.MessageId
	w.seen[job]++
	first := w.seen[job] == 1
	if first && strings.HasSuffix(job, "0") {
		return delivery.Reject(false)
	}
	if first && job == heldJob {
		return nil
	}
	w.acknowledged[job] = true
	return delivery.Ack(false)
}

func (w *worker) seenCount() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.seen)
}

// restartSendAgain runs the publisher of docs/confirm-after-consume.md.
func restartSendAgain(s *scenarioRun) {
	w := &worker{queue: s.Name("q"), seen: map[string]int{}, acknowledged: map[string]bool{}}
	n := s.OwnNode()
	r := &recovery{s: s, done: make(chan struct{})}
	s.OnEnd(func() { close(r.done) })
	go r.reconnecting(w.consume)
	publisher := exec.Command(".bin/resend", "amqp://guest:guest@"+n.Addr, w.queue, fmt.Sprint(jobs))
	publisher.Env = append(os.Environ(), "RESEND_TIMEOUT_S=1")
	publisher.Stderr = os.Stderr
	Check(publisher.Start())
	s.OnEnd(func() { _ = publisher.Process.Kill() })
	for _, count := range []int{500, 1200} {
		WaitUntilFor(jobsDeadline, func() bool { return w.seenCount() >= count }, fmt.Sprintf("%d jobs", count))
		n.Kill9()
		n.Start()
	}
	Check(publisher.Wait())
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for number := range jobs {
		Equal(w.acknowledged[fmt.Sprintf("job-%d", number)], true, fmt.Sprintf("job %d is done", number))
	}
	Equal(w.seen[heldJob] > 1, true, "published again without an answer")
}
