package behaviours_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// difference is a step whose outcome differs on purpose.
type difference struct {
	// step is a part of the step's name, and server the version that it is about, "" for all.
	step, server string
	// one and other are parts of the results, or of the errors, of the two: the official client and Quorate, or etcd and the
	// fake. "" stands for no error.
	one, other string
}

// deliberate lists all differences between the clients that are wanted. The first that fits a step is the one that must be found there.
var deliberate = []difference{
	// An error about the configuration names the field.
	{"new: bad log configuration", "", `"no encoder`, `"LogConfig: no encoder`},
	// It is added below the program's interceptors, together with the token; the behaviour wire shows that it is sent.
	{"interceptors: API version", "", `"3.7"`, `nil`},
	// etcd 3.4 refuses an Authenticate that carries a stale token; the official client sends one along, without end.
	{"alice: get with the new password", "etcd 3.4", "context deadline exceeded", ""},
	// The error has the reason, whether the service ever kept a lease alive or not.
	{"keepalive end: unused service: afterwards, error", "", `halted"`, `halted: context canceled"`},
	// The reason is wrapped, so that errors.Is finds it.
	{"afterwards, error", "", `halted: context canceled"`, "is:   context.Canceled"},
	// A watch from now on never sees what was there before it; the official client repeats the last revision when it resumes.
	{"outage: quiet: events", "", `"outage/unread"`, `"outage/after"`},
	// The header and the reason in the server's refusal of a watch are passed on.
	{"watch refused", "", "Canceled: true", "CancelReason: "},
	{"denied watch", "", "Canceled: true", "CancelReason: "},
	{"anonymous: watch", "", "Canceled: true", "CancelReason: "},
	// The error says what is the matter.
	{"request progress afterwards", "", `"no stream found for context"`, `"etcdclient: the watcher is closed: no stream found for context"`},
}

// ofFake lists all differences between etcd 3.7 and the fake.
var ofFake = []difference{
	{"hash: hash", "", "Hash: ", "Hash: "}, // the fake has no database file
	{"downgrade: validate", "", `Version: "3.7"`, "invalid downgrade target version"},
	// The shortest TTL follows from the election timeout, which is etcd's default in the fake and half of it in the lab.
	{"lease: grant 1 s", "", "TTL: 1", "TTL: 2"},
	{"lease: grant 0 s", "", "TTL: 1", "TTL: 2"},
	{"lease: grant -1 s", "", "TTL: 1", "TTL: 2"},
}

// requireAlike fails the test for every step whose outcomes differ without being listed, and for every listed
// difference that has gone.
func requireAlike(t *testing.T, server string, list []difference, theirs, ours []transcript.Entry) {
	t.Helper()
	require.Equal(t, steps(theirs), steps(ours), "different steps")
	require.NotEmpty(t, theirs)
	expected, found := make(map[difference]bool), make(map[difference]bool)
	for i := range theirs {
		step := theirs[i].Step
		d, listed := listedIn(list, step, server)
		if listed {
			expected[d] = true
		}
		diff := cmp.Diff(theirs[i], ours[i])
		switch {
		case diff == "" && server != "" && !strings.Contains(step, "expire"):
			// A call that times out by surprise would prove nothing, even if it did so twice.
			assert.NotContains(t, theirs[i].Error, "context.DeadlineExceeded", "%s: both clients", step)
		case diff == "":
		case listed && shows(theirs[i], d.one) && shows(ours[i], d.other):
			found[d] = true
		default:
			t.Errorf("%s differs:\n%s", step, diff)
		}
	}
	assert.Equal(t, expected, found, "listed differences that have gone")
	t.Logf("%d steps, %d deliberate differences", len(theirs), len(found))
}

// shown is how many differences a test reports. Those after the first are often its consequences.
const shown = 3

// requireEqual fails the test unless two transcripts are equal.
func requireEqual(t *testing.T, one, other string, want, got []transcript.Entry) {
	t.Helper()
	for i, d := range differing(want, got) {
		if i == shown {
			break
		}
		t.Errorf("(-%s +%s) %s", one, other, d)
	}
}

// differing returns the differences of two transcripts.
func differing(want, got []transcript.Entry) []string {
	if d := cmp.Diff(steps(want), steps(got)); d != "" {
		return []string{"the steps differ:\n" + d}
	}
	var all []string
	for i := range want {
		if want[i] != got[i] {
			all = append(all, fmt.Sprintf("%s differs:\n%s", want[i].Step, cmp.Diff(want[i], got[i])))
		}
	}
	return all
}

func steps(entries []transcript.Entry) []string {
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Step)
	}
	return names
}

func listedIn(list []difference, step, server string) (difference, bool) {
	for _, d := range list {
		if strings.Contains(step, d.step) && (d.server == "" || d.server == server) {
			return d, true
		}
	}
	return difference{}, false
}

// shows reports whether an entry contains part, or has no error if part is empty.
func shows(e transcript.Entry, part string) bool {
	if part == "" {
		return e.Error == ""
	}
	return strings.Contains(e.Result, part) || strings.Contains(e.Error, part)
}
