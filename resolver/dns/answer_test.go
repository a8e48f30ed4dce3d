package dns

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFamilies(t *testing.T) {
	for _, c := range []struct {
		name   string
		found  []string // in the system's order of preference
		family Family
		want   string
	}{
		{"one family, sorted", []string{"10.0.0.3", "10.0.0.1", "10.0.0.2"}, FamilyAuto, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80"},
		{"no address twice", []string{"10.0.0.1", "::ffff:10.0.0.1"}, FamilyAuto, "10.0.0.1:80"},
		{"one of each is one backend", []string{"2001:db8::1", "10.0.0.1"}, FamilyAuto, "[2001:db8::1]:80,10.0.0.1:80"},
		{"the system's preference stays", []string{"10.0.0.1", "2001:db8::1"}, FamilyAuto, "10.0.0.1:80,[2001:db8::1]:80"},
		{"IPv6 preferred", []string{"2001:db8::2", "2001:db8::1", "10.0.0.1", "10.0.0.2"}, FamilyAuto, "[2001:db8::1]:80 [2001:db8::2]:80"},
		{"IPv4 preferred", []string{"10.0.0.2", "2001:db8::1", "10.0.0.1", "2001:db8::2"}, FamilyAuto, "10.0.0.1:80 10.0.0.2:80"},
		{"unequal numbers", []string{"10.0.0.2", "2001:db8::1", "10.0.0.1"}, FamilyAuto, "10.0.0.1:80 10.0.0.2:80"},
		{"both", []string{"2001:db8::2", "10.0.0.1", "2001:db8::1"}, FamilyBoth, "10.0.0.1:80 [2001:db8::1]:80 [2001:db8::2]:80"},
		{"both, one of each", []string{"2001:db8::2", "10.0.0.1"}, FamilyBoth, "10.0.0.1:80 [2001:db8::2]:80"},
		{"nothing", nil, FamilyAuto, ""},
	} {
		got := newAddresses(parse(c.found...)).backends(c.family)
		assert.Equal(t, c.want, listed(answer{backends: got}), c.name)
	}
}
