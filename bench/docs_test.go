package bench

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var testNamed = regexp.MustCompile("`(?:(?:bench/internal/stats|bench/compare|cmd/benchcompare)\\.)?(Test[A-Za-z0-9_]+)`")

// The page that says which test shows what names no test that does not exist.
func TestPageNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "bench.md"))
	if os.IsNotExist(err) {
		t.Skip("needs the repository's docs beside the package: docs/bench.md is not there")
	}
	require.NoError(t, err)
	exists := map[string]bool{}
	for _, dir := range []string{".", filepath.Join("internal", "stats"), "compare", filepath.Join("..", "cmd", "benchcompare")} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range syntax.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					exists[f.Name.Name] = true
				}
			}
		}
	}
	names := testNamed.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(names), 30)
	for _, n := range names {
		require.True(t, exists[n[1]], n[1])
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+|N\d+) \|`).FindAllString(string(page), -1)
	require.Len(t, rows, 35)
}
