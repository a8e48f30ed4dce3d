package introspect_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write testdata anew")

// shown is a client in trouble, and what it was asked for.
type shown struct{ asked introspect.Options }

func (s *shown) Introspect(o introspect.Options) introspect.Client {
	s.asked = o
	left, lease, ratio := 1.5, 7.25, 0.24
	return introspect.Client{
		NotReady: "etcdclient: no endpoint serves: a:2379 is dead (unresponsive: no sign of life for 752ms)",
		Endpoints: []introspect.Endpoint{
			{
				Name: "a:2379", State: "dead", StateSeconds: 12.5, Evidence: "unresponsive", Detail: "no sign of life for 752ms",
				LastError: "<img src=x onerror=\"document.title='broken'\">", LastErrorSeconds: 3, Work: []introspect.Work{},
			},
			{
				Name: "b:2379", State: "degraded", StateSeconds: 4, Evidence: "degrading", Detail: "no leader", Connected: true,
				InFlight: 1, Streams: 2, LatencySeconds: 0.0015,
				Member: &introspect.Member{ID: "8e9e05c52164694d", Leader: "0", Term: 3, Applied: 17, Version: "3.7.0", Alarms: []string{"NOSPACE"}, ReportedBefore: 1},
				Work:   []introspect.Work{{Shape: "get", Ended: 100, Failed: 2, Seconds: 0.4, P99Seconds: 0.02}},
			},
		},
		Calls: introspect.Calls{
			InFlight: 3, Attempts: 1, ByMethod: map[string]int{"/etcdserverpb.KV/Range": 1},
			Oldest: []introspect.Call{{Method: "/etcdserverpb.KV/Range", Endpoint: "b:2379", AgeSeconds: 0.5, LeftSeconds: &left}},
		},
		Watches: introspect.Watches{
			Open: 2, ByState: map[string]int{introspect.WatchPaused: 1, introspect.WatchFollowing: 1}, Streams: 1, Revision: 90,
			BufferedBytes: 70_000, MaxBufferedBytes: 128 << 20, LagRevisions: 40, BlockedSeconds: 61,
			Furthest: []introspect.Watch{
				{Key: "orders/", Range: true, State: introspect.WatchPaused, Revision: 50, LagRevisions: 40, Unread: 12, UnreadBytes: 70_000, BlockedSeconds: 61},
				{State: introspect.WatchFollowing, Revision: 90},
			},
		},
		Leases: introspect.Leases{
			KeptAlive: 1, Unanswered: 1, LeftSeconds: &lease, LeftRatio: &ratio,
			Shortest: []introspect.Lease{{ID: "694d", TTLSeconds: 30, LeftSeconds: &lease, Unanswered: true}},
		},
		Budgets: []introspect.Budget{{Name: "retry", Left: 3.5, Max: 10}, {Name: "probe", Left: 10, Max: 10, Used: 4}},
		Config:  map[string]any{"Endpoints": []string{"a:2379", "b:2379"}, "TLS": true, "DialTimeout": "5s"},
	}
}

// channel is a gRPC channel of which one backend stays suspected.
type channel struct{}

func (channel) Introspect(introspect.Options) introspect.Client {
	return introspect.Client{
		Target: "dns:///billing:80", Policy: "quorate_p2c", Ready: true,
		Endpoints: []introspect.Endpoint{
			{Name: "c:80", State: "serving", StateSeconds: 90, Connected: true, Connections: 2, InFlight: 3, Share: 1, LatencySeconds: 0.004, Work: []introspect.Work{}},
			{
				Name: "d:80", State: "suspected", StateSeconds: 3600, Evidence: "suspicious", Detail: "a call is overdue", Connected: true, Connections: 1,
				Ejected: true, Work: []introspect.Work{},
			},
		},
		Calls:   introspect.Calls{InFlight: 3, Attempts: 3, ByMethod: map[string]int{"/billing.Invoices/Get": 3}, Oldest: []introspect.Call{}},
		Budgets: []introspect.Budget{{Name: "probe", Left: 9, Max: 10, Used: 1}},
		Config:  map[string]any{"Policy": "quorate_p2c"},
	}
}

// sources are a client and a channel.
func sources() map[string]introspect.Source {
	channels := new(introspect.Channels)
	channels.Add(channel{})
	return map[string]introspect.Source{"orders": new(shown), "billing": channels}
}

func get(t *testing.T, h http.Handler, target, accept string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// The names and units of the fields are what programs rely on.
func TestJSON(t *testing.T) {
	w := get(t, introspect.Handler(introspect.Options{}, sources()), "/", "*/*")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))

	var report introspect.Report
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &report))
	require.WithinDuration(t, time.Now(), report.At, time.Minute)
	require.Equal(t, os.Getpid(), report.Process.PID)
	report.At, report.Process = time.Time{}, introspect.Process{Program: "orders", Host: "h", PID: 1}
	got, err := json.MarshalIndent(report, "", "  ")
	require.NoError(t, err)
	const golden = "testdata/report.json"
	if *update {
		require.NoError(t, os.WriteFile(golden, append(got, '\n'), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got)+"\n")
}

func TestSeveralClients(t *testing.T) {
	clients := map[string]introspect.Source{"b": new(shown), "a": new(shown), "c": new(shown)}
	w := get(t, introspect.Handler(introspect.Options{}, clients), "/", "")
	var report introspect.Report
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &report))
	require.Len(t, report.Clients, 3)
	for i, name := range []string{"a", "b", "c"} {
		require.Equal(t, name, report.Clients[i].Name)
	}
}

// Each channel has a name, which is free again when it is closed. Metrics are those of all together.
func TestSeveralChannels(t *testing.T) {
	channels := new(introspect.Channels)
	names := func() (all []string) {
		var report introspect.Report
		h := introspect.Handler(introspect.Options{}, map[string]introspect.Source{"billing": channels})
		require.NoError(t, json.Unmarshal(get(t, h, "/", "").Body.Bytes(), &report))
		for _, c := range report.Clients {
			all = append(all, c.Name)
		}
		return all
	}
	closeFirst, closeSecond := channels.Add(channel{}), channels.Add(channel{})
	require.Equal(t, []string{"billing", "billing#2"}, names())
	values := map[string]float64{}
	for _, m := range introspect.Metrics(channels.Introspect(introspect.Options{})) {
		key := m.Name
		for _, l := range m.Labels {
			key += " " + l.Value
		}
		require.NotContains(t, values, key, "no metric may be there twice")
		values[key] = m.Value
	}
	require.Equal(t, map[string]float64{
		"quorate.client.ready": 1, "quorate.client.calls_in_flight": 6,
		"quorate.client.attempts_in_flight c:80": 6, "quorate.client.streams_open c:80": 0, "quorate.client.endpoint.latency c:80": 0.004,
		"quorate.client.attempts_in_flight d:80": 0, "quorate.client.streams_open d:80": 0, "quorate.client.endpoint.latency d:80": 0,
		"quorate.client.probes": 2, "quorate.client.budget.left probe": 18, "quorate.client.budget.limit probe": 20,
	}, values)
	closeFirst()
	require.Equal(t, []string{"billing#2"}, names())
	closeFirst = channels.Add(channel{})
	require.Equal(t, []string{"billing", "billing#2"}, names())
	closeFirst()
	closeSecond()
	require.Empty(t, names())
	require.True(t, channels.Introspect(introspect.Options{}).Ready, "channels that are idle are no fault")
}

func TestLimit(t *testing.T) {
	for _, tt := range []struct {
		option int
		target string
		want   int
	}{
		{0, "/", introspect.DefaultLimit},
		{5, "/", 5},
		{5, "/?limit=7", 7},
		{5, "/?limit=1000000", 1000},
		{1_000_000, "/", 1000},
	} {
		client := new(shown)
		h := introspect.Handler(introspect.Options{Limit: tt.option, Keys: true}, map[string]introspect.Source{"": client})
		require.Equal(t, http.StatusOK, get(t, h, tt.target, "").Code)
		require.Equal(t, introspect.Options{Limit: tt.want, Keys: true}, client.asked)
	}
}

func TestBadRequests(t *testing.T) {
	h := introspect.Handler(introspect.Options{}, nil)
	for _, limit := range []string{"0", "-1", "x", "1e3"} {
		require.Equal(t, http.StatusBadRequest, get(t, h, "/?limit="+limit, "").Code, limit)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	var raw map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(get(t, h, "/", "").Body.Bytes(), &raw))
	require.JSONEq(t, "[]", string(raw["clients"]), "a list, and not null")
}

func TestBrowsersGetThePage(t *testing.T) {
	h := introspect.Handler(introspect.Options{}, nil)
	const accept = "text/html,application/xhtml+xml,*/*;q=0.8"
	w := get(t, h, "/", accept)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	for _, foreign := range []string{"http://", "https://", "src=", "@import", "innerHTML"} {
		require.NotContains(t, w.Body.String(), foreign, "the page needs nothing from elsewhere")
	}
	require.True(t, strings.HasPrefix(get(t, h, "/?format=json", accept).Header().Get("Content-Type"), "application/json"))
}

// attacher is an observer that is attached by a function.
type attacher struct {
	observe.None
	attach func() (detach func())
}

func (a attacher) Attach(introspect.Source) (detach func()) { return a.attach() }

// A client is detached once, also if it is closed twice, and from an observer that returns no detach.
func TestDetachIsCalledOnce(t *testing.T) {
	detached := 0
	counting := attacher{attach: func() func() { return func() { detached++ } }}
	detach := introspect.Attach(observe.Multi(attacher{attach: func() func() { return nil }}, counting), nil)
	detach()
	detach()
	require.Equal(t, 1, detached)
}

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
