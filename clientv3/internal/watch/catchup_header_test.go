package watch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// headers is a splitWatch that records the revisions in the headers of emitted events.
type headers struct {
	*splitWatch
	revs []int64
}

func (h *headers) emit(header *pb.ResponseHeader, events []*mvccpb.Event) {
	h.revs = append(h.revs, header.Revision)
	h.splitWatch.emit(header, events)
}

// Held events were sent when the store was at an earlier revision than the header emitted before them.
func TestTheHeadersRevisionNeverGoesBack(t *testing.T) {
	sw := inParts(t, 60, 3, 1<<20)
	h := &headers{splitWatch: sw}
	sw.c.stage = h
	sw.deliver(sw.opened[1], 5)
	sw.hist.write("a")
	sw.deliver(sw.opened[2], 5)
	sw.hist.write("a")
	sw.deliver(sw.opened[0], 3)
	sw.deliver(sw.opened[0], 1000)
	sw.hist.write("a")
	sw.deliver(sw.opened[0], 1000)
	assert.Equal(t, []int64{62, 62, 62, 63, 63}, h.revs)
	sw.finish()
	assert.EqualValues(t, 64, sw.next)
}
