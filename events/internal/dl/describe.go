package dl

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// finding is what lies at a path, worded to follow it: "is an empty file".
type finding struct {
	text string
	// bad: this alone is why it cannot be loaded.
	bad bool
	// keepOff: the loader must not even be asked. It waits for ever on a pipe, and
	// on a file that is cut short it takes the process down.
	keepOff bool
}

func refuse(format string, args ...any) finding {
	return finding{text: fmt.Sprintf(format, args...), bad: true, keepOff: true}
}

func wrong(format string, args ...any) finding {
	return finding{text: fmt.Sprintf(format, args...), bad: true}
}

// inspect says what lies at path. Loaders are vague about it, or mistaken: for a
// file of another processor glibc says that it does not exist.
func inspect(path string) finding {
	link, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return refuse("does not exist, and neither does its directory")
		}
		return refuse("does not exist")
	case err != nil:
		return refuse("cannot be looked at: %v", reasonOf(err))
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && link.Mode()&fs.ModeSymlink != 0:
		target, _ := os.Readlink(path)
		return refuse("is a dangling link: %s does not exist", target)
	case err != nil:
		return refuse("is a link that cannot be followed: %v", reasonOf(err))
	case info.IsDir():
		return refuse("is a directory, not a library file")
	case !info.Mode().IsRegular():
		return refuse("is not a regular file but a %s", kindOf(info.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return refuse("exists but cannot be read: %v", reasonOf(err))
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse("exists but cannot be read: %v", reasonOf(err))
	}
	if runtime.GOOS == "windows" {
		return inspectDLL(head[:n])
	}
	return inspectHead(head[:n], info.Size(), runtime.GOARCH)
}

// reasonOf drops the operation and the path, which the line begins with already.
func reasonOf(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

func inspectDLL(head []byte) finding {
	switch {
	case len(head) == 0:
		return wrong("is an empty file")
	case !bytes.HasPrefix(head, []byte("MZ")):
		return wrong("is not a Windows library")
	}
	return finding{text: "exists"}
}

// machines names the processors of ELF files as people do.
var machines = map[elf.Machine]string{
	elf.EM_X86_64: "x86-64", elf.EM_AARCH64: "arm64", elf.EM_386: "x86", elf.EM_ARM: "arm",
	elf.EM_PPC64: "ppc64", elf.EM_RISCV: "riscv", elf.EM_S390: "s390", elf.EM_LOONGARCH: "loongarch",
}

var ourMachine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// Fields of a 64-bit ELF header and of its program headers.
const (
	headerLen   = 64
	programLen  = 56
	programLoad = 1
)

// inspectHead says what kind of file begins with head, for a program of goarch.
func inspectHead(head []byte, size int64, goarch string) finding {
	switch {
	case len(head) == 0:
		return wrong("is an empty file")
	case !bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return inspectOther(head)
	case len(head) < headerLen:
		return wrong("is an ELF file cut short after %d bytes", len(head))
	}
	var order binary.ByteOrder = binary.LittleEndian
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	kind, machine := elf.Type(order.Uint16(head[16:])), elf.Machine(order.Uint16(head[18:]))
	name, known := machines[machine]
	if !known {
		name = "machine number " + strconv.Itoa(int(machine))
	}
	ours := ourMachine[goarch]
	bits := map[elf.Class]string{elf.ELFCLASS32: "32-bit", elf.ELFCLASS64: "64-bit"}[elf.Class(head[elf.EI_CLASS])]
	switch {
	case bits == "":
		return wrong("is a damaged ELF file: its class byte is %d", head[elf.EI_CLASS])
	case bits == "32-bit":
		return wrong("is a 32-bit library (%s), and this program is 64-bit", name)
	case machine != ours || order == binary.BigEndian:
		return wrong("is a library for another processor (64-bit, %s), and this program is %s", name, machines[ours])
	case kind != elf.ET_DYN:
		return wrong("is an ELF file but not a shared library (%s)", kind)
	}
	text := "exists, 64-bit, " + name
	// The table of program headers follows the header in every real library; one
	// that lies elsewhere is left to the loader.
	at, count := order.Uint64(head[32:]), uint64(order.Uint16(head[56:]))
	if order.Uint16(head[54:]) != programLen || at > uint64(len(head)) || count*programLen > uint64(len(head))-at {
		return finding{text: text}
	}
	for ; count > 0; count-- {
		p := head[at : at+programLen]
		at += programLen
		offset, length := order.Uint64(p[8:]), order.Uint64(p[32:])
		if order.Uint32(p) == programLoad && (offset > uint64(size) || length > uint64(size)-offset) {
			return refuse("is a library cut short after %d bytes, as an interrupted copy leaves it", size)
		}
	}
	return finding{text: text}
}

// inspectOther tells the usual strangers apart.
func inspectOther(head []byte) finding {
	line, _, _ := strings.Cut(string(head[:min(len(head), 80)]), "\n")
	text := strings.ContainsFunc(line, unicode.IsLetter) && !strings.ContainsFunc(line, func(r rune) bool {
		return r == unicode.ReplacementChar || unicode.IsControl(r) && r != '\t' && r != '\r'
	})
	switch {
	case text && (bytes.Contains(head, []byte("GROUP")) || bytes.Contains(head, []byte("INPUT")) || strings.Contains(line, "ld script")):
		return wrong("is a linker script, not a library; only linkers follow it (it begins with %q)", strings.TrimSpace(line))
	case text:
		return wrong("is a text file, not a library (it begins with %q)", strings.TrimSpace(line))
	}
	return wrong("is not an ELF file (it begins with the bytes % x)", head[:min(len(head), 4)])
}

// explainPath is the reason why the file at path did not load: what lies there,
// and what the loader said.
func explainPath(path, said string) string {
	found := inspect(path)
	subject, rest, split := strings.Cut(said, ": ")
	if split && (subject == path || subject == realPath(path)) {
		said = rest
	} else if split && !found.bad && !strings.Contains(said, path) {
		// The loader speaks of another file: one that this library needs, and it
		// does not say who wanted it.
		through := ", through another library,"
		if slices.Contains(neededBy(path), subject) {
			through = ""
		}
		return fmt.Sprintf("%s, but it needs%s %s: %s", found.text, through, subject, rest)
	}
	if found.bad {
		return fmt.Sprintf("%s (the loader says: %s)", found.text, said)
	}
	return fmt.Sprintf("%s; the loader says: %s", found.text, said)
}

// explainName is the reason why the loader had nothing under a bare name.
func explainName(name, said string) string {
	subject, rest, split := strings.Cut(said, ": ")
	switch {
	case split && subject == name && strings.HasSuffix(rest, "No such file or directory"):
		return "not known to the system's loader"
	case split && filepath.IsAbs(subject) && filepath.Base(subject) == name:
		return "the loader found " + subject + ", which " + explainPath(subject, said)
	case split && subject != name && !strings.Contains(said, name):
		return fmt.Sprintf("the loader found it, but it needs %s: %s", subject, rest)
	}
	return "the loader says: " + said
}

// neededBy lists the libraries that a library names as needed, as far as can be
// read. debug/elf does not promise to survive a damaged file.
func neededBy(path string) (names []string) {
	defer func() {
		if recover() != nil {
			names = nil
		}
	}()
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, err = f.ImportedLibraries()
	if err != nil {
		return nil
	}
	return names
}
