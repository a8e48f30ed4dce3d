package history

import "fmt"

// Scope says which keys of the load a watch is on: all of them, or those that
// one caller writes in one space.
type Scope struct {
	// All means every key; the other fields then count for nothing.
	All bool
	// Space and Caller name the keys otherwise. In [Counters] it is a single one.
	Space  Space
	Caller int
}

// Scopes returns the scopes of the load's watches, one for each caller of a kind
// of call: every key, what the caller puts, what it writes in txns, and its
// counter, in turn.
func Scopes(callers int) []Scope {
	turn := []Scope{{All: true}, {Space: Puts}, {Space: Txns}, {Space: Counters}}
	scopes := make([]Scope, callers)
	for i := range scopes {
		scopes[i] = turn[i%len(turn)]
		if !scopes[i].All {
			scopes[i].Caller = i
		}
	}
	return scopes
}

// Includes reports whether a key is in the scope.
func (s Scope) Includes(k Key) bool { return s.All || s.Space == k.Space && s.Caller == k.Caller }

// Range returns the stored keys that the scope stands for, under a prefix that
// ends in a slash: the first one and the first one behind them, as etcd writes
// ranges. end is empty when there is a single key.
func (s Scope) Range(prefix string) (from, end string) {
	switch {
	case s.All:
		from = prefix
	case s.Space == Counters:
		return CounterOf(s.Caller).Path(prefix), ""
	default:
		from = fmt.Sprintf("%s%s/%d/", prefix, s.Space, s.Caller)
	}
	return from, from[:len(from)-1] + string(rune('/'+1))
}
