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
// A wait costs a goroutine, never an OS thread of its own. One goroutine for
// each Source polls the oldest unfinished fence of each stream that somebody
// waits for: at first without a pause, for 20 us or 64 questions, then on timers
// that grow with the age of the wait from 50 us to 1 ms. It starts with the
// first waiter and ends with the last. Polls are made in rounds where the
// backend has them, so that they break no graph capture elsewhere in the
// process. A backend that cannot query is waited for on a bounded number of
// blocking threads instead, one for each stream; see WithBlockingThreads.
//
// A Done channel counts as somebody who waits, read or not, until there is a
// result. On a stream that hangs it costs a question each millisecond, up to four
// more if younger fences follow on that stream, and the polling goroutine, until the
// fence or its Source is closed.
//
// Err asks nobody: as long as nobody waits, it may say ErrNotReady for ever.
//
// A wake-up can be late by a quarter of the wait's age, by 1 ms at most, plus
// what the timers and the scheduler of the machine add. These are facts of the
// design; neither latency nor CPU time has been measured yet.
//
// # Who owns what
//
// A fence's event goes back by itself once the device has reached it, also when
// every waiter gave up, so a fence may simply be dropped. Close ends the waits
// for one that nobody should wait for any longer. After Source.Close nothing is
// left of the Source: no goroutine and no event.
//
// Nothing polls for fences that nobody waits for. Later records find them: one
// that would need a new event first asks about up to 8 fences of its own stream
// and, if none of them is reached, 8 of other streams in turn; while few events are
// free, some other records ask about 8 as well. So the events that exist stay in
// proportion to the fences that really are pending, also where each request has a
// stream of its own. At WithLimit a record asks up to 256 questions, and the next
// one goes on from there: where more streams than that hang, a few records can be
// ErrFull though another stream is done. Where the backend cannot query, threads
// wait for such fences instead; see WithBlockingThreads.
//
// Fences are made in slabs of up to 2048 (350 KB), so that a record does not
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
