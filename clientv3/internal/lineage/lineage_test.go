package lineage

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func at(cluster uint64, rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: cluster, Revision: rev}
}

func newTracker() *Tracker {
	return New(func(c *Change) error {
		return fmt.Errorf("%d at %d, now %d at %d", c.OldClusterID, c.OldRevision, c.NewClusterID, c.NewRevision)
	})
}

func TestHistoryEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		header *pb.ResponseHeader
		least  int64
		want   string // "" if the history goes on
	}{
		"forward":                          {at(1, 11), 10, ""},
		"the same revision":                {at(1, 10), 10, ""},
		"a member that lags":               {at(1, 5), 0, ""},
		"back":                             {at(1, 9), 10, "1 at 10, now 1 at 9"},
		"another cluster":                  {at(2, 20), 0, "1 at 10, now 2 at 20"},
		"a cluster without an id":          {at(0, 15), 10, ""},
		"no header":                        {nil, 10, ""},
		"a header without a revision":      {at(1, 0), 10, ""},
		"another cluster, and no revision": {at(2, 0), 10, "1 at 10, now 2 at 0"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTracker()
			notified := 0
			tr.Subscribe(func() { notified++ })
			h := tr.History()
			require.True(t, tr.Note(h, at(1, 10), 0))
			require.Equal(t, tc.want == "", tr.Note(h, tc.header, tc.least))
			if tc.want == "" {
				require.NoError(t, tr.Over(h))
				require.Equal(t, max(10, int64(tc.header.GetClusterId())*tc.header.GetRevision()), h.Revision(), "it never goes back")
				return
			}
			require.EqualError(t, tr.Over(h), tc.want)
			require.Equal(t, 1, notified)
			assert.NotSame(t, h, tr.History())
			assert.Equal(t, tc.header.Revision, tr.History().Revision())
			// A response to a request that began in the old history says nothing of the new one.
			require.False(t, tr.Note(h, at(1, 10), 10))
			require.Equal(t, 1, notified)
			require.NoError(t, tr.Over(tr.History()))
		})
	}
}

func TestWithoutATracker(t *testing.T) {
	var tr *Tracker
	tr.Subscribe(func() {})()
	assert.Nil(t, tr.History())
	assert.True(t, tr.Note(tr.History(), at(1, 1), 2))
	assert.NoError(t, tr.Over(tr.History()))
	assert.Zero(t, tr.History().Revision())
}

func TestUnsubscribe(t *testing.T) {
	tr := newTracker()
	notified := 0
	leave := tr.Subscribe(func() { notified++ })
	tr.Note(tr.History(), at(1, 1), 0)
	leave()
	tr.Note(tr.History(), at(2, 1), 0)
	assert.Zero(t, notified)
}
