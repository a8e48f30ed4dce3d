package doctor

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/testpki"
	"github.com/quorate/quorate/lab"
)

// start starts a cluster that ends with the test.
func start(t *testing.T, cfg lab.Config) *lab.Cluster {
	t.Helper()
	cfg.Dir, cfg.Election = t.TempDir(), 2*time.Second // a busy machine makes a leader late
	cluster, err := lab.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, cluster.Close()) })
	return cluster
}

// testTimeout is the timeout of a step for what must answer; brief for what is known to be silent.
const (
	testTimeout = 20 * time.Second
	brief       = 5 * time.Second
)

// examine returns the report of a client's configuration.
func examine(t *testing.T, timeout time.Duration, cfg clientv3.Config) Report {
	t.Helper()
	report, err := Examine(t.Context(), Config{Client: cfg, Timeout: timeout})
	require.NoError(t, err)
	t.Log("\n" + report.Text())
	return report
}

// requireCodes checks that exactly these findings were made, each with its severity. A finding "slow" is ignored unless it is
// wanted: a member that is short of CPU is slow.
func requireCodes(t *testing.T, r Report, want ...string) {
	t.Helper()
	var got []string
	for _, f := range r.Findings {
		if f.Code == "slow" && !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(w, "slow") }) {
			continue
		}
		got = append(got, strings.TrimSpace(string(f.Severity)+" "+f.Code+" "+f.Member))
		assert.NotEmpty(t, f.Cause)
	}
	assert.ElementsMatch(t, want, got)
}

func client(t *testing.T, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// One healthy cluster, and everything that can be wrong on the way to it.
func TestOnTheWayToAHealthyCluster(t *testing.T) {
	cluster := start(t, lab.Config{})
	endpoints := cluster.Endpoints()
	target := bare(endpoints[0])
	ca, other := testpki.New(t, "right"), testpki.New(t, "wrong")
	roots := &tls.Config{RootCAs: ca.Pool()}
	at := func(endpoints ...string) clientv3.Config { return clientv3.Config{Endpoints: endpoints} }
	secure := func(cert *tls.Certificate) clientv3.Config {
		return clientv3.Config{Endpoints: []string{"https://" + front{target: target, certificate: cert}.start(t)}, TLS: roots}
	}
	dated := func(ahead time.Duration) string {
		return front{target: target, date: func() time.Time { return time.Now().Add(ahead) }}.start(t)
	}
	alone := []string{"note not-an-endpoint m2", "note not-an-endpoint m3"}
	good := secure(issue(t, ca, "127.0.0.1", -time.Hour, time.Hour))
	for _, tt := range []struct {
		name string
		cfg  clientv3.Config
		want []string
	}{
		{"healthy", at(endpoints...), nil},
		{"this machine", at(strings.TrimPrefix(target, "127.0.0.1")), alone},
		{"healthy, TLS", good, append([]string{"warning advertised-clear m1", "warning advertised-clear m2", "warning advertised-clear m3"}, alone...)},
		{"expired certificate", secure(issue(t, ca, "127.0.0.1", -2*time.Hour, -time.Hour)), []string{"error tls-expired"}},
		{"certificate of tomorrow", secure(issue(t, ca, "127.0.0.1", time.Hour, 2*time.Hour)), []string{"error tls-not-yet-valid"}},
		{"wrong name", secure(issue(t, ca, "etcd.example", -time.Hour, time.Hour)), []string{"error tls-wrong-name"}},
		{"wrong CA", secure(issue(t, other, "127.0.0.1", -time.Hour, time.Hour)), []string{"error tls-unknown-authority"}},
		{"plaintext to TLS", at("http://" + bare(good.Endpoints[0])), []string{"error speaks-tls"}},
		{"TLS to plaintext", clientv3.Config{Endpoints: []string{"https://" + target}, TLS: roots}, []string{"error speaks-clear"}},
		{"clock ahead", at(endpoints[1], dated(time.Minute), endpoints[2]), []string{"warning clock m1"}},
		{"clock behind", at(endpoints[1], dated(-time.Hour), endpoints[2]), []string{"warning clock m1"}},
		{"our clock", at(dated(time.Minute), dated(time.Minute)), append([]string{"warning clock"}, alone...)},
		{"a user where there is none", clientv3.Config{Endpoints: endpoints, Username: "root", Password: "secret"}, []string{"note auth-off"}},
		{
			"a user, and no TLS at one of the endpoints",
			clientv3.Config{Endpoints: []string{"https://127.0.0.1:1", endpoints[0]}, Username: "root", Password: "secret"},
			[]string{"error refused", "error auth-refused"},
		},
		{"nobody listens", at(append([]string{"127.0.0.1:1"}, endpoints...)...), []string{"error refused"}},
		{"no such name", at(append([]string{"http://nosuch.invalid:2379"}, endpoints...)...), []string{"error name-unknown"}},
		{"one endpoint of three", at(endpoints[0]), alone},
		{"keepalive", clientv3.Config{Endpoints: endpoints, DialKeepAliveTime: time.Second}, []string{"note keepalive"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			report := examine(t, testTimeout, tt.cfg)
			requireCodes(t, report, tt.want...)
			if !slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Code == "slow" }) {
				assert.Equal(t, !strings.Contains(strings.Join(tt.want, " "), "error ") && !strings.Contains(strings.Join(tt.want, " "), "warning "), report.Healthy)
			}
		})
	}
	t.Run("grpc-proxy", func(t *testing.T) {
		proxy, err := lab.StartProxy(t.Context(), cluster, false)
		require.NoError(t, err)
		defer func() { assert.NoError(t, proxy.Close()) }()
		requireCodes(t, examine(t, testTimeout, clientv3.Config{Endpoints: proxy.Endpoints()}), "note grpc-proxy")
	})
}

// awaitNoLeader waits until a member knows of no leader.
func awaitNoLeader(t *testing.T, m *lab.Member) {
	t.Helper()
	require.Eventually(t, func() bool {
		s, err := m.Status(t.Context())
		return err == nil && s.Leader == 0
	}, testTimeout, 50*time.Millisecond)
}

// The faults of the lab, on one cluster.
func TestFaultsOfMembers(t *testing.T) {
	cluster := start(t, lab.Config{})
	everything := clientv3.Config{Endpoints: cluster.Endpoints()}
	restore := func(t *testing.T) {
		t.Helper()
		cluster.Heal()
		for _, m := range cluster.Members() {
			switch {
			case m.Frozen():
				require.NoError(t, m.Continue())
			case !m.Alive():
				require.NoError(t, m.Restart(t.Context()))
			}
		}
		require.NoError(t, cluster.WaitReady(t.Context()))
	}
	follower := func(t *testing.T) *lab.Member {
		t.Helper()
		leader, err := cluster.Leader(t.Context())
		require.NoError(t, err)
		return cluster.Members()[(leader.Index()+1)%3]
	}
	at := func(r Report, code string) (endpoints []string) {
		for _, f := range r.Findings {
			if f.Code == code {
				endpoints = append(endpoints, f.Endpoint)
			}
		}
		return endpoints
	}
	t.Run("killed", func(t *testing.T) {
		m := follower(t)
		require.NoError(t, m.Kill())
		defer restore(t)
		report := examine(t, testTimeout, everything)
		requireCodes(t, report, "error closed "+m.Name(), "warning redundancy") // the lab has a link before each member
		assert.Equal(t, []string{m.Endpoint()}, at(report, "closed"))
		direct := examine(t, testTimeout, clientv3.Config{Endpoints: []string{m.DirectEndpoint()}})
		requireCodes(t, direct, "error refused")
	})
	t.Run("frozen", func(t *testing.T) {
		m := follower(t)
		require.NoError(t, m.Freeze())
		defer restore(t)
		report := examine(t, brief, everything)
		requireCodes(t, report, "error silent "+m.Name(), "warning redundancy")
		assert.Equal(t, []string{m.Endpoint()}, at(report, "silent"))
		alone := clientv3.Config{Endpoints: []string{cluster.Members()[(m.Index()+1)%3].Endpoint()}}
		other := cluster.Members()[(m.Index()+2)%3].Name()
		requireCodes(t, examine(t, brief, alone), "warning silent "+m.Name(), "warning redundancy", "note not-an-endpoint "+other)
		whole, err := Examine(t.Context(), Config{Client: alone, Timeout: brief, Cluster: true})
		require.NoError(t, err)
		requireCodes(t, whole, "error silent "+m.Name(), "warning redundancy")
		assert.Len(t, whole.Endpoints, 3)
	})
	t.Run("partitioned", func(t *testing.T) {
		m := follower(t)
		cluster.Isolate(m)
		defer restore(t)
		awaitNoLeader(t, m)
		requireCodes(t, examine(t, testTimeout, everything), "error cut-off "+m.Name(), "warning redundancy")
	})
	t.Run("no leader", func(t *testing.T) {
		m := follower(t)
		want := []string{"error no-leader"}
		for _, other := range cluster.Members() {
			if other != m {
				require.NoError(t, other.Kill())
				want = append(want, "error closed "+other.Name())
			}
		}
		defer restore(t)
		awaitNoLeader(t, m)
		requireCodes(t, examine(t, testTimeout, everything), want...)
	})
	t.Run("healthy again", func(t *testing.T) { requireCodes(t, examine(t, testTimeout, everything)) })
}

// The server ends the handshake with TLS 1.2, and the connection after it with TLS 1.3.
func TestAuthentication(t *testing.T) {
	for _, version := range []string{"TLS1.2", "TLS1.3"} {
		cluster := start(t, lab.Config{Members: 1, TLS: true, ClientCertAuth: true, Args: []string{"--tls-max-version=" + version}})
		secure := clientv3.Config{Endpoints: cluster.Endpoints(), TLS: cluster.ClientTLS()}
		for name, certificate := range map[string]*tls.Certificate{
			"no certificate of the client":   nil,
			"a certificate of somebody else": issue(t, testpki.New(t, "wrong"), "client", -time.Hour, time.Hour),
		} {
			t.Run(version+", "+name, func(t *testing.T) {
				cfg := secure
				cfg.TLS = secure.TLS.Clone()
				cfg.TLS.Certificates = nil
				if certificate != nil { // as files are given
					cfg.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
				}
				requireCodes(t, examine(t, testTimeout, cfg), "error tls-client-certificate")
			})
		}
		requireCodes(t, examine(t, testTimeout, clientv3.Config{Endpoints: []string{bare(cluster.Endpoints()[0])}}), "error speaks-tls")
	}
}

func TestUsers(t *testing.T) {
	cluster := start(t, lab.Config{Members: 1})
	nobody := clientv3.Config{Endpoints: cluster.Endpoints()}
	c := client(t, nobody)
	for _, user := range []string{"root", "alice"} {
		_, err := c.UserAdd(t.Context(), user, "secret")
		require.NoError(t, err)
	}
	_, err := c.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = c.AuthEnable(t.Context())
	require.NoError(t, err)
	as := func(name, password string) clientv3.Config {
		cfg := nobody
		cfg.Username, cfg.Password = name, password
		return cfg
	}
	requireCodes(t, examine(t, testTimeout, nobody), "error auth-required")
	requireCodes(t, examine(t, testTimeout, as("root", "wrong")), "error auth-refused")
	requireCodes(t, examine(t, testTimeout, as("root", "secret")))
	requireCodes(t, examine(t, testTimeout, as("alice", "secret"))) // who may read nothing
}

func TestAlarm(t *testing.T) {
	cluster := start(t, lab.Config{Members: 1, Args: []string{"--quota-backend-bytes=16777216"}})
	cfg := clientv3.Config{Endpoints: cluster.Endpoints()}
	c := client(t, cfg)
	value := strings.Repeat("x", 1<<20)
	for {
		if _, err := c.Put(t.Context(), "key", value); err != nil {
			require.ErrorContains(t, err, "database space exceeded")
			break
		}
	}
	requireCodes(t, examine(t, testTimeout, cfg), "error alarm m1", "warning quota m1")
}

// A real learner refuses reads and the member list, so only its status says what it is.
func TestLearner(t *testing.T) {
	cluster := start(t, lab.Config{Args: []string{"--strict-reconfig-check=false"}})
	learner := cluster.Members()[2]
	require.NoError(t, learner.BecomeLearner(t.Context()))
	require.NoError(t, cluster.WaitReady(t.Context()))
	requireCodes(t, examine(t, testTimeout, clientv3.Config{Endpoints: []string{learner.Endpoint()}}), "error only-learners")
	requireCodes(t, examine(t, testTimeout, clientv3.Config{Endpoints: cluster.Endpoints()}), "note learner m3")
	require.NoError(t, cluster.Members()[0].Kill())
	awaitNoLeader(t, cluster.Members()[1])
	requireCodes(t, examine(t, brief, clientv3.Config{Endpoints: cluster.Endpoints()}), "error no-leader", "error closed m1", "note learner m3")
}

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}
