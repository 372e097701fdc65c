package alarm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/devevents/internal/alarm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func both(t *testing.T, test func(t *testing.T, a *alarm.Alarm)) {
	t.Helper()
	for name, make := range map[string]func() *alarm.Alarm{"fine": alarm.New, "coarse": alarm.NewCoarse} {
		t.Run(name, func(t *testing.T) {
			a := make()
			defer a.Close()
			test(t, a)
		})
	}
}

func TestSleepIsNeverShort(t *testing.T) {
	both(t, func(t *testing.T, a *alarm.Alarm) {
		for _, d := range []time.Duration{0, 1, 50 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
			for range 5 {
				began := time.Now()
				a.Sleep(d)
				require.GreaterOrEqual(t, time.Since(began), d)
			}
		}
	})
}

// A wake counts whenever it comes: before the sleep, in it, and in the moment between.
func TestNoWakeIsLost(t *testing.T) {
	both(t, func(t *testing.T, a *alarm.Alarm) {
		a.Wake()
		a.Wake() // two before one sleep are one
		began := time.Now()
		a.Sleep(time.Hour)
		for range 2000 {
			woken := make(chan struct{})
			go func() {
				a.Wake()
				close(woken)
			}()
			a.Sleep(time.Hour)
			<-woken
		}
		require.Less(t, time.Since(began), time.Minute)
		began = time.Now()
		a.Sleep(5 * time.Millisecond)
		require.GreaterOrEqual(t, time.Since(began), 5*time.Millisecond, "a wake that was answered does not count again")
	})
}

func TestSleepDoesNotAllocate(t *testing.T) {
	both(t, func(t *testing.T, a *alarm.Alarm) {
		a.Sleep(1)
		require.Zero(t, testing.AllocsPerRun(100, func() { a.Sleep(time.Microsecond) }))
	})
}

// How late a short sleep is: the reason for the package.
func BenchmarkSleep50us(b *testing.B) {
	for name, make := range map[string]func() *alarm.Alarm{"fine": alarm.New, "coarse": alarm.NewCoarse} {
		b.Run(name, func(b *testing.B) {
			a := make()
			defer a.Close()
			for b.Loop() {
				a.Sleep(50 * time.Microsecond)
			}
		})
	}
}
