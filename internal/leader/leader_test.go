package leader

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/balancer/roundrobin"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/etcdprobe"
)

// members returns an endpoint for each role.
func members(roles ...etcdprobe.Role) []*balancer.Endpoint {
	table := health.NewTable()
	eps := make([]*balancer.Endpoint, len(roles))
	for i, role := range roles {
		name := fmt.Sprint(i)
		entry := table.Acquire("", name)
		entry.SetInfo(role, time.Unix(1, 0))
		eps[i] = balancer.Detached(name, entry, nil)
	}
	return eps
}

func role(id, leader, term uint64) etcdprobe.Role {
	return etcdprobe.Role{ID: id, Leader: leader, Term: term}
}

// picked returns how often each endpoint is picked in n picks, by address.
func picked(s balancer.Strategy, call balancer.Call, fit []*balancer.Endpoint, n int) map[string]int {
	counts := make(map[string]int)
	for range n {
		counts[s.Pick(call, fit).Address()]++
	}
	return counts
}

func TestLeading(t *testing.T) {
	spread := map[string]int{"0": 10, "1": 10, "2": 10}
	for _, tc := range []struct {
		name string
		fit  []*balancer.Endpoint
		want map[string]int
	}{
		{"all agree", members(role(1, 2, 5), role(2, 2, 5), role(3, 2, 5)), map[string]int{"1": 30}},
		{"no role is known", members(role(0, 0, 0), role(0, 0, 0), role(0, 0, 0)), spread},
		{"only the leader was probed", members(role(0, 0, 0), role(0, 0, 0), role(3, 3, 4)), map[string]int{"2": 30}},
		{"a deposed leader, and the new one", members(role(1, 1, 4), role(2, 2, 5), role(3, 1, 4)), map[string]int{"1": 30}},
		{"a deposed leader, and a follower", members(role(1, 1, 4), role(2, 0, 0), role(3, 3, 5)), map[string]int{"2": 30}},
		{"a deposed leader, and a follower that names the new one", members(role(1, 1, 4), role(2, 3, 5), role(3, 0, 4)), map[string]int{"2": 30}},
		{"during an election", members(role(1, 0, 6), role(2, 0, 6), role(3, 0, 6)), spread},
		{"a candidate without a leader", members(role(1, 1, 5), role(2, 0, 6), role(3, 1, 5)), map[string]int{"0": 30}},
		{"the leader is not fit", members(role(1, 9, 5), role(2, 9, 5), role(3, 9, 5)), spread},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, picked(Builder.Build(nil), balancer.Call{}, tc.fit, 30))
		})
	}
}

func TestNeedsOfTheLeader(t *testing.T) {
	fit := members(role(1, 2, 5), role(2, 2, 5), role(3, 2, 5))
	for _, need := range []balancer.Need{balancer.Full, balancer.Local} {
		for _, class := range []balancer.ConnClass{balancer.Calls, balancer.Streams, balancer.Bulk} {
			want := map[string]int{"0": 10, "1": 10, "2": 10}
			if need == balancer.Full && class == balancer.Calls {
				want = map[string]int{"1": 30}
			}
			got := picked(Builder.Build(nil), balancer.Call{Need: need, Conn: class}, fit, 30)
			assert.Equal(t, want, got, "need %d, class %d", need, class)
		}
	}
}

func TestFollowsTheLeader(t *testing.T) {
	table := health.NewTable()
	a, b := table.Acquire("", "a"), table.Acquire("", "b")
	fit := []*balancer.Endpoint{balancer.Detached("a", a, nil), balancer.Detached("b", b, nil)}
	s := Builder.Build(nil)
	a.SetInfo(role(1, 1, 2), time.Unix(1, 0))
	b.SetInfo(role(2, 1, 2), time.Unix(1, 0))
	require.Equal(t, "a", s.Pick(balancer.Call{}, fit).Address())
	b.SetInfo(role(2, 2, 3), time.Unix(2, 0))
	assert.Equal(t, "b", s.Pick(balancer.Call{}, fit).Address())
	assert.Equal(t, "a", s.Pick(balancer.Call{}, fit[:1]).Address(), "the leader is not fit")
}

func TestRoleAware(t *testing.T) {
	s := Builder.Build(nil)
	assert.Equal(t, "leader", Builder.Name)
	assert.Implements(t, (*balancer.RoleAware)(nil), s)
	require.Implements(t, (*balancer.Attacher)(nil), s)
	assert.IsType(t, (*roundrobin.Turn)(nil), s.(balancer.Attacher).Attach(members(role(1, 1, 1))[0]))
}

func TestConcurrentPicks(t *testing.T) {
	entry := health.NewTable().Acquire("", "a")
	fit := []*balancer.Endpoint{balancer.Detached("a", entry, nil), balancer.Detached("b", nil, nil)}
	s := Builder.Build(nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				assert.Contains(t, fit, s.Pick(balancer.Call{}, fit))
			}
		})
	}
	for term := range uint64(1000) {
		entry.SetInfo(role(1, 1, term), time.Unix(int64(term), 0))
	}
	wg.Wait()
}

func TestPickDoesNotAllocate(t *testing.T) {
	fit := members(role(1, 2, 5), role(2, 2, 5), role(3, 2, 5))
	s := Builder.Build(nil)
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.Pick(balancer.Call{}, fit) }))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
