// Package resolve follows what a target resolves to, and the health of the endpoints.
package resolve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/resolver/etcd"
	"github.com/quorate/quorate/resolver/static"
)

// Event is what is learnt about a target at a time. It has only the fields of its type.
type Event struct {
	Type string    `json:"type"` // "endpoints", "error" or "health"
	Time time.Time `json:"time"`
	// Endpoints are all that there are, in order of their first addresses; [] for none. Published are the same as
	// the resolver published them.
	Endpoints []Endpoint          `json:"endpoints,omitzero"`
	Published []resolver.Endpoint `json:"-"`
	// Error is what the resolver reports in place of endpoints; those that it published last are still used then.
	Error string `json:"error,omitempty"`
	// Endpoint is the name of the one whose State has changed, by the Evidence.
	Endpoint string        `json:"endpoint,omitempty"`
	State    *health.State `json:"state,omitempty"`
	Evidence string        `json:"evidence,omitempty"`
}

// Endpoint is an endpoint of a target.
type Endpoint struct {
	Addresses []string `json:"addresses"`
	Weight    uint32   `json:"weight"`
	Metadata  any      `json:"metadata,omitempty"` // as the source gave it
}

// Names returns the names that the endpoints have in changes of their states.
func (e Event) Names() map[string]bool {
	names := make(map[string]bool, len(e.Published))
	for _, ep := range e.Published {
		names[name(ep)] = true
	}
	return names
}

// Changed returns the event of a change of an endpoint's state.
func Changed(c health.Change) Event {
	return Event{Type: "health", Time: time.Now(), Endpoint: c.Endpoint, State: &c.To, Evidence: c.Evidence.String()}
}

// Follow resolves a target until ctx ends, and calls notify with its endpoints and errors, perhaps concurrently. It returns the
// resolver's error if it refuses the target, and ctx's cause otherwise.
func Follow(ctx context.Context, b resolver.Builder, target string, notify func(Event)) error {
	u, err := url.Parse(target)
	if err != nil {
		return fmt.Errorf("target %q is no URL", endpoint.Redact(target))
	}
	r, err := b.Build(resolver.Target{URL: *u}, listener{notify}, resolver.BuildOptions{DialCreds: insecure.NewCredentials()})
	if err != nil {
		return err
	}
	<-ctx.Done()
	r.Close()
	return context.Cause(ctx)
}

// listener is a channel that only listens to its resolver.
type listener struct{ notify func(Event) }

var _ resolver.ClientConn = listener{}

// UpdateState passes on the endpoints.
func (l listener) UpdateState(s resolver.State) error {
	eps := slices.Clone(s.Endpoints)
	if len(eps) == 0 {
		for _, a := range s.Addresses {
			eps = append(eps, resolver.Endpoint{Addresses: []resolver.Address{a}, Attributes: a.BalancerAttributes}) //nolint:staticcheck // what older resolvers use
		}
	}
	eps = slices.DeleteFunc(eps, func(ep resolver.Endpoint) bool { return len(ep.Addresses) == 0 })
	slices.SortStableFunc(eps, func(a, b resolver.Endpoint) int { return strings.Compare(name(a), name(b)) })
	all := make([]Endpoint, len(eps))
	for i, ep := range eps {
		all[i] = Endpoint{Addresses: addresses(ep), Weight: balancer.WeightOf(ep), Metadata: metadata(ep)}
	}
	l.notify(Event{Type: "endpoints", Time: time.Now(), Endpoints: all, Published: eps})
	return nil
}

// metadata returns the metadata that the source gave an endpoint, or nil.
func metadata(ep resolver.Endpoint) any {
	if md := static.Metadata(ep); md != nil {
		return md
	}
	return etcd.Metadata(ep)
}

// ReportError passes on the error.
func (l listener) ReportError(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	l.notify(Event{Type: "error", Time: time.Now(), Error: cmp.Or(text, "the resolver reports an error, and does not say which")})
}

// NewAddress is the deprecated way in which resolvers publish addresses.
func (l listener) NewAddress(addrs []resolver.Address) {
	_ = l.UpdateState(resolver.State{Addresses: addrs})
}

// ParseServiceConfig ignores service configs: they do not change where a target leads.
func (listener) ParseServiceConfig(string) *serviceconfig.ParseResult {
	return &serviceconfig.ParseResult{}
}

func addresses(ep resolver.Endpoint) []string {
	all := make([]string, len(ep.Addresses))
	for i, a := range ep.Addresses {
		all[i] = a.Addr
	}
	return all
}

// name returns the name of an endpoint: its addresses.
func name(ep resolver.Endpoint) string { return nameOf(addresses(ep)) }

func nameOf(addresses []string) string { return strings.Join(addresses, " | ") }

// clock is the layout of times of day.
const clock = "15:04:05.000"

// Printer writes events, one at a time: for programs an object a line, or for people a line for each event, and below it
// a line for each endpoint that came, went or changed.
type Printer struct {
	Out  io.Writer
	JSON bool

	known map[string]string // name → description
	last  string            // the error of the event before, "" if it was none
}

// Print writes an event, unless it repeats an error for people.
func (p *Printer) Print(e Event) error {
	var lines []string
	if p.JSON {
		lines = []string{string(cli.CleanJSON(inJSON(e)))}
	} else {
		lines = p.lines(e)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(p.Out, cli.OneLine(line)); err != nil {
			return err
		}
	}
	return nil
}

// lines returns an event for people.
func (p *Printer) lines(e Event) []string {
	at, repeated := e.Time.Format(clock)+"  ", e.Error == p.last
	switch e.Type {
	case "health":
		return []string{fmt.Sprintf("%s%s is %v (%s)", at, e.Endpoint, e.State, e.Evidence)}
	case "error":
		if p.last = e.Error; repeated {
			return nil
		}
		return []string{at + "error: " + e.Error}
	}
	now := make(map[string]string, len(e.Endpoints))
	for _, ep := range e.Endpoints {
		now[nameOf(ep.Addresses)] = ep.description()
	}
	lines := []string{at + cli.Count(len(now), "endpoint")}
	for _, id := range slices.Sorted(maps.Keys(p.known)) {
		if _, ok := now[id]; !ok {
			lines = append(lines, "  - "+id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(now)) {
		switch before, ok := p.known[id]; {
		case !ok:
			lines = append(lines, "  + "+id+now[id])
		case before != now[id]:
			lines = append(lines, "  ~ "+id+now[id])
		}
	}
	p.known, p.last = now, ""
	return lines
}

// description returns weight and metadata of an endpoint, with leading spaces.
func (e Endpoint) description() (text string) {
	if e.Weight != balancer.DefaultWeight {
		text = fmt.Sprintf("  weight %d", e.Weight)
	}
	if e.Metadata != nil {
		text += "  " + string(inJSON(e.Metadata))
	}
	return text
}

// inJSON returns an event, or metadata: sources read it from JSON, or from text.
func inJSON(value any) []byte {
	object, _ := json.Marshal(value) // it has a form in JSON
	return object
}
