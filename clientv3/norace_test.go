//go:build !race

package clientv3_test

const raceEnabled = false
