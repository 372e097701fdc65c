package house_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const apiListing = "docs/api.txt"

// What others can use is listed in docs/api.txt, so that a change of it is seen where
// changes are read. DEVEVENTS_UPDATE=1 writes the listing anew.
func TestPublicNamesAreThoseOfTheListing(t *testing.T) {
	top := root(t)
	var list []string
	for dir, files := range packages(sources(t, top)) {
		if !public(dir, files) {
			continue
		}
		for _, d := range exported(files) {
			list = append(list, dir+": "+d.text)
		}
	}
	slices.Sort(list)
	got := strings.Join(slices.Compact(list), "\n") + "\n"
	if os.Getenv("DEVEVENTS_UPDATE") == "1" {
		require.NoError(t, os.WriteFile(filepath.Join(top, apiListing), []byte(got), 0o644))
	}
	require.Equal(t, read(t, top, apiListing), got,
		"the exported names changed; if that is wanted: DEVEVENTS_UPDATE=1 go test -run Listing ./internal/house, and a line in CHANGELOG.md")
}

// Every exported name, field and method says what it is, at the name or at the group it
// stands in.
func TestEveryPublicNameIsDocumented(t *testing.T) {
	for dir, files := range packages(sources(t, root(t))) {
		if !public(dir, files) {
			continue
		}
		for _, d := range exported(files) {
			if !d.documented {
				t.Errorf("%s: %s has no comment", dir, d.text)
			}
		}
	}
}

// public reports whether others can import a package.
func public(dir string, files []source) bool {
	if strings.Contains("/"+dir+"/", "/internal/") || strings.HasPrefix(dir, "examples/") {
		return false
	}
	return slices.ContainsFunc(files, func(s source) bool { return !s.test && s.syntax.Name.Name != "main" })
}

// declared is an exported name with what stands for it in a listing.
type declared struct {
	text       string
	documented bool
}

func exported(files []source) (list []declared) {
	add := func(documented bool, format string, args ...any) {
		list = append(list, declared{fmt.Sprintf(format, args...), documented})
	}
	for _, s := range files {
		if s.test {
			continue
		}
		for _, d := range s.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if receiver := receiverOf(d); d.Name.IsExported() && (receiver == "" || ast.IsExported(receiver)) {
					add(d.Doc != nil, "%s", flat(&ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type}))
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							if name.IsExported() {
								add(d.Doc != nil || spec.Doc != nil || spec.Comment != nil, "%s %s%s", d.Tok, name.Name, typed(spec))
							}
						}
					case *ast.TypeSpec:
						if spec.Name.IsExported() {
							ofType(d, spec, add)
						}
					}
				}
			}
		}
	}
	return list
}

// ofType lists a type with its exported fields or methods.
func ofType(d *ast.GenDecl, spec *ast.TypeSpec, add func(bool, string, ...any)) {
	name := spec.Name.Name
	commented := d.Doc != nil || spec.Doc != nil || spec.Comment != nil
	var members *ast.FieldList
	switch kind := spec.Type.(type) {
	case *ast.StructType:
		add(commented, "type %s%s struct", name, flatParams(spec.TypeParams))
		members = kind.Fields
	case *ast.InterfaceType:
		add(commented, "type %s%s interface", name, flatParams(spec.TypeParams))
		members = kind.Methods
	default:
		add(commented, "type %s%s %s", name, flatParams(spec.TypeParams), flat(spec.Type))
		return
	}
	// What is said of a type is said of its one member.
	single := commented && len(members.List) == 1 && len(members.List[0].Names) == 1
	above := false // a field without a comment shares that of the one right above
	last := token.NoPos
	for _, field := range members.List {
		documented := single || field.Doc != nil || field.Comment != nil
		if !documented && above && fileSet.Position(field.Pos()).Line == fileSet.Position(last).Line+1 {
			documented = true
		}
		above, last = documented, field.End()
		for _, n := range field.Names {
			if n.IsExported() {
				add(documented, "%s.%s %s", name, n.Name, flat(field.Type))
			}
		}
		if len(field.Names) == 0 {
			add(true, "%s embeds %s", name, flat(field.Type))
		}
	}
}

func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name
		default:
			return flat(of)
		}
	}
}

func typed(spec *ast.ValueSpec) string {
	if spec.Type == nil {
		return ""
	}
	return " " + flat(spec.Type)
}

func flatParams(params *ast.FieldList) string {
	if params == nil {
		return ""
	}
	var parts []string
	for _, p := range params.List {
		for _, n := range p.Names {
			parts = append(parts, n.Name+" "+flat(p.Type))
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// flat prints syntax on one line.
func flat(node ast.Node) string {
	var out bytes.Buffer
	if err := printer.Fprint(&out, fileSet, node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(out.String()), " ")
}
