package cases

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/stats"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/fatal"
)

func TestServe(t *testing.T) {
	all := []Case{{Name: "one", Run: func(ctx context.Context, site Site) Sample {
		fatal.If(site.Control.Put(ctx, 12))
		fatal.If(site.Control.Kill(ctx, "member"))
		return Sample{"time-s": 1.5}
	}}}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "immortal") {
			http.Error(w, "it lives", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	in, parent := io.Pipe() // the case would end with the input
	defer parent.Close()
	go func() { _ = json.NewEncoder(parent).Encode(Job{"one", Site{Control: Control(server.URL)}}) }()
	var out strings.Builder
	require.NoError(t, Serve(in, &out, all))
	require.JSONEq(t, `{"time-s": 1.5}`, out.String())
	require.Equal(t, []string{"/put/12", "/kill/member"}, asked)
	require.ErrorContains(t, Control(server.URL).Kill(t.Context(), "immortal"), "it lives")
	require.ErrorContains(t, Serve(strings.NewReader(`{"Case": "none"}`), &out, all), `unknown case "none"`)
}

// script returns a watch that delivers responses and then ends.
func script(responses ...[]*clientv3.Event) clientv3.WatchChan {
	w := make(chan clientv3.WatchResponse, len(responses))
	for _, events := range responses {
		w <- clientv3.WatchResponse{Events: events}
	}
	close(w)
	return w
}

func put(revision int64) *clientv3.Event {
	return &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: revision}}
}

func TestReadAll(t *testing.T) {
	deletion := put(6)
	deletion.Type = mvccpb.Event_DELETE
	tests := []struct {
		name     string
		watch    [][]*clientv3.Event
		revision int64
		wantErr  string
	}{
		{"one by one", [][]*clientv3.Event{{put(5)}, {put(6)}, {put(7)}}, 5, ""},
		{"together, after news without events", [][]*clientv3.Event{{}, {put(5), put(6), put(7)}}, 5, ""},
		{"wherever they begin", [][]*clientv3.Event{{put(9), put(10)}, {put(11)}}, 0, ""},
		{"missing first", [][]*clientv3.Event{{put(6), put(7), put(8)}}, 5, "3 puts from revision 6 to 8"},
		{"gap", [][]*clientv3.Event{{put(5)}, {put(7), put(8)}}, 5, "3 puts from revision 5 to 8"},
		{"twice", [][]*clientv3.Event{{put(5), put(5)}}, 5, "after revision 5"},
		{"deletion", [][]*clientv3.Event{{put(5), deletion}}, 5, "after revision 5"},
		{"end", [][]*clientv3.Event{{put(5)}}, 5, "2 events before the last: the client closed the channel"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := readAll(script(tt.watch...), 3, tt.revision)
			if tt.wantErr == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.wantErr)
			}
		})
	}
}

func TestExpect(t *testing.T) {
	require.NoError(t, expect(script([]*clientv3.Event{put(5)}), "k", 5))
	for _, wrong := range [][][]*clientv3.Event{nil, {{}}, {{put(4)}}, {{put(5), put(6)}}} {
		require.Error(t, expect(script(wrong...), "k", 5))
	}
	require.Error(t, expect(script([]*clientv3.Event{put(5)}), "other", 5))
}

// answers returns n renewals of a lease.
func answers(n int) chan *clientv3.LeaseKeepAliveResponse {
	c := make(chan *clientv3.LeaseKeepAliveResponse, n)
	for range n {
		c <- nil
	}
	return c
}

func TestAllRenewed(t *testing.T) {
	require.NoError(t, allRenewed([]renewals{answers(3), answers(4)}))
	require.ErrorContains(t, allRenewed([]renewals{answers(3), answers(2)}), "lease 1 of 2 was renewed 2 times")
	ended := answers(3)
	close(ended)
	require.ErrorContains(t, allRenewed([]renewals{ended}), "lease 0 of 1 after 3 renewals: the client closed the channel")
}

// counting is a client that counts the calls of Watch that are under way.
type counting struct {
	clientv3.Watcher
	calls, at atomic.Int64
	all       chan struct{} // closed when so many are under way at the same time
	size      int64
}

func (c *counting) Watch(_ context.Context, key string, _ ...clientv3.OpOption) clientv3.WatchChan {
	c.calls.Add(1)
	if c.at.Add(1) == c.size {
		close(c.all)
	}
	<-c.all
	return script([]*clientv3.Event{{Kv: &mvccpb.KeyValue{Key: []byte(key)}}})
}

func TestCallersCallAtTheSameTime(t *testing.T) {
	const size, n = 8, 20
	c := &counting{all: make(chan struct{}), size: size}
	watches := make([]clientv3.WatchChan, n)
	callers := startCallers(size, watches, func(i int) clientv3.WatchChan { return c.Watch(t.Context(), key(i)) })
	defer callers.stop()
	callers.call()
	assert.EqualValues(t, n, c.calls.Load())
	for i, w := range watches {
		require.NoError(t, expect(w, key(i), 0))
	}
}

func TestLateness(t *testing.T) {
	const second = time.Second
	for name, tt := range map[string]struct {
		sent            []time.Duration // since the start; the lease was renewed 5 s before it, and a renewal is due every 10 s
		end             time.Duration
		median, longest time.Duration
	}{
		"in time":               {[]time.Duration{5 * second}, 10 * second, 0, 0},
		"early":                 {[]time.Duration{4 * second}, 10 * second, 0, 0},
		"late once":             {[]time.Duration{7 * second, 17 * second}, 20 * second, 0, 2 * second},
		"never again":           {nil, 30 * second, 25 * second, 25 * second},
		"late twice of three":   {[]time.Duration{7 * second, 18 * second, 28 * second}, 30 * second, second, 2 * second},
		"overdue at the end":    {[]time.Duration{5 * second}, 18 * second, 0, 3 * second},
		"not due before an end": {nil, 5 * second, 0, 0},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			l := newLateness(30 * second)
			l.note(1)
			time.Sleep(20 * second)
			l.note(1) // late before the start
			time.Sleep(5 * second)
			l.start()
			began := time.Now()
			for _, at := range tt.sent {
				time.Sleep(time.Until(began.Add(at)))
				l.note(1)
			}
			time.Sleep(time.Until(began.Add(tt.end)))
			median, longest := l.end()
			assert.Equal(t, []time.Duration{tt.median, tt.longest}, []time.Duration{median, longest})
		})
	}
}

func TestEventLog(t *testing.T) {
	l := &eventLog{}
	to, err := net.ResolveTCPAddr("tcp", "192.0.2.1:2379")
	require.NoError(t, err)
	conn := l.TagConn(t.Context(), &stats.ConnTagInfo{RemoteAddr: to})
	l.HandleConn(conn, &stats.ConnBegin{})
	stream := l.TagRPC(t.Context(), &stats.RPCTagInfo{})
	l.HandleRPC(stream, &stats.OutHeader{RemoteAddr: to})
	for second, resp := range []*pb.WatchResponse{{Created: true}, {Created: true, Canceled: true}, {}, {Created: true}} {
		l.HandleRPC(stream, &stats.InPayload{Payload: resp, RecvTime: time.Unix(int64(second), 0)})
	}
	l.HandleConn(conn, &stats.ConnEnd{})
	created := func(e event) bool { return e.what == watchCreated && e.address == to.String() }
	at, err := l.await(t.Context(), 2, created)
	require.NoError(t, err)
	assert.Equal(t, time.Unix(3, 0), at, "refused watches and other responses do not count")
	for _, what := range []what{connBegun, connEnded} {
		_, err := l.await(t.Context(), 1, func(e event) bool { return e.what == what })
		require.NoError(t, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.await(ended, 3, created)
	require.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, "2 of 3 events")
}
