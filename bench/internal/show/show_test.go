package show

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/bench/internal/stats"
)

func TestSharesOfAnySizeAreReadable(t *testing.T) {
	for share, want := range map[float64]string{
		0: "0 %", 0.01: "1 %", 0.02345: "2.345 %", 0.5: "50 %", 3: "300 %", 1e30: "1.000e+32 %", math.MaxFloat64: "1.798e+308 %",
	} {
		require.Equal(t, want, Percent(share))
	}
}

func TestFindingSaysWhatWouldSettleIt(t *testing.T) {
	needed, smallest := 40, 0.015
	f := &stats.Finding{Change: stats.Unclear, Why: "too few", Ratio: 1.005, Needed: &needed, Smallest: &smallest, CI: &stats.Interval{Lo: 0.99, Hi: 1.02}}
	require.Equal(t, []string{"unclear", "1.0050", "0.9900 .. 1.0200", "1.500 %"}, FindingCells(f))
	require.Contains(t, FindingNote(f, 2), "80 samples of each would settle it")
	f.Needed = nil
	require.Equal(t, "unclear: too few", FindingNote(f, 2))
	require.Equal(t, []string{"unclear", "n/a", "n/a", "n/a"}, FindingCells(&stats.Finding{Change: stats.Unclear}))
	require.Empty(t, FindingNote(&stats.Finding{Change: stats.Same}, 2))
}

func TestTextIsNoStructureOfATable(t *testing.T) {
	var out strings.Builder
	Markdown(&out, [][]string{{"a|b", "c"}, {"d\ne", "<f>"}})
	require.Equal(t, "| a\\|b | c |\n| --- | --- |\n| d e | &lt;f> |\n", out.String())
}
