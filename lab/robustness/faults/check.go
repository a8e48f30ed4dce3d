package faults

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/retry"
)

// The promises, in addition to those of package watchcheck and [model.Linear].
const (
	// WentBackwards means that a linearizable answer is older than one that had been given before the call was sent.
	WentBackwards tally.Promise = "went_backwards"
	// LeaseEndedEarly means that the key of a lease was gone while the client claimed the
	// lease to live. Either the client counted wrongly or the server ended the lease before
	// its time. etcd does that when a leader was paused for longer than the TTL and goes on:
	// it ends the leases that expired by its own count, renewed or not; of the lab's faults
	// only leader-stop could show it.
	LeaseEndedEarly tally.Promise = "lease_ended_early"
)

// checker compares calls with the history of the store, and counts what it checks.
type checker struct {
	// prefix of the keys of the calls. Nothing else writes below it.
	prefix string
	// events of the store in their order, complete from revision 1 to through. Those of other keys are ignored.
	events  []history.Event
	through int64
	at      func(revision int64) time.Duration // when a revision was recorded
	counts  *tally.Counts
	verdict *tally.Verdict
}

// checkCalls checks that calls, all of which have ended, are linearizable.
func (c *checker) checkCalls(calls []call) {
	var answers []history.Answer
	groups := map[[model.Keys]string][]model.Operation{}
	for i, call := range calls {
		c.countWrite(call.Operation)
		if call.failure != nil {
			c.counts.Add("errors", retry.CodeOf(call.failure).String(), 1)
		}
		if call.Outcome == history.OK && call.Request.Kind != model.SerializableGet {
			answers = append(answers, history.Answer{Sent: call.Call, Returned: call.Return, Revision: call.Response.Revision, Call: i})
		}
		keys := call.group.keys(c.prefix)
		groups[keys] = append(groups[keys], call.Operation)
	}
	c.checkOrder(calls, history.NewClock(answers))
	model.NewRecord(c.prefix, c.events, c.through).CheckAll(groups, c.counts, c.verdict)
}

// countWrite counts the outcome of a write.
func (c *checker) countWrite(op model.Operation) {
	switch {
	case !op.Request.Kind.Writes():
	case op.Outcome == history.OK && op.Request.Wrote(op.Response):
		c.counts.Add("writes", "acknowledged", 1)
	case op.Outcome == history.OK || op.Outcome == history.Failed:
		c.counts.Add("writes", "refused", 1)
	default:
		c.counts.Add("writes", "unknown", 1)
	}
}

// checkOrder finds answers that are older than earlier ones, whichever keys they are about.
func (c *checker) checkOrder(calls []call, clock *history.Clock) {
	for _, call := range calls {
		if call.Outcome != history.OK {
			continue
		}
		revision, before, _ := clock.AtLeast(call.Call)
		if call.Request.Kind == model.SerializableGet {
			c.counts.Add("answers", "serializable", 1)
			c.counts.Max("answers", "revisions behind at most", int(revision-call.Response.Revision))
			continue
		}
		c.counts.Add("answers", "linearizable", 1)
		if call.Response.Revision < revision || call.Response.Revision == revision && call.Request.Wrote(call.Response) {
			c.verdict.Add(WentBackwards, "%s answered at revision %d although revision %d had been answered before it was sent",
				call.Request.Kind, call.Response.Revision, revision).Evidence = []string{c.describe(calls[before]), c.describe(call)}
		}
	}
}

// checkLeases checks that no key of a lease was gone while the lease was claimed to live.
func (c *checker) checkLeases(leases []*lease) {
	of := map[string]*lease{}
	for _, l := range leases {
		of[l.key] = l
		c.counts.Add("leases", "claims", len(l.claims))
	}
	for _, e := range c.events {
		l := of[e.Key]
		if l == nil || e.Type != history.DeleteEvent {
			continue
		}
		gone := c.at(e.ModRevision)
		for _, claimed := range l.claims {
			if gone < claimed.until {
				c.verdict.Add(LeaseEndedEarly, "%s of lease %x was gone at %s, and the client claimed at %s that the lease lives until %s",
					l.key, l.id, seconds(gone), seconds(claimed.at), seconds(claimed.until))
				break
			}
		}
	}
}

// describe says in one line what a call was answered, and when.
func (c *checker) describe(call call) string {
	return fmt.Sprintf("%s of %s by client %d, from %s to %s: revision %d", call.Request.Kind,
		call.group.keys(c.prefix)[call.Request.Then[0].Key], call.Client, seconds(call.Call), seconds(call.Return), call.Response.Revision)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.6fs", d.Seconds()) }
