// Command interop runs the scenarios of interop/STREAMS.md with rabbitmq-stream-go-client.
package main

import (
	"io"
	"log"
	"os"
	"slices"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"

	. "leveret.example/interop/harness"
)

var order = []string{
	"stream-declare-delete", "stream-publish-confirm", "stream-deduplication", "stream-filter",
	"stream-offset-first", "stream-offset-number", "stream-offset-last", "stream-offset-next",
	"stream-offset-timestamp", "stream-offset-stored",
	"stream-super-hash", "stream-super-key", "stream-single-active", "stream-super-single-active",
	"stream-compression-none", "stream-compression-gzip", "stream-compression-snappy", "stream-compression-lz4",
	"stream-compression-zstd", "stream-tutorials", "stream-thrown-out", "restart-stream-thrown-out", "restart-stream-kill-9",
}

var scenarios = map[string]func(*bench){
	"stream-declare-delete":      declareDelete,
	"stream-publish-confirm":     publishConfirm,
	"stream-deduplication":       deduplication,
	"stream-filter":              filter,
	"stream-offset-first":        offsetFirst,
	"stream-offset-number":       offsetNumber,
	"stream-offset-last":         offsetLast,
	"stream-offset-next":         offsetNext,
	"stream-offset-timestamp":    offsetTimestamp,
	"stream-offset-stored":       offsetStored,
	"stream-super-hash":          superHash,
	"stream-super-key":           superKey,
	"stream-single-active":       singleActive,
	"stream-super-single-active": superSingleActive,
	"stream-compression-none":    compressed(stream.Compression{}.None()),
	"stream-compression-gzip":    compressed(stream.Compression{}.Gzip()),
	"stream-compression-snappy":  compressed(stream.Compression{}.Snappy()),
	"stream-compression-lz4":     compressed(stream.Compression{}.Lz4()),
	"stream-compression-zstd":    compressed(stream.Compression{}.Zstd()),
	"stream-tutorials":           tutorials,
	"stream-thrown-out":          thrownOut,
	"restart-stream-thrown-out":  thrownOutByEnd,
	"restart-stream-kill-9":      kills,
}

func main() {
	log.SetOutput(io.Discard) // where the client tells of each attempt to connect
	// Each scenario deletes what it has declared.
	library := Library{Name: "rabbitmq-stream-go-client", CleanUp: func(*Node, []string) {}}
	if TLSWanted() {
		library.Scenarios = TLSScenarios(overTLS)
		os.Exit(library.Run(TLSOrder))
	}
	all := map[string]func(*Run){}
	for id, steps := range scenarios {
		all[id] = func(run *Run) { steps(newBench(run)) }
	}
	chosen := order
	if len(os.Args) > 1 {
		chosen = slices.DeleteFunc(order, func(id string) bool { return !slices.Contains(os.Args[1:], id) })
	}
	library.Scenarios = all
	os.Exit(library.Run(chosen))
}
