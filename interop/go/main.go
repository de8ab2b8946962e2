// Command interop runs the scenario lists with amqp091-go and checks that no scenario is missing.
package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"

	. "leveret.example/interop/harness"
)

const library = "amqp091-go"

// scenarioRun adds what the scenarios do by this library.
type scenarioRun struct{ *Run }

func main() {
	if TLSWanted() {
		os.Exit(Library{Name: library, Scenarios: TLSScenarios(overTLS), CleanUp: cleanUp}.Run(TLSOrder))
	}
	var listed []string
	for _, list := range []string{"../SCENARIOS.md", "../CONFIRM_ON.md"} {
		text, err := os.ReadFile(list)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for _, match := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|").FindAllStringSubmatch(string(text), -1) {
			listed = append(listed, match[1])
		}
	}
	for _, id := range listed {
		if scenarios[id] == nil {
			fmt.Fprintf(os.Stderr, "%s: %s is missing\n", library, id)
			os.Exit(1)
		}
	}
	listed = append(listed, ownScenarios...)
	if len(scenarios) != len(listed) {
		fmt.Fprintf(os.Stderr, "%s: has %d scenarios, %d are listed\n", library, len(scenarios), len(listed))
		os.Exit(1)
	}
	chosen := listed
	if len(os.Args) > 1 {
		chosen = slices.DeleteFunc(listed, func(id string) bool { return !slices.Contains(os.Args[1:], id) })
	}
	all := map[string]func(*Run){}
	for id, steps := range scenarios {
		all[id] = func(run *Run) { steps(&scenarioRun{run}) }
	}
	os.Exit(Library{Name: library, Scenarios: all, CleanUp: cleanUp}.Run(chosen))
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
	"restart-exactly-once":              restartExactlyOnce,
}
