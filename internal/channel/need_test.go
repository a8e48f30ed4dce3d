package channel

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// freezeTwo freezes two members of three. The third serves local reads, and says that it has no
// leader once it knows. thaw ends it.
func freezeTwo(cluster *fakeetcd.Cluster, electionTimeout time.Duration) (thaw func()) {
	thawed := make(chan struct{})
	lost := time.Now().Add(electionTimeout)
	for _, method := range []string{"Range", "Put", "Status", "Check"} {
		cluster.On(method, func(call *fakeetcd.Call) {
			r, isRange := call.Request.(*pb.RangeRequest)
			switch {
			case call.Member != cluster.Member(2):
				<-thawed
				call.Answer(nil, errDead)
			case method == "Put", isRange && !r.GetSerializable():
				select {
				case <-time.After(time.Until(lost)):
					call.Answer(nil, rpctypes.ErrGRPCNoLeader)
				case <-call.Context().Done():
					call.Answer(nil, call.Context().Err())
				}
			}
		})
	}
	return func() { close(thawed) }
}

// Serializable reads go on at the member that can answer them while two of three are frozen.
func TestLocalReadsGoOnWithoutQuorum(t *testing.T) {
	get := &pb.RangeRequest{Key: []byte("k"), Serializable: true}
	all := &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("z"), Serializable: true}
	for name, tt := range map[string]struct {
		reads []*pb.RangeRequest // a caller each
		puts  int                // callers
		gap   time.Duration      // a single caller may meet both frozen members
	}{
		"one caller that gets":                  {[]*pb.RangeRequest{get}, 0, 2500 * time.Millisecond},
		"one caller whose reads are not hedged": {[]*pb.RangeRequest{all}, 0, 2500 * time.Millisecond},
		"callers of every kind, beside puts":    {[]*pb.RangeRequest{get, all, get, all, get, all}, 6, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *witness) {
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				defer wg.Wait()
				defer cancel()
				kv := pb.NewKVClient(c)
				for range tt.puts {
					wg.Go(func() {
						for ctx.Err() == nil {
							call, end := context.WithTimeout(ctx, 10*time.Second)
							_, _ = kv.Put(call, &pb.PutRequest{Key: []byte("k")}, grpc.WaitForReady(true))
							end()
							time.Sleep(50 * time.Millisecond)
						}
					})
				}
				var mu sync.Mutex
				var gap time.Duration // without a read
				done, latest := 0, time.Now()
				for _, r := range tt.reads {
					wg.Go(func() {
						for ctx.Err() == nil {
							_, err := kv.Range(ctx, r, grpc.WaitForReady(true))
							mu.Lock()
							gap = max(gap, time.Since(latest))
							if ctx.Err() == nil {
								assert.NoError(t, err)
								done++
								latest = time.Now()
							}
							mu.Unlock()
							time.Sleep(50 * time.Millisecond)
						}
					})
				}
				time.Sleep(500 * time.Millisecond)
				defer freezeTwo(cluster, 1500*time.Millisecond)()
				time.Sleep(15 * time.Second)
				cancel()
				wg.Wait()
				t.Logf("%d reads, and none for %v", done, gap)
				assert.LessOrEqual(t, gap, tt.gap)
				assert.Greater(t, done, 200*len(tt.reads))
			})
		})
	}
}
