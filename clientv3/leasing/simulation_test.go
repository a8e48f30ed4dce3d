package leasing

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/semantics"
)

// simulation runs clients, with real caches and nothing else, against a model of the server. Messages are delivered in
// any order, late, or never. Each cached answer must equal the server's state at that moment.
type simulation struct {
	t       *testing.T
	rand    *rand.Rand
	server  *simServer
	clients []*simClient
	// pending are messages in flight and programs waiting to continue.
	pending []func()
	values  int
	served  int
	owned   map[int64]bool // create revisions of leasing keys that were ever owned
}

type simClient struct {
	sim   *simulation
	kv    *kv
	cache *cache
	// alive: the client considers its lease alive. Otherwise it caches nothing.
	alive   bool
	session *leaseSession
	next    int // index of the first undelivered event
	synced  bool
}

func (s *simulation) later(f func()) { s.pending = append(s.pending, f) }

func (s *simulation) chance(percent int) bool { return s.rand.IntN(100) < percent }

var simKeys = []string{"a", "b", "c", "x"}

func (s *simulation) key() string { return simKeys[s.rand.IntN(len(simKeys))] }

func (s *simulation) value() string {
	s.values++
	if s.chance(10) {
		return fmt.Sprint(s.values, "leased")
	}
	return fmt.Sprint(s.values)
}

func (s *simulation) op() clientv3.Op {
	switch s.rand.IntN(8) {
	case 0:
		return clientv3.OpDelete(s.key())
	case 1:
		return clientv3.OpDelete("a", clientv3.WithRange("c"))
	case 2:
		return clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("a", s.value()), clientv3.OpDelete("b")}, nil)
	case 3:
		if s.chance(60) { // the range contains the leasing keys
			return clientv3.OpDelete("b", clientv3.WithFromKey())
		}
		return clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete("b", clientv3.WithRange("d")), clientv3.OpPut("x", s.value())}, nil)
	default:
		return clientv3.OpPut(s.key(), s.value())
	}
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{
		t: t, rand: rand.New(rand.NewPCG(seed, 0)), server: newSimServer("m/"), owned: map[int64]bool{},
	}
	for range 3 {
		c := &simClient{sim: s, cache: newCache("m/")}
		c.kv = &kv{prefix: "m/", cache: c.cache}
		now := time.Unix(0, 0)
		c.cache.now = func() time.Time { return now }
		c.cache.backoffs.period = 0
		s.clients = append(s.clients, c)
	}
	return s
}

func (s *simulation) step() {
	c := s.clients[s.rand.IntN(len(s.clients))]
	switch n := s.rand.IntN(100); {
	case n < 45 && len(s.pending) > 0:
		i := s.rand.IntN(len(s.pending))
		f := s.pending[i]
		s.pending = slices.Delete(s.pending, i, i+1)
		f()
	case n < 60:
		c.deliverEvent()
	case n < 80:
		c.get(s.key())
	case n < 90 && len(s.pending) < 30:
		op := s.op()
		c.write(op, c.kv.spansOf(op), 5)
	case n < 97:
		c.manageSession()
	case n < 98:
		s.server.expire(simUserLease)
	default:
		c.cache.suspend()
		c.synced = false
	}
	s.check()
}

// check compares all that the caches would answer with the server.
func (s *simulation) check() {
	for i, c := range s.clients {
		for _, key := range simKeys {
			resp := c.cache.get(key, clientv3.OpGet(key))
			if resp == nil {
				continue
			}
			s.served++
			s.owned[c.cache.entries[key].rev] = true
			want := answer(resp.Header, s.server.items[key], clientv3.OpGet(key))
			require.True(s.t, proto.Equal((*pb.RangeResponse)(want), (*pb.RangeResponse)(resp)),
				"client %d answers %v for %q, the server holds %v", i, resp.Kvs, key, want.Kvs)
			require.LessOrEqual(s.t, resp.Header.Revision, s.server.rev)
		}
	}
}

func (c *simClient) manageSession() {
	s := c.sim
	switch {
	case c.session == nil:
		lease := clientv3.LeaseID(1000 + s.rand.Int64N(1<<40))
		s.server.leases[lease] = true
		c.session, c.alive = &leaseSession{lease: lease, aliveAt: func(time.Time) bool { return c.alive }}, true
		c.cache.start(c.session)
		c.synced = false
	case !c.synced:
		c.resync()
	case c.alive && s.chance(20):
		c.alive = false // not renewed in time
	case c.alive:
	case s.server.leases[c.session.lease] && s.chance(50):
		if s.chance(50) {
			s.server.expire(c.session.lease)
		} else {
			c.alive = true // a late answer to the renewal
		}
	default:
		c.cache.stop()
		lease := c.session.lease
		c.session = nil
		s.later(func() { s.server.expire(lease) })
	}
}

func (c *simClient) resync() {
	listed := c.sim.server.in("m/", clientv3.GetPrefixRangeEnd("m/"))
	c.next, c.synced = len(c.sim.server.events), true
	for _, l := range c.cache.resync(listed, c.sim.server.rev) {
		c.release(l)
	}
}

func (c *simClient) deliverEvent() {
	if !c.synced || c.session == nil || c.next == len(c.sim.server.events) {
		return
	}
	ev := c.sim.server.events[c.next]
	c.next++
	key := string(ev.Kv.Key[len("m/"):])
	switch {
	case ev.Type == clientv3.EventTypeDelete:
		c.cache.invalidate(key, ev.Kv.ModRevision)
	case string(ev.Kv.Value) == revoked:
		if c.cache.revokeEvent(key, ev.Kv.CreateRevision, clientv3.LeaseID(ev.Kv.Lease)) {
			c.release(leasingKey{string(ev.Kv.Key), ev.Kv.CreateRevision})
		}
	}
}

func (c *simClient) release(l leasingKey) {
	c.sim.later(func() {
		if item := c.sim.server.items[l.name]; item != nil && item.CreateRevision == l.rev {
			c.sim.server.rev++
			c.sim.server.remove(l.name)
		}
	})
}

func (c *simClient) get(key string) {
	a := c.cache.beginAcquire(key)
	if a == nil {
		return
	}
	server, lost := c.sim.server, c.sim.chance(15)
	if lost {
		c.sim.later(func() { c.cache.endAcquire(a) })
	}
	c.sim.later(func() { // the server executes it
		lkey := "m/" + key
		item, l := server.items[key], server.items[lkey]
		failed := !server.leases[a.session.lease] || l != nil || item != nil && item.Lease != 0
		if !failed {
			server.rev++
			server.put(lkey, "", a.session.lease)
		}
		h := server.header()
		if lost {
			return
		}
		c.sim.later(func() { // the answer arrives
			c.cache.observe(h)
			if !failed {
				c.cache.insert(a, item, h.Revision)
				return
			}
			if c.cache.endAcquire(a) && l != nil && clientv3.LeaseID(l.Lease) == a.session.lease {
				c.release(leasingKey{lkey, l.CreateRevision})
			}
		})
	})
}

func (c *simClient) write(op clientv3.Op, spans []span, attempts int) {
	if attempts == 0 {
		return
	}
	w := c.cache.beginWrite(spans)
	lost := c.sim.chance(15)
	if lost {
		c.sim.later(func() {
			for _, l := range c.cache.abandon(w) {
				c.release(l)
			}
		})
	}
	server := c.sim.server
	c.sim.later(func() { // the server executes it
		if slices.ContainsFunc(w.spans, func(s span) bool { return !server.holds(s.guard()) }) {
			listed := make([]*pb.ResponseOp, len(w.spans))
			for i, s := range w.spans {
				listed[i] = &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{
					ResponseRange: &pb.RangeResponse{Kvs: server.in(s.Key, s.End)},
				}}
			}
			if !lost {
				c.sim.later(func() { c.makeWay(op, w, listed, attempts) })
			}
			return
		}
		server.rev++
		server.apply(op)
		items := make([]*mvccpb.KeyValue, w.refreshes())
		for i := range items {
			items[i] = server.items[w.entries[i].key]
		}
		h := server.header()
		if lost {
			return
		}
		c.sim.later(func() {
			for _, l := range c.cache.commit(w, h, items) {
				c.release(l)
			}
		})
	})
}

func (c *simClient) makeWay(op clientv3.Op, w *write, listed []*pb.ResponseOp, attempts int) {
	own, foreign := c.cache.releaseOwned(w, &clientv3.TxnResponse{Responses: listed})
	for _, l := range own {
		c.release(l)
	}
	server := c.sim.server
	for _, l := range foreign {
		c.sim.later(func() {
			if item := server.items[l.name]; item != nil && item.CreateRevision == l.rev {
				server.rev++
				server.put(l.name, revoked, clientv3.LeaseID(item.Lease))
			}
		})
	}
	c.sim.later(func() { c.write(op, w.spans, attempts-1) })
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	runs, steps := 60, 2000
	if testing.Short() {
		runs = 20
	}
	var served, owned int
	for seed := range uint64(runs) {
		s := newSimulation(t, seed)
		for range steps {
			s.step()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		served += s.served
		owned += len(s.owned)
	}
	t.Logf("%d answers compared, of %d ownerships", served, owned)
	require.Greater(t, served, runs*steps/5, "too few cached answers")
	require.Greater(t, owned, 10*runs, "too few keys were acquired")
}

// simServer is a single-threaded model of an etcd server.
type simServer struct {
	rev    int64
	items  map[string]*mvccpb.KeyValue
	leases map[clientv3.LeaseID]bool
	// events are the changes of leasing keys, in order.
	events []*clientv3.Event
	prefix string
}

func newSimServer(prefix string) *simServer {
	return &simServer{rev: 1, items: map[string]*mvccpb.KeyValue{}, leases: map[clientv3.LeaseID]bool{}, prefix: prefix}
}

func (s *simServer) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: s.rev} }

// put, remove and so on are part of one transaction, which starts with s.rev++.
func (s *simServer) put(key, value string, lease clientv3.LeaseID) {
	item := &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: s.rev, Version: 1, Lease: int64(lease)}
	if old := s.items[key]; old != nil {
		item.CreateRevision, item.Version = old.CreateRevision, old.Version+1
	}
	item.ModRevision = s.rev
	s.items[key] = item
	s.record(clientv3.EventTypePut, item)
}

func (s *simServer) remove(key string) {
	if s.items[key] != nil {
		delete(s.items, key)
		s.record(clientv3.EventTypeDelete, &mvccpb.KeyValue{Key: []byte(key), ModRevision: s.rev})
	}
}

func (s *simServer) record(kind mvccpb.Event_EventType, item *mvccpb.KeyValue) {
	if bytes.HasPrefix(item.Key, []byte(s.prefix)) {
		s.events = append(s.events, &clientv3.Event{Type: kind, Kv: item})
	}
}

// in returns the items of [begin, end), or of begin alone, in order.
func (s *simServer) in(begin, end string) []*mvccpb.KeyValue {
	var found []*mvccpb.KeyValue
	for _, key := range slices.Sorted(maps.Keys(s.items)) {
		if (semantics.Range{Key: begin, End: end}).Contains(key) {
			found = append(found, s.items[key])
		}
	}
	return found
}

// holds evaluates a comparison.
func (s *simServer) holds(c clientv3.Cmp) bool {
	m := c.GetCompare()
	found := s.in(string(m.Key), string(m.RangeEnd))
	if len(found) == 0 {
		return semantics.Holds(m, nil)
	}
	return !slices.ContainsFunc(found, func(item *mvccpb.KeyValue) bool { return !semantics.Holds(m, item) })
}

func (s *simServer) apply(op clientv3.Op) {
	switch {
	case op.IsTxn():
		_, thenOps, _ := op.Txn()
		for _, inner := range thenOps {
			s.apply(inner)
		}
	case op.IsPut() && bytes.HasSuffix(op.ValueBytes(), []byte("leased")):
		s.put(string(op.KeyBytes()), string(op.ValueBytes()), simUserLease)
	case op.IsPut():
		s.put(string(op.KeyBytes()), string(op.ValueBytes()), clientv3.NoLease)
	case op.IsDelete():
		for _, item := range s.in(string(op.KeyBytes()), string(op.RangeBytes())) {
			s.remove(string(item.Key))
		}
	}
}

// expire ends a lease and deletes its keys.
func (s *simServer) expire(lease clientv3.LeaseID) {
	s.rev++
	for _, item := range s.in("\x00", "\x00") {
		if clientv3.LeaseID(item.Lease) == lease {
			s.remove(string(item.Key))
		}
	}
	delete(s.leases, lease)
}

// simUserLease is the lease that a user attaches keys to.
const simUserLease clientv3.LeaseID = 7
