// Command interop runs the scenarios of interop/AMQP10.md with go-amqp.
package main

import (
	"os"
	"slices"

	. "leveret.example/interop/harness"
)

var order = []string{
	"publish-consume", "publish-consume-quorum", "settled-both-ways", "bare-message-is-kept",
	"from-amqp091", "to-amqp091", "outcomes", "rejected-is-dead-lettered", "modified-annotations",
	"unroutable-is-released", "full-queue-rejects", "anonymous-terminus", "foreign-user-id-detaches",
	"topic-exchange", "headers-exchange", "large-messages", "credit-is-kept-to", "temporary-queue", "replies",
	"stream-offsets", "property-filters", "active-consumer-is-told", "lost-client-gives-back",
	"queue-is-deleted", "bad-addresses", "refused-logins", "restart-kill-9",
}

var scenarios = map[string]func(*bench){
	"publish-consume":           func(b *bench) { goesThrough(b, "classic") },
	"publish-consume-quorum":    func(b *bench) { goesThrough(b, "quorum") },
	"settled-both-ways":         settledBothWays,
	"bare-message-is-kept":      bareMessage,
	"from-amqp091":              fromAmqp091,
	"to-amqp091":                toAmqp091,
	"outcomes":                  outcomes,
	"rejected-is-dead-lettered": deadLetters,
	"modified-annotations":      modifiedAnnotations,
	"unroutable-is-released":    unroutable,
	"full-queue-rejects":        fullQueue,
	"anonymous-terminus":        anonymousTerminus,
	"foreign-user-id-detaches":  foreignUser,
	"topic-exchange":            topicExchange,
	"headers-exchange":          headersExchange,
	"large-messages":            largeMessages,
	"credit-is-kept-to":         credit,
	"temporary-queue":           temporaryQueue,
	"replies":                   replies,
	"stream-offsets":            streamOffsets,
	"property-filters":          propertyFilters,
	"active-consumer-is-told":   activeConsumer,
	"lost-client-gives-back":    lostClient,
	"queue-is-deleted":          queueDeleted,
	"bad-addresses":             badAddresses,
	"refused-logins":            refusedLogins,
	"restart-kill-9":            restart,
}

func main() {
	// Each scenario deletes what it has declared.
	library := Library{Name: "go-amqp", CleanUp: func(*Node, []string) {}, Scenarios: map[string]func(*Run){}}
	for id, steps := range scenarios {
		library.Scenarios[id] = func(run *Run) { steps(newBench(run)) }
	}
	chosen := order
	if len(os.Args) > 1 {
		chosen = slices.DeleteFunc(order, func(id string) bool { return !slices.Contains(os.Args[1:], id) })
	}
	os.Exit(library.Run(chosen))
}
