// Package harness starts nodes and runs scenarios against them: what the suites in Go share.
package harness

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"time"
)

const (
	WaitDeadline     = 10 * time.Second
	scenarioDeadline = 25 * time.Second
	restartDeadline  = 60 * time.Second
	closerDeadline   = 5 * time.Second
)

// Skip is panicked with by a scenario that cannot be expressed here.
type Skip string

// Library is a client library with what it can be asked to do.
type Library struct {
	Name      string
	Scenarios map[string]func(*Run)
	CleanUp   func(n *Node, names []string)
}

func Check(err error) {
	if err != nil {
		panic(err)
	}
}

func Failf(format string, args ...any) { panic(fmt.Errorf(format, args...)) }

func Equal[T any](actual, expected T, what string) {
	if !reflect.DeepEqual(actual, expected) {
		Failf("%s: got %#v, expected %#v", what, actual, expected)
	}
}

func Starts(actual, prefix, what string) {
	if !strings.HasPrefix(actual, prefix) {
		Failf("%s: got %q, expected to start with %q", what, actual, prefix)
	}
}

func WaitUntil(condition func() bool, what string) { WaitUntilFor(WaitDeadline, condition, what) }

func WaitUntilFor(limit time.Duration, condition func() bool, what string) {
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			Failf("not within %v: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Run is one run of one scenario: where the broker is, the names it uses, what to clean up.
type Run struct {
	Node    *Node
	prefix  string
	own     bool
	token   string
	names   []string
	closers []func()
}

func newRun(library, id string, n *Node) *Run {
	token := make([]byte, 4)
	_, err := rand.Read(token)
	Check(err)
	return &Run{Node: n, prefix: fmt.Sprintf("interop.%s.%s", library, id), token: hex.EncodeToString(token)}
}

// Name is one that nobody else uses; the library cleans it up.
func (s *Run) Name(suffix string) string {
	name := fmt.Sprintf("%s.%s.%s", s.prefix, suffix, s.token)
	s.names = append(s.names, name)
	return name
}

// OnEnd has the closer run when the scenario has ended.
func (s *Run) OnEnd(closer func()) { s.closers = append(s.closers, closer) }

// OwnNode is a node of this scenario alone, to be restarted.
func (s *Run) OwnNode() *Node {
	if external() {
		panic(Skip("restarts need a node of our own"))
	}
	s.Node, s.own = newNode(), true
	s.OnEnd(s.Node.destroy)
	return s.Node
}

func (s *Run) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		guarded(closerDeadline, s.closers[i]) // the scenario's own outcome counts, not its clean-up
	}
}

// guarded runs the body and returns what it panicked with, or an error when it outlives the limit.
func guarded(limit time.Duration, body func()) any {
	outcome := make(chan any, 1)
	go func() {
		defer func() {
			failure := recover()
			if _, isSkip := failure.(Skip); failure != nil && !isSkip {
				failure = fmt.Errorf("%v\n%s", failure, debug.Stack())
			}
			outcome <- failure
		}()
		body()
	}()
	select {
	case failure := <-outcome:
		return failure
	case <-time.After(limit):
		return fmt.Errorf("hangs after %v", limit)
	}
}

func (library Library) runOne(id string, n *Node) any {
	s := newRun(library.Name, id, n)
	limit := scenarioDeadline
	if strings.HasPrefix(id, "restart-") {
		limit = restartDeadline
	}
	failure := guarded(limit, func() { library.Scenarios[id](s) })
	s.close()
	if !s.own {
		if problem := guarded(scenarioDeadline, func() { library.CleanUp(n, s.names) }); problem != nil && failure == nil {
			failure = fmt.Errorf("clean-up failed: %v", problem)
		}
	}
	return failure
}

// Run runs the scenarios one by one, prints a line for each, and gives the exit code.
func (library Library) Run(chosen []string) int {
	n := sharedNode()
	passed, failed, skipped := 0, 0, 0
	for _, id := range chosen {
		started := time.Now()
		switch failure := library.runOne(id, n).(type) {
		case nil:
			passed++
			fmt.Printf("PASS %s %s (%.2f s)\n", library.Name, id, time.Since(started).Seconds())
		case Skip:
			skipped++
			fmt.Printf("SKIP %s %s: %s\n", library.Name, id, failure)
		default:
			failed++
			reason, stack, _ := strings.Cut(fmt.Sprint(failure), "\n")
			fmt.Printf("FAIL %s %s: %s\n", library.Name, id, reason)
			fmt.Fprintln(os.Stderr, stack)
		}
	}
	if failed > 0 {
		fmt.Fprintln(os.Stderr, n.logTail())
	}
	n.destroy()
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return min(failed, 1)
}
