package clientconfig_test

import (
	"crypto/tls"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/clientconfig"
)

// load makes a configuration of flags, of variables without ETCDCTL_, and of a URL if it is not empty.
func load(t *testing.T, args []string, variables map[string]string, url string) (clientv3.Config, error) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "ETCDCTL_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range variables {
		t.Setenv("ETCDCTL_"+name, value)
	}
	set := flag.NewFlagSet("test", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	flags := clientconfig.Flags(set)
	if err := set.Parse(args); err != nil {
		return clientv3.Config{}, err
	}
	var last clientconfig.Source
	if url != "" {
		var err error
		if last, err = clientconfig.URL(url); err != nil {
			return clientv3.Config{}, err
		}
	}
	return clientconfig.Load(flags, clientconfig.Env(), last)
}

func TestPrecedence(t *testing.T) {
	const url = "etcd://carol:pc@c?dial-timeout=3s"
	variables := map[string]string{"ENDPOINTS": "b:1, b:2", "USER": "bob", "PASSWORD": "pb", "DIAL_TIMEOUT": "2s"}
	args := []string{"--endpoints", "a:1", "--user", "alice:pa", "--dial-timeout", "1s"}
	for _, tt := range []struct {
		name      string
		args      []string
		variables map[string]string
		url       string
		want      clientv3.Config
	}{
		{"flags first", args, variables, url, clientv3.Config{Endpoints: []string{"a:1"}, Username: "alice", Password: "pa", DialTimeout: time.Second}},
		{"then the environment", nil, variables, url, clientv3.Config{Endpoints: []string{"b:1", "b:2"}, Username: "bob", Password: "pb", DialTimeout: 2 * time.Second}},
		{"then the URL", nil, nil, url, clientv3.Config{Endpoints: []string{"c:2379"}, Username: "carol", Password: "pc", DialTimeout: 3 * time.Second}},
		{"then defaults", nil, nil, "", clientv3.Config{Endpoints: []string{clientconfig.DefaultEndpoint}}},
		{
			"endpoints of several flags",
			[]string{"--endpoints", "a:1", "--endpoints", "b:1,c:1", "--endpoints=d:1"},
			nil, "",
			clientv3.Config{Endpoints: []string{"a:1", "b:1", "c:1", "d:1"}},
		},
		{
			"one by one",
			[]string{"--dial-timeout=1s"},
			map[string]string{"ENDPOINTS": "b:1"},
			url,
			clientv3.Config{Endpoints: []string{"b:1"}, Username: "carol", Password: "pc", DialTimeout: time.Second},
		},
		{
			"endpoints that are a URL",
			[]string{"--endpoints", "etcd://dave:pd@d?dial-timeout=4s"},
			variables,
			url,
			clientv3.Config{Endpoints: []string{"d:2379"}, Username: "dave", Password: "pd", DialTimeout: 4 * time.Second},
		},
		{
			"flags outrank the URL of a flag",
			[]string{"--endpoints", "etcd://dave:pd@d?dial-timeout=4s", "--user", "alice:pa", "--dial-timeout=1s"},
			nil,
			"",
			clientv3.Config{Endpoints: []string{"d:2379"}, Username: "alice", Password: "pa", DialTimeout: time.Second},
		},
		{
			"a user here, a password there",
			[]string{"--user", "alice"},
			map[string]string{"PASSWORD": "pa"},
			"",
			clientv3.Config{Endpoints: []string{clientconfig.DefaultEndpoint}, Username: "alice", Password: "pa"},
		},
		{
			"a user outranks a token",
			[]string{"--user", "alice:pa"},
			map[string]string{"AUTH_JWT_TOKEN": "jwt"},
			"",
			clientv3.Config{Endpoints: []string{clientconfig.DefaultEndpoint}, Username: "alice", Password: "pa"},
		},
		{
			"a token outranks a user",
			[]string{"--auth-jwt-token", "jwt"},
			variables, "",
			clientv3.Config{Endpoints: []string{"b:1", "b:2"}, Token: "jwt", DialTimeout: 2 * time.Second},
		},
		{
			"keepalive and sizes", nil,
			map[string]string{"KEEPALIVE_TIME": "30s", "KEEPALIVE_TIMEOUT": "7s", "MAX_REQUEST_BYTES": "1", "MAX_RECV_BYTES": "2"},
			"",
			clientv3.Config{
				Endpoints: []string{clientconfig.DefaultEndpoint}, DialKeepAliveTime: 30 * time.Second, DialKeepAliveTimeout: 7 * time.Second,
				MaxCallSendMsgSize: 1, MaxCallRecvMsgSize: 2,
			},
		},
		{
			"a password with everything in it", nil, nil, "etcd://al%40ice:p%2Fa%40:%25%23@[::1],[::2]:1,h/",
			clientv3.Config{Endpoints: []string{"[::1]:2379", "[::2]:1", "h:2379"}, Username: "al@ice", Password: "p/a@:%#"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := load(t, tt.args, tt.variables, tt.url)
			require.NoError(t, err)
			assert.Equal(t, tt.want, cfg)
		})
	}
}

func TestTLS(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		url  string
		want *tls.Config
	}{
		{"plaintext", nil, "etcd://h", nil},
		{"etcds", nil, "etcds://h", &tls.Config{}},
		{"etcds in a flag", []string{"--endpoints", "etcds://h"}, "", &tls.Config{}},
		{"etcds, and the endpoints of a flag", []string{"--endpoints", "a:1"}, "etcds://h", &tls.Config{}},
		{"no check", []string{"--insecure-skip-tls-verify"}, "", &tls.Config{InsecureSkipVerify: true}},
		{"asked for", []string{"--insecure-transport=false"}, "", &tls.Config{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := load(t, tt.args, nil, tt.url)
			require.NoError(t, err)
			assert.Equal(t, tt.want == nil, cfg.TLS == nil)
			if cfg.TLS != nil {
				assert.Equal(t, tt.want.InsecureSkipVerify, cfg.TLS.InsecureSkipVerify)
			}
		})
	}
}

// Nothing takes the endpoints of an etcds URL to plaintext.
func TestEtcdsOutranksInsecureTransport(t *testing.T) {
	cfg, err := load(t, []string{"--insecure-transport"}, nil, "etcds://h,[fe80::1%eth0]:1")
	require.NoError(t, err)
	assert.Equal(t, []string{"https://h:2379", "https://[fe80::1%25eth0]:1"}, cfg.Endpoints)
}

// TestErrors: each names the flag, the variable or the parameter, and none has the password.
func TestErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nosuch.pem")
	for _, tt := range []struct {
		args      []string
		variables map[string]string
		url       string
		want      string
	}{
		{[]string{"--dial-timeout", "soon"}, nil, "", `-dial-timeout: "soon" is no time such as 5s`},
		{[]string{"--endpoints", ","}, nil, "", "it names no endpoint"},
		{[]string{"--endpoints", ""}, nil, "", "it names no endpoint"},
		{[]string{"--endpoints", "root:secret@h:1"}, nil, "", `--endpoints: endpoint "xxxxx@h:1"`},
		{[]string{"--endpoints", "etcd://root:secret@h", "--endpoints", "a:1"}, nil, "", "--endpoints: a URL of etcd stands alone"},
		{[]string{"--endpoints", "etcd://h?dial-timeout=1s", "--endpoints", "etcd://root:secret@h"}, nil, "", "--endpoints: a URL of etcd stands alone"},
		{nil, map[string]string{"DIAL_TIMEOUT": "-1s"}, "", `ETCDCTL_DIAL_TIMEOUT: "-1s" is no time`},
		{nil, map[string]string{"MAX_RECV_BYTES": "lots"}, "", `ETCDCTL_MAX_RECV_BYTES: "lots" is no number of bytes`},
		{nil, map[string]string{"INSECURE_SKIP_TLS_VERIFY": "maybe"}, "", `ETCDCTL_INSECURE_SKIP_TLS_VERIFY: "maybe" is neither true nor false`},
		{nil, map[string]string{"ENDPOINTS": "http://[::1"}, "", "ETCDCTL_ENDPOINTS: "},
		{nil, map[string]string{"CACERT": missing}, "", "ETCDCTL_CACERT: open " + missing},
		{[]string{"--key", missing}, map[string]string{"CERT": missing}, "", "--key, ETCDCTL_CERT: "},
		{nil, map[string]string{"USER": "root"}, "", "ETCDCTL_USER needs a name and a password; the password may also be in ETCDCTL_PASSWORD"},
		{nil, map[string]string{"USER": ":secret"}, "", "ETCDCTL_USER needs a name and a password"},
		{[]string{"--user", "alice"}, map[string]string{"USER": "bob", "PASSWORD": "secret"}, "", "--user needs a name and a password"},
		{[]string{"--user", "alice"}, nil, "etcd://bob:secret@h", "--user needs a name and a password"},
		{nil, map[string]string{"USER": "root:secret", "AUTH_JWT_TOKEN": "secret"}, "", "ETCDCTL_USER and ETCDCTL_AUTH_JWT_TOKEN: a client has a user or a token"},
		{[]string{"--endpoints", "etcds://root:secret@h:x:y"}, nil, "", "--endpoints: URL of etcd: it has a host"},
		{nil, map[string]string{"ENDPOINTS": "etcd://root:secret@h#"}, "", "ETCDCTL_ENDPOINTS: URL of etcd: it can have"},
		{nil, nil, "http://h", "begins with neither etcd:// nor etcds://"},
		{nil, nil, "etcd://root:secret@", "it names no host"},
		{nil, nil, "etcd://root:secret@a,,b", "it names no host, or an empty one"},
		{nil, nil, "etcd://root:sec/ret@h", "neither a path nor a fragment"},
		{nil, nil, "etcd://root:?secret@h", "%3F in a password"},
		{nil, nil, "etcd://root:secret%@h", "a % that escapes nothing"},
		{nil, nil, "etcd://root:secret@[::1", "neither HOST, HOST:PORT nor [IPv6]:PORT"},
		{nil, nil, "etcd://root:secret@h:x:y", "neither HOST"},
		{nil, nil, "etcd://root:secret@h?dialtimeout=1s", `there is no parameter "dialtimeout"`},
		{nil, nil, "etcd://root:pa@ss?secret@h", "it has an @ after the question mark"},
		{nil, nil, "etcd://root:secret@h?password=secret", "password is no parameter"},
		{nil, nil, "etcd://root:secret@h?dial-timeout=1", "parameter dial-timeout of the URL: "},
		{nil, nil, "etcd://root:secret@h?cert=a&cert=b", "parameter cert is given 2 times"},
		{nil, nil, "etcd://root:secret@h?cacert=%zz", "its parameters are malformed"},
		{nil, nil, "etcds://root:secret@h?insecure-transport=true", "contradicts etcds://"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			_, err := load(t, tt.args, tt.variables, tt.url)
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

// FuzzURL: nothing panics, and what is accepted has endpoints.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{"etcd://h", "etcds://u:p@a,b:1?cacert=x", "etcd://:@?", "etcd://[::1]:2379/#", "etcd://%@,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		source, err := clientconfig.URL(raw)
		if err != nil {
			return
		}
		cfg, err := clientconfig.Load(source)
		if err == nil {
			assert.NotEmpty(t, cfg.Endpoints)
		}
	})
}
