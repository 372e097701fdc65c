package eventstest_test

import (
	"fmt"

	"example.com/devevents/events/eventstest"
)

// The names are those that Backend.Skip and `go test -run` take.
func ExampleRules() {
	for _, r := range eventstest.Rules() {
		if r.Name == "wait-waits" || r.Name == "destroy-pending" {
			fmt.Printf("%s: %s.\n", r.Name, r.Sentence)
		}
	}
	// Output:
	// wait-waits: EventWait must not return before the device has reached the record.
	// destroy-pending: EventDestroy must not wait for an event that the device has not reached.
}
