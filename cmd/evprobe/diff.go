package main

import (
	"fmt"

	"example.com/devevents/cmd/evprobe/internal/compare"
	"example.com/devevents/cmd/evprobe/internal/document"
)

// diff compares the documents. Its JSON is a document of another kind.
func (c command) diff(o options, doc *document.Document, out *printer) int {
	var files []compare.File
	for _, path := range o.from {
		d, err := document.Read(path)
		if err != nil {
			doc.End(document.Usage, exitUsage, o.misused(err))
			if o.json {
				out.document(doc)
			}
			return c.exit(doc, out)
		}
		files = append(files, compare.File{Name: path, Document: d})
	}
	result := compare.Documents(files)
	doc.End(document.Passed, exitPassed, fmt.Sprintf("%d documents compared; %d checks differ in their verdict", len(files), len(result.Verdicts)))
	if len(result.Verdicts) > 0 {
		doc.End(document.Failed, exitFailed, doc.Summary)
	}
	if o.json {
		out.document(result)
	} else {
		if err := result.Write(out.w); err != nil && out.err == nil {
			out.err = err
		}
	}
	return c.exit(doc, out)
}
