package health

import (
	"slices"
	"sync"
)

// feed tells subscribers of changes, one at a time and in the order in which they were
// added. There is no goroutine: whoever added a change delivers what is in line, unless
// somebody is at it already.
type feed struct {
	mu         sync.Mutex
	line       []Change
	delivering bool
	subs       []*subscriber // replaced, never changed
}

type subscriber struct {
	mu     sync.Mutex // held while f is called
	f      func(Change)
	closed bool
}

func (s *subscriber) tell(c Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.f(c)
	}
}

func (f *feed) subscribe(call func(Change)) (cancel func()) {
	s := &subscriber{f: call}
	f.mu.Lock()
	f.subs = append(slices.Clone(f.subs), s)
	f.mu.Unlock()
	return func() {
		f.mu.Lock()
		f.subs = slices.DeleteFunc(slices.Clone(f.subs), func(o *subscriber) bool { return o == s })
		f.mu.Unlock()
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}
}

func (f *feed) add(c Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.subs) > 0 {
		f.line = append(f.line, c)
	}
}

func (f *feed) deliver() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.delivering {
		return
	}
	f.delivering = true
	for len(f.line) > 0 {
		c, subs := f.line[0], f.subs
		f.line = f.line[1:]
		f.mu.Unlock()
		for _, s := range subs {
			s.tell(c)
		}
		f.mu.Lock()
	}
	f.line, f.delivering = nil, false
}

// bells hands out channels, and closes those that it handed out.
type bells struct {
	mu sync.Mutex
	ch chan struct{} // nil while nobody asked
}

func (b *bells) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bells) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// service ranks the states by what an endpoint can be used for.
func service(s State) int {
	switch s {
	case NotServing, Draining, Dead:
		return 0
	case NoLeader, Learner, Lagging:
		return 1
	case Suspected, Slow:
		return 2
	default:
		return 3
	}
}

// improves reports whether an endpoint can do what it could not before, after evidence
// that took it from one state to another, or left it where it was.
func improves(from, to State, k Kind) bool {
	if k == Connected {
		return service(to) > 0
	}
	return service(to) > service(from) || (to == Serving && from != Serving)
}
