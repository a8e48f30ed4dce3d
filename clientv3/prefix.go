package clientv3

// GetPrefixRangeEnd returns the end of the range of all keys that begin with
// prefix: the smallest key greater than every one of them. For a prefix that has
// no such key (empty, or nothing but 0xff) it returns "\x00", which as a range
// end means every key from the start on.
//
// Get(prefix, WithRange(GetPrefixRangeEnd(prefix))) equals
// Get(prefix, WithPrefix()).
func GetPrefixRangeEnd(prefix string) string {
	return string(prefixEnd([]byte(prefix)))
}

func prefixEnd(prefix []byte) []byte {
	for last := len(prefix) - 1; last >= 0; last-- {
		if prefix[last] == 0xff {
			continue
		}
		end := append([]byte(nil), prefix[:last+1]...)
		end[last]++
		return end
	}
	return fromKeyEnd()
}

// fromKeyEnd returns the range end that stands for "no end".
func fromKeyEnd() []byte { return []byte{0} }
