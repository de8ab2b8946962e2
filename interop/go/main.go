// Command interop runs the scenario lists with amqp091-go and checks that no scenario is missing.
package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
)

func main() {
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
	os.Exit(run(chosen))
}
