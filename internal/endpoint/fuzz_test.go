package endpoint

import (
	"strings"
	"testing"
	"unicode"
)

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "localhost:2379", "[::1]:2379", "http://a:1/b", "https://u:p@a", "ftp://a", "http://[fe80::1%25a%20b]",
		"unix:a", "unix://a", "unix:///a/b", "unixs:///a%2fb", "unix:/?", "unix:///..", "://", "a://b\x00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			if e != (Endpoint{}) {
				t.Fatalf("Parse(%q) = %#v beside the error %v", s, e, err)
			}
			return
		}
		network, addr := DialTarget(e.Address)
		switch {
		case e.Raw != s:
			t.Fatalf("Parse(%q).Raw = %q", s, e.Raw)
		case e.Address == "", e.ServerName == "", addr == "":
			t.Fatalf("Parse(%q) = %#v, dialled as %q: a part is empty", s, e, addr)
		case strings.ContainsFunc(addr, unicode.IsControl):
			t.Fatalf("Parse(%q) is dialled as %q, which holds a control character", s, addr)
		case network == "unix" != (strings.HasPrefix(s, "unix:") || strings.HasPrefix(s, "unixs:")):
			t.Fatalf("Parse(%q) is dialled over %s", s, network)
		}
		again, err := Parse(e.Address)
		if err != nil || again.Address != e.Address || again.ServerName != e.ServerName {
			t.Fatalf("Parse(%q).Address = %q, which parses as %#v, %v", s, e.Address, again, err)
		}
	})
}
