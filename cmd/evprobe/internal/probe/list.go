package probe

// list is every check, in the order in which they run: first what the others
// stand on. A new check is one entry here.
func list[E any, S comparable]() []check[E, S] {
	return []check[E, S]{
		{
			name:    "library",
			expect:  "the library that was opened is mapped into this process, and its runtime and driver say their versions",
			meaning: "another library may be answering than the one that is reported, so nothing below can be put down to it",
			run:     checkLibrary[E, S],
		},
		{
			name:    "device",
			expect:  "the device has the ordinal that was asked for, a name, and a PCI bus id or UUID that is well formed where it has one",
			meaning: "measurements cannot be assigned to a physical device",
			run:     checkDevice[E, S],
		},
		{
			name:    "handles",
			expect:  "1000 events can be made and destroyed, pending ones and twice included, and none stays alive",
			meaning: "a long-running program that times its work runs out of events or memory",
			run:     checkHandles[E, S],
		},
		{
			name:    "record-wait",
			expect:  "a wait for an event returns when the work before it is done, not earlier, and a query then says so",
			meaning: "whoever waits for an event can read results before the device has written them",
			run:     checkRecordWait[E, S],
		},
		{
			name:    "answers",
			expect:  "never recorded, pending, untimed, destroyed and zero handles each get an error of their own, and elapsed says which event it means",
			meaning: "a mistake in a program reads as a measurement, or as work that is done",
			run:     checkAnswers[E, S],
		},
		{
			name:    "known-work",
			expect:  "work of 10us, 100us, 1ms and 10ms queued behind other work reads within 5us (with the stamps of its own 10us at most where the driver stamps every command; 100us where the device is the host's own processors) of what the device's own timer says (median of 50)",
			meaning: "event spans on this device are not the time that the work took",
			run:     checkKnownWork[E, S],
		},
		{
			name:    "order",
			expect:  "1000 events recorded on one stream read in the order of recording, never backwards, and their spans add up",
			meaning: "windows on one stream can overlap or end before they start",
			run:     checkOrder[E, S],
		},
		{
			name:    "device-timer",
			expect:  "an event's stamp lies between two readings of the device's own timer, taken before its record and after its wait",
			meaning: "stamps are not times of the clock that the driver lets programs read, so they cannot be placed by it",
			run:     checkDeviceTimer[E, S],
		},
		{
			name:    "tick",
			expect:  "spans are multiples of a step of at most 1us",
			meaning: "spans of a few microseconds on this device are mostly rounding",
			run:     checkTick[E, S],
		},
		{
			name:    "clamp",
			expect:  "the span between swapped events is 0 and counted, neither negative nor an error",
			meaning: "negative spans reach whoever adds them up, or are hidden without a trace",
			run:     checkClamp[E, S],
		},
		{
			name:    "stream-order",
			expect:  "a stream that waits for another stream's event goes on after it, never before",
			meaning: "work on one stream can overtake the work on another that it depends on",
			run:     checkStreamOrder[E, S],
		},
		{
			name:    "cost",
			expect:  "queueing a record costs the host less than 1ms, and a record and the wait for it on an idle stream less than 100ms",
			meaning: "timing with events slows the program down so far that it measures itself",
			run:     checkCost[E, S],
		},
		{
			name:    "capture",
			expect:  "a global graph capture held open on one thread survives 1000 queries and waits of unrelated events on others",
			meaning: "a profiler or a fence in this process breaks graph captures of the program around it",
			run:     checkCapture[E, S],
		},
		{
			name:    "fence",
			expect:  "a fence is reached when the work before it is done, not earlier; a wait can be given up, 100 others return, a stream that waits goes on after it, and nothing is left",
			meaning: "whoever waits for a stream's work through a fence goes on too early, or hangs",
			run:     checkFence[E, S],
		},
		{
			name:    "profiler",
			expect:  "windows nested round known work lie in each other as they were opened, read what the device's own timer says within 5us (10us at most where the driver stamps every command; 100us where the device is the host's own processors) and the cost of the records inside, and none is lost or leaves anything behind",
			meaning: "a profiler's windows on this device are not the time that the work in them took",
			run:     checkProfiler[E, S],
		},
		{
			name:    "drift",
			expect:  "the device's clock and the host's differ in rate by less than 500ppm over some seconds",
			meaning: "durations on this device are scaled wrongly, or its clock cannot be placed on the host's",
			run:     checkDrift[E, S],
		},
		{
			name:    "placement",
			expect:  "windows begin on the host's clock where the host saw them begin, within the bound that each comes with",
			meaning: "a profiler's windows cannot be compared with what the host did at the same time",
			run:     checkPlacement[E, S],
		},
		{
			name:    "leftovers",
			expect:  "after all checks every event and stream of theirs is gone, and no destroy has failed unseen",
			meaning: "handles leak in ordinary use",
			run:     checkLeftovers[E, S],
		},
	}
}

// Names lists the checks in the order in which they run.
func Names() []string {
	var names []string
	for _, c := range list[struct{}, struct{}]() {
		names = append(names, c.name)
	}
	return names
}

// NotRun is the result of a check that did not come to its end, for the reason given.
// Its name must be one of Names.
func NotRun(name string, v Verdict, reason string) Result {
	for _, c := range list[struct{}, struct{}]() {
		if c.name == name {
			return c.result(v, reason)
		}
	}
	return Result{Name: name, Verdict: v, Reason: reason, Numbers: map[string]any{}}
}

// Expectation is what the check of that name expects, empty for no such check.
func Expectation(name string) string { return NotRun(name, Skip, "").Expectation }
