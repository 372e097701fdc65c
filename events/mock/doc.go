// Package mock is a simulated device behind events.EventApi: queues, a device
// clock, work with a duration, graph captures, and every fault that a layer
// above must survive, by script.
//
// # What it is for
//
// Testing what is written on top of the seam (fences, profilers, benchmarks)
// without hardware, and showing it to people who have none. Its defaults are
// the costs measured on one server GPU: a timed event costs its stream
// 1.28 us, an idle stream takes 2.4 us to start, stamps are multiples of 32 ns
// and readings are float32 milliseconds. Ideal takes all costs away.
//
// # What it is not for
//
// It predicts nothing about the speed of a real device: work lasts as long as
// the caller says. Devices do not share a front end, memory has no contents,
// a graph's branches run one after another, and a goroutine has no thread, so
// a thread-local capture harms nobody.
//
// # Time
//
// By default time is real: waits sleep on timers and never spin. A System made
// inside a testing/synctest bubble uses the bubble's fake clock. With Manual,
// time stands still until System.Advance, so a blocked call needs another
// goroutine to advance; with AutoAdvance a blocked call moves the clock itself,
// to the very moment at which it can go on.
//
// The ground truth is open to tests: Device.TrueHostTime says when an event
// was really stamped, Device.DeviceTime what the device's clock showed then.
//
// # Concurrency
//
// All methods of System, Device and what they return are safe for concurrent
// use. The package starts no goroutines.
package mock
