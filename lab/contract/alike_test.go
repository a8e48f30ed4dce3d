package contract_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/contract/transcript"
)

// difference is a step whose outcome differs on purpose.
type difference struct {
	// step is a part of the step's name, and server the version that it is about, "" for all.
	step, server string
	// official and quorate are parts of the results, or of the errors, of the two clients; "" stands for no error.
	official, quorate string
	why               string
}

const passedOn = "the header and the reason in the server's refusal of a watch are passed on"

// deliberate lists all differences that are wanted. The first that fits a step is the one that must be found there.
var deliberate = []difference{
	{
		"new: bad log configuration", "", `"no encoder`, `"LogConfig: no encoder`,
		"an error about the configuration names the field",
	},
	{
		"interceptors: API version", "", `"3.7"`, `nil`,
		"it is added below the program's interceptors, together with the token; the scenario wire shows that it is sent",
	},
	{
		"alice: get with the new password", "etcd 3.4", "context deadline exceeded", "",
		"etcd 3.4 refuses an Authenticate that carries a stale token; the official client sends one along, without end",
	},
	{
		"keepalive end: unused service: afterwards, error", "", `halted"`, `halted: context canceled"`,
		"why a service takes no keepalive is told, whether it ever kept one alive or not",
	},
	{
		"afterwards, error", "", `halted: context canceled"`, "is:   context.Canceled",
		"the reason is wrapped, so that errors.Is finds it",
	},
	{
		"outage: quiet: events", "", `"outage/unread"`, `"outage/after"`,
		"a watch from now on never sees what was there before it; the official client repeats the last revision when it resumes",
	},
	{"watch refused", "", "Canceled: true", "CancelReason: ", passedOn},
	{"denied watch", "", "Canceled: true", "CancelReason: ", passedOn},
	{"anonymous: watch", "", "Canceled: true", "CancelReason: ", passedOn},
	{
		"request progress afterwards", "", `"no stream found for context"`, `"etcdclient: the watcher is closed: no stream found for context"`,
		"the error says what is the matter",
	},
}

// requireAlike fails the test for every step whose outcomes differ without being listed, and for every listed
// difference that has gone.
func requireAlike(t *testing.T, server string, theirs, ours []transcript.Entry) {
	t.Helper()
	require.Equal(t, steps(theirs), steps(ours), "the clients made the program take different steps")
	require.NotEmpty(t, theirs)
	expected, found := make(map[difference]bool), make(map[difference]bool)
	for i := range theirs {
		step := theirs[i].Step
		d, listed := deliberately(step, server)
		if listed {
			expected[d] = true
		}
		diff := cmp.Diff(theirs[i], ours[i])
		switch {
		case diff == "" && server != "" && !strings.Contains(step, "expire"):
			// A call that times out by surprise would prove nothing, even if it did so twice.
			assert.NotContains(t, theirs[i].Error, "context.DeadlineExceeded", "%s: both clients", step)
		case diff == "":
		case listed && shows(theirs[i], d.official) && shows(ours[i], d.quorate):
			found[d] = true
		default:
			t.Errorf("%s differs (-official +quorate):\n%s", step, diff)
		}
	}
	assert.Equal(t, expected, found, "listed differences that have gone")
	t.Logf("%d steps, %d deliberate differences", len(theirs), len(found))
}

func steps(entries []transcript.Entry) []string {
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Step)
	}
	return names
}

func deliberately(step, server string) (difference, bool) {
	for _, d := range deliberate {
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

func trimScheme(url string) string {
	_, address, _ := strings.Cut(url, "://")
	return address
}
