package behaviours_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/behaviours/transcript"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/servers"
)

// The files protocol_* compare servers without a client library: their programs call every method that the fake has, as every kind of
// user. Some draw their calls at random from a seed, so that
//
//	go test ./lab/behaviours -run TestRandomCalls -seed 42
//
// repeats one run exactly. Each program runs once on a fake member and once on the etcd that the lab carries, both empty at the
// start, and the transcripts must be equal. They stay away from
//
//   - what the fake leaves out on purpose: the contents of a database file, progress without a request;
//   - what etcd decides by chance: how events are divided among the responses of a watch that catches up with writes
//     under way, and the order of equal keys in a sort of more than twelve;
//   - crashes of etcd 3.7.3: a transaction must not put a key that it also deletes, but the check for that overlooks
//     deletions of every key from one on. The server then panics at once if the put has ignore_value or ignore_lease;
//     otherwise it loses the key when that very revision is compacted, and panics when it next reads it.

// realEtcd returns a connection to the only member of a new cluster.
func realEtcd(t *testing.T) *grpc.ClientConn {
	t.Helper()
	return startEtcd(t).Members()[0].Conn()
}

// settledEtcd is realEtcd after its first seconds, as a fake is from the start.
func settledEtcd(t *testing.T) *grpc.ClientConn {
	t.Helper()
	cluster := startEtcd(t)
	require.NoError(t, servers.Settle(grpctest.Within(t, testTimeout), cluster))
	return cluster.Members()[0].Conn()
}

func startEtcd(t *testing.T) *lab.Cluster {
	t.Helper()
	cfg := servers.BuiltIn.Config("")
	// etcd's own defaults: the shortest lease depends on them.
	cfg.Election = time.Second
	return labtest.Start(t, cfg)
}

// fakeEtcd returns a connection to the only member of a new fake cluster.
func fakeEtcd(t *testing.T) *grpc.ClientConn {
	t.Helper()
	cluster, err := fakeetcd.Start(1)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	conn, err := cluster.Member(0).Dial()
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// programTimeout is far above what a program takes: some make thousands of calls, and a busy disk takes a tenth of a second for a
// write.
const programTimeout = 10 * time.Minute

// shown is how many differences a test reports. Those after the first are often its consequences.
const shown = 3

// requireLikeEtcd runs a program against both servers, at the same time, and fails the test if the transcripts differ. It
// returns the entries of etcd.
func requireLikeEtcd(t *testing.T, etcd, fake *grpc.ClientConn, run func(*session)) []entry {
	t.Helper()
	ctx := grpctest.Within(t, programTimeout)
	sessions := []*session{newSession(ctx, etcd), newSession(ctx, fake)}
	var running sync.WaitGroup
	for _, s := range sessions {
		running.Go(func() { run(s) })
	}
	running.Wait()
	theirs, ours := sessions[0].recorded(t), sessions[1].recorded(t)
	require.NotEmpty(t, theirs)
	if ctx.Err() != nil {
		t.Errorf("a program was cut off, after %d calls and messages on etcd and %d on the fake", len(theirs), len(ours))
	}
	n := min(len(theirs), len(ours))
	differing, _ := transcript.Compare("", nil, theirs[:n], ours[:n])
	for _, d := range differing[:min(len(differing), shown)] {
		t.Errorf("(-etcd +fake) %s", d)
	}
	require.Len(t, ours, len(theirs), "calls and messages")
	return sessions[0].transcript
}

func newSession(ctx context.Context, conn *grpc.ClientConn) *session {
	return &session{ctx: ctx, conn: conn, tokens: make(map[string]string)}
}

// recorded returns the calls as entries of a transcript, without what may differ.
func (s *session) recorded(t *testing.T) []transcript.Entry {
	t.Helper()
	entries, err := transcript.Record("protocol", func(log *transcript.Log) {
		for i, e := range s.transcript {
			e = e.normalized()
			var err error
			if e.Code != codes.OK {
				err = status.Error(e.Code, e.Message)
			}
			log.Step(fmt.Sprintf("%d: %s as %q", i, e.Method, e.User))([]any{e.Request, e.Responses}, err)
		}
	})
	require.NoError(t, err)
	return entries
}

// normalized returns the entry without what may differ.
func (e entry) normalized() entry {
	if e.Request != nil {
		e.Request = proto.Clone(e.Request)
		normalize(e.Request)
	}
	e.Responses = slices.Clone(e.Responses)
	for i, m := range e.Responses {
		e.Responses[i] = proto.Clone(m)
		normalize(e.Responses[i])
	}
	return e
}

// requireSeen fails the test unless the transcript has a success of every method and every error that are named: what
// never happened was not compared.
func requireSeen(t *testing.T, transcript []entry, methods []string, errs []error) {
	t.Helper()
	succeeded, failed := make(map[string]int), make(map[string]int)
	for _, e := range transcript {
		if e.Code == codes.OK {
			succeeded[e.Method]++
		} else {
			failed[e.Message]++
		}
	}
	for _, m := range methods {
		require.NotZero(t, succeeded[m], "no %s succeeded", m)
	}
	for _, err := range errs {
		require.NotZero(t, failed[message(err)], "no call failed with %q", message(err))
	}
	t.Logf("succeeded: %v\nfailed: %v", succeeded, failed)
}

// normalize removes from a message, and from those within it, what may differ between the fake and etcd beyond what package
// transcript leaves out. Everything else must be equal.
func normalize(m proto.Message) {
	switch m := m.(type) {
	case *pb.Member: // its name and URLs follow from its configuration
		m.Name = mask(m.Name)
		maskAll(m.PeerURLs)
		maskAll(m.ClientURLs)
	case *pb.LeaseTimeToLiveResponse: // etcd lists the keys of a lease in the random order of a map
		slices.SortFunc(m.Keys, bytes.Compare)
	case *pb.LeaseLeasesResponse: // etcd lists leases by the time at which they end, of which the fake has none
		slices.SortFunc(m.Leases, func(a, b *pb.LeaseStatus) int { return cmp.Compare(a.ID, b.ID) })
	}
	m.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				normalize(v.List().Get(i).Message().Interface())
			}
		default:
			normalize(v.Message().Interface())
		}
		return true
	})
}

// mask leaves of a text only whether there is one.
func mask(v string) string {
	if v == "" {
		return ""
	}
	return "(masked)"
}

func maskAll(vs []string) {
	for i := range vs {
		vs[i] = mask(vs[i])
	}
}
