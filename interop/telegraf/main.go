// Command interop has Telegraf's rabbitmq input gather from a node under traffic: every field that it documents is
// there, with a value that can be.
package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/inputs"
	"github.com/influxdata/telegraf/plugins/inputs/rabbitmq"

	. "leveret.example/interop/harness"
)

// A queue's rates are sampled every five seconds.
const sampleDeadline = 20 * time.Second

var traffic = []string{
	"-u telegraf.classic -ad false -c 10 -q 10 -r 100 -L 20000 -f persistent",
	"-u telegraf.quorum -qq -ad false -c 10 -q 10 -r 100",
	"-u telegraf.again -ad false -r 10 -na -R 50",
	"-e telegraf.nobody -t direct -sb -x 1 -y 0 -r 20 -f mandatory",
}

// gathered is one gathering: measurements by their names.
type gathered struct {
	telegraf.Accumulator // of whose verbs the input needs two
	mutex                sync.Mutex
	points               map[string][]point
	errors               []error
}

type point struct {
	fields map[string]any
	tags   map[string]string
}

func (g *gathered) AddFields(name string, fields map[string]any, tags map[string]string, _ ...time.Time) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.points[name] = append(g.points[name], point{fields, tags})
}

func (g *gathered) AddError(err error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.errors = append(g.errors, err)
}

// quiet is Telegraf's log, of whose verbs the input needs one.
type quiet struct{ telegraf.Logger }

func (quiet) Debugf(string, ...any) {}

func gather(node *Node) *gathered {
	input := inputs.Inputs["rabbitmq"]().(*rabbitmq.RabbitMQ)
	input.URL = fmt.Sprintf("http://127.0.0.1:%d", node.ManagementPort)
	input.ClientTimeout = config.Duration(WaitDeadline)
	input.IncludeQueueTypeTag = true
	input.Log = quiet{}
	Check(input.Init())
	found := &gathered{points: map[string][]point{}}
	Check(input.Gather(found))
	for _, err := range found.errors {
		Check(err)
	}
	return found
}

// problem is what is wrong with a measurement's points, of which one is the expected; empty if nothing is.
func (e expected) problem(points []point) string {
	isIt := func(p point) bool {
		for name, value := range e.tags {
			if p.tags[name] != value {
				return false
			}
		}
		return true
	}
	at := slices.IndexFunc(points, isIt)
	if at < 0 {
		return fmt.Sprintf("no point with %v", e.tags)
	}
	fields, positive := points[at].fields, strings.Fields(e.positive)
	known := append(strings.Fields(e.others), positive...)
	slices.Sort(known)
	if names := slices.Sorted(maps.Keys(fields)); !slices.Equal(names, slices.Compact(known)) {
		return fmt.Sprintf("has the fields %v", names)
	}
	for name, value := range fields {
		if number, ok := asNumber(value); ok && (number < 0 || number == 0 && slices.Contains(positive, name)) {
			return fmt.Sprintf("%v: %s is %v", e.tags, name, value)
		}
	}
	return ""
}

func asNumber(value any) (float64, bool) {
	float := reflect.TypeFor[float64]()
	if number := reflect.ValueOf(value); number.CanConvert(float) {
		return number.Convert(float).Float(), true
	}
	return 0, false
}

// gathers waits until the measurement is as expected.
func gathers(measurement string, all ...expected) func(*Run) {
	return func(run *Run) {
		startTraffic(run)
		last := ""
		defer func() {
			if failure := recover(); failure != nil {
				Failf("%v: %s", failure, last)
			}
		}()
		WaitUntilFor(sampleDeadline, func() bool {
			points := gather(run.Node).points[measurement]
			last = ""
			for _, e := range all {
				last += e.problem(points)
			}
			return last == ""
		}, measurement)
	}
}

func startTraffic(run *Run) {
	for _, options := range traffic {
		words := append([]string{"perf", "-h", "amqp://" + run.Node.Addr}, strings.Fields(options)...)
		perf := exec.Command(os.Getenv("LEVERET_BIN"), words...)
		Check(perf.Start())
		run.OnEnd(func() { _, _ = perf.Process.Kill(), perf.Wait() })
	}
}

func federation(run *Run) { Equal(len(gather(run.Node).points["rabbitmq_federation"]), 0, "links") }

func main() {
	library := Library{Name: "telegraf", CleanUp: func(*Node, []string) {}}
	library.Scenarios = map[string]func(*Run){
		"overview":   gathers("rabbitmq_overview", overview),
		"node":       gathers("rabbitmq_node", node),
		"queue":      gathers("rabbitmq_queue", queues...),
		"exchange":   gathers("rabbitmq_exchange", exchange),
		"federation": federation,
	}
	chosen := os.Args[1:]
	if len(chosen) == 0 {
		chosen = slices.Sorted(maps.Keys(library.Scenarios))
	}
	os.Exit(library.Run(chosen))
}
