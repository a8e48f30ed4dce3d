package doctor

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/port"
	"github.com/quorate/quorate/internal/testpki"
	"github.com/quorate/quorate/lab"
)

// banner returns the address of a server that writes a text to each connection and reads what comes.
func banner(t *testing.T, text string) string {
	t.Helper()
	return listen(t, nil, func(conn net.Conn) {
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, conn)
	})
}

// serveWeb returns the address of a server that answers HTTP on one path, and speaks no gRPC.
func serveWeb(t *testing.T, path, body string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return bare(srv.URL)
}

// serveStatus returns the address of a proxy that answers everything by itself, over HTTP/2 in plaintext or over HTTP/1.
func serveStatus(t *testing.T, code int, http2 bool) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "a page", code) }))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(!http2)
	srv.Config.Protocols.SetUnencryptedHTTP2(http2)
	srv.Start()
	t.Cleanup(srv.Close)
	return bare(srv.URL)
}

func requireText(t *testing.T, cfg Config, want, not []string) {
	t.Helper()
	cfg.Settle = time.Millisecond
	report, err := Examine(t.Context(), cfg)
	require.NoError(t, err)
	text := report.Text()
	for _, w := range want {
		assert.Contains(t, text, w)
	}
	for _, n := range not {
		assert.NotContains(t, text, n)
	}
}

// The report says what is wrong and what to run.
func TestFindingsNameTheProblem(t *testing.T) {
	same := func(*scripted) {}
	dead, err := port.Reserve()
	require.NoError(t, err)
	defer dead.Release()
	ca := testpki.New(t, "right")
	expired := front{target: member(1, same).start(t), certificate: issue(t, ca, "127.0.0.1", -2*time.Hour, -time.Hour)}.start(t)
	valid := front{target: member(1, same).start(t), certificate: issue(t, ca, "127.0.0.1", -time.Hour, time.Hour)}.start(t)
	at := func(endpoints ...string) clientv3.Config { return clientv3.Config{Endpoints: endpoints} }
	members := func(urls ...string) func(*scripted) {
		return func(s *scripted) {
			for i, url := range urls {
				m := &pb.Member{ID: uint64(i + 1), Name: []string{"m1", "m2", "m3"}[i]}
				if url != "" {
					m.ClientURLs = []string{"http://" + url}
				}
				s.members = append(s.members, m)
			}
		}
	}
	silent := banner(t, "")
	const ssh = "SSH-2.0-OpenSSH_9.2\r\n"
	for _, tt := range []struct {
		name      string
		cfg       clientv3.Config
		want, not []string
	}{
		{
			"a member is dead, and no endpoint names it", at(member(1, members("", dead.Address(), dead.Address())).start(t)),
			[]string{"warning  m2 (http://" + dead.Address() + "): nothing listens at " + dead.Address() + ": etcd is not running"},
			[]string{"advertise-client-urls", "misadvertised"},
		},
		{
			"a member advertises a host that a shell would execute", at(member(1, members("", "$(reboot):2379")).start(t)),
			[]string{"dig '$(reboot)'"},
			nil,
		},
		{
			"a member is frozen, and no endpoint names it", at(member(1, members("", silent)).start(t)),
			[]string{"warning  m2 (http://" + silent + "): connections are accepted, and nothing is answered within "},
			nil,
		},
		{
			"a grpc-proxy without members", at(serveWeb(t, "/proxy/metrics", "etcd_grpc_proxy_cache_hits_total 0")),
			[]string{"this is etcd's grpc-proxy, and no member behind it answers"},
			[]string{"frozen", "it is no etcd"},
		},
		{
			"an expired certificate, accepted",
			clientv3.Config{Endpoints: []string{"https://" + expired}, TLS: &tls.Config{InsecureSkipVerify: true}},
			[]string{`warning  https://` + expired + `: the certificate "CN=member" expired on `, "which only --insecure-skip-tls-verify accepts", "→ renew it"},
			[]string{"Nothing is wrong"},
		},
		{
			"an authority that is not given", at("https://" + valid),
			[]string{`the certificate was issued by "CN=right", which this machine does not know, and no --cacert is given`},
			nil,
		},
		{
			"a frozen process", at(silent),
			[]string{"error    " + silent + ": connections are accepted, and nothing is answered within ", "frozen or starved", "→ on the member: systemctl status etcd; ps"},
			nil,
		},
		{"a banner", at(banner(t, ssh)), []string{"answered with neither gRPC nor HTTP: a proxy whose member is down, or no etcd ("}, nil},
		{"a banner for TLS", at("https://" + banner(t, ssh)), []string{`the server speaks neither TLS nor HTTP: it is no etcd (it answers "SSH-2"`}, nil},
		{
			"a web server", at(serveWeb(t, "/", "")),
			[]string{"the server speaks HTTP, and no gRPC: it is no etcd, or a proxy that does not pass gRPC on"},
			nil,
		},
		{"a proxy whose member is down", at(serveStatus(t, 503, false)), []string{"a proxy answers in place of etcd: HTTP 503 (Service Unavailable)\n"}, nil},
		{"a proxy whose member is down, HTTP/2", at(serveStatus(t, 502, true)), []string{"a proxy answers in place of etcd: HTTP 502 (Bad Gateway)\n"}, nil},
		{
			"a user, and no quorum",
			clientv3.Config{Endpoints: []string{member(1, same).start(t)}, Username: "root", Password: "secret"},
			[]string{`the server answers, and the step "auth" fails: etcdserver: request timed out`},
			[]string{"no etcd", "no gRPC"},
		},
		{
			"a port for peers", at(serveWeb(t, "/version", `{"etcdserver":"3.6.4"}`)),
			[]string{"this is etcd, and speaks no gRPC here: the port is for peers or metrics", "→ use the port of --listen-client-urls, usually 2379"},
			[]string{"it is no etcd"},
		},
		{
			"two clusters", at(member(1, same).start(t), member(2, func(s *scripted) { s.status.Header.ClusterId, s.status.Version = 8, "3.5.30" }).start(t)),
			[]string{"error    cluster: the endpoints belong to different clusters: 7 ("},
			[]string{"finish the upgrade"},
		},
		{
			"a corrupt member", at(member(1, func(s *scripted) { s.status.Errors = []string{"memberID:1  alarm:CORRUPT "} }).start(t)),
			[]string{"the cluster refuses writes, until the alarm is disarmed", "etcdctl alarm disarm"},
			nil,
		},
		{"a full disk", at(dead.Address()), []string{"etcd is not running (a full disk, too, ends it), or listens elsewhere", "df -h"}, nil},
		{
			"a member that no endpoint names", at(member(1, members("", member(2, same).start(t))).start(t)),
			[]string{"note     m2: --endpoints does not name this member: a client uses it only after Sync"},
			nil,
		},
		{
			"members that another one answers for", at(member(1, func(s *scripted) {
				other := "http://" + member(3, same).start(t)
				s.members = []*pb.Member{{ID: 1, Name: "one"}, {ID: 2, Name: "two", ClientURLs: []string{other}}, {ID: 3, Name: "three", ClientURLs: []string{other}}}
			}).start(t)),
			[]string{"note     two: it advertises"},
			[]string{"can be lost"},
		},
		{
			"one more loss stops writes", at(member(1, members("", dead.Address(), member(3, same).start(t))).start(t)),
			[]string{"warning  cluster: at most 2 of 3 voting members serve: one more loss stops all writes"},
			nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			timeout := testTimeout
			if strings.Contains(tt.name, "frozen") {
				timeout = brief
			}
			requireText(t, Config{Client: tt.cfg, Timeout: timeout}, tt.want, tt.not)
		})
	}
}

// A healthy cluster over TLS has no finding; expired certificates and frozen members are named.
func TestFindingsOfARealCluster(t *testing.T) {
	cluster := start(t, lab.Config{TLS: true, ClientCertAuth: true})
	cfg := Config{Client: clientv3.Config{Endpoints: cluster.Endpoints(), TLS: cluster.ClientTLS()}, Timeout: testTimeout, Hash: true}
	report, err := Examine(t.Context(), cfg)
	require.NoError(t, err)
	requireCodes(t, report)
	assert.Contains(t, report.Text(), "3 of 3 voting members serve; 1 more can be lost.")
	for _, e := range report.Endpoints {
		assert.Positive(t, e.CommitMS, e.Endpoint)
	}
	t.Run("an expired certificate of the client", func(t *testing.T) {
		expired := cfg
		expired.Client.TLS = cluster.ExpiredClientTLS()
		requireText(t, expired, []string{"the server refuses the certificate of the client, ", "which expired on ", "→ renew the certificate that --cert names"}, []string{"trusted-ca-file"})
	})
	t.Run("the name of a frozen member", func(t *testing.T) {
		m := cluster.Members()[2]
		require.NoError(t, m.Freeze())
		defer func() { require.NoError(t, m.Continue()) }()
		frozen := cfg
		frozen.Timeout = brief
		requireText(t, frozen, []string{"error    " + m.Name() + " (" + m.Endpoint() + "): connections are accepted, and nothing is answered within 5s"}, nil)
	})
}

// Why names the finding that explains the others.
func TestWhy(t *testing.T) {
	lost := func(s *scripted) { s.status.Leader = 0 }
	endpoints := []string{member(1, lost).start(t), member(2, lost).start(t), serveWeb(t, "/", "")}
	why := Why(t.Context(), Config{Client: clientv3.Config{Endpoints: endpoints}, Timeout: testTimeout})
	assert.Contains(t, why, "the cluster has no leader")
	alone := member(1, func(s *scripted) {
		s.members = []*pb.Member{{ID: 1, Name: "m1"}, {ID: 2, Name: "m2", ClientURLs: []string{"http://" + endpoints[2]}}, {ID: 3, Name: "m3"}}
	}).start(t)
	assert.Empty(t, Why(t.Context(), Config{Client: clientv3.Config{Endpoints: []string{alone}}, Only: alone, Timeout: testTimeout}), "it serves; another member does not")
	ended, end := context.WithCancel(t.Context())
	end()
	assert.Empty(t, Why(ended, Config{Client: clientv3.Config{Endpoints: endpoints}, Timeout: testTimeout}))
}

// A network that lets HTTP pass in time, and no call, is no sign of a member that is starved.
func TestSlowNetwork(t *testing.T) {
	v := &visit{cfg: Config{Timeout: time.Second}, failed: stepStatus, err: context.DeadlineExceeded, web: web{answer: answer{status: 404, took: 600 * time.Millisecond}}}
	d := diagnosis{cfg: v.cfg, visits: []*visit{v}}
	d.failure(v)
	assert.Equal(t, "HTTP is answered after 600ms, and no call within 1s: the network is slow, or the member is", d.findings[0].Cause)
}

func TestP99(t *testing.T) {
	const metrics = `# TYPE h histogram
h_bucket{To="a",le="0.001"} 90
h_bucket{To="a",le="0.002"} 99
h_bucket{To="a",le="+Inf"} 100
h_sum{To="a"} 1
h_bucket{To="b",le="0.001"} 100
h_bucket{To="b",le="0.002"} 100
h_bucket{To="b",le="+Inf"} 100
slow_bucket{le="1"} 1
slow_bucket{le="+Inf"} 100
`
	assert.InDelta(t, 2, p99([]byte(metrics), "h"), 1e-9)
	assert.Zero(t, p99([]byte(metrics), "slow"), "it is above all bounds")
	assert.Zero(t, p99([]byte(metrics), "nosuch"))
}
