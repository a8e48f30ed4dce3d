package lockcheck

// guarded checks every write that was made, whatever its outcome.
func guarded(c *checker) {
	for lock := range c.Locks {
		for _, r := range c.registers[lock] {
			if r.write == nil {
				continue // a matter of truthful
			}
			a := &c.Attempts[r.write.Attempt]
			if e := c.queues.byClaim[a.Claim]; e != nil && e.holdsAt(r.ModRevision) {
				continue
			}
			c.verdict.Add(Guarded, "%q was written to %s at revision %d for %s, whose claim is %v; %s",
				r.Value, r.Key, r.ModRevision, a.describe(c.Locks), a.Claim, c.whoHeld(lock, r.ModRevision))
		}
	}
}

// whoHeld says which key stood for a lock in the state before a revision.
func (c *checker) whoHeld(lock int, revision int64) string {
	for _, e := range c.queues.byLock[lock] {
		if e.holdsAt(revision) {
			return "the holder then was " + e.String()
		}
	}
	return "no contender held the lock then"
}

// truthful compares the outcomes of writes with what was written.
func truthful(c *checker) {
	for i := range c.Writes {
		w := &c.Writes[i]
		lock := c.Attempts[w.Attempt].Lock
		at := c.made[w]
		wrong := func(format string, args ...any) {
			args = append([]any{w.Value, c.Locks[lock].Register, w.Outcome}, args...)
			c.verdict.Add(Truthful, "the write of %q to %s is reported as %v, "+format, args...)
		}
		switch {
		case len(at) > 1:
			wrong("and it was made %d times, at revisions %v", len(at), at)
		case w.Outcome == Accepted && len(at) == 0:
			wrong("at revision %d, and it is not in the history", w.Revision)
		case w.Outcome == Accepted && at[0] != w.Revision:
			wrong("at revision %d, and it was made at revision %d", w.Revision, at[0])
		case w.Outcome == Refused && len(at) > 0:
			wrong("and it was made at revision %d", at[0])
		}
	}
	for lock := range c.Locks {
		for _, r := range c.registers[lock] {
			if r.write == nil {
				c.verdict.Add(Truthful, "%v: nobody sent that, value %q", r.Event, r.Value)
			}
		}
	}
}
