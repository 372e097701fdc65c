//go:build !linux

package probe

import (
	"errors"
	"fmt"
)

func mappedFiles() ([]string, error) {
	return nil, fmt.Errorf("mapped files: %w", errors.ErrUnsupported)
}
