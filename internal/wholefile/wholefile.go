// Package wholefile replaces files as a whole, or not at all.
package wholefile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Write replaces the file at path by what write writes. The folder must exist. It blocks
// until the file is on the disk.
func Write(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", path, err)
			_ = f.Close()           // closed already where that failed
			_ = os.Remove(f.Name()) // what is wrong is in err
		}
	}()
	if err = write(f); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
