package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/clientv3/naming/resolver"
	"github.com/quorate/quorate/internal/pause"
)

const (
	// DefaultTTL is how long a crashed server stays listed. The lease is renewed every third of
	// it, so it survives an election plus the loss of a member, about five seconds at most with
	// etcd's defaults, and one late renewal. Servers that stop gracefully are removed at once.
	DefaultTTL = 10 * time.Second

	// minTTL is the minimum TTL of a lease. The server raises it to one and a half times
	// its election timeout, 2 s by default.
	minTTL = time.Second

	// DefaultDrainPause is the time for resolvers to receive a withdrawal: a few
	// milliseconds, with a large margin for busy callers. Callers that miss it get a
	// GOAWAY.
	DefaultDrainPause = time.Second
)

// Registration configures a registration. Service and Address, or Service, Name and Value, are required.
type Registration struct {
	// Service is the name that callers dial, "billing" for "etcd:///billing". It may contain
	// slashes, but not at its ends. Callers that dial "eu" also find the endpoints of
	// "eu/billing", because its keys begin with "eu/".
	Service string

	// Address is where callers reach the server, "host:port" or "unix:path". It must be valid on
	// the hosts of callers: an unspecified host (":443", "0.0.0.0:443") is an error.
	Address string

	// AdditionalAddresses are further addresses of the same server, for instance of
	// another IP family. Callers try them in order. They are part of the metadata.
	AdditionalAddresses []string

	// Metadata is any value that encodes to JSON. Callers get it with [Metadata]. With a Weight or
	// AdditionalAddresses it must be nil or a JSON object (a map or a struct) without members of
	// these names.
	Metadata any

	// Weight is the server's share of calls, see balancer.SetWeight, at most balancer.MaxWeight. 0
	// means 1. To take a server out of service, withdraw it.
	Weight uint32

	// Name distinguishes the key from those of the service's other servers. With the
	// default, Address, a restarted server at the same address replaces the key of its
	// crashed predecessor.
	Name string

	// Value, if set, is the value of the key, in another format than that of package clientv3/naming/resolver. Name is then required,
	// Service may begin with a slash, and Address and what belongs to it must be left out.
	Value string

	// TTL is the TTL of the lease, rounded up to whole seconds. The default is
	// DefaultTTL; the minimum is 1 s, which etcd raises to 2 s by default.
	TTL time.Duration

	// Notify, if set, is notified of every change of state. It is called by one goroutine at a
	// time, which waits for it, so it must return soon. It must not call methods of the
	// Registrar other than [Registrar.State].
	Notify func(Event)

	// DrainPause is the time that [Registrar.Shutdown] gives callers to move to other servers,
	// after the withdrawal and before the server closes connections. The default is
	// DefaultDrainPause; a negative value means none.
	DrainPause time.Duration

	// Drained, if set, is called by [Registrar.Shutdown] after the DrainPause, and returns when
	// the server may stop, for example when it has no calls left. An error is part of Shutdown's
	// error; the shutdown continues.
	Drained func(context.Context) error
}

// validate checks the registration without etcd. The error names the field.
func (r *Registration) validate() error {
	switch {
	case r.Service == "":
		return errors.New("etcd: Service is empty: it is the name that callers dial")
	case r.Value == "" && strings.Trim(r.Service, "/") != r.Service:
		return fmt.Errorf("etcd: Service is %q: it must not begin or end with a slash", r.Service)
	case r.TTL != 0 && r.TTL < minTTL:
		return fmt.Errorf("etcd: TTL is %v: it must be at least %v; 0 means %v", r.TTL, minTTL, DefaultTTL)
	case r.Weight > balancer.MaxWeight:
		return fmt.Errorf("etcd: Weight is %d: it must be at most %d", r.Weight, balancer.MaxWeight)
	}
	if r.Value != "" {
		return r.validateValue()
	}
	if err := checkAddress(r.Address); err != nil {
		return fmt.Errorf("etcd: Address is %q: %w", r.Address, err)
	}
	for i, addr := range r.AdditionalAddresses {
		if err := checkAddress(addr); err != nil {
			return fmt.Errorf("etcd: AdditionalAddresses[%d] is %q: %w", i, addr, err)
		}
	}
	return nil
}

func (r *Registration) validateValue() error {
	switch {
	case r.Name == "":
		return errors.New("etcd: Name is empty: with a Value it is the last part of the key")
	case r.Address != "" || len(r.AdditionalAddresses) > 0 || r.Metadata != nil || r.Weight > 0:
		return errors.New("etcd: Value is set: leave out Address, AdditionalAddresses, Metadata and Weight, which would not be in it")
	}
	return nil
}

func checkAddress(addr string) error {
	if strings.HasPrefix(addr, "unix:") || strings.HasPrefix(addr, "unix-abstract:") {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return errors.New(`it must have the form "host:port"`)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return errors.New("it has no host that others could connect to; name the one by which callers reach the server")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("its port must be a number from 1 to 65535")
	}
	return nil
}

// clone returns a copy that shares only the Metadata.
func (r Registration) clone() Registration {
	r.AdditionalAddresses = slices.Clone(r.AdditionalAddresses)
	return r
}

func (r *Registration) key() string {
	return r.Service + "/" + cmp.Or(r.Name, r.Address)
}

// value returns the value of the key.
func (r *Registration) value() (string, error) {
	if r.Value != "" {
		return r.Value, nil
	}
	md, err := r.metadata()
	if err != nil {
		return "", err
	}
	value, err := endpoints.Encode(endpoints.Endpoint{Addr: r.Address, Metadata: md})
	if err != nil {
		return "", fmt.Errorf("etcd: Metadata has no form in JSON: %w", err)
	}
	return value, nil
}

// metadata returns Metadata with Weight and AdditionalAddresses.
func (r *Registration) metadata() (any, error) {
	added := map[string]any{}
	if r.Weight > 0 {
		added["weight"] = r.Weight
	}
	if len(r.AdditionalAddresses) > 0 {
		added["additionalAddresses"] = r.AdditionalAddresses
	}
	switch {
	case len(added) == 0:
		return r.Metadata, nil
	case r.Metadata == nil:
		return added, nil
	}
	text, err := json.Marshal(r.Metadata)
	if err != nil {
		return nil, fmt.Errorf("etcd: Metadata has no form in JSON: %w", err)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("etcd: Metadata is a %T: with Weight or AdditionalAddresses it must be nil or a JSON object, a map or a struct", r.Metadata)
	}
	for name, member := range object {
		if _, twice := added[name]; twice {
			return nil, fmt.Errorf("etcd: Metadata has a member %q, which is also a field of Registration: set only one of the two", name)
		}
		added[name] = member
	}
	return added, nil
}

// withdrawalTimeout bounds the withdrawal in a shutdown, so that during an outage of etcd the
// server can still finish its calls.
const withdrawalTimeout = 5 * time.Second

// Server is the part of *grpc.Server that Shutdown needs.
type Server interface {
	// GracefulStop refuses new calls and returns when in-flight calls are done.
	GracefulStop()
	// Stop ends all calls, which also ends GracefulStop.
	Stop()
}

// Shutdown stops a server without failing calls:
//
//  1. the endpoint is withdrawn, so that callers turn to other servers;
//  2. the [Registration.DrainPause] passes, and [Registration.Drained] returns;
//  3. GracefulStop: the server refuses new calls, which gRPC makes elsewhere, and
//     finishes those in flight.
//
// When ctx ends, the server is stopped at once. The withdrawal gets a third of the time
// until ctx's deadline, at most 5 s.
//
// The error joins the errors of the withdrawal, of Drained, and of a Stop that ended calls. The
// server has stopped in any case. A nil server is an error; use [Registrar.Withdraw] instead.
func (r *Registrar) Shutdown(ctx context.Context, server Server) error {
	if server == nil {
		return errors.New("etcd: Shutdown has no server; call Withdraw if there is none to stop")
	}
	withdrawing, cancel := context.WithTimeout(ctx, withdrawalTime(ctx))
	errs := []error{r.Withdraw(withdrawing)}
	cancel()
	if d := cmp.Or(r.reg.DrainPause, DefaultDrainPause); d > 0 {
		_ = pause.For(ctx, d) // stop checks ctx
	}
	if r.reg.Drained != nil && ctx.Err() == nil {
		if err := r.reg.Drained(ctx); err != nil {
			errs = append(errs, fmt.Errorf("etcd: %q: Drained: %w", r.Key(), err))
		}
	}
	return errors.Join(append(errs, stop(ctx, server))...)
}

func withdrawalTime(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return withdrawalTimeout
	}
	return min(time.Until(deadline)/3, withdrawalTimeout)
}

// stop returns when the server has stopped.
func stop(ctx context.Context, server Server) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.GracefulStop()
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		server.Stop()
		<-stopped
		return fmt.Errorf("etcd: the server was stopped before it had finished its calls: %w", ctx.Err())
	}
}

// Registrar keeps one endpoint registered. It is safe for concurrent use.
//
// The key is attached to a lease. If the lease is lost, because etcd was unreachable for longer
// than the TTL or the lease was revoked, or if the key is deleted, the Registrar registers the
// endpoint again: within 0.1 s, then with delays up to 10 s while etcd refuses it. While etcd
// is unreachable it tries continuously. [Registration.Notify] and [Registrar.State] report the
// state. The client needs permission to write the key, and to read it in order to notice that
// it was deleted or overwritten.
//
// Of several registrations of one key the latest owns it. The others are Superseded: they
// do not touch the key, and register again if it is deleted.
type Registrar struct {
	reg     Registration // as given to Register
	key     *concurrency.KeptKey
	updated Registration // reg with all updates; only KeptKey.Update uses it
}

// Register puts an endpoint into etcd and keeps it there until [Registrar.Withdraw], or until the
// client is closed. It returns when the key is written; ctx bounds only that. Without a deadline
// it fails after 30 s at the latest.
//
// It replaces another registration of the same key: that of an earlier process, or of a running
// one, which becomes Superseded. [Registration.Notify] is called before Register returns.
//
// If a program closes the client without Withdraw, the endpoint stays in etcd for the TTL.
//
// The error names the invalid field, or is the client's error. The endpoint is then not in
// etcd, or for at most the TTL.
func Register(ctx context.Context, client *clientv3.Client, registration Registration) (*Registrar, error) {
	switch {
	case client == nil:
		return nil, errors.New("etcd: the client is nil; give one that clientv3.New returned")
	case client.KV == nil || client.Watcher == nil || client.Lease == nil:
		return nil, errors.New("etcd: the client has no KV, Watcher or Lease service; give one that clientv3.New returned")
	}
	reg := registration.clone()
	if err := reg.validate(); err != nil {
		return nil, err
	}
	value, err := reg.value()
	if err != nil {
		return nil, err
	}
	kept, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	opts := concurrency.KeyOptions{TTL: cmp.Or(reg.TTL, DefaultTTL), Overwrite: true, Notify: reg.Notify}
	if deadline, bounded := ctx.Deadline(); bounded {
		opts.FirstTimeout = max(time.Until(deadline), 1)
	}
	key, err := concurrency.KeepKey(kept, client, reg.key(), value, opts)
	if !stop() && !errors.Is(err, ctx.Err()) {
		if reason := err; reason != nil {
			err = fmt.Errorf("%w (%w)", ctx.Err(), reason)
		} else {
			err = ctx.Err()
		}
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("etcd: registering %q: %w", reg.key(), err)
	}
	return &Registrar{reg: reg, key: key, updated: reg}, nil
}

// State returns the latest event.
func (r *Registrar) State() Event { return r.key.State() }

// Key returns the key of the endpoint in etcd.
func (r *Registrar) Key() string { return r.key.Key() }

// SetWeight changes the weight, see [Registration.Weight], and returns when it is written to
// etcd.
//
// If ctx ends first, the error has the reason; the update is written as soon as possible,
// unless another one replaces it. The same holds for [ErrSuperseded]. An error that names a
// field means that nothing changes.
func (r *Registrar) SetWeight(ctx context.Context, weight uint32) error {
	return r.update(ctx, func(reg *Registration) { reg.Weight = weight })
}

// SetMetadata changes the metadata, see [Registration.Metadata], and returns when that is in
// etcd. Errors are those of SetWeight.
func (r *Registrar) SetMetadata(ctx context.Context, metadata any) error {
	return r.update(ctx, func(reg *Registration) { reg.Metadata = metadata })
}

func (r *Registrar) update(ctx context.Context, change func(*Registration)) error {
	var invalid error
	err := r.key.Update(ctx, func(string) (value string, err error) {
		next := r.updated
		change(&next)
		if invalid = next.validate(); invalid == nil {
			value, invalid = next.value()
		}
		if invalid == nil {
			r.updated = next
		}
		return value, invalid
	})
	if err != nil && invalid == nil {
		return fmt.Errorf("etcd: %w", err)
	}
	return err
}

// Withdraw removes the endpoint from etcd permanently. It revokes the lease, so it cannot delete
// the key of another registration, and a late write cannot restore the endpoint. After an error it
// can be called again.
//
// An error means that etcd was unreachable until ctx ended: the endpoint then expires with
// its lease, the TTL after the last renewal. If ctx has ended before the call, nothing is
// sent, and the lease is no longer renewed.
func (r *Registrar) Withdraw(ctx context.Context) error {
	if err := r.key.Remove(ctx); err != nil {
		return fmt.Errorf("etcd: withdrawing %q: %w", r.Key(), err)
	}
	return nil
}

// State is the state of a registration: that of its key.
type State = concurrency.KeyState

const (
	// Registered endpoints are in etcd, with a lease that is kept alive.
	Registered = concurrency.KeyHeld
	// Lost endpoints are not in etcd, or may soon expire. They are being registered again.
	Lost = concurrency.KeyLost
	// Superseded endpoints have lost their key to another registration. They are registered
	// again if that one is deleted.
	Superseded = concurrency.KeySuperseded
	// Withdrawn endpoints are no longer kept registered, after [Registrar.Withdraw].
	Withdrawn = concurrency.KeyRemoved
)

// Event reports a change of a registration's state, or a new reason for the present state.
type Event = concurrency.KeyEvent

var (
	// ErrDeleted is the reason of Lost if the key was deleted while its lease is alive.
	ErrDeleted = concurrency.ErrKeyDeleted

	// ErrSuperseded is returned by updates while another registration has the key.
	ErrSuperseded = concurrency.ErrKeySuperseded

	// ErrWithdrawn is returned by updates after [Registrar.Withdraw].
	ErrWithdrawn = concurrency.ErrKeyRemoved
)

// Scheme is the scheme of the targets: "etcd:///billing".
const Scheme = "etcd"

// Config configures a resolver. The zero value is suitable for most programs.
type Config = resolver.Config

// NewBuilder returns a resolver builder for targets with the scheme "etcd", for
// grpc.WithResolvers: that of resolver.New in package clientv3/naming/resolver.
func NewBuilder(client *clientv3.Client, cfg Config) (gresolver.Builder, error) {
	return resolver.New(client, cfg)
}

// Key returns the etcd key of an endpoint resolved by a Builder, "" for others.
func Key(ep gresolver.Endpoint) string { return resolver.Key(ep) }

// Metadata returns the metadata of an endpoint resolved by a Builder, as encoding/json decodes into
// an any: numbers as float64, objects as map[string]any. It is nil for others, and for an endpoint
// without metadata. The caller must not modify it.
func Metadata(ep gresolver.Endpoint) any { return resolver.Metadata(ep) }
