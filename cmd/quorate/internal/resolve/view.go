package resolve

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/resolver/etcd"
	"github.com/quorate/quorate/resolver/static"
)

// View shows what is learnt. Its methods are called one at a time.
type View interface {
	Update(Update)
	Change(at time.Time, c health.Change)
}

// clock is the layout of times of day.
const clock = "15:04:05.000"

// Text is a View for people: a line for each update, and below it a line for each endpoint
// that came or went.
type Text struct {
	out   io.Writer
	known map[string]string // name → description
	last  string            // headline
}

// NewText returns a Text that writes to out.
func NewText(out io.Writer) *Text { return &Text{out: out, known: map[string]string{}} }

// Update shows what has changed; nothing if nothing has.
func (t *Text) Update(u Update) {
	if u.Err != nil {
		t.headline(u.At, "error: "+u.Err.Error())
		return
	}
	now := make(map[string]string, len(u.Endpoints))
	for _, ep := range u.Endpoints {
		now[name(ep)] = describe(ep)
	}
	t.headline(u.At, cli.Count(len(now), "endpoint"))
	for _, id := range slices.Sorted(maps.Keys(t.known)) {
		if _, ok := now[id]; !ok {
			t.line("  - " + id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(now)) {
		switch before, ok := t.known[id]; {
		case !ok:
			t.line("  + " + id + now[id])
		case before != now[id]:
			t.line("  ~ " + id + now[id])
		}
	}
	t.known = now
}

// Change shows the new state of an endpoint.
func (t *Text) Change(at time.Time, c health.Change) {
	t.line(fmt.Sprintf("%s  %s is %v (%v)", at.Format(clock), c.Endpoint, c.To, c.Evidence))
}

// headline writes a line, unless it repeats the last error.
func (t *Text) headline(at time.Time, text string) {
	if text != t.last || !strings.HasPrefix(text, "error") {
		t.line(at.Format(clock) + "  " + text)
	}
	t.last = text
}

// line writes a line. A closed output ends the command elsewhere.
func (t *Text) line(text string) { _, _ = fmt.Fprintln(t.out, cli.OneLine(text)) }

// describe returns weight and metadata of an endpoint, with leading spaces.
func describe(ep resolver.Endpoint) string {
	var b strings.Builder
	if weight := balancer.WeightOf(ep); weight != balancer.DefaultWeight {
		fmt.Fprintf(&b, "  weight %d", weight)
	}
	if md := metadata(ep); md != nil {
		js, err := json.Marshal(md)
		if err != nil {
			js = fmt.Appendf(nil, "%v", md)
		}
		fmt.Fprintf(&b, "  %s", js)
	}
	return b.String()
}

// metadata returns the metadata that the source gave an endpoint, or nil.
func metadata(ep resolver.Endpoint) any {
	if md := static.Metadata(ep); md != nil {
		return md
	}
	return etcd.Metadata(ep)
}

// JSON is a View for programs: an object a line.
type JSON struct{ out io.Writer }

// NewJSON returns a JSON that writes to out.
func NewJSON(out io.Writer) JSON { return JSON{out} }

type jsonEndpoint struct {
	Addresses []string `json:"addresses"`
	Weight    uint32   `json:"weight"`
	Metadata  any      `json:"metadata,omitempty"`
}

// jsonEvent is an object of any type. It has only the fields of its type.
type jsonEvent struct {
	Type      string         `json:"type"` // "endpoints", "error" or "health"
	Time      time.Time      `json:"time"`
	Endpoints []jsonEndpoint `json:"endpoints,omitzero"` // [] for none
	Error     string         `json:"error,omitempty"`
	Endpoint  string         `json:"endpoint,omitempty"`
	State     *health.State  `json:"state,omitempty"`
	Evidence  string         `json:"evidence,omitempty"`
}

// Update writes an object of the type "endpoints" or "error".
func (j JSON) Update(u Update) {
	if u.Err != nil {
		j.write(jsonEvent{Type: "error", Time: u.At, Error: u.Err.Error()})
		return
	}
	eps := make([]jsonEndpoint, len(u.Endpoints))
	for i, ep := range u.Endpoints {
		eps[i] = jsonEndpoint{Weight: balancer.WeightOf(ep), Metadata: metadata(ep)}
		for _, a := range ep.Addresses {
			eps[i].Addresses = append(eps[i].Addresses, a.Addr)
		}
	}
	j.write(jsonEvent{Type: "endpoints", Time: u.At, Endpoints: eps})
}

// Change writes an object of the type "health".
func (j JSON) Change(at time.Time, c health.Change) {
	j.write(jsonEvent{Type: "health", Time: at, Endpoint: c.Endpoint, State: &c.To, Evidence: c.Evidence.String()})
}

// write writes an object. A closed output ends the command elsewhere.
func (j JSON) write(e jsonEvent) {
	if object, err := json.Marshal(e); err == nil {
		_, _ = fmt.Fprintf(j.out, "%s\n", cli.CleanJSON(object))
	}
}
