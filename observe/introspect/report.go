package introspect

import "time"

// Report is the state of the clients of a process.
type Report struct {
	At      time.Time `json:"at"`
	Process Process   `json:"process"`
	Clients []Client  `json:"clients"` // by name
}

// Process identifies the process of the clients.
type Process struct {
	Program string `json:"program"` // without its folder
	Host    string `json:"host"`
	PID     int    `json:"pid"`
}

// Client is the state of one etcd client, or of one gRPC channel of any service.
type Client struct {
	Name string `json:"name"`
	// Target is the target of a channel, without a password, and Policy its load-balancing policy: "" if it
	// is unknown, or none of this library. Both are "" for an etcd client.
	Target string `json:"target,omitempty"`
	Policy string `json:"policy,omitempty"`
	// Ready says that at least one endpoint serves, as far as is known without asking, and that
	// a call has succeeded since the latest failure; of a channel, that a usable one is
	// connected. NotReady says what is wrong.
	Ready     bool       `json:"ready"`
	NotReady  string     `json:"not_ready,omitempty"`
	Endpoints []Endpoint `json:"endpoints"` // by name
	Calls     Calls      `json:"calls"`
	Watches   Watches    `json:"watches,omitzero"` // not of a channel
	Leases    Leases     `json:"leases,omitzero"`  // not of a channel
	Elections []Election `json:"elections,omitempty"`
	Budgets   []Budget   `json:"budgets"`
	// Config is the configuration in force, defaults included, by the names of the fields of
	// clientv3.Config or quorate.Channel. It holds no secret: of tokens, passwords, keys and certificates it
	// says only whether there are any.
	Config map[string]any `json:"config"`
}

// Endpoint is the state and the work of an endpoint.
type Endpoint struct {
	Name string `json:"name"` // as the client was given it, without a password
	// State is the name of a health.State, and StateSeconds how long it has lasted; 0 for
	// an endpoint of which nothing is known.
	State        string  `json:"state"`
	StateSeconds float64 `json:"state_seconds"`
	// Ejected says that it is not used because another one serves.
	Ejected bool `json:"ejected,omitempty"`
	// Evidence is the kind of evidence that led to the state, and Detail describes it.
	Evidence string `json:"evidence,omitempty"`
	Detail   string `json:"detail,omitempty"`
	// LastError is the latest error that the endpoint gave or caused, and LastErrorSeconds
	// how long ago that was.
	LastError        string  `json:"last_error,omitempty"`
	LastErrorSeconds float64 `json:"last_error_seconds,omitempty"`
	// Member is the latest report of the endpoint about itself; nil if there is none.
	Member *Member `json:"member,omitempty"`
	// Connected says that there is a connection for calls.
	Connected   bool `json:"connected"`
	Connections int  `json:"connections"` // open ones, of all classes
	InFlight    int  `json:"in_flight"`   // attempts of calls
	Streams     int  `json:"streams"`
	// Share is the endpoint's share, from 0 to 1, of the attempts at all endpoints that have ended since a report one to
	// two minutes before, or since the first one; in the first report, since the beginning.
	Share float64 `json:"share"`
	// LatencySeconds is how long the endpoint takes to complete work, smoothed; 0 if it
	// has completed none.
	LatencySeconds float64 `json:"latency_seconds"`
	// Work is the work sent to the endpoint since it became one of the client's, by shape.
	Work []Work `json:"work"`
}

// Member is the report of an etcd member about itself.
type Member struct {
	ID             string   `json:"id"`     // in hexadecimal, as etcdctl shows it
	Leader         string   `json:"leader"` // the ID of the one it takes for its leader; "0" for none
	IsLeader       bool     `json:"is_leader"`
	Learner        bool     `json:"learner"`
	Term           uint64   `json:"term"`
	Applied        uint64   `json:"applied"` // index in the raft log
	Version        string   `json:"version,omitempty"`
	Alarms         []string `json:"alarms,omitempty"`
	ReportedBefore float64  `json:"reported_before_seconds"` // the age of this report
}

// Work counts attempts of calls that take equally long and have ended. All fields but P99Seconds
// only grow, so the difference of two reports is a rate and a mean latency.
type Work struct {
	// Shape is the full name of a method, or the kind of read, such as "get".
	Shape   string  `json:"shape"`
	Ended   uint64  `json:"ended"`
	Failed  uint64  `json:"failed"` // of these, with an error
	Seconds float64 `json:"seconds"`
	// P99Seconds is about the 99th percentile of the latest 200 that were answered,
	// wherever they went.
	P99Seconds float64 `json:"p99_seconds"`
}

// Calls are unary calls in flight.
type Calls struct {
	// InFlight are the calls that have not returned to their callers: those that wait for
	// an endpoint, a token or a retry included. Of a channel they are the attempts.
	InFlight int `json:"in_flight"`
	// Attempts are those at an endpoint now, hedges included.
	Attempts int            `json:"attempts"`
	ByMethod map[string]int `json:"by_method"` // attempts, by full name; of the oldest 10,000 at each endpoint
	Oldest   []Call         `json:"oldest"`    // attempts, the oldest first
}

// Call is an attempt in flight.
type Call struct {
	Method     string  `json:"method"` // full name
	Endpoint   string  `json:"endpoint"`
	AgeSeconds float64 `json:"age_seconds"`
	// LeftSeconds is how long it is until the deadline; nil without one.
	LeftSeconds *float64 `json:"left_seconds,omitempty"`
}

// Watches are those of all the client's Watchers.
type Watches struct {
	Open    int            `json:"open"`
	ByState map[string]int `json:"by_state"`
	Streams int            `json:"streams"`
	// Revision is the highest revision of the store that the client has seen.
	Revision int64 `json:"revision"`
	// BufferedBytes is the size of the responses that wait for their readers.
	BufferedBytes    int64 `json:"buffered_bytes"`
	MaxBufferedBytes int64 `json:"max_buffered_bytes"`
	// LagRevisions is the largest lag of the watches that have not caught up, and
	// BlockedSeconds the largest of all watches.
	LagRevisions   int64   `json:"lag_revisions"`
	BlockedSeconds float64 `json:"blocked_seconds"`
	Furthest       []Watch `json:"furthest"` // the watches, those furthest behind first
}

// The states of a [Watch].
const (
	// WatchOpening: no server has created it yet.
	WatchOpening = "opening"
	// WatchCatchingUp: it delivers what happened before.
	WatchCatchingUp = "catching up"
	// WatchFollowing: it delivers events as they happen.
	WatchFollowing = "following"
	// WatchPaused: its reader is far behind, and the server has no watcher for it.
	WatchPaused = "paused"
	// WatchInterrupted: its stream has ended, and there is no other one yet.
	WatchInterrupted = "interrupted"
)

// Watch is one watch.
type Watch struct {
	// Key is where the watched range begins; "" unless [Options.Keys] is set.
	Key string `json:"key,omitempty"`
	// Range says that it is a range or a prefix, and not a single key.
	Range bool   `json:"range"`
	State string `json:"state"`
	// Revision is the latest revision up to which everything has been received, 0 if there is none. LagRevisions is the
	// distance to the store's revision, as far as the client knows. A watch without events receives the store's revision
	// once a minute, so a lag of a watch that is following is no sign of trouble.
	Revision     int64 `json:"revision"`
	LagRevisions int64 `json:"lag_revisions"`
	// Unread responses wait for the reader, which has not taken the next one for BlockedSeconds.
	Unread         int     `json:"unread"`
	UnreadBytes    int     `json:"unread_bytes"`
	BlockedSeconds float64 `json:"blocked_seconds"`
}

// Leases are those that the client keeps alive.
type Leases struct {
	KeptAlive int `json:"kept_alive"`
	// Unanswered are those with a keepalive that was sent, or is due, and not answered.
	Unanswered int `json:"unanswered"`
	// LeftSeconds is the least time that a lease has left, and LeftRatio the least part of its
	// TTL, where two thirds and more are normal; nil if that is known of none.
	LeftSeconds *float64 `json:"left_seconds,omitempty"`
	LeftRatio   *float64 `json:"left_ratio,omitempty"`
	Shortest    []Lease  `json:"shortest"` // time left first; unknown ones last
}

// Lease is a lease that is kept alive.
type Lease struct {
	ID string `json:"id"` // in hexadecimal, as etcdctl shows it
	// TTLSeconds is the TTL of the last grant or renewal. LeftSeconds is how long the lease
	// lives at least, unless it is revoked; nil while that is unknown.
	TTLSeconds  float64  `json:"ttl_seconds"`
	LeftSeconds *float64 `json:"left_seconds,omitempty"`
	Unanswered  bool     `json:"unanswered"`
}

// Election is a key that a leaderelection.Run of the client campaigns for or holds: that of an election, of a lock, or of a place
// in a semaphore.
type Election struct {
	Name string `json:"name"`
	// Leading says that the key is held. Key, Revision (the fencing token) and LeadingSeconds, for how long, belong to it.
	Leading        bool    `json:"leading"`
	Key            string  `json:"key,omitempty"`
	Revision       int64   `json:"revision,omitempty"`
	LeadingSeconds float64 `json:"leading_seconds,omitempty"`
}

// Budget bounds what the client does beyond its calls.
type Budget struct {
	// Name is "retry", "stream retry", "hedge" or "probe".
	Name string `json:"name"`
	// Left is how many attempts the budget allows now, and Max how many when it is
	// full; Max is 0 for a budget without a bound.
	Left float64 `json:"left"`
	Max  float64 `json:"max"`
	// Used counts those that were sent; only probes are counted.
	Used uint64 `json:"used,omitempty"`
}

// merge returns clients as one: it adds up their counts, and keeps the worst of each figure
// that is a minimum or a maximum.
func merge(all []Client) Client {
	sum := Client{Ready: true}
	for _, one := range all {
		if !one.Ready {
			sum.Ready, sum.NotReady = false, one.NotReady
		}
		sum.Endpoints, sum.Budgets = append(sum.Endpoints, one.Endpoints...), append(sum.Budgets, one.Budgets...)
		sum.Elections = append(sum.Elections, one.Elections...)
		sum.Calls.InFlight += one.Calls.InFlight
		sum.Calls.Attempts += one.Calls.Attempts
		sum.Watches.merge(one.Watches)
		sum.Leases.KeptAlive += one.Leases.KeptAlive
		sum.Leases.Unanswered += one.Leases.Unanswered
		sum.Leases.LeftSeconds = least(sum.Leases.LeftSeconds, one.Leases.LeftSeconds)
		sum.Leases.LeftRatio = least(sum.Leases.LeftRatio, one.Leases.LeftRatio)
	}
	return sum
}

func (w *Watches) merge(one Watches) {
	w.Open += one.Open
	w.Streams += one.Streams
	w.BufferedBytes += one.BufferedBytes
	w.MaxBufferedBytes += one.MaxBufferedBytes
	w.LagRevisions = max(w.LagRevisions, one.LagRevisions)
	w.BlockedSeconds = max(w.BlockedSeconds, one.BlockedSeconds)
	if w.ByState == nil && one.ByState != nil {
		w.ByState = make(map[string]int, len(one.ByState))
	}
	for state, n := range one.ByState {
		w.ByState[state] += n
	}
}

// least returns the lower of two numbers; nil stands for no number.
func least(a, b *float64) *float64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}
