package main

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
	library          = "amqp091-go"
	waitDeadline     = 10 * time.Second
	scenarioDeadline = 25 * time.Second
	restartDeadline  = 60 * time.Second
	closerDeadline   = 5 * time.Second
)

// skip is panicked with by a scenario that cannot be expressed here.
type skip string

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func failf(format string, args ...any) { panic(fmt.Errorf(format, args...)) }

func equal[T any](actual, expected T, what string) {
	if !reflect.DeepEqual(actual, expected) {
		failf("%s: got %#v, expected %#v", what, actual, expected)
	}
}

func starts(actual, prefix, what string) {
	if !strings.HasPrefix(actual, prefix) {
		failf("%s: got %q, expected to start with %q", what, actual, prefix)
	}
}

func waitUntil(condition func() bool, what string) { waitUntilFor(waitDeadline, condition, what) }

func waitUntilFor(limit time.Duration, condition func() bool, what string) {
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			failf("not within %v: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// scenarioRun is one run of one scenario: where the broker is, the names it uses, what to clean up.
type scenarioRun struct {
	id      string
	node    *node
	own     bool
	token   string
	names   []string
	closers []func()
}

func newRun(id string, n *node) *scenarioRun {
	token := make([]byte, 4)
	_, err := rand.Read(token)
	check(err)
	return &scenarioRun{id: id, node: n, token: hex.EncodeToString(token)}
}

func (s *scenarioRun) name(suffix string) string {
	name := fmt.Sprintf("interop.%s.%s.%s.%s", library, s.id, suffix, s.token)
	s.names = append(s.names, name)
	return name
}

func (s *scenarioRun) onEnd(closer func()) { s.closers = append(s.closers, closer) }

func (s *scenarioRun) relay() *relay {
	r := newRelay(s.node.addr)
	s.onEnd(r.close)
	return r
}

// ownNode is a node of this scenario alone, to be restarted.
func (s *scenarioRun) ownNode() *node {
	if external() {
		panic(skip("restarts need a node of our own"))
	}
	s.node, s.own = newNode(), true
	s.onEnd(s.node.destroy)
	return s.node
}

func (s *scenarioRun) close() {
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
			if _, isSkip := failure.(skip); failure != nil && !isSkip {
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

func runOne(id string, n *node) any {
	s := newRun(id, n)
	limit := scenarioDeadline
	if strings.HasPrefix(id, "restart-") {
		limit = restartDeadline
	}
	failure := guarded(limit, func() { scenarios[id](s) })
	s.close()
	if !s.own {
		if problem := guarded(scenarioDeadline, func() { cleanUp(n, s.names) }); problem != nil && failure == nil {
			failure = fmt.Errorf("clean-up failed: %v", problem)
		}
	}
	return failure
}

func run(chosen []string) int {
	n := sharedNode()
	passed, failed, skipped := 0, 0, 0
	for _, id := range chosen {
		started := time.Now()
		switch failure := runOne(id, n).(type) {
		case nil:
			passed++
			fmt.Printf("PASS %s %s (%.2f s)\n", library, id, time.Since(started).Seconds())
		case skip:
			skipped++
			fmt.Printf("SKIP %s %s: %s\n", library, id, failure)
		default:
			failed++
			reason, stack, _ := strings.Cut(fmt.Sprint(failure), "\n")
			fmt.Printf("FAIL %s %s: %s\n", library, id, reason)
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

// ownScenarios are about this library alone.
var ownScenarios = []string{
	"amqplain", "clean-closes", "clean-closes-1.14", "clean-closes-1.10", "clean-closes-streadway",
}

var scenarios = map[string]func(*scenarioRun){
	"amqplain":                          amqplain,
	"clean-closes":                      cleanClosesNewest,
	"clean-closes-1.14":                 cleanCloses114,
	"clean-closes-1.10":                 cleanCloses110,
	"clean-closes-streadway":            cleanClosesStreadway,
	"exchange-direct":                   exchangeDirect,
	"exchange-fanout":                   exchangeFanout,
	"exchange-topic":                    exchangeTopic,
	"exchange-headers-all":              exchangeHeadersAll,
	"exchange-headers-any":              exchangeHeadersAny,
	"exchange-headers-all-with-x":       exchangeHeadersAllWithX,
	"exchange-headers-any-with-x":       exchangeHeadersAnyWithX,
	"exchange-default":                  exchangeDefault,
	"exchange-alternate":                exchangeAlternate,
	"exchange-internal":                 exchangeInternal,
	"exchange-auto-delete":              exchangeAutoDelete,
	"exchange-to-exchange":              exchangeToExchange,
	"passive-missing-404":               passiveMissing,
	"redeclare-inequivalent-406":        redeclareInequivalent,
	"confirm-single":                    confirmSingle,
	"confirm-batch":                     confirmBatch,
	"confirm-mixed":                     confirmMixed,
	"confirm-multiple":                  confirmMultiple,
	"mandatory-return-before-ack":       mandatoryReturnBeforeAck,
	"publish-missing-exchange-404":      publishMissingExchange,
	"properties-intact":                 propertiesIntact,
	"body-15mb-intact":                  body15MbIntact,
	"body-20mb-refused":                 body20MbRefused,
	"tx-commit":                         txCommit,
	"tx-rollback":                       txRollback,
	"consume-prefetch":                  consumePrefetch,
	"qos-per-consumer":                  qosPerConsumer,
	"ack-multiple":                      ackMultiple,
	"nack-requeue-order":                nackRequeueOrder,
	"nack-discard":                      nackDiscard,
	"reject-requeue":                    rejectRequeue,
	"reject-discard":                    rejectDiscard,
	"basic-get":                         basicGet,
	"basic-get-empty":                   basicGetEmpty,
	"basic-recover":                     basicRecover,
	"unknown-delivery-tag-406":          unknownDeliveryTag,
	"consumer-cancel":                   consumerCancel,
	"consumer-cancel-notify":            consumerCancelNotify,
	"consumer-exclusive-403":            consumerExclusive,
	"consumer-priority":                 consumerPriority,
	"consumer-tag-server-made":          consumerTagServerMade,
	"direct-reply-to":                   directReplyTo,
	"queue-exclusive-405":               queueExclusive,
	"queue-exclusive-gone":              queueExclusiveGone,
	"queue-server-named":                queueServerNamed,
	"queue-auto-delete":                 queueAutoDelete,
	"queue-purge":                       queuePurge,
	"queue-delete-if-unused":            queueDeleteIfUnused,
	"queue-delete-if-empty":             queueDeleteIfEmpty,
	"capabilities":                      capabilities,
	"channels-2000":                     channels2000,
	"auth-wrong-password-403":           authWrongPassword,
	"vhost-unknown-530":                 vhostUnknown,
	"update-secret":                     updateSecret,
	"heartbeat-idle-survives":           heartbeatIdle,
	"heartbeat-silent-peer-closed":      heartbeatSilent,
	"redelivered-after-connection-loss": redeliveredAfterLoss,
	"restart-durable-survives":          restartDurable,
	"restart-clean-stop-survives":       restartCleanStop,
	"restart-client-recovery":           restartClientRecovery,
	"confirm-on-ack":                    confirmOnAck,
	"confirm-on-enqueue":                confirmOnEnqueue,
	"confirm-on-requeue":                confirmOnRequeue,
	"confirm-on-discard":                confirmOnDiscard,
	"confirm-on-limits":                 confirmOnLimits,
	"confirm-on-two-queues":             confirmOnTwoQueues,
	"confirm-on-dead-letter":            confirmOnDeadLetter,
	"confirm-on-direct-540":             confirmOnDirect540,
	"confirm-on-auto-ack":               confirmOnAutoAck,
	"confirm-on-timeout":                confirmOnTimeout,
	"confirm-on-direct-timeout":         confirmOnDirectTimeout,
	"restart-confirm-on":                restartConfirmOn,
	"restart-send-again":                restartSendAgain,
}
