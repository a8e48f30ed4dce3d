package ordering

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/clientv3"
)

// OrderViolationFunc is notified of a response that is older than what was seen before:
// the operation, the response, and the revision that its header should have reached.
// It is called once for each such response, possibly by several goroutines at once.
//
// If it returns nil, a read is sent again. If it returns an error, that is the error
// of the request. A member that cannot serve a stream because it has not reached the
// revision yet tells nothing of itself: then resp is a response to a get that has
// nothing but an empty header.
type OrderViolationFunc func(op clientv3.Op, resp clientv3.OpResponse, prevRev int64) error

// ErrNoGreaterRev is returned when no endpoint that can be asked has reached the
// revision seen before. So does the error of a read once the cluster has changed, see
// [NewKV].
var ErrNoGreaterRev = errors.New("etcdclient: no cluster members have a revision higher than the previously received revision")

const (
	// statusTimeout bounds the question to all endpoints how far they are. It covers
	// a new connection on a link with some loss, and is short enough for a caller
	// whose context has ended meanwhile.
	statusTimeout = time.Second

	// freshLifetime is how long the answer is good that some endpoint is far enough.
	// With it, the rate of questions does not depend on the rate of stale reads.
	freshLifetime = time.Second
)

// NewOrderViolationSwitchEndpointClosure returns an OrderViolationFunc that has reads
// sent again, to the next endpoint in the client's rotation, as long as one of the
// endpoints is known to have reached the revision, and gives [ErrNoGreaterRev]
// otherwise. It finds out by asking the endpoints of c for their status, all at once
// and for a second at most; when one is far enough, that counts for a second.
//
// It changes nothing about c: its endpoints stay what they are, and an error now has
// no effect on requests to come. It is safe for concurrent use, and serves any number
// of KVs of c.
func NewOrderViolationSwitchEndpointClosure(c *clientv3.Client) OrderViolationFunc {
	s := &memberCheck{client: c, turn: make(chan struct{}, 1)}
	return func(_ clientv3.Op, _ clientv3.OpResponse, prevRev int64) error {
		if s.reached(prevRev) {
			return nil
		}
		return ErrNoGreaterRev
	}
}

// memberCheck knows how far the endpoints of a client are.
type memberCheck struct {
	client *clientv3.Client

	// turn holds a value while the endpoints are asked: those who wait for it share the
	// answer. It guards what follows. (A sync.Mutex must not be held while time passes:
	// that would stop the clock of testing/synctest.)
	turn     chan struct{}
	asked    time.Time // when the latest answer was complete
	revision int64     // the highest one in it
	all      bool      // it has all endpoints, and not just one that was far enough
}

// reached reports whether some endpoint is at the revision or above it.
func (s *memberCheck) reached(revision int64) bool {
	began := time.Now()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	shared := s.all && s.asked.After(began)
	fresh := s.revision >= revision && time.Since(s.asked) < freshLifetime
	if !shared && !fresh {
		s.revision = s.ask(revision)
		s.all = s.revision < revision
		s.asked = time.Now()
	}
	return s.revision >= revision
}

// ask returns the first revision that is enough, or the highest one of all endpoints.
func (s *memberCheck) ask(enough int64) int64 {
	if s.client.Maintenance == nil {
		return 0 // a client made by NewCtxClient, which has no endpoints
	}
	ctx, cancel := context.WithTimeout(s.client.Ctx(), statusTimeout)
	defer cancel()
	eps := s.client.Endpoints()
	revisions := make(chan int64, len(eps))
	for _, ep := range eps {
		go func() { revisions <- s.revisionOf(ctx, ep) }()
	}
	var highest int64
	for range eps {
		if highest = max(highest, <-revisions); highest >= enough {
			break
		}
	}
	return highest
}

// revisionOf returns the revision of the member behind an endpoint, 0 if it does not
// answer.
func (s *memberCheck) revisionOf(ctx context.Context, ep string) int64 {
	resp, err := s.client.Status(ctx, ep)
	if err != nil {
		return 0
	}
	return resp.Header.GetRevision()
}
