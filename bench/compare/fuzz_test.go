package compare

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/bench"
)

// Files come from anywhere: none takes the program down, or puts a number that is none
// into the answer.
func FuzzReports(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"results":[{"group":"g","case":"c","status":"ok","latency":{"median":-1,"quantum":-5},"samples":[{"duration_ns":-1,"iterations":0}]}]}`,
		`{"results":[{"group":"g","case":"c","status":"ok","latency":{"median":0},"samples":[{"duration_ns":9223372036854775807,"iterations":-9},{"duration_ns":1,"iterations":9223372036854775807}]}]}`,
		`{"results":[{"status":"failed"},{"status":"failed"}]}`,
	} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		var old, next bench.Report
		if json.Unmarshal([]byte(before), &old) != nil || json.Unmarshal([]byte(after), &next) != nil {
			return
		}
		r, err := Reports(&old, &next, Force())
		if err != nil {
			require.Nil(t, r)
			return
		}
		_, err = json.Marshal(r)
		require.NoError(t, err)
		require.NoError(t, r.WriteTable(t.Output()))
		require.NoError(t, r.WriteCSV(t.Output()))
	})
}
