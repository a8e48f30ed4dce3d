package top

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/observe/introspect"
)

// maxReport bounds a report, in bytes.
const maxReport = 16 << 20

// Processes asks the introspection handlers of processes.
type Processes struct {
	URLs    []string
	HTTP    *http.Client
	Timeout time.Duration

	before map[string]introspect.Report // the last one of each URL
}

// Snapshot asks all processes at the same time.
func (p *Processes) Snapshot(ctx context.Context) Snapshot {
	reports, errs := make([]introspect.Report, len(p.URLs)), make([]error, len(p.URLs))
	var wg sync.WaitGroup
	for i, url := range p.URLs {
		wg.Go(func() { reports[i], errs[i] = p.ask(ctx, url) })
	}
	wg.Wait()
	s := Snapshot{At: time.Now(), Members: []Member{}} // [] in JSON
	shapes := map[string]*Method{}
	now := map[string]introspect.Report{}
	for i, url := range p.URLs {
		if errs[i] != nil {
			s.Errors = append(s.Errors, fmt.Sprintf("%s: %v", endpoint.Redact(url), errs[i]))
			continue
		}
		now[url] = reports[i]
		s.add(reports[i], p.before[url], shapes)
	}
	p.before = now
	s.addMethods(shapes)
	slices.SortStableFunc(s.Calls, func(a, b Call) int { return cmp.Compare(b.AgeMS, a.AgeMS) })
	return s
}

func (p *Processes) ask(ctx context.Context, url string) (report introspect.Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return report, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := p.HTTP.Do(req)
	if err != nil {
		return report, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.StatusCode != http.StatusOK {
		return report, fmt.Errorf("the answer is %s", resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReport)).Decode(&report); err != nil {
		return report, fmt.Errorf("the answer is no report of package introspect: %w", err)
	}
	return report, nil
}

// count is the completed and failed work of an endpoint.
type count struct{ ended, failed, seconds float64 }

func (c count) minus(o count) count {
	if o.ended > c.ended { // it is another process, or the endpoint was unreachable
		return c
	}
	return count{c.ended - o.ended, c.failed - o.failed, c.seconds - o.seconds}
}

// add adds a report; before is the one before it, the zero Report if there is none.
func (s *Snapshot) add(now, before introspect.Report, shapes map[string]*Method) {
	elapsed := now.At.Sub(before.At).Seconds()
	if before.At.IsZero() || elapsed <= 0 || before.Process != now.Process {
		before, elapsed = introspect.Report{}, 0
	}
	past := map[string]count{}
	for _, c := range before.Clients {
		for _, ep := range c.Endpoints {
			for _, w := range ep.Work {
				past[c.Name+"\x00"+ep.Name+"\x00"+w.Shape] = count{float64(w.Ended), float64(w.Failed), w.Seconds}
			}
		}
	}
	for _, c := range now.Clients {
		name := fmt.Sprintf("%s/%s@%s:%d", now.Process.Program, c.Name, now.Process.Host, now.Process.PID)
		s.addClient(name, c)
		for _, ep := range c.Endpoints {
			m := memberOf(name, ep)
			for _, w := range ep.Work {
				key := c.Name + "\x00" + ep.Name + "\x00" + w.Shape
				did := count{float64(w.Ended), float64(w.Failed), w.Seconds}.minus(past[key])
				sum := shapes[w.Shape]
				if sum == nil {
					sum = &Method{Shape: w.Shape}
					shapes[w.Shape] = sum
				}
				sum.P99MS = max(sum.P99MS, milliseconds(w.P99Seconds))
				if elapsed == 0 {
					continue
				}
				m.Rate += did.ended / elapsed
				sum.Rate += did.ended / elapsed
				sum.Failed += did.failed / elapsed
				sum.busy += did.seconds / elapsed
			}
			s.Members = append(s.Members, m)
		}
	}
}

func (s *Snapshot) addClient(name string, c introspect.Client) {
	s.Clients = append(s.Clients, Client{
		Name: name, Target: c.Target, Policy: c.Policy, Ready: c.Ready, NotReady: c.NotReady, InFlight: c.Calls.InFlight, Watches: c.Watches.Open, Lag: c.Watches.LagRevisions,
		Unread: c.Watches.BufferedBytes, Leases: c.Leases.KeptAlive, Unanswered: c.Leases.Unanswered, LeaseLeft: c.Leases.LeftSeconds,
	})
	for _, e := range c.Elections {
		s.Elections = append(s.Elections, Election{name, e})
	}
	for _, call := range c.Calls.Oldest {
		s.Calls = append(s.Calls, Call{Client: name, Method: call.Method, Endpoint: call.Endpoint, AgeMS: milliseconds(call.AgeSeconds)})
	}
}

func memberOf(client string, ep introspect.Endpoint) Member {
	m := Member{
		Client: client, Endpoint: ep.Name, State: ep.State, LatencyMS: milliseconds(ep.LatencySeconds), InFlight: ep.InFlight,
		Why: strings.Join(nonEmpty(ep.Evidence, ep.Detail), ": "),
		For: ep.StateSeconds, Ejected: ep.Ejected, Share: ep.Share, Streams: ep.Streams,
	}
	if ep.Member == nil {
		return m
	}
	m.ID, m.Term, m.Applied, m.Version, m.Role = ep.Member.ID, ep.Member.Term, ep.Member.Applied, ep.Member.Version, "follower"
	switch {
	case ep.Member.Learner:
		m.Role = "learner"
	case ep.Member.IsLeader:
		m.Role = "leader"
	case ep.Member.Leader == "0":
		m.Role = "no leader"
	}
	if len(ep.Member.Alarms) > 0 {
		m.Why = "alarm " + strings.Join(ep.Member.Alarms, ", ")
	}
	return m
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(t string) bool { return t == "" })
}

func (s *Snapshot) addMethods(shapes map[string]*Method) {
	for _, m := range shapes {
		if m.Rate > 0 {
			m.MeanMS = milliseconds(m.busy / m.Rate)
		}
		s.Methods = append(s.Methods, *m)
	}
	slices.SortFunc(s.Methods, func(a, b Method) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), strings.Compare(a.Shape, b.Shape))
	})
}
