package clientv3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"weak"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/clientv3/internal/lease"
	"github.com/quorate/quorate/clientv3/internal/watch"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/channel"
	"github.com/quorate/quorate/observe/introspect"
)

// NotReadyError is the error of [Client.Ready], and of [New] with WaitReady.
type NotReadyError struct {
	// Endpoints holds the state of each endpoint.
	Endpoints []health.Status
	// Err says why no state is known, or is the error of Ready's read, joined with the
	// error of the latest call if all calls fail; nil if Ready made no read.
	Err error
}

// Error names each endpoint with its state and the evidence for it.
func (e *NotReadyError) Error() string {
	text := "etcdclient: no endpoint serves"
	if serves(e.Endpoints) {
		text = "etcdclient: calls fail"
	}
	for i, s := range e.Endpoints {
		text += separators[min(i, 1)] + s.Endpoint + " is " + s.State.String()
		if s.Evidence.At.IsZero() {
			continue
		}
		text += " (" + s.Evidence.String() + ")"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

var separators = [2]string{": ", "; "}

// Unwrap returns Err.
func (e *NotReadyError) Unwrap() error { return e.Err }

// readyKey is the key that Ready reads. It sorts before all others and usually does not
// exist.
const readyKey = "\x00"

// Ready returns nil if, to the client's knowledge, at least one endpoint serves all kinds of calls,
// and otherwise a *[NotReadyError]. It is meant for readiness probes: if the state of any endpoint
// is known and calls succeed, it returns at once and sends nothing. A client that is unused, or idle
// for so long that its connections were closed, makes one linearizable read, bounded by ctx and 15
// s. So does a client whose latest call failed, for any reason, if none has succeeded since, or
// whose latest call has had no answer for 5 s. That read is also bounded by 2 s, and its success
// means that the client is ready. An endpoint that answers "permission denied" counts as serving.
//
// The state is as old as the latest call, stream or fault, see [Client.EndpointStatus]: an
// idle client does not probe its servers.
func (c *Client) Ready(ctx context.Context) error {
	known := c.EndpointStatus()
	switch err := c.Ctx().Err(); {
	case err != nil:
		return &NotReadyError{Endpoints: known, Err: err}
	case serves(known):
		failed := c.channel.Failing()
		if failed == nil && c.channel.Unanswered() < maxUnanswered {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		return c.tryRead(ctx, failed)
	case !undecided(known):
		return &NotReadyError{Endpoints: known}
	}
	ctx, cancel := context.WithTimeout(ctx, waitReady)
	defer cancel()
	return c.tryRead(ctx, nil)
}

const (
	// readyTimeout bounds the read of Ready where endpoints seem to serve.
	readyTimeout = 2 * time.Second
	// maxUnanswered is how long a call may be without an answer before Ready makes a read.
	maxUnanswered = 5 * time.Second
)

// tryRead makes the read of Ready. failed is the error of the latest call, nil if it succeeded.
func (c *Client) tryRead(ctx context.Context, failed error) error {
	_, err := NewKV(c).Get(ctx, readyKey, WithCountOnly())
	switch {
	case err == nil, errors.Is(err, rpctypes.ErrPermissionDenied):
		return nil
	case failed != nil && failed.Error() != err.Error():
		err = fmt.Errorf("%w; the latest call before: %w", err, failed)
	}
	return &NotReadyError{Endpoints: c.EndpointStatus(), Err: err}
}

func serves(known []health.Status) bool {
	return slices.ContainsFunc(known, func(s health.Status) bool { return s.State != health.Unknown && s.State.Usable() })
}

// undecided reports whether the state of an endpoint, or of all, is unknown.
func undecided(known []health.Status) bool {
	return len(known) == 0 || slices.ContainsFunc(known, func(s health.Status) bool { return s.State == health.Unknown })
}

// Introspect returns the client's present state: endpoints, in-flight calls, watches, leases,
// budgets and configuration. Package observe/introspect also serves it over HTTP. Introspect
// sends nothing to the cluster. Watches and leases are those of all services of the client.
func (c *Client) Introspect(o introspect.Options) introspect.Client {
	o = o.WithDefaults()
	shown := introspect.Client{
		Endpoints: []introspect.Endpoint{}, Budgets: []introspect.Budget{},
		Calls: introspect.Calls{ByMethod: map[string]int{}, Oldest: []introspect.Call{}},
	}
	if c.channel != nil {
		c.channel.Inspect(o, &shown)
	}
	known := c.EndpointStatus()
	switch err := c.Ctx().Err(); {
	case err != nil:
		shown.NotReady = (&NotReadyError{Err: err}).Error()
	case serves(known) && c.channel.Failing() == nil:
		shown.Ready = true
	case serves(known):
		shown.NotReady = (&NotReadyError{Endpoints: known, Err: c.channel.Failing()}).Error()
	default:
		shown.NotReady = (&NotReadyError{Endpoints: known}).Error()
	}
	c.inspectWatches(o, &shown.Watches)
	c.inspectLeases(o, &shown.Leases)
	shown.Config = c.shownConfig()
	c.added.report(&shown)
	return shown
}

// AddToReport calls add with each report that Introspect returns, until remove is called, so that a package above the client,
// such as leaderelection, can add what it does. add may be called at any time and concurrently, and must not block.
func (c *Client) AddToReport(add func(*introspect.Client)) (remove func()) {
	return c.added.add(add)
}

// reporters complete the reports of a client.
type reporters struct {
	mu  sync.Mutex
	all []*func(*introspect.Client) // in the order in which they were added
}

func (r *reporters) add(f func(*introspect.Client)) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(slices.Clone(r.all), &f)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = slices.DeleteFunc(slices.Clone(r.all), func(other *func(*introspect.Client)) bool { return other == &f })
	}
}

func (r *reporters) report(into *introspect.Client) {
	r.mu.Lock()
	all := r.all
	r.mu.Unlock()
	for _, f := range all {
		(*f)(into)
	}
}

func (c *Client) inspectWatches(o introspect.Options, into *introspect.Watches) {
	into.Revision = c.history.History().Revision()
	into.ByState = make(map[string]int, len(watch.States))
	for _, state := range watch.States {
		into.ByState[state] = 0
	}
	into.Furthest = []introspect.Watch{}
	for _, w := range c.watchers.all() {
		w.Inspect(o, into)
	}
	if c.watches != nil {
		into.BufferedBytes, into.MaxBufferedBytes = c.watches.Used()
	}
}

func (c *Client) inspectLeases(o introspect.Options, into *introspect.Leases) {
	lessors := c.lessors.all()
	engines := make([]*lease.Engine, 0, len(lessors))
	for _, l := range lessors {
		engines = append(engines, l.engine)
	}
	lease.Inspect(engines, o, into)
}

// shownConfig returns the configuration in force, without secrets.
func (c *Client) shownConfig() map[string]any {
	cfg := &c.cfg
	strategy := ""
	if c.channel != nil {
		strategy = c.channel.Strategy()
	}
	send, recv := cfg.maxCallSizes()
	keepAlive := cfg.keepAlive()
	return map[string]any{
		"Endpoints":                channel.Redact(c.Endpoints()),
		"Authentication":           c.authentication(),
		"TLS":                      cfg.TLS != nil,
		"AutoSyncInterval":         cfg.AutoSyncInterval.String(),
		"DialTimeout":              cfg.DialTimeout.String(),
		"DialKeepAliveTime":        keepAlive.Time.String(),
		"DialKeepAliveTimeout":     keepAlive.Timeout.String(),
		"PermitWithoutStream":      cfg.PermitWithoutStream,
		"MaxCallSendMsgSize":       send,
		"MaxCallRecvMsgSize":       recv,
		"MaxUnaryRetries":          cfg.MaxUnaryRetries,
		"MaxWatchBufferBytes":      cfg.maxWatchBuffer(),
		"MaxTotalWatchBufferBytes": cfg.maxTotalWatchBuffer(),
		"DisableSplitReplay":       cfg.DisableSplitReplay,
		"Balancer":                 strategy,
		"ServiceConfig":            cfg.ServiceConfig != "",
		"DisableHealthChecks":      cfg.DisableHealthChecks,
		"DisableHealthSharing":     cfg.DisableHealthSharing,
		"DisableHedging":           cfg.DisableHedging,
		"WriteStallTimeout":        cmp.Or(c.writeStallTimeout(), balancer.DefaultWriteStallTimeout).String(),
		"RejectOldCluster":         cfg.RejectOldCluster,
		"WaitReady":                cfg.WaitReady,
		"AllowInsecureSync":        cfg.AllowInsecureSync,
		"DialOptions":              len(cfg.DialOptions),
		"Observer":                 cfg.Observer != nil,
	}
}

// authentication names the present authentication method.
func (c *Client) authentication() string {
	switch login := c.login(); {
	case login.FromSource:
		return "token source"
	case login.Token != "":
		return "token"
	case login.Username != "" || login.Password != "":
		return "user name and password"
	default:
		return "none"
	}
}

// services holds the services of a client that are in use.
type services[T any] struct {
	mu   sync.Mutex
	made []weak.Pointer[T]
}

func (s *services[T]) add(service *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = slices.DeleteFunc(s.made, func(p weak.Pointer[T]) bool { return p.Value() == nil })
	s.made = append(s.made, weak.Make(service))
}

func (s *services[T]) all() []*T {
	s.mu.Lock()
	defer s.mu.Unlock()
	var live []*T
	for _, p := range s.made {
		if service := p.Value(); service != nil {
			live = append(live, service)
		}
	}
	return live
}
