// Package benchtest puts a device's time into Go benchmarks.
//
//	func BenchmarkMemset(b *testing.B) {
//		benchtest.Device(b, timer)
//		for b.Loop() {
//			memset(stream)
//		}
//	}
//
// One window of the backend lies round the whole loop, so that the host is not held up
// inside it, and its duration over the number of iterations is reported as
// device-ns/op beside the host's ns/op. Loops over b.N and -benchtime work as ever.
//
// The window includes whatever gaps the device had while it waited for the host: where
// both times are about the same, the device was waiting. Package bench measures such
// work without the gaps.
//
// # When not to use it
//
// Without a device ns/op is all there is, and package testing reports it by itself.
//
// The functions are for the benchmark's goroutine and start none.
package benchtest
