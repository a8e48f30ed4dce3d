package resolve

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/cmd/internal/cli"
)

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
