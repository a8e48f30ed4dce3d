package introspect_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/observe/introspect"
)

// TestPageInABrowser opens the page as an operator does. It needs Chromium or Chrome.
func TestPageInABrowser(t *testing.T) {
	browser := findBrowser()
	if browser == "" {
		t.Skip("no browser found: install chromium, or set BROWSER")
	}
	h := introspect.Handler(introspect.Options{Keys: true}, sources())
	server := httptest.NewServer(h)
	defer server.Close()
	args := []string{
		"--headless", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-background-networking",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--user-data-dir=" + t.TempDir(),
		"--virtual-time-budget=3000", "--dump-dom",
	}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // Chromium refuses to run as root with it
	}
	if file := os.Getenv("SCREENSHOT"); file != "" {
		args = append(args, "--screenshot="+file, "--window-size=1200,1250")
	}
	cmd := exec.CommandContext(t.Context(), browser, append(args, server.URL)...)
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	require.NoError(t, err)
	dom := string(out)
	for _, want := range []string{
		`data-loaded="yes"`, "<title>clients</title>", // the error of a server is text, and not HTML
		fmt.Sprintf("(%d) on", os.Getpid()), `>not ready</span>`, "a:2379 is dead",
		`<td class="bad">degraded</td>`, "unresponsive: no sign of life for 752ms", "alarms: NOSPACE",
		"&lt;img src=x onerror", "Calls in flight: 3, at an endpoint: 1", "500.0 ms", "orders/ …", "68.4 KiB", "694d", "DialTimeout",
		"dns:///billing:80 by quorate_p2c", "suspected, ejected", "100 %",
	} {
		require.True(t, strings.Contains(dom, want), want) //nolint:testifylint // the page is long
	}
}

func findBrowser() string {
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}
	if chosen := os.Getenv("BROWSER"); chosen != "" {
		names = []string{chosen}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
