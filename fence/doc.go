// Package fence turns "the work queued on this stream so far" into a value that
// can be handed out: a Fence. Whoever has it can wait for that work, on the
// host or on another stream, without the lock of the stream's owner and without
// knowing the vendor.
//
//	fences, err := fence.New(dev)      // once for each device
//	defer fences.Close()
//	f, err := fences.Record(stream)    // already recorded, or refused
//	err = f.Wait(ctx)                  // a goroutine waits
//	<-f.Done()                         // or a select does
//	i, err := fence.Any(ctx, f, g)     // or whichever of several is first; All for all
//	err = fences.WaitOn(f, other)      // or another stream, and the host goes on
//
// # What it is not for
//
// Measuring: a fence's event carries no timestamp where the backend can make
// such events. Ordering work on one stream: the stream does that by itself.
//
// # How a wait works
//
// A wait costs a goroutine, never an OS thread of its own. One goroutine for each Source
// asks about the oldest unfinished fence of each stream that somebody waits for: at
// first without a pause, for 20 us or 64 questions, then with pauses of a quarter of the
// wait's age, from 50 us to 1 ms. Where a blocked wait of the backend sleeps
// (events.UntimedCreator), a stream whose oldest wait is 5 ms old is handed to one of at
// most 16 threads, which block in the driver; WithBlockingAfter and WithBlockingThreads
// set these. What no thread takes is polled on, after 100 ms with pauses of a hundredth
// of its age, up to 10 ms. The goroutine starts with the first waiter and ends with the
// last.
//
// Polls are made in rounds where the backend has them, so that they break no graph
// capture elsewhere in the process. A backend that cannot query is waited for on the
// threads alone.
//
// A Done channel counts as somebody who waits, read or not, until there is a result. On
// a stream that hangs it costs a thread, or a question each 10 ms, until the fence or
// its Source is closed.
//
// Err asks nobody: as long as nobody waits, it may say ErrNotReady for ever.
//
// # What a wait costs
//
// From the moment a stream was let go to the waiting goroutine running, on an H200 with
// 16 cores, in us (median, and p99 behind the stroke), beside C and PyTorch in the same
// run (docs/measurements/h200/fence-wake-up.json):
//
//	waited for               at once      0.1 ms        1 ms         20 ms
//	fence, as it comes       19/161       67/111      182/327      256/436
//	polled alone             15/114       54/81       131/328      575/1084
//	threads from the start   62/96        93/144      161/228      255/411
//	C, blocking synchronize  17/33        42/100      118/271      255/426
//	PyTorch, blocking        56/105       72/141      130/206      274/433
//	C, spinning synchronize   6/21         7/12         9/13        15/20
//	C, query in a loop        4/7          7/15        11/16        13/17
//
// Who spins is faster and burns a core for each wait. A second of waiting for 16 streams
// costs less than 0.5 % of one core as it comes and with threads from the start, and 3 %
// polled alone (read in that run, without samples). With Go's own timers instead of a timerfd (see internal/alarm)
// a poll after 0.1 ms is late by 1 ms: so it is outside of Linux.
//
// While as many goroutines compute as there are processors, no policy helps: whoever
// wakes up waits for the scheduler's time slice of 10 ms (medians from 30 us to 15 ms
// in the same run, p99 up to 22 ms).
//
// 12,000 goroutines that wait for 16 streams take at most 24 threads and one for each
// processor, which the tests bound on an H200, over an imitation of the runtime and with
// 100,000 goroutines on the simulated device.
//
// # Who owns what
//
// A fence's event goes back by itself once the device has reached it, also when
// every waiter gave up, so a fence may simply be dropped. Close ends the waits
// for one that nobody should wait for any longer. After Source.Close nothing is
// left of the Source: no goroutine and no event.
//
// Nothing polls for fences that nobody waits for. Later records find them: once 32 are
// unfinished on its stream, or more than 1024 events exist, a record that would need a
// new event asks whether older ones are reached, where one question answers for all
// before it; with none on its own stream it asks about 8 of other streams in turn; while
// few events are free, some other records do so as well. So the events that exist stay
// in proportion to the fences that really are pending, also where each request has a
// stream of its own. At WithLimit a record asks up to 256 questions, and the next
// one goes on from there: where more streams than that hang, a few records can be
// ErrFull though another stream is done. Where the backend cannot query, threads
// wait for such fences instead; see WithBlockingThreads.
//
// Fences are made in slabs of up to 2048 (280 KB), so that a record does not
// allocate; a slab lives as long as somebody keeps one of its fences, and so does
// what its events were lent with (64 KB for 4096 of them).
//
// A Fence names no vendor. Nor does an AnySource, which New makes from an
// erased device.
//
// # Graph captures
//
// Record and WaitOn refuse a stream that is being captured, and the capture is
// unharmed. Waiting, polling (also by Record, of other streams) and Close harm no
// capture, on any stream. All of
// this rests on the backend's CaptureAsker and RoundQuerier abilities.
//
// # Concurrency
//
// All methods are safe for concurrent use. Fences of one stream complete in the
// order in which Record returned them.
package fence
