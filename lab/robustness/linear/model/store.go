package model

// store is the keys of a group.
type store [Keys]KV

// holds reports whether all comparisons hold.
func (s store) holds(comparisons []Compare) bool {
	for _, c := range comparisons {
		if !s[c.Key].holds(c) {
			return false
		}
	}
	return true
}

func (kv KV) holds(c Compare) bool {
	var equal bool
	switch c.Target {
	case Value:
		if kv.Version == 0 {
			return false
		}
		equal = kv.Value == c.Value
	case Version:
		equal = kv.Version == c.Number
	case CreateRevision:
		equal = kv.CreateRevision == c.Number
	case ModRevision:
		equal = kv.ModRevision == c.Number
	}
	return equal != c.NotEqual
}

// perform returns the store after the acts of a branch at a revision. It fails if they are refused, or do not lead to the
// results, as far as these are known.
func (s store) perform(acts []Act, results []Result, revision int64) (after store, ok bool) {
	for i, act := range acts {
		was := s[act.Key]
		if act.MissingLease || i < len(results) && results[i] != was.result(act) {
			return s, false
		}
		switch act.Verb {
		case Read:
		case Write:
			s[act.Key] = was.put(act.Value, revision)
		case Remove:
			s[act.Key] = KV{}
		}
	}
	return s, true
}

// result returns the result of an act on the key.
func (kv KV) result(act Act) (r Result) {
	if act.Verb == Read || act.Prev {
		r.KV = kv
	}
	if act.Verb == Remove {
		r.Deleted = min(kv.Version, 1)
	}
	return r
}

// put returns the key after a put at a revision.
func (kv KV) put(value string, revision int64) KV {
	if kv.Version == 0 {
		kv.CreateRevision = revision
	}
	return KV{Value: value, CreateRevision: kv.CreateRevision, ModRevision: revision, Version: kv.Version + 1}
}
