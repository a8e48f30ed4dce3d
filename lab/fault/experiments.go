package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/link"
)

const (
	// flapHalf is how long a follower that flaps is frozen, and then well.
	flapHalf = 2 * time.Second
	// pauseLength and pauseEvery are those of the pauses of a member.
	pauseLength, pauseEvery = 700 * time.Millisecond, 3 * time.Second
	// transferEvery is the time between two transfers of leadership.
	transferEvery = time.Second
	// largePrefix begins the keys of the large ranges; they have largeKeys values of largeValue bytes.
	largePrefix = "/quorate-lab-large/"
	largeKeys   = 10
	largeValue  = 1 << 20
	// largeReaders read at a time.
	largeReaders = 6
	// largeTimeout is the deadline of a large range.
	largeTimeout = 2 * time.Minute
	// throttledRate is in bytes per second, for each member.
	throttledRate = 1 << 20
	// secondFreeze is how long the second member is frozen.
	secondFreeze = 10 * time.Second
	// expiredClients is how many clients have an expired certificate.
	expiredClients = 20
	// expiredWarmUp is how long they try before a member is frozen.
	expiredWarmUp = 10 * time.Second
)

func freezeMajority(_ context.Context, s Scene) {
	members := s.Cluster.Members()
	for _, i := range s.Rand.Perm(len(members))[:len(members)/2+1] {
		s.Note(members[i].Name() + " is stopped")
		fatal.If(members[i].Stop())
	}
}

// pauseRepeatedly stops a follower for a time in each interval.
func pauseRepeatedly(length, interval time.Duration) injection {
	return onFollower(func(ctx context.Context, s Scene, m *lab.Member) {
		for end := time.Now().Add(s.hold()); time.Now().Before(end); {
			fatal.If(m.Stop())
			fatal.If(pause.For(ctx, length))
			fatal.If(m.Continue())
			fatal.If(pause.For(ctx, interval-length))
		}
	})
}

func transfer(ctx context.Context, s Scene) {
	for end := time.Now().Add(s.hold()); time.Now().Before(end); {
		if err := fatal.Catch(func() { moveLeader(ctx, s) }); err != nil {
			s.Note(err.Error()) // the next one may succeed
		}
		fatal.If(pause.For(ctx, transferEvery))
	}
}

// throttle makes the measured client read large ranges.
func throttle(ctx context.Context, s Scene) {
	kv := pb.NewKVClient(s.Cluster.Members()[0].Conn())
	for i := range largeKeys {
		key := fmt.Appendf(nil, "%s%d", largePrefix, i)
		fatal.OK(kv.Put(ctx, &pb.PutRequest{Key: key, Value: []byte(strings.Repeat("x", largeValue))}))
	}
	for _, m := range s.Cluster.Members() {
		s.Cluster.ClientLink(m).Throttle(link.Reverse, throttledRate)
	}
	rangeEnd := largePrefix[:len(largePrefix)-1] + "0"
	var read, failed atomic.Int64
	var work sync.WaitGroup
	end := time.Now().Add(s.hold())
	for range largeReaders {
		work.Go(func() {
			for time.Now().Before(end) {
				reading, cancel := context.WithTimeout(ctx, largeTimeout)
				if _, err := s.Store.Get(reading, largePrefix, rangeEnd); err != nil {
					failed.Add(1)
				} else {
					read.Add(1)
				}
				cancel()
			}
		})
	}
	work.Wait()
	s.Note(fmt.Sprintf("%d large ranges were read, %d failed", read.Load(), failed.Load()))
}

// freezeSecond leaves the first follower frozen.
func freezeSecond(ctx context.Context, s Scene) {
	if n := len(s.Cluster.Members()); n < 5 {
		fatal.If(fmt.Errorf("a majority must outlive two members: the cluster needs at least 5, and has %d", n))
	}
	first := follower(ctx, s)
	s.Note(first.Name() + ", a follower, is stopped")
	fatal.If(first.Stop())
	fatal.If(pause.For(ctx, s.hold()))
	followers := s.Cluster.Others(fatal.OK(s.Cluster.Leader(ctx)))
	second := slices.DeleteFunc(followers, func(m *lab.Member) bool { return m == first })[0]
	s.Note(second.Name() + ", another follower, is stopped")
	fatal.If(second.Stop())
	fatal.If(pause.For(ctx, secondFreeze))
}

func freezeBesideExpired(ctx context.Context, s Scene) {
	leave := s.join(ctx, expiredClients, s.Cluster.ExpiredClientTLS())
	defer leave()
	fatal.If(pause.For(ctx, expiredWarmUp))
	onFollower(stop)(ctx, s)
	fatal.If(pause.For(ctx, s.hold()))
}
