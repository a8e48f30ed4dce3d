package behaviours_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/servers"
	"github.com/quorate/quorate/lab/servers/site"
)

// startFake starts a fake member and makes it reachable over TCP.
func startFake(t *testing.T) (*fakeetcd.Cluster, site.Site) {
	t.Helper()
	cluster, err := fakeetcd.Start(1)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	cluster.EnableLeaseExpiry()
	require.NoError(t, cluster.SetWatchOptions(fakeetcd.WatchOptions{ProgressInterval: 500 * time.Millisecond}))
	var endpoint string
	cluster.On("MemberList", func(call *fakeetcd.Call) { // the fake advertises where it is reached without TCP
		resp, err := call.Execute()
		if err == nil {
			resp.(*pb.MemberListResponse).Members[0].ClientURLs = []string{endpoint}
		}
		call.Answer(resp, err)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	endpoint = "http://" + listener.Addr().String()
	var served sync.WaitGroup
	served.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := cluster.DialContext(context.Background(), cluster.Member(0).Addr())
			if err != nil {
				_ = in.Close()
				continue
			}
			served.Go(func() { copyAll(in, out) })
			served.Go(func() { copyAll(out, in) })
		}
	})
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch act := site.Act(strings.TrimPrefix(r.URL.Path, "/")); act {
		case site.Stop:
			cluster.Member(0).Freeze()
		case site.Continue:
			cluster.Member(0).Continue()
		default:
			http.Error(w, fmt.Sprintf("unknown act %q", act), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(func() {
		control.Close()
		assert.NoError(t, listener.Close())
		cluster.Close()
		served.Wait()
	})
	return cluster, site.Site{Endpoints: []string{endpoint}, Control: control.URL}
}

// copyAll copies from one connection to another until one of them ends, and ends both.
func copyAll(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

// likeLab gives the fake member the name and the URLs of one of the lab.
var likeLab = strings.NewReplacer(
	`"member-0"`, `"m1"`, "http://member-0.fakeetcd:2379", "<URL of m1>", "http://member-0.fakeetcd:2380", "https://192.0.2.1:2380",
)

// notOfFake are the behaviours with calls that the fake does not serve.
var notOfFake = []string{": downgrade", ": cluster", "authentication: auth", "maintenance: hash", "maintenance: maintenance", "maintenance: alarm"}

// asFake returns entries in which etcd and the fake have the same names.
func asFake(entries []transcript.Entry) []transcript.Entry {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Result = likeLab.Replace(entries[i].Result)
	}
	return entries
}

// TestFake compares one member of etcd with a fake, by the official client.
func TestFake(t *testing.T) {
	t.Parallel()
	_, fake := startFake(t)
	names := slices.DeleteFunc(named(site.Single), func(name string) bool { return slices.Contains(notOfFake, name) })
	all := record(t, names, onServer(t, servers.BuiltIn, site.Single, servers.Official), at(t, fake, servers.Official))
	requireAlike(t, "fake", nil, asFake(all[0]), asFake(all[1]))
}

// TestRowsOnAFake runs on a fake the rows that share a server, with Quorate. TestClients has what is recorded.
func TestRowsOnAFake(t *testing.T) {
	t.Parallel()
	_, fake := startFake(t)
	rows := slices.DeleteFunc(named(site.Plain), func(name string) bool { return strings.Contains(name, "10,000") }) // of real servers
	o, err := play(t.Context(), servers.Quorate, fake, rows...)
	require.NoError(t, err)
	require.Empty(t, o.Error)
}

// answers changes the answers to calls of a method.
func answers(method string, change func(proto.Message, error) (proto.Message, error)) func(*fakeetcd.Cluster) {
	return func(c *fakeetcd.Cluster) {
		c.On(method, func(call *fakeetcd.Call) { call.Answer(change(call.Execute())) })
	}
}

// TestDefectsAreFound compares a fake that has a defect with one that has none, by recorded behaviours of the official client,
// and runs rows on it with Quorate.
func TestDefectsAreFound(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		name, recorded, row string
		plant               func(*fakeetcd.Cluster)
	}{
		{"no defect", "KV: put", "", func(*fakeetcd.Cluster) {}},
		{"a value of another key", "KV: do", "KV: 1 MB values, in fragments", answers("Range", func(resp proto.Message, err error) (proto.Message, error) {
			if r, ok := resp.(*pb.RangeResponse); ok && len(r.Kvs) > 0 {
				r.Kvs[len(r.Kvs)-1].Value = []byte("other")
			}
			return resp, err
		})},
		{"another text for an error", "KV: txn errors", "", answers("Txn", func(resp proto.Message, err error) (proto.Message, error) {
			if err != nil {
				err = status.Error(codes.InvalidArgument, "refused")
			}
			return resp, err
		})},
		{"an event that lacks the value before it", "watch: watch event", "", func(c *fakeetcd.Cluster) {
			c.On("Watch", func(call *fakeetcd.Call) {
				call.OnSend(func(resp proto.Message) bool {
					for _, e := range resp.(*pb.WatchResponse).Events {
						e.PrevKv = nil
					}
					return true
				})
				_, _ = call.Execute()
			})
		}},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			good, goodSite := startFake(t)
			bad, badSite := startFake(t)
			d.plant(bad)
			if d.recorded != "" {
				want, err := play(t.Context(), servers.Official, goodSite, d.recorded)
				require.NoError(t, err)
				require.Empty(t, want.Error)
				got, err := play(t.Context(), servers.Official, badSite, d.recorded)
				require.NoError(t, err)
				differing, _ := transcript.Compare("fake", nil, want.Entries, got.Entries)
				require.Equal(t, d.name != "no defect", got.Error != "" || len(differing) > 0, got.Error)
			}
			if d.row != "" {
				got, err := play(t.Context(), servers.Quorate, goodSite, d.row)
				require.NoError(t, err)
				require.Empty(t, got.Error)
				got, err = play(t.Context(), servers.Quorate, badSite, d.row)
				require.NoError(t, err)
				require.NotEmpty(t, got.Error)
			}
			require.NotZero(t, good.Revision())
		})
	}
}
