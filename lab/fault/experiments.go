package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
)

const (
	// flapHalf is how long a follower that flaps is frozen, and then well.
	flapHalf = 2 * time.Second
	// pauseLength is how long a member pauses, and pauseEvery the time from pause to pause.
	pauseLength, pauseEvery = 700 * time.Millisecond, 3 * time.Second
	// transferEvery is the time between two transfers of leadership.
	transferEvery = time.Second
	// secondFreeze is how long the second member is frozen.
	secondFreeze = 10 * time.Second
	// expiredClients is how many clients have an expired certificate.
	expiredClients = 20
	// expiredWarmUp is how long they try before a member is frozen.
	expiredWarmUp = 10 * time.Second
)

func freezeMajority(_ context.Context, s Scene) {
	s.some(len(s.Cluster.Members())/2+1, "is stopped", (*lab.Member).Stop)
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

// freezeSecond leaves the first follower frozen.
func freezeSecond(ctx context.Context, s Scene) {
	if n := len(s.Cluster.Members()); n < 5 {
		fatal.If(fmt.Errorf("a majority must outlive two members: the cluster needs at least 5, and has %d", n))
	}
	freeze := onFollower(stop)
	freeze(ctx, s)
	fatal.If(pause.For(ctx, s.hold()))
	freeze(ctx, s)
	fatal.If(pause.For(ctx, secondFreeze))
}

func freezeBesideExpired(ctx context.Context, s Scene) {
	leave := s.join(ctx, expiredClients, s.Cluster.ExpiredClientTLS())
	defer leave()
	fatal.If(pause.For(ctx, expiredWarmUp))
	onFollower(stop)(ctx, s)
	fatal.If(pause.For(ctx, s.hold()))
}
