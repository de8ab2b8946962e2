package main

import (
	"fmt"
	"os"
	"os/exec"

	amqp "github.com/rabbitmq/amqp091-go"
	. "leveret.example/interop/harness"
)

const onceJobs = 10_000

// restartExactlyOnce runs the publisher of docs/exactly-once.md.
func restartExactlyOnce(s *scenarioRun) {
	queue := s.Name("q")
	n := s.OwnNode()
	uri := "amqp://guest:guest@" + n.Addr
	publisher := exec.Command(".bin/once", uri, queue, "publisher", fmt.Sprint(onceJobs))
	publisher.Stderr = os.Stderr
	Check(publisher.Start())
	s.OnEnd(func() { _ = publisher.Process.Kill() })
	for _, count := range []int{2_000, 5_000} {
		WaitUntilFor(jobsDeadline, func() bool { return countIn(n, queue) >= count }, fmt.Sprintf("%d jobs", count))
		n.Kill9()
		n.Start()
	}
	Check(publisher.Wait())
	ch := plain(s.connect())
	for number := range onceJobs {
		message, found, err := ch.Get(queue, true)
		Check(err)
		Equal(found, true, "one more job")
		Equal(string(message.Body), fmt.Sprintf("job-%d", number), "the next job")
	}
	_, found, err := ch.Get(queue, true)
	Check(err)
	Equal(found, false, "a job that came twice")
}

// countIn is 0 before the publisher has declared the queue.
func countIn(n *Node, queue string) int {
	conn, err := dial(n.Addr, amqp.Config{})
	Check(err)
	defer conn.Close()
	state, err := plain(conn).QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return 0
	}
	return state.Messages
}
