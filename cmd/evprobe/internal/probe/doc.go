// Package probe holds the checks of evprobe: each says what is expected of a
// device's event timing, measures it, and says what a failure means. They are
// written once over events.EventApi and its abilities, so every backend runs
// the same ones.
//
// A check runs on a goroutine of its own, because a call into a driver may never
// return: Run then leaves that goroutine behind and reports what was reached.
package probe
