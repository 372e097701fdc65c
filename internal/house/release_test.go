package house_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a release would hold is built by a script, and checked here for one platform: the
// programs run, the checksums are those of the archives, and a second run gives the same bytes.
func TestReleaseIsWhatItSays(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds every program twice; without -short")
	}
	top := root(t)
	t.Setenv("TARGETS", "linux/amd64")
	var sums []string
	for range 2 {
		dist := t.TempDir()
		t.Setenv("DIST", dist)
		code, printed := script(t, top, "release")
		require.Zero(t, code, printed)
		sum := read(t, dist, "SHA256SUMS")
		sums = append(sums, sum)
		archives, err := filepath.Glob(filepath.Join(dist, "devevents_*_linux_amd64.tar.gz"))
		require.NoError(t, err)
		require.Len(t, archives, 1)
		text, err := os.ReadFile(archives[0])
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%x  %s\n", sha256.Sum256(text), filepath.Base(archives[0])), sum)

		names := unpack(t, archives[0], dist)
		for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "evprobe", "clocktruth"} {
			require.True(t, slices.Contains(names, name), "%s is not among %q", name, names)
		}
		version := command(t, dist, filepath.Join(dist, "evprobe"), "-version")
		stem := strings.TrimSuffix(filepath.Base(archives[0]), "_linux_amd64.tar.gz")
		require.Contains(t, version, strings.TrimPrefix(stem, "devevents_"))
	}
	require.Equal(t, sums[0], sums[1])
}

func unpack(t *testing.T, archive, dir string) (names []string) {
	t.Helper()
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	list := tar.NewReader(unzipped)
	for {
		entry, err := list.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		if entry.Typeflag != tar.TypeReg {
			continue
		}
		name := path.Base(entry.Name)
		names = append(names, name)
		out, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY, entry.FileInfo().Mode())
		require.NoError(t, err)
		_, err = io.Copy(out, list)
		require.NoError(t, err)
		require.NoError(t, out.Close())
	}
}

// Nothing that programs or tests contain has a licence that binds them to more than a notice.
func TestLicencesArePermissive(t *testing.T) {
	code, printed := script(t, root(t), "licences")
	require.Zero(t, code, printed)
	require.Contains(t, printed, "github.com/ebitengine/purego")
}
