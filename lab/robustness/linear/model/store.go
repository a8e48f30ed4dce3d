package model

// span bounds a revision that may not be known exactly: it is at least the first number and at
// most the second. Two keys that one write created have a span each, and an observation of one
// key does not narrow the span of the other: here the model allows a little more than a store
// does.
type span [2]int64

func exactly(revision int64) span { return span{revision, revision} }

func (s span) has(revision int64) bool { return s[0] <= revision && revision <= s[1] }

// is reports whether the span is known to be exactly a revision. A client compares
// only with revisions that it has seen, and those are known exactly: an inexact
// span is none of them.
func (s span) is(revision int64) bool { return s == exactly(revision) }

// entry is one key of the store; the zero entry is an absent key.
type entry struct {
	Value    string `json:"value,omitzero"`
	Created  span   `json:"createRevision,omitzero"`
	Modified span   `json:"modRevision,omitzero"`
	Version  int64  `json:"version,omitzero"`
}

// narrow returns the entry after a read that returned kv, and whether the entry can
// have been kv.
func (e entry) narrow(kv KV) (entry, bool) {
	seen := entry{kv.Value, exactly(kv.CreateRevision), exactly(kv.ModRevision), kv.Version}
	return seen, e.Value == kv.Value && e.Version == kv.Version && e.Created.has(kv.CreateRevision) && e.Modified.has(kv.ModRevision)
}

// put returns the entry after a put at a revision.
func (e entry) put(value string, revision span) entry {
	if e.Version == 0 {
		e.Created = revision
	}
	return entry{value, e.Created, revision, e.Version + 1}
}

// store is the keys of a group. It is a value, like every state of the model.
type store [Keys]entry

// holds reports whether all comparisons hold.
func (s store) holds(comparisons []Compare) bool {
	for _, c := range comparisons {
		if !s[c.Key].holds(c) {
			return false
		}
	}
	return true
}

func (e entry) holds(c Compare) bool {
	var equal bool
	switch c.Target {
	case Value:
		if e.Version == 0 {
			return false
		}
		equal = e.Value == c.Value
	case Version:
		equal = e.Version == c.Number
	case CreateRevision:
		equal = e.Created.is(c.Number)
	case ModRevision:
		equal = e.Modified.is(c.Number)
	}
	return equal != c.NotEqual
}

// perform returns the store after the acts of a branch at a revision, whether they
// changed it, and whether they are possible. If there are results, the acts must also
// have led to them.
func (s store) perform(acts []Act, results []Result, revision span) (after store, changed, ok bool) {
	for i, act := range acts {
		if act.MissingLease || results != nil && !s.explain(act, results[i]) {
			return s, false, false
		}
		switch e := &s[act.Key]; act.Verb {
		case Read:
		case Write:
			*e, changed = e.put(act.Value, revision), true
		case Remove:
			changed = changed || e.Version > 0
			*e = entry{}
		}
	}
	return s, changed, true
}

// explain reports whether an act on the store can have had a result, and narrows
// the entry that the result shows.
func (s *store) explain(act Act, result Result) bool {
	e := &s[act.Key]
	if act.Verb == Remove && result.Deleted != min(e.Version, 1) {
		return false
	}
	if act.Verb != Read && !act.Prev {
		return result.KV == KV{}
	}
	narrowed, fits := e.narrow(result.KV)
	*e = narrowed
	return fits
}
