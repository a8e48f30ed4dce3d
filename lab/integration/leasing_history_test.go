package integration_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// history is the answers that the callers of one run got, and those before.
type history struct {
	mu sync.Mutex
	// newest is the highest revision of any answer so far.
	newest int64
	calls  []call
}

// call is one answered call.
type call struct {
	what string
	// floor is the newest revision that was known when the call began: by any
	// caller, since whatever has been answered is the past of all.
	floor int64
	// revision is that of the answer's header.
	revision int64
	// wrote are the values that the call wrote, by key; "" for a deletion.
	wrote map[string]string
	// expected is what the call had compared a key with before it wrote.
	expected map[string]string
	// read is what the call read: the value by key, "" for a key that does not exist.
	read map[string]string
}

func (h *history) begin() (floor int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.newest
}

func (h *history) end(c call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = max(h.newest, c.revision)
	h.calls = append(h.calls, c)
}

func (h *history) count(what string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if c.what == what {
			n++
		}
	}
	return n
}

// state is what a key held from a revision on, and until which it was replaced.
type state struct {
	value       string
	from, until int64
}

// truth is what every key held, from a watch of its whole history.
type truth map[string][]state

// readTruth watches the keys below a prefix from the beginning to the present.
func readTruth(t *testing.T, c *clientv3.Client, prefix string) truth {
	t.Helper()
	ctx := labtest.Within(t, labtest.Timeout)
	last, err := c.Put(ctx, prefix+"end", "end")
	require.NoError(t, err)
	all := truth{}
	for resp := range c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		require.NoError(t, resp.Err())
		for _, ev := range resp.Events {
			all.add(string(ev.Kv.Key), string(ev.Kv.Value), ev.Kv.ModRevision)
			if ev.Kv.ModRevision == last.Header.Revision {
				return all
			}
		}
	}
	t.Fatal("the history could not be read")
	return nil
}

func (all truth) add(key, value string, rev int64) {
	states := all.of(key)
	states[len(states)-1].until = rev
	all[key] = append(states, state{value, rev, math.MaxInt64})
}

func (all truth) of(key string) []state {
	if all[key] == nil {
		all[key] = []state{{"", 0, math.MaxInt64}}
	}
	return all[key]
}

// at returns what a key held at a revision.
func (all truth) at(key string, rev int64) string {
	for _, s := range all.of(key) {
		if s.from <= rev && rev < s.until {
			return s.value
		}
	}
	return ""
}

// verify holds every answer against the truth: a write was carried out, once, and on
// the state that it had compared with; a read saw what all its keys held at the
// revision in its header, and at a moment after everything that had been answered
// before it began. It returns what is wrong.
func (h *history) verify(all truth) (wrong []string) {
	for key, states := range all {
		seen := map[string]bool{}
		for _, s := range states {
			if s.value != "" && seen[s.value] {
				wrong = append(wrong, fmt.Sprintf("%q was written to %s more than once", s.value, key))
			}
			seen[s.value] = true
		}
	}
	for _, c := range h.calls {
		for key, value := range c.wrote {
			if got := all.at(key, c.revision); got != value {
				wrong = append(wrong, fmt.Sprintf("%+v: at its revision %s held %q", c, key, got))
			}
		}
		for key, value := range c.expected {
			if got := all.at(key, c.revision-1); got != value {
				wrong = append(wrong, fmt.Sprintf("%+v: before it %s held %q", c, key, got))
			}
		}
		for key, value := range c.read {
			if got := all.at(key, c.revision); got != value {
				wrong = append(wrong, fmt.Sprintf("%+v: at the revision of the header %s held %q", c, key, got))
			}
		}
		if !all.heldTogether(c.read, c.floor) {
			wrong = append(wrong, fmt.Sprintf("%+v: stale, no such state after revision %d", c, c.floor))
		}
	}
	return wrong
}

// heldTogether reports whether the keys held these values at one revision that is not
// before floor.
func (all truth) heldTogether(read map[string]string, floor int64) bool {
	spans := []state{{from: floor, until: math.MaxInt64}}
	for key, value := range read {
		var common []state
		for _, s := range all.of(key) {
			if s.value != value {
				continue
			}
			for _, in := range spans {
				if from, until := max(s.from, in.from), min(s.until, in.until); from < until {
					common = append(common, state{from: from, until: until})
				}
			}
		}
		spans = common
	}
	return len(spans) > 0
}

// valueOf returns the value in a response to a get of one key.
func valueOf(resp *pb.RangeResponse) string {
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

// The checker of leasing finds what it is for.
func TestHistoriesAreVerified(t *testing.T) {
	all := truth{}
	all.add("k", "a", 2)
	all.add("k", "b", 4)
	all.add("l", "x", 3)
	all.add("k", "", 6)
	good := []call{
		{revision: 4, floor: 3, wrote: map[string]string{"k": "b"}, expected: map[string]string{"k": "a"}},
		{revision: 5, floor: 5, read: map[string]string{"k": "b", "l": "x"}},
		{revision: 3, floor: 3, read: map[string]string{"k": "a", "l": "x"}},
		{revision: 1, floor: 0, read: map[string]string{"k": "", "l": ""}},
		{revision: 7, floor: 7, read: map[string]string{"k": ""}},
	}
	require.Empty(t, (&history{calls: good}).verify(all))
	for name, bad := range map[string]call{
		"stale":              {revision: 3, floor: 4, read: map[string]string{"k": "a"}},
		"header of another":  {revision: 6, floor: 4, read: map[string]string{"k": "b"}},
		"never together":     {revision: 2, floor: 0, read: map[string]string{"k": "", "l": "x"}},
		"lost":               {revision: 5, wrote: map[string]string{"k": "c"}},
		"another comparison": {revision: 4, wrote: map[string]string{"k": "b"}, expected: map[string]string{"k": ""}},
		"never written":      {revision: 4, read: map[string]string{"k": "z"}},
		"not found":          {revision: 4, floor: 2, read: map[string]string{"k": ""}},
	} {
		require.NotEmpty(t, (&history{calls: []call{bad}}).verify(all), name)
	}
	all.add("k", "a", 8)
	require.NotEmpty(t, (&history{}).verify(all), "written twice")
}
