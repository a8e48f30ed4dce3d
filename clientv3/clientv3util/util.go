// Package clientv3util has comparisons that transactions often need.
package clientv3util

import "github.com/quorate/quorate/clientv3"

// KeyExists returns the comparison that holds if there is a key of that name: one
// that was written at least once since it was last deleted.
func KeyExists(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.Version(key), ">", 0)
}

// KeyMissing returns the comparison that holds if there is no key of that name.
func KeyMissing(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.Version(key), "=", 0)
}
