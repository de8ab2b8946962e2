// The load of bench/clients/run by amqp091-go: a connection that publishes, a connection that consumes.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	window = 200
	queue  = "bench-real"
)

// Figures of a second.
type figures struct {
	sync.Mutex
	sent, received   int
	latency, confirm []int64
}

var began = time.Now()

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func open(uri string) *amqp.Channel {
	connection, err := amqp.Dial(uri)
	check(err)
	channel, err := connection.Channel()
	check(err)
	return channel
}

func consume(uri string, of *figures) {
	channel := open(uri)
	_, err := channel.QueueDeclare(queue, false, true, false, false, nil)
	check(err)
	check(channel.Qos(window, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	check(err)
	go func() {
		for delivery := range deliveries {
			latency := time.Since(began).Nanoseconds() - int64(binary.BigEndian.Uint64(delivery.Body[4:]))
			of.Lock()
			of.received++
			of.latency = append(of.latency, latency)
			of.Unlock()
			check(delivery.Ack(false))
		}
	}()
}

func publish(uri string, rate int, of *figures) {
	channel := open(uri)
	check(channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, window))
	times := make(chan int64, window)
	go func() {
		// Confirms come in the order of the messages.
		for range confirms {
			latency := time.Since(began).Nanoseconds() - <-times
			of.Lock()
			of.confirm = append(of.confirm, latency)
			of.Unlock()
		}
	}()
	first := time.Now()
	for sent := 0; ; sent++ {
		if rate > 0 {
			due := first.Add(time.Duration(sent) * time.Second / time.Duration(rate))
			if wait := time.Until(due); wait > time.Millisecond {
				time.Sleep(wait)
			}
		}
		now := time.Since(began).Nanoseconds()
		times <- now
		body := binary.BigEndian.AppendUint64(make([]byte, 4), uint64(now))
		check(channel.Publish("", queue, false, false, amqp.Publishing{Body: body}))
		of.Lock()
		of.sent++
		of.Unlock()
	}
}

func percentiles(nanoseconds []int64) string {
	slices.Sort(nanoseconds)
	texts := []string{}
	for _, share := range []float64{0, 0.5, 0.75, 0.95, 0.99} {
		value := int64(0)
		if len(nanoseconds) > 0 {
			value = nanoseconds[int(share*float64(len(nanoseconds)-1))] / 1000
		}
		texts = append(texts, fmt.Sprint(value))
	}
	return strings.Join(texts, "/")
}

func main() {
	uri := flag.String("uri", "", "the broker")
	rate := flag.Int("rate", 0, "messages per second")
	seconds := flag.Float64("z", 10, "seconds")
	flag.Parse()
	of := &figures{}
	consume(*uri, of)
	go publish(*uri, *rate, of)
	start, last := time.Now(), time.Now()
	for time.Since(start).Seconds() < *seconds {
		time.Sleep(time.Second)
		of.Lock()
		sent, received, latency, confirm := of.sent, of.received, of.latency, of.confirm
		of.sent, of.received, of.latency, of.confirm = 0, 0, nil, nil
		of.Unlock()
		length := time.Since(last).Seconds()
		last = time.Now()
		fmt.Printf("time %.3f s, sent: %.0f msg/s, received: %.0f msg/s, "+
			"min/median/75th/95th/99th consumer latency: %s µs, confirm latency: %s µs\n",
			last.Sub(start).Seconds(), float64(sent)/length, float64(received)/length,
			percentiles(latency), percentiles(confirm))
	}
}
