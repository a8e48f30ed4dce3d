// Package sample has a comparison that was never measured, in which there is one of
// everything that a page can show: for tests of the page, in Go and in a browser.
package sample

import (
	"encoding/json"
	"time"

	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/report/comparison"
)

// Hostile is a text that would break out of wherever it stood without being escaped. It
// is in every text of the document that comes from outside: notes, errors, violations,
// and the states that a client names.
const Hostile = `</script><script>document.documentElement.dataset.broken="1"</script><img src=x onerror=alert(1)> & "quoted" 'text' <!-- `

const (
	bucket   = 50.0
	from, to = -1000.0, 9000.0 // of each timeline, in milliseconds
	heal     = 6000.0
	usual    = 24.0 // calls of each kind in a bucket
)

// Document returns the comparison: three clients and two faults, the first of a follower
// and the second of the leader. The first client hangs, and its run ended before the
// second fault; the second fails now and then; the third says what it makes of the members.
func Document() comparison.Document {
	faults := []comparison.Fault{
		{Name: "stop", Summary: "a follower is stopped (SIGSTOP): its connections stay, it answers nothing"},
		{Name: "leader-kill", Summary: "the leader is killed (SIGKILL) and restarted at the end"},
	}
	clients := []comparison.Client{
		client("official", "official", "Official client", "as it comes", faults[:1], hangs),
		client("official-tuned", "tuned", "Official client, tuned", "keepalive every 10s with a timeout of 3s", faults, stumbles),
		client("quorate", "Quorate", "Quorate", "as it comes", faults, copes),
	}
	clients[0].Failure = "heal: " + Hostile
	clients[1].Violations, clients[1].Samples = 12, []string{"lost_write: put/0/1 is missing", "watch, reliable: " + Hostile}
	clients[2].StatesKnown = true
	for i := range clients[2].Runs {
		clients[2].Runs[i].Timeline.Bands = bands()
	}
	return comparison.Document{
		Schema: comparison.SchemaVersion, Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Setup: comparison.Setup{
			Members: 3, CallersPerKind: 6, PauseMS: 5, CallTimeoutMS: 10_000, FaultHeldMS: heal, LeaseTTLMS: 3000, Seed: 7,
		},
		BucketMS: bucket, LateAfterMS: 1000, Faults: faults, Clients: clients,
	}
}

// behaviour fills in what a client does in a bucket: how large a part of the usual calls
// it completes, how many are late, fail and have an unknown outcome, how far watches are
// behind, and how many leases are lost.
type behaviour func(at float64) (part float64, late, failed, unknown int64, lag float64, lost int64)

func hangs(at float64) (part float64, late, failed, unknown int64, lag float64, lost int64) {
	switch {
	case at >= 0 && at < heal:
		if at == 3000 {
			lost = 2
		}
		return 0.2 * (1 - at/heal), 0, 0, 0, at, lost
	case at == heal:
		return 0.5, 5, 3, 2, heal, 0
	default:
		return 1, 0, 0, 0, 2, 0
	}
}

func stumbles(at float64) (part float64, late, failed, unknown int64, lag float64, lost int64) {
	if at >= 0 && at < heal && int(at)%1000 == 0 {
		return 0.6, 1, 1, 1, 300, 0
	}
	return 0.9, 0, 0, 0, 5, 0
}

func copes(at float64) (part float64, late, failed, unknown int64, lag float64, lost int64) {
	if at == 250 {
		return 0.4, 0, 0, 1, 250, 0
	}
	return 1, 0, 0, 0, 2, 0
}

func client(id, label, name, description string, faults []comparison.Fault, does behaviour) comparison.Client {
	c := comparison.Client{
		ID: id, Label: label, Name: name, Description: description, Samples: []string{},
		HealthyRate: map[string]float64{}, Report: json.RawMessage(`{"schema":1}`),
	}
	for _, k := range history.Kinds() {
		c.HealthyRate[k.ID()] = usual * 1000 / bucket
	}
	for _, f := range faults {
		c.Runs = append(c.Runs, run(f, does))
	}
	return c
}

func run(f comparison.Fault, does behaviour) comparison.Run {
	r := comparison.Run{
		Fault: f.Name, HealMS: heal, ReadyMS: heal + 500,
		Events: []comparison.Event{{AtMS: 1, Text: "m2 is gone"}, {AtMS: heal, Text: Hostile}},
		Timeline: comparison.Timeline{
			FromMS: from, Calls: map[string]comparison.Calls{}, Bands: []comparison.Band{},
		},
		Moments: []comparison.Moment{{}},
	}
	if f.Name == "leader-kill" {
		all := comparison.Resumption{Callers: 6, FirstMS: 0.4, LastMS: 12}
		r.Moments = append(r.Moments, comparison.Moment{
			AtMS: 702, Leader: "m3", Reporter: "m1", Gets: all, Puts: comparison.Resumption{Callers: 4, FirstMS: 5260, LastMS: 5280},
			NewGets: all, NewPuts: all, NewEvents: comparison.Resumption{Callers: 6, FirstMS: 40, LastMS: 1200},
		})
	}
	draw(&r, does)
	return r
}
