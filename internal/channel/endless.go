package channel

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/retry"
)

// Endless makes this the Tries of work that goes on for as long as its context
// lives, as watches and keepalives do, and returns it. Neither the 15 s of
// patience nor the policy's MaxAttempts end it, nor does an error after which
// the policy repeats no call: opening such a stream again is always safe, and
// its owner knows where to go on. Pauses stay within the policy's MaxBackoff,
// or one and a half times that while the budget throttles. The first failure
// since the last Progress costs no backoff: a stream that breaks is opened
// again at once, or within 100 ms if it was quiet, see [Tries.Wake].
//
// What still ends it is the context, its deadline included; the end of the
// client; an error that another attempt would meet again, such as
// PermissionDenied, a wrong password or a message over the client's limit; a
// refusal by every endpoint, as learners give it; and, for a context that
// requires a leader, ErrNoLeader from every endpoint that can be reached.
func (t *Tries) Endless() *Tries {
	t.endless, t.wake = true, make(chan struct{}, 1)
	return t
}

// Leaderless reports whether every endpoint that can be reached has refused
// the work since its last Progress, because it has no leader (ErrNoLeader) or
// because it is a learner. A member without a leader serves a stream that does
// not ask for one, so it is time to open it like that; the pause before it is
// that of a first failure.
func (t *Tries) Leaderless() bool { return t.leaderless }

// Removed returns a channel that is closed when the endpoint of the latest
// stream is no longer one of the client's: the stream lives on, but should move.
// It is also closed when the client is. It is nil, which blocks for ever, if
// it is not known where the stream went, because it was not opened with
// [Tries.Track] over a [Channel] or [Streams].
func (t *Tries) Removed() <-chan struct{} {
	if ep := t.opened.endpoint(); ep != nil {
		return ep.Gone()
	}
	return nil
}

// Endpoint returns where the latest stream went, by the name that the client was
// given, without passwords; "" if that is not known.
func (t *Tries) Endpoint() string { return t.name(t.opened.endpoint()) }

// withoutLeader goes on when no endpoint has a leader. The first time, endless
// work can be done in another way, for which there is nothing to wait.
func (t *Tries) withoutLeader(ctx context.Context, a *attempt, cause error) error {
	known := t.leaderless
	t.leaderless = true
	switch {
	case requiresLeader(ctx):
		return cause
	case known || !t.endless:
		return t.pause(ctx, retry.NoLeader, a, cause)
	}
	t.fail(a.endpoint(), cause, time.Now())
	t.retried(retry.NoLeader, a, cause)
	return t.wait(ctx, t.policy.Delay(1, false), cause)
}

// unrenewed decides what follows an Authenticate that failed. Endless work
// outlives an outage that begins while its token is being renewed.
func (t *Tries) unrenewed(ctx context.Context, a *attempt, err error) error {
	class := retry.Classify(err, retry.Evidence{Sent: true, ContextErr: ctx.Err(), Method: pb.Auth_Authenticate_FullMethodName})
	if !t.endless || retry.Decide(class, retry.Repeatable) != retry.Again {
		return err
	}
	return t.pause(ctx, class, a, err)
}
