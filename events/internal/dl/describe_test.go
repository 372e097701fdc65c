package dl

import (
	"bytes"
	"debug/elf"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// header is the start of a small 64-bit library for x86-64 of 128 bytes, with one
// loadable segment that covers it.
func header() []byte {
	h := make([]byte, 128)
	copy(h, elf.ELFMAG)
	h[elf.EI_CLASS], h[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	h[16], h[18] = byte(elf.ET_DYN), byte(elf.EM_X86_64)
	h[32], h[54], h[56] = headerLen, programLen, 1
	h[headerLen], h[headerLen+32] = programLoad, 128
	return h
}

func TestHeaderIsReadForTheProgramsProcessor(t *testing.T) {
	h := header()
	require.Equal(t, finding{text: "exists, 64-bit, x86-64"}, inspectHead(h, 128, "amd64"))
	other := inspectHead(h, 128, "arm64")
	require.True(t, other.bad)
	require.Equal(t, "is a library for another processor (64-bit, x86-64), and this program is arm64", other.text)

	h[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
	require.True(t, inspectHead(h, 128, "amd64").bad)
	h = header()
	h[elf.EI_CLASS] = 7
	require.Equal(t, "is a damaged ELF file: its class byte is 7", inspectHead(h, 128, "amd64").text)
	h = header()
	h[18], h[19] = 0xff, 0xff
	require.Contains(t, inspectHead(h, 128, "amd64").text, "machine number 65535")
}

// Touching a page past the end of a file kills the process, so the loader must
// not map a library that is cut short.
func TestLibraryCutShortIsKeptFromTheLoader(t *testing.T) {
	require.False(t, inspectHead(header(), 128, "amd64").keepOff)
	require.True(t, inspectHead(header(), 127, "amd64").keepOff)
	h := header()
	for i := headerLen + 8; i < headerLen+16; i++ {
		h[i] = 0xff // an offset that overflows with the length
	}
	require.True(t, inspectHead(h, 128, "amd64").keepOff)
}

func TestWindowsLibraryIsToldFromOtherFiles(t *testing.T) {
	require.False(t, inspectDLL([]byte("MZ\x90")).bad)
	require.Equal(t, "is an empty file", inspectDLL(nil).text)
	require.Equal(t, "is not a Windows library", inspectDLL([]byte(elf.ELFMAG)).text)
}

func TestLoaderTextIsExplained(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the texts are those of Linux's loader")
	}
	const name = "libx.so.1"
	for said, want := range map[string]string{
		"libx.so.1: cannot open shared object file: No such file or directory": "not known to the system's loader",
		"liby.so.2: cannot open shared object file: No such file or directory": "the loader found it, but it needs liby.so.2: cannot open shared object file: No such file or directory",
		"/lib/libc.so.6: version `V' not found (required by /opt/libx.so.1)":   "the loader says: /lib/libc.so.6: version `V' not found (required by /opt/libx.so.1)",
		"/no/such/libx.so.1: file too short":                                   "the loader found /no/such/libx.so.1, which does not exist, and neither does its directory (the loader says: file too short)",
		"something else":                                                       "the loader says: something else",
	} {
		require.Equal(t, want, explainName(name, said))
	}
}

// No bytes at a path may panic the search or come out without a reason.
func FuzzInspectHead(f *testing.F) {
	f.Add(header(), int64(128))
	f.Add(header()[:40], int64(40))
	f.Add([]byte("/* GNU ld script */\nGROUP ( libx.so )"), int64(37))
	f.Add([]byte{}, int64(0))
	f.Add([]byte("%!A"), int64(133)) // found by fuzzing
	f.Add([]byte("MZ\x90\x00"), int64(4))
	f.Fuzz(func(t *testing.T, head []byte, size int64) {
		for _, goarch := range []string{"amd64", "arm64", "riscv64"} {
			found := inspectHead(head, max(size, int64(len(head))), goarch)
			require.NotEmpty(t, found.text)
			require.NotContains(t, found.text, "\n")
			if !bytes.Contains(head, []byte("%!")) { // which the text may quote
				require.NotContains(t, found.text, "%!")
			}
			if found.keepOff {
				require.True(t, found.bad)
			}
		}
	})
}
