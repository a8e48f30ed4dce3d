package kube

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/fatal"
)

// keyBits is the size of the key that signs the tokens of service accounts: the
// least that is still accepted everywhere, because it is made anew for each run.
const keyBits = 2048

// files are what a kube-apiserver reads and writes.
type files struct {
	certs  string // directory of its self-signed certificate
	key    string // signs the tokens of service accounts
	tokens string // static tokens
	admin  string // the administrator's token, itself
}

// newFiles makes a key and a token for the administrator in a new directory of
// parent.
func newFiles(parent string) files {
	dir := fatal.OK(os.MkdirTemp(parent, "kube-apiserver-"))
	f := files{
		certs:  filepath.Join(dir, "certs"),
		key:    filepath.Join(dir, "service-account.key"),
		tokens: filepath.Join(dir, "tokens.csv"),
		admin:  rand.Text(),
	}
	key := fatal.OK(rsa.GenerateKey(rand.Reader, keyBits))
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	admin := f.admin + `,admin,admin,"system:masters"` + "\n" // token, user, uid, groups
	fatal.If(os.WriteFile(f.key, text, 0o600))
	fatal.If(os.WriteFile(f.tokens, []byte(admin), 0o600))
	return f
}

// certificate is the file with the certificate that kube-apiserver signs for itself
// when it first starts, and that its clients trust.
func (f files) certificate() string { return filepath.Join(f.certs, "apiserver.crt") }

// flags returns the command line of the API server.
func (c *ControlPlane) flags(l lab.Launch) []string {
	host, port, _ := net.SplitHostPort(l.Address) // an address has a port
	return []string{
		"--etcd-servers=" + strings.Join(c.etcd.Endpoints(), ","),
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--cert-dir=" + c.files.certs,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.files.key,
		"--service-account-signing-key-file=" + c.files.key,
		"--token-auth-file=" + c.files.tokens,
		"--authorization-mode=RBAC",
		// It would post the API server's own address, which is not needed here.
		"--endpoint-reconciler-type=none",
	}
}
