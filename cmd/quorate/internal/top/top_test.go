package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/etcdtest"
	"github.com/quorate/quorate/observe/introspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testTimeout = 5 * time.Minute

func member(s Snapshot, endpoint string) Member {
	for _, m := range s.Members {
		if m.Endpoint == endpoint {
			return m
		}
	}
	return Member{}
}

func TestMembers(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Config{Members: 3})
	cluster, client := etcd.Lab, etcd.Client
	var leader *lab.Member
	var s Snapshot
	require.Eventually(t, func() bool { // a busy machine may elect another one in between
		var err error
		leader, err = cluster.Leader(t.Context())
		s = Members{Client: client, Timeout: testTimeout}.Snapshot(t.Context())
		return err == nil && !slices.ContainsFunc(s.Members, func(m Member) bool {
			return m.State != "serving" || (m.Role == "leader") != (m.Endpoint == leader.Endpoint())
		})
	}, testTimeout, 100*time.Millisecond)
	follower := cluster.Members()[(leader.Index()+1)%3]
	for _, m := range cluster.Members() {
		assert.Positive(t, member(s, m.Endpoint()).LatencyMS)
	}
	require.NoError(t, follower.Freeze())
	s = Members{Client: client, Timeout: time.Second}.Snapshot(t.Context())
	assert.Equal(t, "no answer", member(s, follower.Endpoint()).State)
	require.NoError(t, follower.Continue())

	cluster.Isolate(follower)
	require.Eventually(t, func() bool {
		m := member(Members{Client: client, Timeout: testTimeout}.Snapshot(t.Context()), follower.Endpoint())
		return m.State == "degraded" && m.Role == "no leader" && m.Why != ""
	}, testTimeout, 100*time.Millisecond)
	cluster.Heal()
}

func TestProcesses(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Config{Members: 3})
	cluster, client := etcd.Lab, etcd.Client
	srv := httptest.NewServer(introspect.Handler(introspect.Options{}, map[string]introspect.Source{"orders": client}))
	defer srv.Close()
	dead := httptest.NewServer(http.NotFoundHandler())
	defer dead.Close()
	none, err := json.Marshal((&Processes{URLs: []string{dead.URL}, HTTP: srv.Client(), Timeout: testTimeout}).Snapshot(t.Context()))
	require.NoError(t, err)
	assert.Contains(t, string(none), `"members":[],`)
	source := &Processes{URLs: []string{srv.URL, dead.URL}, HTTP: srv.Client(), Timeout: testTimeout}

	get := func() {
		_, err := client.Get(t.Context(), "key")
		require.NoError(t, err)
	}
	get()
	first := source.Snapshot(t.Context())
	began := source.before[srv.URL].At
	for range 10 {
		get()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer client.AddToReport(func(c *introspect.Client) {
		c.Elections = []introspect.Election{{Name: "office", Leading: true, Key: "office/1", Revision: 17, LeadingSeconds: 90}, {Name: "lock"}}
	})()
	_, ok := <-client.Watch(ctx, "key", clientv3.WithCreatedNotify())
	require.True(t, ok)
	second := source.Snapshot(t.Context())

	require.Len(t, second.Members, len(cluster.Members()))
	require.Len(t, second.Clients, 1)
	assert.Contains(t, second.Clients[0].Name, "/orders@")
	assert.True(t, second.Clients[0].Ready)
	assert.Equal(t, 1, second.Clients[0].Watches)
	require.NotEmpty(t, second.Methods)
	assert.Zero(t, first.Methods[0].Rate, "one report has no rates")
	assert.Equal(t, "get", second.Methods[0].Shape)
	calls := math.Round(second.Methods[0].Rate * source.before[srv.URL].At.Sub(began).Seconds())
	assert.GreaterOrEqual(t, calls, 10.0)
	assert.LessOrEqual(t, calls, 20.0, "each get may be hedged")
	assert.Positive(t, second.Methods[0].MeanMS)
	assert.Equal(t, []string{dead.URL + ": the answer is 404 Not Found"}, second.Errors)
	lines := strings.Split(second.Text(), "\n")
	assert.Equal(t, strings.Index(lines[1], "STATE"), strings.Index(lines[2], second.Members[0].State), "the head is above its column: %s", second.Text())
	text := cut(second.Text(), 100)
	for _, want := range []string{"ENDPOINT", "CALLS/S", "get", "WATCHES", "error: " + dead.URL} {
		assert.Contains(t, text, want)
	}
	assert.Regexp(t, `(?m)^office +\S+/orders@\S+ +leads +1m30s +17$`, second.Text())
	assert.Regexp(t, `(?m)^lock +\S+/orders@\S+ +campaigns\b`, second.Text())
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 100)
	}
}

// What a server or a process says cannot control the terminal.
func TestRenderCleans(t *testing.T) {
	text := Snapshot{Members: []Member{{Endpoint: "a:1", State: "failing", Why: "\x1b[2Jgone\nand more"}}, Errors: []string{"\x1b[2J"}}.Text()
	assert.NotContains(t, text, "\x1b")
	assert.Equal(t, 6, strings.Count(text, "\n"), "the table, the cause below it, and the error")
}

// channel is a gRPC channel with a given report.
type channel introspect.Client

func (c channel) Introspect(introspect.Options) introspect.Client { return introspect.Client(c) }

func TestRenderChannels(t *testing.T) {
	backends := []introspect.Endpoint{
		{Name: "10.0.3.17:8080", State: "serving", StateSeconds: 90, Evidence: "served", Share: 1, InFlight: 3, Streams: 2, LatencySeconds: 0.004},
		{Name: "10.0.4.9:8080", State: "dead", StateSeconds: 3725.5, Ejected: true, Evidence: "unresponsive", Detail: "no sign of life for 752ms"},
	}
	for _, tt := range []struct {
		name     string
		channels []introspect.Client
		width    int
		want     string
	}{
		{
			"wide",
			[]introspect.Client{{Target: "dns:///billing:80", Policy: "quorate_p2c", Ready: true, Endpoints: backends}},
			200,
			"web/billing@h:1, dns:///billing:80 by quorate_p2c\n" +
				"BACKEND         STATE          FOR     WHY                                      SHARE  CALLS/S  IN FLIGHT  STREAMS  LATENCY\n" +
				"10.0.3.17:8080  serving        1m30s   served                                   100 %  0.0      3          2        4.0 ms\n" +
				"10.0.4.9:8080   dead, ejected  1h2m5s  unresponsive: no sign of life for 752ms  0 %    0.0      0          0\n",
		},
		{
			"narrow: the cause stays",
			[]introspect.Client{{Target: "dns:///billing:80", Policy: "quorate_p2c", Ready: true, Endpoints: backends[1:]}},
			60,
			"web/billing@h:1, dns:///billing:80 by quorate_p2c\n" +
				"BACKEND        STATE          FOR     WHY                  …\n" +
				"10.0.4.9:8080  dead, ejected  1h2m5s  unresponsive: no sign…\n",
		},
		{
			"two, without endpoints",
			[]introspect.Client{
				{Target: "dns:///billing:80", NotReady: "the resolver has given no endpoints; the resolver's latest error: no such host"},
				{Target: "dns:///stock:80", NotReady: "the resolver has given no endpoints"},
			},
			200,
			"web/billing@h:1, dns:///billing:80 is not ready: the resolver has given no endpoints; the resolver's latest error: no such host\n\n" +
				"web/billing#2@h:1, dns:///stock:80 is not ready: the resolver has given no endpoints\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			channels := new(introspect.Channels)
			for _, c := range tt.channels {
				channels.Add(channel(c))
			}
			answer := httptest.NewRecorder()
			introspect.Handler(introspect.Options{}, map[string]introspect.Source{"billing": channels}).
				ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
			var report introspect.Report
			require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &report))
			report.Process = introspect.Process{Program: "web", Host: "h", PID: 1}
			var s Snapshot
			s.add(report, introspect.Report{}, map[string]*Method{})
			assert.Equal(t, tt.want, cut(s.Text(), tt.width))
		})
	}
}

// fixed is a source of the snapshots that a test sends.
type fixed chan Snapshot

func (f fixed) Snapshot(ctx context.Context) Snapshot {
	select {
	case s := <-f:
		return s
	case <-ctx.Done():
		return Snapshot{}
	}
}

// terminal keeps what is written to it.
type terminal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

func (t *terminal) shows(text string) func() bool {
	return func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return strings.Contains(t.text.String(), text)
	}
}

// A terminal of 80 columns sees what changes, and its user ends it.
func TestScreen(t *testing.T) {
	ctx := grpctest.Within(t, testTimeout)
	keys, keyboard := io.Pipe()
	defer func() { _ = keyboard.Close() }()
	out, source := &terminal{}, make(fixed)
	ended := make(chan error, 1)
	go func() {
		_, err := tea.NewProgram(NewScreen(ctx, source, time.Millisecond), tea.WithContext(ctx), tea.WithInput(keys), tea.WithOutput(out),
			tea.WithoutSignalHandler(), tea.WithWindowSize(80, 24), tea.WithEnvironment([]string{"TERM=xterm-256color"})).Run()
		ended <- err
	}()
	require.Eventually(t, out.shows("asking"), testTimeout, time.Millisecond)
	source <- Snapshot{Members: []Member{{Endpoint: "m1:2379", State: "serving", Role: "leader", LatencyMS: 1.25}}}
	require.Eventually(t, out.shows("leader"), testTimeout, time.Millisecond)
	source <- Snapshot{Members: []Member{{Endpoint: "m1:2379", State: "serving", Role: "leader", Why: "overdue"}}}
	require.Eventually(t, out.shows("overdue"), testTimeout, time.Millisecond)
	_, err := keyboard.Write([]byte("q"))
	require.NoError(t, err)
	require.NoError(t, <-ended)
}

func press(m tea.Model, keys ...string) tea.Model {
	for _, k := range keys {
		key := tea.Key{Text: k}
		switch k {
		case "pgdown":
			key = tea.Key{Code: tea.KeyPgDown}
		case "right":
			key = tea.Key{Code: tea.KeyRight}
		}
		m, _ = m.Update(tea.KeyPressMsg(key))
	}
	return m
}

func TestScreenScrollsAndSorts(t *testing.T) {
	s := Snapshot{Clients: []Client{{Name: "shop"}}}
	for i := range 40 {
		s.Members = append(s.Members, Member{Endpoint: fmt.Sprintf("m%02d:2379", i), State: "serving", LatencyMS: float64(i + 1), Why: strings.Repeat("why ", 30)})
	}
	s.Members[30].State = "no answer"
	screen, _ := NewScreen(t.Context(), nil, time.Second).Update(s)
	screen, _ = screen.Update(tea.WindowSizeMsg{Width: 60, Height: 12})
	shows := func(m tea.Model, text string) bool { return strings.Contains(m.View().Content, text) }
	assert.True(t, shows(screen, "m00"))
	assert.False(t, shows(screen, "m30"))
	assert.LessOrEqual(t, strings.Count(screen.View().Content, "\n"), 11)
	assert.True(t, shows(press(screen, "s"), "m30"), "what does not serve comes first")
	assert.True(t, shows(press(screen, "s", "s"), "m39"), "the slowest comes first")
	assert.True(t, shows(press(screen, "f"), "m30"), "only what does not serve")
	assert.False(t, shows(press(screen, "f"), "m00"))
	below := press(screen, "pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown")
	assert.True(t, shows(below, "m39"), "the end")
	assert.True(t, shows(press(below, "g"), "m00"))
	assert.False(t, shows(press(screen, "right"), "m00"))
	assert.True(t, shows(press(screen, "right", "right", "right", "right"), "why"))
	_, end := screen.Update(tea.KeyPressMsg(tea.Key{Code: 'c', Mod: tea.ModCtrl}))
	assert.Equal(t, tea.InterruptMsg{}, end())
}
