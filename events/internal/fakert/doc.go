// Package fakert builds a hostile imitation of the C-family device runtimes, for
// tests. It is C, compiled when a test asks for it and loaded as the real
// libraries are, so that everything down to the register that an answer arrives
// in is the same.
//
// Build makes a library, Control loads it for the test; the code under test is
// given the same path and gets the same copy. Two builds share nothing. Like the
// real ones the library keeps the current device, the last error and the capture
// mode per OS thread, so tests of those lock their goroutine first.
//
// # What it does
//
// By default one file has the runtime's functions (cuda*) and the driver's (cu*),
// over the same handles and contexts. Streams are queues: an event's stamp is the
// device time at which its stream reaches it, in ticks of 32 ns; spin kernels,
// memsets and copies take time; waits for events, for words in memory and for a
// full queue (1020 items) hold. A default stream and the blocking streams of its
// device wait for each other. A thread of the library's own makes things happen
// while nobody asks. The per-thread default stream is one per device here.
//
// Codes are those measured on hardware: never-recorded events query as done,
// elapsed tells mistakes by 400, 600 and 1, polls kill the captures in their
// reach with 900, captured events answer 907 and then 1, legacy streams 906, an
// external record outside a capture 401. HIP reads stamps from before a capture,
// and its external record outside one is a plain one. Where hardware was not
// asked, the stricter answer was taken. A handle that does not exist, or not any more, aborts the
// process with a message: the real one may crash or corrupt memory. The device's
// address of memory is never the host's, and the host cannot follow it; only the
// contents of transfers of up to 1 MiB are real. A kernel or a transfer on a bad
// address is a sticky 700 from the next call on.
//
// With nothing queued, captured or scripted, record, query, synchronize, wait and
// elapsed take no lock and allocate nothing; with fast_clock they read no clock
// either, and cost a few ns.
//
// # Compiler flags
//
// Options of Build stand for these; a shell may use them with
// cc -shared -fPIC -O2 -pthread.
//
//	FAKE_NO_DRIVER        no cu* functions (RuntimeOnly)
//	FAKE_NO_RUNTIME       no cuda* functions (DriverOnly)
//	FAKE_HIP              hip* functions and HIP's habits (Vendor("hip"))
//	VENDOR_PREFIX=musa    the runtime's functions under another prefix (Vendor("musa"))
//	FAKE_ELAPSED_V2       cudaEventElapsedTime_v2 and cuEventElapsedTime_v2, which
//	                      answer 7 s more than the plain ones (ElapsedV2)
//	OMIT_<symbol>         leaves one symbol out (Omit)
//
// # Control functions
//
// Each library exports fake_get and fake_set (Get and Set), fake_echo (Echo),
// fake_work, which queues work of some ns on a stream (Work), and fake_hold and
// fake_release, which keep a stream busy and let it go (Hold and Release).
//
// # The management library
//
// NVML builds testdata/fake_nvml.c in place of a runtime: as many functions of NVIDIA's
// management library as are used, and one that must not be. Until nvmlInit_v2 every
// function answers 1 (uninitialized). It has one device, found by any UUID and bus id;
// fake_asked gives the last one asked for. Its keys, all to set and get: fail_<Function>,
// calls_<Function>, slow_us_<Function>, and the answers sm_clock, memory_clock, reasons,
// temperature, power, energy, mig, power_violation and thermal_violation.
//
// # Keys for a function
//
// Function is a name with its prefix (cudaEventQuery) or without it (EventQuery:
// the runtime's and the driver's).
//
//	fail_<Function>        the code that it answers with, without doing anything;
//	                       0 ends that and forgets the next two
//	fail_count_<Function>  how many times, -1 for ever; by default for ever, and
//	                       once with fail_nth_
//	fail_nth_<Function>    not before this call, counted from 1 and from the last
//	                       change of these three
//	calls_<Function>       calls so far; may be set
//	slow_us_<Function>     microseconds that it sleeps first
//	block_<Function>       while not 0, calls wait
//	blocked_<Function>     calls that wait
//
// # Keys to set and get
//
//	runtime_version, driver_version   13000; HIP 60241134
//	device_count          1; up to 16
//	count_code            code of GetDeviceCount, and of all that needs a device
//	context_at_set_device whether SetDevice opens a context; -1, the default: since
//	                      CUDA 12 it does, HIP's never
//	abort_on_bad_handle   1; 0 answers 400 instead and counts bad_handles
//	reuse_handles         0; 1 gives the address freed last to the next handle
//	strict_captures       1; 0 lets foreign captures survive polls, as HIP up to 6
//	last_error_every_call HIP 1, else 0: success and 600 overwrite the last error
//	queue_depth           1020
//	sticky_code           a fault: all that touches a context answers with it from
//	                      then on, destroy included
//	null_error_strings    GetErrorName and GetErrorString answer NULL
//	named_code            a code that only this library has a name for
//	dirty_upper           garbage in the upper 32 bits of every returned code
//	elapsed_bits          elapsed answers a float of these bits (SetFloat); -1 ends it
//	elapsed_untouched     elapsed succeeds and writes nothing
//	fast_clock            records on idle streams count 1280 ns instead of reading a
//	                      clock
//	cache_bytes           62914560
//	manual_clock          device time stands still until told
//	now_ns, advance_ns    device time; setting either makes the clock manual
//	last_error            of the calling thread
//
// # Keys to get
//
//	live_events, live_streams, live_graphs, live_modules, live_allocations,
//	live_captures         what exists
//	queued                items in all queues
//	calls_total           calls of all functions
//	last_create_flags     of an event; also last_stream_flags, last_record_flags
//	                      (RecordWithFlags only) and last_wait_flags
//	invalidated_captures  captures that somebody killed
//	bad_handles           handles that did not exist
//	line_resets           resets of the cache's persisting lines
//	capture_mode, current_device, current_context   of the calling thread; the
//	                      context as its device's number, -1 for none
//	ctx_init_<device>     times that a context was opened on it
//	ctx_active_<device>   whether one is open
//	ctx_retained_<device> references to it through the driver
package fakert
