package fakeapiserver

import (
	"slices"
	"time"
)

// WatchList is how the server treats a watch that asks for the list as its first events.
type WatchList int

const (
	// WatchListServed streams lists, as Kubernetes does from 1.34 on.
	WatchListServed WatchList = iota
	// WatchListRefused answers 422, as servers do that know the feature but have it switched off.
	WatchListRefused
	// WatchListUnknown ignores the request for it, as servers before 1.27 do: the objects come,
	// and no bookmark ends them.
	WatchListUnknown
)

// rules are what tests have asked for.
type rules struct {
	tokens    []string // none: all are accepted
	denied    map[string]bool
	watchList WatchList
	bookmarks time.Duration
	duration  time.Duration
}

// set changes the rules for later requests.
func (s *Server) set(change func(r *rules)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.rules)
}

func (s *Server) setDenied(denied bool, verbs []string) {
	if len(verbs) == 0 {
		verbs = []string{"list", "watch"}
	}
	s.set(func(r *rules) {
		for _, verb := range verbs {
			r.denied[verb] = denied
		}
	})
}

// Deny answers requests of these verbs with 403, from now on. With no verbs it denies all.
// Open watches live on, as they do when a role is taken away.
func (s *Server) Deny(verbs ...string) { s.setDenied(true, verbs) }

// Allow ends what Deny began, for these verbs, or for all.
func (s *Server) Allow(verbs ...string) { s.setDenied(false, verbs) }

// SetTokens makes the server answer later requests with 401 unless they bear one of these tokens.
// With none it accepts everyone, as at the start. Open watches live on.
func (s *Server) SetTokens(tokens ...string) {
	s.set(func(r *rules) { r.tokens = slices.Clone(tokens) })
}

// SetWatchList changes how later watches are served that ask for the list.
func (s *Server) SetWatchList(w WatchList) { s.set(func(r *rules) { r.watchList = w }) }

// SetBookmarkInterval changes how often later watches that ask for bookmarks get one: each
// minute at the start, never if d is 0. The bookmark that ends a streamed list always comes.
func (s *Server) SetBookmarkInterval(d time.Duration) { s.set(func(r *rules) { r.bookmarks = d }) }

// SetWatchDuration ends each later watch d after it began, never if d is 0. The watch's own timeoutSeconds is ignored.
func (s *Server) SetWatchDuration(d time.Duration) { s.set(func(r *rules) { r.duration = d }) }

// EndWatches ends all open watches, in the orderly way of a server that has served them for
// long enough. They show nothing that changes afterwards.
func (s *Server) EndWatches() { s.endWatches(false) }

// ExpireWatches ends all open watches with status 410: their history is compacted.
func (s *Server) ExpireWatches() { s.endWatches(true) }

func (s *Server) endWatches(expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends++
	s.expired = expired
	s.changedLocked()
}

// RotateCA gives the server a new certificate, which later connections see and which only the
// new CAData verifies. The error is nil.
func (s *Server) RotateCA() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setCertificateLocked()
	return nil
}
