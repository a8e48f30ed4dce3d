package doctor

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/internal/testpki"
)

// front stands before a member: it ends TLS if it has a certificate, answers HTTP requests itself
// if it has a date, and is a proxy if it has an answer to CONNECT.
type front struct {
	target      string
	connect     string // the answer to CONNECT
	certificate *tls.Certificate
	date        func() time.Time
}

// start returns the address of the front, which ends with the test.
func (f front) start(t *testing.T) string {
	t.Helper()
	return listen(t, f.certificate, f.serve)
}

// listen serves connections until the end of the test, over TLS if there is a certificate, and returns the address.
func listen(t *testing.T, certificate *tls.Certificate, serve func(net.Conn)) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if certificate != nil {
		lis = tls.NewListener(lis, &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"h2", "http/1.1"}})
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		wg.Wait()
	})
	return lis.Addr().String()
}

func (f front) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	first, err := in.Peek(4)
	if err != nil {
		return
	}
	if f.date != nil && string(first) == "GET " {
		if _, err := http.ReadRequest(in); err == nil {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 404 Not Found\r\nDate: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
				f.date().UTC().Format(http.TimeFormat))
		}
		return
	}
	if f.connect != "" {
		_, err := http.ReadRequest(in)
		if _, _ = io.WriteString(conn, f.connect); err != nil || !strings.Contains(f.connect, "200 OK") {
			return
		}
	}
	member, err := net.Dial("tcp", f.target)
	if err != nil {
		return
	}
	defer member.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(member, in)
		_ = member.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(conn, member)
	_ = conn.Close()
	wg.Wait()
}

// issue makes a certificate of a server for a host, valid from and to then.
func issue(t *testing.T, ca *testpki.Authority, host string, from, to time.Duration) *tls.Certificate {
	t.Helper()
	certificate := ca.Issue(t, "member", func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(from), time.Now().Add(to)
		if host != "127.0.0.1" {
			c.IPAddresses, c.DNSNames = nil, []string{host}
		}
	})
	return &certificate
}

// bare returns an endpoint without its scheme.
func bare(endpoint string) string {
	_, address, ok := strings.Cut(endpoint, "://")
	if !ok {
		return endpoint
	}
	return address
}

// A member behind a proxy is reached as the client reaches it, under a name that only the proxy resolves.
func TestExaminationThroughAProxy(t *testing.T) {
	target := member(1, func(*scripted) {}).start(t)
	for answer, want := range map[string]string{
		"HTTP/1.1 200 OK\r\n\r\n":        "",
		"HTTP/1.1 403 Forbidden\r\n\r\n": "unreachable",
	} {
		ep, err := endpoint.Parse("http://etcd.invalid:2379")
		require.NoError(t, err)
		v := newVisit(Config{Client: clientv3.Config{}, Timeout: testTimeout}, ep)
		v.via = &url.URL{Scheme: "http", Host: front{target: target, connect: answer}.start(t)}
		v.examine(context.Background())
		d := diagnosis{cfg: v.cfg, visits: []*visit{v}}
		if want == "" {
			require.NoError(t, v.err)
			assert.NotNil(t, v.status)
		} else {
			d.failure(v)
			require.Len(t, d.findings, 1)
			assert.Equal(t, want, d.findings[0].Code)
			assert.Equal(t, "proxy "+v.via.Host+" of HTTPS_PROXY: no connection to etcd.invalid:2379: 403 Forbidden", d.findings[0].Cause)
		}
		v.close()
	}
}
