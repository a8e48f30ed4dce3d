package model

// span is a revision of which it may only be known that it is from first to last. Two
// keys that one write created have a span each, and what is seen of one of them says
// nothing of the other: here the model allows a little more than a store does.
type span struct {
	first, last int64
}

func exactly(revision int64) span { return span{revision, revision} }

// narrow returns the span that is left when the revision has been seen, and whether
// it can be that one.
func (s span) narrow(revision int64) (span, bool) {
	return exactly(revision), s.first <= revision && revision <= s.last
}

// is reports whether it is known to be a revision. A client compares with revisions
// that it has seen, and a revision that was seen is narrowed: any other is
// not the one that is compared with.
func (s span) is(revision int64) bool { return s == exactly(revision) }

// entry is one key of the store; the zero entry is an absent key.
type entry struct {
	value             string
	created, modified span
	version           int64
}

// narrow returns the entry that is left when it has been seen as kv, and whether it
// can be that.
func (e entry) narrow(kv KV) (entry, bool) {
	created, createdFits := e.created.narrow(kv.CreateRevision)
	modified, modifiedFits := e.modified.narrow(kv.ModRevision)
	fits := createdFits && modifiedFits && e.value == kv.Value && e.version == kv.Version
	e.created, e.modified = created, modified
	return e, fits
}

// put returns the entry after a put at a revision.
func (e entry) put(value string, revision span) entry {
	if e.version == 0 {
		e.created = revision
	}
	return entry{value: value, created: e.created, modified: revision, version: e.version + 1}
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
		if e.version == 0 {
			return false
		}
		equal = e.value == c.Value
	case Version:
		equal = e.version == c.Number
	case CreateRevision:
		equal = e.created.is(c.Number)
	case ModRevision:
		equal = e.modified.is(c.Number)
	}
	return equal != c.NotEqual
}

// perform returns the store after the acts of a branch at a revision, whether they
// changed it, and whether they can be done at all. If results are given, the acts must
// also have had them.
func (s store) perform(acts []Act, results []Result, revision span) (after store, changed, ok bool) {
	if results != nil && len(results) != len(acts) {
		return s, false, false
	}
	for i, act := range acts {
		if act.Orphan {
			return s, false, false
		}
		if results != nil {
			if ok := s.explain(act, results[i]); !ok {
				return s, false, false
			}
		}
		switch e := &s[act.Key]; act.Verb {
		case Read:
		case Write:
			*e, changed = e.put(act.Value, revision), true
		case Remove:
			changed = changed || e.version > 0
			*e = entry{}
		}
	}
	return s, changed, true
}

// explain reports whether an act on the store can have had a result, and narrows
// what the result shows.
func (s *store) explain(act Act, result Result) bool {
	e := &s[act.Key]
	if act.Verb == Remove && result.Deleted != min(e.version, 1) {
		return false
	}
	if act.Verb != Read && !act.Prev {
		return result.KV == KV{}
	}
	narrowed, fits := e.narrow(result.KV)
	*e = narrowed
	return fits
}
