package cfamily_test

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/devevents/events/internal/cfamily"
	"example.com/devevents/events/internal/fakert"
	"example.com/devevents/events/internal/fakesuite"
)

//go:embed thirdvendor_table_test.go
var tableFile string

func TestThirdVendorIsOneTableFile(t *testing.T) {
	require.NotEmpty(t, tableFile)
	require.LessOrEqual(t, strings.Count(tableFile, "\n"), 150)
}

// A vendor added by one table passes the whole contract.
func TestConformanceOfAThirdVendor(t *testing.T) {
	fakesuite.Vendor[musa]{
		Fake: []fakert.Option{fakert.Vendor("musa")},
		Open: func(path string) (*cfamily.Runtime[musa], error) {
			return cfamily.Open[musa](musaTable(), nil, []cfamily.Option{cfamily.WithLibrary(path)})
		},
		NoSpin: true,
	}.Run(t)
}
