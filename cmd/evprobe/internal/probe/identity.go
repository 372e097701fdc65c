package probe

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

func checkLibrary[E any, S comparable](e *env[E, S]) error {
	lib := e.about.Library
	if lib == nil {
		return skipf("the %s backend loads no library", e.Backend())
	}
	about := e.about
	for key, version := range map[string]int{"runtime_version": about.RuntimeVersion, "driver_version": about.DriverVersion} {
		if version != 0 {
			e.count(key, version)
		}
	}
	e.measured("%s (%s API), runtime %s, driver %s", lib.Path, lib.API, about.RuntimeText, about.DriverText)
	if about.RuntimeVersion <= 0 && about.RuntimeText == "" || about.DriverVersion <= 0 && about.DriverText == "" {
		return fmt.Errorf("the library says runtime version %d %q and driver version %d %q",
			about.RuntimeVersion, about.RuntimeText, about.DriverVersion, about.DriverText)
	}
	if err := e.at("reading which files are mapped"); err != nil {
		return err
	}
	files, err := mappedFiles()
	if errors.Is(err, errors.ErrUnsupported) {
		e.measured("which files are mapped cannot be read here")
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading which files are mapped: %w", err)
	}
	for _, path := range []string{lib.Path, lib.Driver} {
		if path != "" && !isMapped(path, files) {
			return fmt.Errorf("%s is not mapped into this process; mapped and similar: %s", path, similar(path, files))
		}
	}
	return nil
}

// isMapped says whether a file, or what it links to, is mapped. A bare name is
// what the loader was given; it matches a file of that name in any folder.
func isMapped(path string, files []string) bool {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		target = path
	}
	for _, f := range files {
		if f == path || f == target || !strings.ContainsRune(path, filepath.Separator) && filepath.Base(f) == path {
			return true
		}
	}
	return false
}

// similar lists the mapped files that are named like path up to its first dot.
func similar(path string, files []string) string {
	stem, _, _ := strings.Cut(filepath.Base(path), ".")
	var found []string
	for _, f := range files {
		if strings.HasPrefix(filepath.Base(f), stem) {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		return "none"
	}
	return strings.Join(found, ", ")
}

var (
	pciBusID = regexp.MustCompile(`^([0-9a-f]{4}|[0-9a-f]{8}):[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	uuid     = regexp.MustCompile(`^([A-Z]+-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

func checkDevice[E any, S comparable](e *env[E, S]) error {
	if e.ident == nil {
		return skipf("the backend cannot say which device this is (no Identifier)")
	}
	if err := e.at("asking for the identity"); err != nil {
		return err
	}
	id := e.ident.Identity()
	e.count("ordinal", id.Ordinal)
	e.count("devices", e.about.DeviceCount)
	e.measured("%d of %d: %s, PCI %s, %s", id.Ordinal, e.about.DeviceCount, id.Name, orUnknown(id.PCIBusID), orUnknown(id.UUID))
	switch {
	case id.Ordinal != e.about.Device:
		return fmt.Errorf("device %d was asked for and device %d answers", e.about.Device, id.Ordinal)
	case id.Name == "":
		return errors.New("the device has no name")
	case id.PCIBusID != "" && !pciBusID.MatchString(id.PCIBusID):
		return fmt.Errorf("%q is not a PCI bus id such as 0000:4e:00.0", id.PCIBusID)
	case id.UUID != "" && !uuid.MatchString(id.UUID):
		return fmt.Errorf("%q is not a UUID", id.UUID)
	}
	return nil
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
