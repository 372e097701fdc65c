package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chromium runs the browser without a window and gives what it printed.
func chromium(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium is installed: apt-get install chromium")
	}
	if testing.Short() && os.Getenv("CI") == "" && os.Getenv("DEVEVENTS_REQUIRE_BROWSER") == "" {
		t.Skip("a browser takes seconds to start; not with -short")
	}
	home := t.TempDir()
	// What it would ask the network for by itself it need not wait for.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic",
		"--user-data-dir=" + home, "--enable-logging=stderr",
	}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	require.NoError(t, cmd.Run(), log.String())
	return out.String(), log.String()
}

// mockPage is the page of a short run on the simulated device.
func mockPage(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	var out strings.Builder
	c := command{backends: backends(), stdout: &out, stderr: &out, settings: quick}
	require.Equal(t, exitPassed, c.run(t.Context(), []string{"report", "-backend", "mock", "-max", "64KiB", path}), out.String())
	require.Contains(t, out.String(), "page: "+path)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// frame shows the page as wide as a phone, and writes down what it looks like there.
const frame = `<!DOCTYPE html><iframe src="/%s.html" width="%d" height="800" style="border:0"></iframe><pre id="found"></pre>
<script>
document.querySelector("iframe").onload = function () {
  const d = this.contentDocument, v = d.documentElement, seen = [...d.querySelectorAll("svg")].map(s => s.getBoundingClientRect());
  const wide = [...d.body.querySelectorAll("*")].filter(e => !e.closest(".wide, details:not([open])") && e.getBoundingClientRect().right > v.clientWidth + 0.5).length;
  document.getElementById("found").textContent = "scroll=" + v.scrollWidth + " client=" + v.clientWidth + " pictures=" +
    seen.filter(r => r.width > 200 && r.height > 100).length + " beyond=" + wide;
};
</script>`

func TestPageFitsAPhoneAndAsksForNothing(t *testing.T) {
	t.Parallel()
	page := mockPage(t)
	// What the browser is asked about must show in a page that is wrong.
	wrong := strings.Replace(page, "<main>", `<main><img src="/more.png"><div style="width:2000px">wide</div>`, 1)
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch width := 0; {
		case r.URL.Path == "/page.html":
			asked = append(asked, r.URL.Path)
			_, _ = w.Write([]byte(page))
		case r.URL.Path == "/wrong.html":
			_, _ = w.Write([]byte(wrong))
		case strings.HasPrefix(r.URL.Path, "/frame/"):
			name := ""
			_, _ = fmt.Sscanf(r.URL.Path, "/frame/%d/%s", &width, &name)
			_, _ = fmt.Fprintf(w, frame, name, width)
		case r.URL.Path == "/favicon.ico": // of the frame
		default:
			asked = append(asked, r.URL.Path)
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	look := func(name string, width int) (dom, log string) {
		return chromium(t, "--window-size=1300,900", "--virtual-time-budget=5000", "--dump-dom", fmt.Sprintf("%s/frame/%d/%s", server.URL, width, name))
	}
	dom, log := look("wrong", 390)
	require.Regexp(t, `pictures=4 beyond=[1-9]`, dom)
	require.Regexp(t, `scroll=20\d\d client=3\d\d`, dom)
	require.Contains(t, log, "CONSOLE", "a picture that the page forbids itself")
	for _, width := range []int{390, 320, 1200} {
		dom, log := look("page", width)
		require.Contains(t, dom, "pictures=4 beyond=0", "at %d", width)
		found := regexp.MustCompile(`scroll=(\d+) client=(\d+)`).FindStringSubmatch(dom)
		require.NotNil(t, found)
		require.Equal(t, found[2], found[1], "it scrolls sideways at %d", width)
		require.NotContains(t, log, "CONSOLE", "the browser complains at %d", width)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"/page.html", "/page.html", "/page.html"}, asked, "the page asks for something else")
}

func TestPagePrints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page, pdf := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.pdf")
	require.NoError(t, os.WriteFile(page, []byte(mockPage(t)), 0o600))
	_, log := chromium(t, "--no-pdf-header-footer", "--print-to-pdf="+pdf, "file://"+page)
	require.NotContains(t, log, "CONSOLE")
	text, err := os.ReadFile(pdf)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), "%PDF-"))
	require.GreaterOrEqual(t, len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(text, -1)), 2, "eighteen checks and four pictures do not fit one sheet")
}
