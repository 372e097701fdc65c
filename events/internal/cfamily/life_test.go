package cfamily

import (
	"runtime"
	"sync"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/dl"
)

// bare is a lib without a library: nothing of these tests reaches C.
func bare() *lib {
	l := &lib{table: &Table{
		Backend: "bare", Label: "BARE", Library: dl.Spec{Env: "BARE_LIBRARY"}, Driver: dl.Spec{Env: "BARE_DRIVER"},
		Symbols: map[Op]Symbol{}, Codes: map[int32]string{400: "bareHandle", 700: "bareFault"},
		Kind: func(code int32) error {
			return map[int32]error{1: events.ErrInvalid, 400: events.ErrInvalid, 600: events.ErrNotReady, 700: events.ErrDeviceFault}[code]
		},
		VersionText: func(int) string { return "1.0" },
	}}
	for op := range opCount {
		l.table.Symbols[op] = Symbol{Name: "bare" + string(rune('A'+op%26)) + string(rune('a'+op/26))}
	}
	l.frames.New = func() any { return new(frame) }
	return l
}

// lost is a device whose handles are counted as abandoned instead of freed in C.
func lost(l *lib) *dev {
	d := &dev{lib: l}
	d.fault.Store(&events.DriverError{Backend: "bare", Op: "test", Code: 700, Kind: events.ErrDeviceFault})
	return d
}

// A handle is freed once, and not before the last call that uses it has ended,
// whatever the number of calls and of slots for them.
// PaddlePaddle/Paddle#34285, lupinemachines/lupine#526
func TestHandleIsFreedOnceAfterItsLastUser(t *testing.T) {
	l := bare()
	rounds := 300
	if testing.Short() {
		rounds = 40
	}
	// More handles than slots at a time, each of a device of its own, which tells
	// whether it was freed.
	for range rounds {
		handles := make([]*life, 48)
		for i := range handles {
			handles[i] = newLife(lost(l), uintptr(i+1), lifeKind(i%2))
		}
		freed := func(h *life) uint64 { return h.dev.stats.abandoned.Load() }
		use := func(a, b *life) {
			if a.dead.Load() || b != nil && b.dead.Load() {
				return
			}
			for range 3 {
				if freed(a) != 0 || b != nil && freed(b) != 0 {
					t.Error("freed in use")
				}
				runtime.Gosched()
			}
		}
		var wg sync.WaitGroup
		for i, h := range handles {
			other := handles[(i+1)%len(handles)]
			wg.Go(func() {
				s := l.hold(h, other)
				use(h, other)
				l.release(s, h, other)
			})
			wg.Go(func() {
				count(h, nil)
				use(h, nil)
				l.releaseCounted(h, nil)
			})
			for range 2 {
				wg.Go(func() {
					if err := h.dev.destroy(h); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		for i, h := range handles {
			require.Equal(t, uint64(1), freed(h), "handle %d", i)
		}
		require.Empty(t, l.limbo.handles)
		require.Zero(t, l.limbo.waiting.Load())
		for i := range l.slots {
			require.Zero(t, l.slots[i].key.Load(), "slot %d", i)
		}
	}
}

// The last user may leave when a destroy has seen it and has not yet left the handle
// to it.
func TestHandleLeftToAUserThatHasGoneIsFreed(t *testing.T) {
	l := bare()
	d := lost(l)
	h := newLife(d, 1, kindEvent)
	held := l.hold(h, nil)
	l.limbo.mu.Lock() // the destroy stops here, after its look
	done := make(chan error, 1)
	go func() { done <- d.destroy(h) }()
	require.Eventually(t, h.dead.Load, 10*time.Second, time.Millisecond)
	time.Sleep(10 * time.Millisecond)
	l.release(held, h, nil)
	l.limbo.mu.Unlock()
	require.NoError(t, <-done)
	require.Equal(t, uint64(1), d.stats.abandoned.Load())
	require.Empty(t, l.limbo.handles)
}

// Where every slot is taken, calls are counted in their handles.
func TestCallsWithoutASlotAreCounted(t *testing.T) {
	l := bare()
	d := lost(l)
	busy := newLife(d, 1, kindEvent)
	for i := range l.slots {
		l.slots[i].key.Store(pairKey(busy, nil))
	}
	a, b := newLife(d, 2, kindEvent), newLife(d, 3, kindStream)
	require.Nil(t, l.hold(a, b))
	require.Nil(t, l.hold(a, nil))
	require.Equal(t, int32(2), a.users.Load())
	require.Equal(t, int32(1), b.users.Load())
	require.NoError(t, d.destroy(a))
	require.Zero(t, d.stats.abandoned.Load())
	l.release(nil, a, b)
	require.Zero(t, d.stats.abandoned.Load())
	l.release(nil, a, nil)
	require.Equal(t, uint64(1), d.stats.abandoned.Load())
	require.False(t, l.inUse(b))
	require.True(t, l.inUse(busy))
}

// Two handles of one number can only make a destroy wait.
func TestNumbersOfHandlesComeRoundWithoutZero(t *testing.T) {
	before := lifeIDs.Load()
	defer lifeIDs.Store(before)
	lifeIDs.Store(1<<32 - 2)
	d := lost(bare())
	ids := []uint32{newLife(d, 1, kindEvent).id, newLife(d, 2, kindEvent).id, newLife(d, 3, kindEvent).id}
	require.Equal(t, []uint32{1<<32 - 1, 1, 2}, ids, "a key of 0 is a free slot")
}

// What RoundBegin found on its thread survives the way through a Round.
func TestRoundCarriesItsThread(t *testing.T) {
	require.NoError(t, quick.Check(func(previous uintptr, mode int32, switched, relaxed bool) bool {
		begun := thread{previous, mode, switched, relaxed}
		round := begun.round()
		return round.Open && threadOf(round) == begun
	}, nil))
}

// Whatever the driver answered and whatever is known of the events, a pair that is
// not read is an error. NVIDIA/cuda-python#556
func TestEveryMistakeOfElapsedIsAnError(t *testing.T) {
	d := &dev{lib: bare()}
	for _, code := range []int32{codeSuccess, 1, 400, 46, 907, -1} {
		for bits := range 16 {
			s, e := &life{untimed: bits&1 != 0}, &life{untimed: bits&2 != 0}
			fresh, freshEnd := bits&4 != 0, bits&8 != 0
			if bits == 0 && code == codeSuccess {
				continue // that is a reading
			}
			what, kind := d.elapsedMistake(code, s, e, fresh, freshEnd)
			err := d.explainElapsed(code, what, kind)
			require.Error(t, err, "code %d, %04b", code, bits)
			if kind != nil {
				require.ErrorIs(t, err, kind)
			}
			if (code == 46 || code == 907 || code == -1) && bits != 0 {
				require.NotErrorIs(t, err, events.ErrNotRecorded, "the driver's other reasons come first")
			}
		}
	}
}

// Every answer to the count of devices has a cause, a sentence and an advice.
// ollama/ollama#3417, numba/numba#9732
func TestEveryAnswerToTheCountIsExplained(t *testing.T) {
	l := bare()
	for code := int32(-2); code < 1100; code++ {
		cause, detail, advice := explainCount(l.table, code, "12.4")
		require.NotEmpty(t, cause)
		for _, text := range []string{detail, advice} {
			require.NotEmpty(t, text)
			require.NotContains(t, text, "\n")
			require.NotContains(t, text, ". ")
		}
		if cause == events.CauseDriverMissing {
			require.Contains(t, detail, "12.4")
		}
	}
	cause, _, _ := explainCount(l.table, codeSuccess, "")
	require.Equal(t, events.CauseNoDevice, cause, "success, and no devices")
}

// Each ability stands on functions of its own, and falls with any of them alone.
// chelsea0x3b/cudarc#490, pegainfer-project/pegainfer#263
func TestEachAbilityFallsWithItsFunctionsAlone(t *testing.T) {
	type (
		event  = Event[vendor]
		stream = Stream[vendor]
	)
	abilities := map[string]any{
		"capturing": (*events.CaptureAsker[stream])(nil), "gate": (*events.Gate[stream])(nil),
		"scratch": (*events.Scratch[stream])(nil), "graphs": (*events.Graphs[event, stream])(nil),
		"query": (*events.Querier[event])(nil), "round": (*events.RoundQuerier[event])(nil), "stats": (*events.StatsReader)(nil),
		"identity": (*events.Identifier)(nil), "wrap": (*events.StreamWrapper[stream])(nil), "untimed": (*events.UntimedCreator[event])(nil),
	}
	falls := map[Op][]string{OpCapturing: {"capturing"}, OpWaitValue: {"gate"}}
	for _, op := range []Op{OpHostAlloc, OpHostAddress, OpHostFree} {
		falls[op] = []string{"gate"}
	}
	for _, op := range []Op{OpMalloc, OpFree, OpMemset, OpCopy} {
		falls[op] = []string{"scratch"}
	}
	for _, op := range []Op{OpContextGet, OpContextSet, OpPrimaryRetain} {
		falls[op] = []string{"gate", "scratch"}
	}
	for _, op := range []Op{OpCaptureBegin, OpCaptureEnd, OpGraphInstance, OpGraphLaunch, OpGraphExecFree, OpGraphFree, OpEventRecordExt} {
		falls[op] = []string{"graphs"}
	}
	for absent := Op(-1); absent < opCount; absent++ {
		l := bare()
		for op := range opCount {
			if op != absent && op != OpGetDevice && op != OpSetDevice { // the other way to switch
				l.fn[op] = 1
			}
		}
		d := Device[vendor]{&dev{lib: l}}
		for name, ability := range abilities {
			want := true
			for _, l := range falls[absent] {
				want = want && l != name
			}
			require.Equal(t, want, d.Offers(ability), "%s without function %d", name, absent)
		}
	}
	// Without a driver library the device is switched by its number.
	l := bare()
	for _, op := range []Op{OpGetDevice, OpSetDevice, OpMalloc, OpFree, OpMemset, OpCopy} {
		l.fn[op] = 1
	}
	require.True(t, Device[vendor]{&dev{lib: l}}.Offers(abilities["scratch"]))
	require.Equal(t, OpSetDevice, l.switcher())
	require.False(t, l.spinnable(), "there is no program")
}

type vendor struct{}

func (vendor) VendorName() string { return "bare" }

// A text for C ends where C looks for its end, also when it is too long.
func TestTextsForCAreTerminated(t *testing.T) {
	f := new(frame)
	for i := range f.text {
		f.text[i] = 'x'
	}
	for _, length := range []int{0, 1, 14, 255, 256, 1000} {
		long := make([]byte, length)
		for i := range long {
			long[i] = 'a'
		}
		f.setText(string(long))
		got := cText(f.textAddr(), 1000)
		require.Equal(t, string(long[:min(length, 255)]), got)
		text := heapText(string(long))
		require.Equal(t, string(long), cText(bytesAddr(text), 2000))
		runtime.KeepAlive(text)
	}
	runtime.KeepAlive(f)
	require.Empty(t, cText(0, 10))
}
