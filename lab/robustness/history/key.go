package history

import (
	"fmt"
	"strconv"
	"strings"
)

// Space is a family of keys.
type Space uint8

const (
	// Puts holds the keys written by puts, each once.
	Puts Space = iota
	// Txns holds the keys written by txns beside their counter, each once.
	Txns
	// Counters holds one counter for each caller of txns.
	Counters
)

var spaceNames = [...]string{Puts: "put", Txns: "txn", Counters: "counter"}

// String returns the name that the space has in a key's path.
func (s Space) String() string { return spaceNames[s] }

// Key names one key of the load.
type Key struct {
	// Space that the key belongs to.
	Space Space
	// Caller that writes it.
	Caller int
	// Seq numbers the keys of one caller from 0; it is 0 for a counter.
	Seq int64
}

// CounterOf returns the key of a caller's counter.
func CounterOf(caller int) Key { return Key{Space: Counters, Caller: caller} }

// String returns the key without the prefix of the run: "put/3/42", "counter/3".
func (k Key) String() string {
	if k.Space == Counters {
		return fmt.Sprintf("%s/%d", k.Space, k.Caller)
	}
	return fmt.Sprintf("%s/%d/%d", k.Space, k.Caller, k.Seq)
}

// Path returns the key as it is stored under a prefix, which ends in a slash.
func (k Key) Path(prefix string) string { return prefix + k.String() }

// Value returns what is stored under a key that is written once: its own name,
// so that a value which strayed to another key is recognised.
func (k Key) Value() string { return k.String() }

// Written returns the key that an event of the load wrote, named so that no two
// events of a run have the same name: for a counter, Seq is the value that it was
// set to. It is an error if the load writes no such event.
func Written(prefix string, e Event) (Key, error) {
	if e.Type != PutEvent {
		return Key{}, fmt.Errorf("%v: the load deletes nothing", e)
	}
	k, err := ParseKey(prefix, e.Key)
	if err != nil || k.Space != Counters {
		return k, err
	}
	if k.Seq, err = strconv.ParseInt(e.Value, 10, 64); err != nil {
		return Key{}, fmt.Errorf("%v: the counter's value: %w", e, err)
	}
	return k, nil
}

// ParseKey is the inverse of [Key.Path].
func ParseKey(prefix, path string) (Key, error) {
	name, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return Key{}, fmt.Errorf("key %q is not below %q", path, prefix)
	}
	parts := strings.Split(name, "/")
	var k Key
	switch {
	case len(parts) == 2 && parts[0] == Counters.String():
		k.Space = Counters
	case len(parts) == 3 && parts[0] == Puts.String():
		k.Space = Puts
	case len(parts) == 3 && parts[0] == Txns.String():
		k.Space = Txns
	default:
		return Key{}, fmt.Errorf("key %q is none that the load writes", path)
	}
	caller, err := strconv.Atoi(parts[1])
	if err != nil {
		return Key{}, fmt.Errorf("key %q: caller: %w", path, err)
	}
	k.Caller = caller
	if k.Space == Counters {
		return k, nil
	}
	if k.Seq, err = strconv.ParseInt(parts[2], 10, 64); err != nil {
		return Key{}, fmt.Errorf("key %q: sequence number: %w", path, err)
	}
	return k, nil
}
