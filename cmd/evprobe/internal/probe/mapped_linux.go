package probe

import (
	"os"
	"strings"
)

// mappedFiles lists the files that are mapped into this process.
func mappedFiles() ([]string, error) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	var files []string
	for line := range strings.Lines(string(text)) {
		if i := strings.IndexByte(line, '/'); i >= 0 {
			files = append(files, strings.TrimSuffix(strings.TrimSpace(line[i:]), " (deleted)"))
		}
	}
	return files, nil
}
