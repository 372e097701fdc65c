package names_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"example.com/devevents/internal/names"
)

func TestNamesAreValidAndShort(t *testing.T) {
	long := strings.Repeat("x", names.Longest)
	for given, want := range map[string]string{
		"decode":              "decode",
		"":                    names.Unnamed,
		"pr\u00e9fill":        "pr\u00e9fill",
		"a\xff\xfeb":          "a\uFFFDb",
		long:                  long,
		long + "y":            long,
		long[1:] + "\u00e9":   long[1:],
		long[2:] + "\u00e9":   long[2:] + "\u00e9",
		long[1:] + "\xff\xff": long[1:],
	} {
		require.Equal(t, want, names.Clean(given), "%q", given)
	}
}

func FuzzNamesAreValidAndShort(f *testing.F) {
	for _, seed := range []string{"", "a", "\xff", strings.Repeat("\u00e9", 100), strings.Repeat("\xff", 500)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		got := names.Clean(given)
		require.True(t, utf8.ValidString(got))
		require.NotEmpty(t, got)
		require.LessOrEqual(t, len(got), names.Longest)
		require.Equal(t, got, names.Clean(got))
	})
}

func TestSetIsBounded(t *testing.T) {
	s := names.NewSet(3)
	for range 2 {
		require.Equal(t, "a", s.Label("a"))
		require.Equal(t, "b", s.Label("b"))
		require.Equal(t, names.Unnamed, s.Label(""))
		require.Equal(t, names.Other, s.Label("d"))
	}
}

func TestSetHammer(t *testing.T) {
	const most = 10
	s := names.NewSet(most)
	var wg sync.WaitGroup
	var seen sync.Map
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				seen.Store(s.Label(strconv.Itoa(i)), true)
			}
		})
	}
	wg.Wait()
	distinct := 0
	seen.Range(func(any, any) bool { distinct++; return true })
	require.Equal(t, most+1, distinct, "those of the set, and the one for all others")
}
