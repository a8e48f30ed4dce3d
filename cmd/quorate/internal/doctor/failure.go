package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/endpoint"
)

// failure says why a visit ended early.
func (d *diagnosis) failure(v *visit) {
	switch v.speaks {
	case "TLS":
		d.finding(v, Error, "speaks-tls", "write https:// before the endpoint, and give --cacert", "the server speaks TLS, and the endpoint says plaintext")
		return
	case "plaintext":
		d.finding(v, Error, "speaks-clear", "write http:// before the endpoint, or have the server use --cert-file and --key-file",
			"the server speaks plaintext, and the endpoint says TLS")
		return
	}
	if _, answer, ok := strings.Cut(message(v.err), "unexpected HTTP status code received from server: "); ok {
		d.finding(v, Error, "closed", "read the log of the proxy", "a proxy answers in place of etcd: HTTP %s", answer)
		return
	}
	_, address := endpoint.DialTarget(v.endpoint.Address)
	switch v.failed {
	case stepName:
		d.finding(v, Error, "name-unknown", "dig "+quoted(hostOf(address)), "the name does not resolve: %v", v.err)
	case stepTCP:
		d.tcpFailure(v, address)
	case stepTLS:
		d.tlsFailure(v, address)
	case stepAuth:
		if status.Code(v.err) == codes.Unavailable || timedOut(v.err) || errors.Is(v.err, errPlaintext) {
			d.rpcFailure(v, address)
			return
		}
		d.finding(v, Error, "auth-refused", "check --user and --password; as root: etcdctl user get "+quoted(v.cfg.Client.Username),
			"the user %q is refused: %s", v.cfg.Client.Username, message(v.err))
	case stepStatus, stepNone:
		d.rpcFailure(v, address)
	}
}

func (d *diagnosis) tcpFailure(v *visit, address string) {
	switch {
	case v.via != nil:
		d.finding(v, Error, "unreachable", "unset HTTPS_PROXY, or name the endpoint in NO_PROXY", "%v", v.err)
	case errors.Is(v.err, syscall.ECONNREFUSED):
		d.finding(v, Error, "refused", "on the member: systemctl status etcd; journalctl -u etcd -n 50; df -h; ss -ltn",
			"nothing listens at %s: etcd is not running (a full disk, too, ends it), or listens elsewhere", address)
	case closed(v.err): // so soon that the connection was not even seen
		d.closed(v, address)
	case timedOut(v.err):
		d.finding(v, Error, "unreachable", "ping "+quoted(hostOf(address))+"; traceroute "+quoted(hostOf(address)),
			"no connection to %s within %v: the machine is down, or a firewall drops what is sent to it", address, v.cfg.Timeout)
	default:
		d.finding(v, Error, "unreachable", "ip route get "+quoted(hostOf(address)), "no connection to %s: %v", address, v.err)
	}
}

// tlsFailure says what is wrong with a handshake or a certificate.
func (d *diagnosis) tlsFailure(v *visit, address string) {
	show := fmt.Sprintf("openssl s_client -connect %s -servername %s -showcerts </dev/null", quoted(address), quoted(v.tls.ServerName))
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(v.err, &name):
		d.finding(v, Error, "tls-wrong-name", show+" | openssl x509 -noout -ext subjectAltName",
			"the certificate is not for %q, but for %s", v.tls.ServerName, strings.Join(namesOf(v.certificates[0]), ", "))
	case errors.As(v.err, &invalid) && invalid.Reason == x509.Expired:
		d.expired(v, invalid.Cert, show)
	case errors.As(v.err, &authority):
		known := "--cacert does not have"
		if v.tls.RootCAs == nil {
			known = "this machine does not know, and no --cacert is given"
		}
		d.finding(v, Error, "tls-unknown-authority", show+"; compare the issuer with --cacert", "the certificate was issued by %q, which %s", v.certificates[0].Issuer.String(), known)
	case timedOut(v.err):
		d.silent(v)
	case closed(v.err), errors.As(v.err, new(tls.RecordHeaderError)):
		d.closed(v, address)
	case wantsCertificate(v.err), v.demanded && isAlert(v.err):
		d.clientCertificate(v)
	default:
		d.finding(v, Error, "tls-failed", show, "the handshake fails: %v", v.err)
	}
}

func (d *diagnosis) expired(v *visit, cert *x509.Certificate, show string) {
	if now := time.Now(); cert != nil && now.Before(cert.NotBefore) {
		d.finding(v, Error, "tls-not-yet-valid", "timedatectl", "the certificate is not valid before %s, or this machine's clock is behind", cert.NotBefore.Format(time.RFC3339))
		return
	}
	d.finding(v, Error, "tls-expired", show+" | openssl x509 -noout -dates  # then renew it: etcd reads the new file for the next connection",
		"the certificate %q expired on %s", cert.Subject.String(), cert.NotAfter.Format(time.RFC3339))
}

const renew = "renew it: etcd reads the new file for the next connection"

// expiry warns of certificates that expire soon: within two weeks, and a fifth of their life.
func (d *diagnosis) expiry(v *visit) {
	for _, cert := range v.certificates {
		left, life := time.Until(cert.NotAfter), cert.NotAfter.Sub(cert.NotBefore)
		switch {
		case left <= 0 && v.failed == stepNone:
			d.finding(v, Warning, "tls-expired", renew, "the certificate %q expired on %s, which only --insecure-skip-tls-verify accepts",
				cert.Subject.String(), cert.NotAfter.Format(time.RFC3339))
		case left > 0 && left < min(14*24*time.Hour, life/5):
			d.finding(v, Warning, "tls-expires-soon", renew,
				"the certificate %q expires on %s", cert.Subject.String(), cert.NotAfter.Format(time.RFC3339))
		}
	}
}

func namesOf(cert *x509.Certificate) []string {
	out := append([]string(nil), cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		out = append(out, ip.String())
	}
	if len(out) == 0 {
		return []string{"no name at all"}
	}
	return out
}

func (d *diagnosis) clientCertificate(v *visit) {
	cert, given := clientCertificate(v.cfg.Client.TLS)
	switch {
	case !given:
		d.finding(v, Error, "tls-client-certificate", "give --cert and --key, of the authority that the server has as --trusted-ca-file",
			"the server demands a certificate of the client, and none is given")
	case cert != nil && time.Now().After(cert.NotAfter):
		d.finding(v, Error, "tls-client-certificate", "renew the certificate that --cert names",
			"the server refuses the certificate of the client, %q, which expired on %s", cert.Subject.String(), cert.NotAfter.Format(time.RFC3339))
	default:
		d.finding(v, Error, "tls-client-certificate", "give --cert and --key, of the authority that the server has as --trusted-ca-file",
			"the server refuses the certificate of the client: %s", message(v.err))
	}
}

// clientCertificate returns the certificate of the client, nil if it cannot be read, and whether there is one.
func clientCertificate(cfg *tls.Config) (cert *x509.Certificate, given bool) {
	if cfg == nil || len(cfg.Certificates) == 0 && cfg.GetClientCertificate == nil {
		return nil, false
	}
	chosen := &tls.Certificate{}
	if len(cfg.Certificates) > 0 {
		chosen = &cfg.Certificates[0]
	} else if c, err := cfg.GetClientCertificate(&tls.CertificateRequestInfo{}); err == nil {
		chosen = c
	}
	if len(chosen.Certificate) == 0 {
		return nil, true
	}
	cert, _ = x509.ParseCertificate(chosen.Certificate[0]) // nil with an error
	return cert, true
}

// rpcFailure says why a member gives no status, although it can be connected to.
func (d *diagnosis) rpcFailure(v *visit, address string) {
	switch {
	case refusedLogin(v.err): // see login
	case errors.Is(v.err, errPlaintext):
		d.finding(v, Error, "auth-refused", "write https:// before the endpoint, or use no TLS at all", "%v", v.err)
	case wantsCertificate(v.err) || v.web.err != nil && wantsCertificate(v.web.err):
		d.clientCertificate(v)
	case v.web.proxy:
		d.finding(v, Error, "silent", "etcdctl endpoint status, with the endpoints of its members", "this is etcd's grpc-proxy, and no member behind it answers: %s", message(v.err))
	case timedOut(v.err):
		d.silent(v)
	case status.Code(v.err) == codes.Unavailable && !strings.HasPrefix(message(v.err), "etcdserver: "):
		d.closed(v, address)
	default:
		d.finding(v, Error, "failed", v.etcdctl("endpoint status"), "the server answers, and the step %q fails: %s", v.failed, message(v.err))
	}
}

func (d *diagnosis) silent(v *visit) {
	run := "on the member: systemctl status etcd; ps -o stat,wchan -C etcd"
	switch {
	case v.web.status > 0 && v.failed == stepAuth:
		d.finding(v, Error, "silent", run, "the user %q is not authenticated within %v: the cluster has no leader, or the member is overloaded", v.cfg.Client.Username, v.cfg.Timeout)
	case v.web.took > v.cfg.Timeout/4: // a call takes more round trips
		d.finding(v, Error, "silent", "ping "+quoted(hostOf(v.endpoint.Address)), "HTTP is answered after %v, and no call within %v: the network is slow, or the member is",
			v.web.took.Round(time.Millisecond), v.cfg.Timeout)
	case v.web.status > 0:
		d.finding(v, Error, "silent", run, "HTTP is answered, and no call within %v: the member is starved, or its disk hangs", v.cfg.Timeout)
	default:
		d.finding(v, Error, "silent", run,
			"connections are accepted, and nothing is answered within %v: the process is frozen or starved, its disk hangs, or the network drops what is sent to it", v.cfg.Timeout)
	}
}

func (d *diagnosis) closed(v *visit, address string) {
	run, cause := "curl "+quoted(address), ""
	var record tls.RecordHeaderError
	switch {
	case v.web.server != "":
		run, cause = "use the port of --listen-client-urls, usually 2379", "this is etcd, and speaks no gRPC here: the port is for peers or metrics (--listen-peer-urls, --listen-metrics-urls)"
	case v.web.status > http.StatusInternalServerError:
		run, cause = "read the log of the proxy", fmt.Sprintf("a proxy answers in place of etcd: HTTP %d (%s)", v.web.status, http.StatusText(v.web.status))
	case v.web.status > 0:
		cause = "the server speaks HTTP, and no gRPC: it is no etcd, or a proxy that does not pass gRPC on"
	case errors.As(v.err, &record):
		cause = fmt.Sprintf("the server speaks neither TLS nor HTTP: it is no etcd (it answers %q)", record.RecordHeader)
	default:
		run, cause = "on the member: systemctl status etcd; journalctl -u etcd", "connections are accepted, and closed or answered with neither gRPC nor HTTP: a proxy whose member is down, or no etcd ("+message(v.err)+")"
	}
	d.finding(v, Error, "closed", run, "%s", cause)
}

// login says once that the cluster wants a user, or has none.
func (d *diagnosis) login() {
	for _, v := range d.visits {
		for _, err := range []error{v.err, v.readErr} {
			switch {
			case !refusedLogin(err):
				continue
			case v.token != "":
				d.clusterFinding(Error, "auth-refused", "get another token", "the token is refused: %s", message(err))
			default:
				d.clusterFinding(Error, "auth-required", "give --user, and the password in ETCDCTL_PASSWORD", "authentication is on, and no user is given: %s", message(err))
			}
			return
		}
	}
	if slices.ContainsFunc(d.visits, func(v *visit) bool { return v.authErr != nil }) {
		d.clusterFinding(Note, "auth-off", "etcdctl auth status", "a user is given, and authentication is off: the cluster checks no user and no permission")
	}
}

func refusedLogin(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision)
}

func timedOut(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return status.Code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || ok && network.Timeout()
}

func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// wantsCertificate reports whether the server ended a handshake because of the client certificate. Package tls has no
// error type for that alert.
func wantsCertificate(err error) bool {
	return isAlert(err) && strings.Contains(err.Error(), "certificate")
}

// isAlert reports whether the server ended a handshake with an alert of TLS.
func isAlert(err error) bool { return strings.Contains(err.Error(), "remote error: tls:") }

// message returns the text of an error, without what gRPC adds.
func message(err error) string {
	text := status.Convert(err).Message()
	if _, desc, ok := strings.Cut(text, "connection error: desc = "); ok {
		text = strings.Trim(desc, `"`)
	}
	text, _, _ = strings.Cut(text, "; transport: received unexpected content-type") // a page follows
	return text
}
