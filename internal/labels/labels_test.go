package labels_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"example.com/devevents/internal/labels"
)

func TestNamesAreValidAndShort(t *testing.T) {
	long := strings.Repeat("x", labels.Longest)
	for given, want := range map[string]string{
		"decode":              "decode",
		"":                    labels.Unnamed,
		"pr\u00e9fill":        "pr\u00e9fill",
		"a\xff\xfeb":          "a\uFFFDb",
		long:                  long,
		long + "y":            long,
		long[1:] + "\u00e9":   long[1:],
		long[2:] + "\u00e9":   long[2:] + "\u00e9",
		long[1:] + "\xff\xff": long[1:],
	} {
		require.Equal(t, want, labels.Clean(given), "%q", given)
	}
}

func FuzzNamesAreValidAndShort(f *testing.F) {
	for _, seed := range []string{"", "a", "\xff", strings.Repeat("\u00e9", 100), strings.Repeat("\xff", 500)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		got := labels.Clean(given)
		require.True(t, utf8.ValidString(got))
		require.NotEmpty(t, got)
		require.LessOrEqual(t, len(got), labels.Longest)
		require.Equal(t, got, labels.Clean(got))
	})
}

func TestSetIsBounded(t *testing.T) {
	s := labels.NewSet(3)
	for range 2 {
		require.Equal(t, "a", s.Bound("a"))
		require.Equal(t, "b", s.Bound("b"))
		require.Empty(t, s.Bound(""))
		require.Equal(t, labels.Other, s.Bound("d"))
	}
}

func TestSetHammer(t *testing.T) {
	const most = 10
	s := labels.NewSet(most)
	var wg sync.WaitGroup
	var seen sync.Map
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				seen.Store(s.Bound(strconv.Itoa(i)), true)
			}
		})
	}
	wg.Wait()
	distinct := 0
	seen.Range(func(any, any) bool { distinct++; return true })
	require.Equal(t, most+1, distinct, "those of the set, and the one for all others")
}
