package ordering

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
)

// OrderViolationFunc handles a response that is older than an earlier one. Its
// arguments are the operation, the response, and the revision that its header should
// have reached. It is called once for each such response, possibly concurrently.
//
// If it returns nil, a read is sent again. If it returns an error, that is the error
// of the request. If a member has not reached the revision of a stream, it returns
// no header: then resp is a get response with an empty header.
type OrderViolationFunc func(op clientv3.Op, resp clientv3.OpResponse, prevRev int64) error

// ErrNoGreaterRev is returned when no endpoint that answers has reached the revision
// seen before. Reads after a change of the cluster wrap it too, see [NewKV].
var ErrNoGreaterRev = errors.New("etcdclient: no cluster members have a revision higher than the previously received revision")

const (
	// statusTimeout bounds the status requests to all endpoints. It covers a new
	// connection on a lossy link, and is short enough for a caller whose context has
	// ended meanwhile.
	statusTimeout = time.Second

	// freshLifetime is how long a status result is reused. It makes the rate of
	// status requests independent of the rate of stale reads.
	freshLifetime = time.Second
)

// NewOrderViolationSwitchEndpointClosure returns an OrderViolationFunc that repeats
// reads, on the next endpoint in the client's rotation, while at least one endpoint
// is known to have reached the revision; otherwise it returns [ErrNoGreaterRev]. It
// requests the status of c's endpoints, concurrently and for at most a second; a
// positive result is reused for a second.
//
// It does not change c's endpoints, and an error has no effect on later requests. It
// is safe for concurrent use by any number of KVs of c.
func NewOrderViolationSwitchEndpointClosure(c *clientv3.Client) OrderViolationFunc {
	m := &memberCheck{client: c, sem: make(chan struct{}, 1)}
	return func(_ clientv3.Op, _ clientv3.OpResponse, prevRev int64) error {
		if m.reached(prevRev) {
			return nil
		}
		return ErrNoGreaterRev
	}
}

// memberCheck determines the revisions of a client's endpoints.
type memberCheck struct {
	client *clientv3.Client

	// sem holds a value while status requests run; the callers that wait for it share
	// the result. It guards the fields below. (It is not a sync.Mutex because blocking
	// on one stops the clock of testing/synctest.)
	sem      chan struct{}
	asked    time.Time // when the latest result was complete
	revision int64     // the highest revision in it
	all      bool      // it covers all endpoints, not only until one was up to date
}

// reached reports whether some endpoint is at the revision or above it.
func (m *memberCheck) reached(revision int64) bool {
	began := time.Now()
	m.sem <- struct{}{}
	defer func() { <-m.sem }()
	shared := m.all && m.asked.After(began)
	fresh := m.revision >= revision && time.Since(m.asked) < freshLifetime
	if !shared && !fresh {
		m.revision = m.ask(revision)
		m.all = m.revision < revision
		m.asked = time.Now()
	}
	return m.revision >= revision
}

// ask returns the first revision that is at least enough, or the highest one of all
// endpoints.
func (m *memberCheck) ask(enough int64) int64 {
	if m.client.Maintenance == nil {
		return 0 // a client made by NewCtxClient, which has no endpoints
	}
	ctx, cancel := context.WithTimeout(m.client.Ctx(), statusTimeout)
	defer cancel()
	eps := m.client.Endpoints()
	revisions := make(chan int64, len(eps))
	for _, ep := range eps {
		go func() {
			resp, _ := m.client.Status(ctx, ep)
			revisions <- (*pb.StatusResponse)(resp).GetHeader().GetRevision() // 0 if it does not answer
		}()
	}
	var highest int64
	for range eps {
		if highest = max(highest, <-revisions); highest >= enough {
			break
		}
	}
	return highest
}
