package idempotent

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/retry"
)

// The model explores every order of events of two writers that take one lane for theirs, the network and a server, within
// the bounds below: requests are lost, late, executed twice and out of order, answers are lost, contexts and the lease end, the
// lease comes back by a late grant, and requests are refused, executed or not.

const (
	modelWriters  = 2
	modelWrites   = 3 // the first of two writers has the even ones
	modelRequests = 5 // the most that are sent in all
	modelCopies   = 2 // executions of each
)

// bounds are those of one exploration.
type bounds struct {
	writers, writes, requests int
	created                   bool // it begins with a lane
	full                      bool // the store can be full
	calm                      bool // nothing is refused, and the lease lives
}

var explorations = map[string]bounds{
	"one writer":          {1, 2, 3, false, true, false},
	"one writer, created": {1, 2, 3, true, true, false},
	"two writers":         {2, 2, 2, true, true, false},
	"two writers, longer": {2, 2, 4, true, false, true},
}

// setting is the state of the server, the network and the writers.
type setting struct {
	bounds bounds

	revision int64
	exists   bool // the lane's key
	lane     record
	lease    bool
	losses   int // of the lease
	grants   int // late ones

	requests [modelRequests]request
	sent     int
	writers  [modelWriters]writer
	writes   [modelWrites]modelWrite
}

type request struct {
	step   step
	guard  int64
	id     id
	write  int
	copies int
}

type writer struct {
	lane  lane
	ready bool // the second one begins as a copy of the first
	busy  bool
	write int
	next  int
	waits int // for the answer to a request, -1 if it does not
}

// modelWrite is the truth about a write.
type modelWrite struct {
	executed int
	at       int64
	branch   bool
	never    bool // its writer knows that it is not and will not be executed
}

func newSetting(b bounds) setting {
	w := setting{bounds: b, revision: 1, lease: true}
	w.writers[0] = writer{ready: true, waits: -1}
	w.writers[1] = writer{waits: -1, next: 1}
	if b.created {
		// A late copy of the request that created it is still under way.
		w.writers[0].lane.begin(100, 1, 2)
		w.send(0)
		w.writers[0].busy = true
		w.arrive(0, false)
		w.conclude(0, w.writers[0].lane.leave(), true)
		w.writes[0] = modelWrite{}
	}
	return w
}

func (w *setting) requestsAllowed() int {
	if w.bounds.created {
		return w.bounds.requests + 1
	}
	return w.bounds.requests
}

//go:norace
func (w *setting) clone() *setting {
	c := *w
	for i := range c.writers {
		c.writers[i].lane.open = slices.Clone(c.writers[i].lane.open)
	}
	return &c
}

// encode returns a key for the state. One goroutine explores, so its cost under the race detector is waste.
//
//go:norace
func (w *setting) encode() string {
	b := make([]byte, 0, 256)
	num := func(ns ...int64) {
		for _, n := range ns {
			b = binary.AppendVarint(b, n)
		}
	}
	flag := func(fs ...bool) {
		for _, f := range fs {
			if f {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	}
	num(w.revision, int64(w.lane.id), w.lane.created, w.lane.at, int64(w.losses), int64(w.grants), int64(w.sent))
	flag(w.exists, w.lease, w.lane.branch)
	for _, r := range w.requests {
		num(int64(r.step), r.guard, int64(r.id), int64(r.write), int64(r.copies))
	}
	for _, x := range w.writers {
		l := x.lane
		num(l.guard, l.created, int64(l.creation), int64(l.step), int64(l.write), int64(l.removal), int64(x.write), int64(x.next), int64(x.waits), int64(len(l.open)))
		for _, o := range l.open {
			num(int64(o))
		}
		flag(l.ended, l.unsure, x.ready, x.busy)
	}
	for _, x := range w.writes {
		num(int64(x.executed), x.at)
		flag(x.branch, x.never)
	}
	return string(b)
}

// wrong ends the exploration.
type wrong string

func (w *setting) fail(format string, args ...any) { panic(wrong(fmt.Sprintf(format, args...))) }

// execute executes a request on the server. ok says that the guard held, and refused that the lease does not exist.
func (w *setting) execute(r request) (ok, refused bool) {
	if w.exists {
		ok = r.guard == w.lane.at
	} else {
		ok = r.guard == 0
	}
	switch {
	case ok && r.step != stepDrop && !w.lease:
		return false, true
	case ok && r.step == stepDrop:
		w.revision++
		w.exists = false
		if w.bounds.writers > 1 {
			w.losses++ // to the other one
		}
		return true, false
	case ok:
		w.revision++
		if !w.exists {
			w.lane.created = w.revision
		}
		w.exists, w.lane = true, record{id: r.id, created: w.lane.created, at: w.revision}
	}
	if r.step == stepWrite && ok {
		x := &w.writes[r.write]
		branch := w.revision%2 == 0
		x.executed, x.at, x.branch = x.executed+1, w.revision, branch
		w.lane.branch = branch
		if x.executed > 1 {
			w.fail("write %d is executed twice", r.write)
		}
		if x.never {
			w.fail("write %d is executed, and its writer has another verdict", r.write)
		}
	}
	return ok, false
}

// conclude checks a result. excuse says that the outcome may be unknown.
func (w *setting) conclude(i int, r result, excuse bool) {
	x := &w.writers[i]
	truth := &w.writes[x.write]
	switch r.verdict {
	case undecided:
		return
	case executed:
		switch {
		case truth.executed != 1:
			w.fail("write %d counts as executed, and was %d times", x.write, truth.executed)
		case truth.at != r.revision:
			w.fail("write %d was executed at %d and not at %d", x.write, truth.at, r.revision)
		case r.record != nil && r.record.branch != truth.branch:
			w.fail("write %d took another branch", x.write)
		}
	case notExecuted, elsewhere:
		if truth.executed != 0 {
			w.fail("write %d was executed, and counts as not", x.write)
		}
		truth.never = true
	case unknown:
		if !excuse && w.losses == 0 {
			w.fail("the outcome of write %d is unknown, without a reason", x.write)
		}
	case restored:
		w.fail("the lane of write %d has gone back", x.write)
	}
	x.busy, x.waits = false, -1
}

// next calls visit for each state that can follow.
func (w *setting) next(visit func(what string, w *setting)) {
	try := func(what string, do func(w *setting)) {
		c := w.clone()
		do(c)
		visit(what, c)
	}
	for i := range w.writers {
		w.nextOfWriter(i, try)
	}
	for i := range w.requests[:w.sent] {
		if w.requests[i].copies > 0 {
			try(fmt.Sprint("execute ", i), func(w *setting) { w.arrive(i, true) })
		}
	}
	switch {
	case w.bounds.calm:
	case w.lease:
		try("the lease ends", func(w *setting) {
			w.lease, w.losses = false, w.losses+1
			if w.exists {
				w.exists, w.revision = false, w.revision+1
			}
		})
	case w.grants == 0:
		try("the lease comes back", func(w *setting) { w.lease, w.grants = true, 1 })
	}
}

func (w *setting) nextOfWriter(i int, try func(string, func(*setting))) {
	x := &w.writers[i]
	switch {
	case !x.ready:
		if first := &w.writers[0]; w.bounds.writers > 1 && !first.busy && first.lane.guard != 0 {
			try("copy the writer", func(w *setting) {
				w.writers[1].lane, w.writers[1].ready = w.writers[0].lane, true
				w.writers[1].lane.open = slices.Clone(w.writers[0].lane.open)
			})
		}
	case !x.busy:
		if x.next < w.bounds.writes && !x.lane.ended {
			try(fmt.Sprint("begin ", x.next), func(w *setting) { w.begin(i) })
		}
	case x.waits < 0:
		if w.sent < w.requestsAllowed() {
			try("send", func(w *setting) { w.send(i) })
		}
		try("the context ends", func(w *setting) { w.conclude(i, w.writers[i].lane.failed(retry.Ended, false), true) })
	default:
		w.nextOfAnswer(i, try)
	}
}

// nextOfAnswer has the ends of a request that a writer waits for, beside its execution.
func (w *setting) nextOfAnswer(i int, try func(string, func(*setting))) {
	slot := w.writers[i].waits
	if w.requests[slot].copies > 0 {
		try("answered", func(w *setting) { w.arrive(slot, false) })
	}
	try("an error", func(w *setting) { w.failed(i, retry.Ambiguous, true) })
	try("the context ends", func(w *setting) { w.conclude(i, w.writers[i].lane.failed(retry.Ended, true), true) })
	if w.bounds.calm {
		return
	}
	try("refused, with a hedge", func(w *setting) { w.failed(i, retry.Definite, true) })
	if w.requests[slot].copies > 0 {
		try("refused", func(w *setting) {
			w.requests[slot].copies = 0 // whether earlier copies were executed or not
			w.failed(i, retry.Definite, w.wasExecuted(slot))
		})
	}
	if w.bounds.full && w.requests[slot].copies > 0 {
		try("executed, with an error", func(w *setting) {
			w.requests[slot].copies--
			w.execute(w.requests[slot])
			w.failed(i, retry.Executed, true)
		})
	}
	if w.bounds.full {
		try("no space", func(w *setting) { w.failed(i, retry.Executed, true) })
	}
}

// wasExecuted reports whether copies of a request may have been executed.
func (w *setting) wasExecuted(slot int) bool { return w.requests[slot].copies < modelCopies }

func (w *setting) begin(i int) {
	x := &w.writers[i]
	n := id(10 + 10*x.next)
	x.write, x.busy, x.next = x.next, true, x.next+w.bounds.writers
	x.lane.begin(id(100+i), n+1, n+2)
}

func (w *setting) send(i int) {
	x := &w.writers[i]
	w.requests[w.sent] = request{x.lane.step, x.lane.guard, x.lane.id(), x.write, modelCopies}
	x.waits = w.sent
	w.sent++
}

// arrive executes a request. Its answer reaches the writer that waits for it, or is lost.
func (w *setting) arrive(slot int, lost bool) {
	r := &w.requests[slot]
	r.copies--
	ok, refused := w.execute(*r)
	if lost {
		return
	}
	i := slices.IndexFunc(w.writers[:], func(x writer) bool { return x.busy && x.waits == slot })
	x := &w.writers[i]
	switch {
	case refused:
		// Copies that were executed earlier are those of hedges and connections that broke.
		w.failed(i, retry.Definite, r.copies < modelCopies-1)
		return
	case ok:
		res := x.lane.held(w.revision)
		x.waits = -1
		w.conclude(i, res, false)
		return
	}
	var rec *record
	if w.exists {
		r := w.lane
		rec = &r
	}
	w.failedGuard(i, rec, r.copies < modelCopies-1)
}

func (w *setting) failedGuard(i int, rec *record, unsure bool) {
	x := &w.writers[i]
	withdrawn := x.lane.step == stepWithdraw || x.lane.step == stepDrop
	res := x.lane.failedGuard(rec, unsure)
	x.waits = -1
	w.conclude(i, res, withdrawn)
}

func (w *setting) failed(i int, class retry.Class, unsure bool) {
	x := &w.writers[i]
	withdrawing := x.lane.step == stepWithdraw || x.lane.step == stepDrop
	res := x.lane.failed(class, unsure)
	x.waits = -1
	w.conclude(i, res, withdrawing)
}

// explore visits all states, and returns how many there are, and what is wrong, with the events that lead there.
func explore(b bounds) (states int, bad string) {
	var path []string
	defer func() {
		if r := recover(); r != nil {
			why, ok := r.(wrong)
			if !ok {
				panic(r)
			}
			bad = fmt.Sprintf("%s, after %q", why, path)
		}
	}()
	seen := map[string]struct{}{}
	var visit func(w *setting)
	visit = func(w *setting) {
		key := w.encode()
		if _, ok := seen[key]; ok {
			return
		}
		seen[key] = struct{}{}
		w.next(func(what string, next *setting) {
			path = append(path, what)
			visit(next)
			path = path[:len(path)-1]
		})
	}
	first := newSetting(b)
	visit(&first)
	return len(seen), ""
}

func TestSimulatedOrdersOfEvents(t *testing.T) {
	for name, b := range explorations {
		t.Run(name, func(t *testing.T) {
			states, bad := explore(b)
			require.Empty(t, bad)
			t.Log(states, "states")
		})
	}
}
