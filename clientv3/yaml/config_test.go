package yaml_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// read writes a file, in a directory with TLS files beside it, and reads it. DIR in
// the text stands for the directory.
func read(t *testing.T, text string) (*clientv3.Config, string, error) {
	t.Helper()
	dir := t.TempDir()
	newAuthority(t, 1).write(t, dir, "client")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty.crt"), []byte("no certificate\n"), 0o600))
	path := filepath.Join(dir, "etcd.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600))
	cfg, err := yaml.NewConfig(path)
	return cfg, path, err
}

func TestFields(t *testing.T) {
	cfg, _, err := read(t, `
endpoints: ["a:2379", b:2379]
auto-sync-interval: 1000000000
dial-timeout: 2000000000
dial-keep-alive-time: 3000000000
dial-keep-alive-timeout: 4000000000
MaxCallSendMsgSize: 5
MaxCallRecvMsgSize: 6
username: root
password: "0123"
token: jwt
reject-old-cluster: true
permit-without-stream: true
max-unary-retries: 7
backoff-wait-between: 8
backoff-jitter-fraction: 0.5
max-watch-buffer-bytes: 9
max-total-watch-buffer-bytes: 10
disable-split-replay: true
service-config: "{}"
balancer: pinned
disable-health-checks: true
disable-hedging: true
disable-health-sharing: true
write-stall-timeout: 11
allow-insecure-sync: true
wait-ready: true
insecure-transport: true
unknown-field: ignored
`)
	require.NoError(t, err)
	want := &clientv3.Config{
		Endpoints:             []string{"a:2379", "b:2379"},
		AutoSyncInterval:      time.Second,
		DialTimeout:           2 * time.Second,
		DialKeepAliveTime:     3 * time.Second,
		DialKeepAliveTimeout:  4 * time.Second,
		MaxCallSendMsgSize:    5,
		MaxCallRecvMsgSize:    6,
		Username:              "root",
		Password:              "0123",
		Token:                 "jwt",
		RejectOldCluster:      true,
		PermitWithoutStream:   true,
		MaxUnaryRetries:       7,
		BackoffWaitBetween:    8,
		BackoffJitterFraction: 0.5,
		MaxWatchBufferBytes:   9,
		DisableSplitReplay:    true,

		MaxTotalWatchBufferBytes: 10,
		ServiceConfig:            "{}",
		Balancer:                 "pinned",
		DisableHealthChecks:      true,
		DisableHedging:           true,
		DisableHealthSharing:     true,
		WriteStallTimeout:        11,
		AllowInsecureSync:        true,
		WaitReady:                true,
	}
	require.Empty(t, cmp.Diff(want, cfg, cmpopts.IgnoreUnexported(clientv3.Config{})))
}

func TestNamesInAnyCase(t *testing.T) {
	cfg, _, err := read(t, "Endpoints: [a:2379]\nINSECURE-TRANSPORT: yes\nmaxCallSendMsgSize: 5\nCert-File: 'missing'")
	require.NoError(t, err)
	require.Equal(t, []string{"a:2379"}, cfg.Endpoints)
	require.Nil(t, cfg.TLS)
	require.Equal(t, 5, cfg.MaxCallSendMsgSize)
}

func TestLogConfig(t *testing.T) {
	log := filepath.Join(t.TempDir(), "client.log")
	cfg, _, err := read(t, `
insecure-transport: true
LogConfig:
  level: warn
  encoding: json
  outputPaths: [`+log+`]
  encoderConfig: {messageKey: text, levelKey: severity, levelEncoder: capital}
  initialFields: {app: backup}
`)
	require.NoError(t, err)
	require.Equal(t, zapcore.WarnLevel, cfg.LogConfig.Level.Level())
	lg, err := cfg.LogConfig.Build()
	require.NoError(t, err)
	lg.Info("not written")
	lg.Warn("written", zap.Int("n", 1))
	content, err := os.ReadFile(log)
	require.NoError(t, err)
	require.JSONEq(t, `{"severity":"WARN","text":"written","app":"backup","n":1}`, string(content))
}

func TestTLS(t *testing.T) {
	for name, tt := range map[string]struct {
		text                                 string
		none, skip, authorities, certificate bool
	}{
		"empty file":               {text: ""},
		"nothing on TLS":           {text: "endpoints: [a:2379]"},
		"insecure-transport":       {text: "insecure-transport: true", none: true},
		"insecure-transport wins":  {text: "insecure-transport: true\ntrusted-ca-file: missing\ncert-file: missing", none: true},
		"insecure-skip-tls-verify": {text: "insecure-skip-tls-verify: true", skip: true},
		"trusted-ca-file":          {text: "trusted-ca-file: DIR/ca.crt", authorities: true},
		// The official function reads this field, and then forgets it.
		"ca-file":                     {text: "ca-file: DIR/ca.crt", authorities: true},
		"trusted-ca-file and ca-file": {text: "trusted-ca-file: DIR/ca.crt\nca-file: missing", authorities: true},
		"certificate":                 {text: "cert-file: DIR/client.crt\nkey-file: DIR/client.key", certificate: true},
		"all": {
			text: "cert-file: DIR/client.crt\nkey-file: DIR/client.key\ntrusted-ca-file: DIR/ca.crt\ninsecure-skip-tls-verify: true",
			skip: true, authorities: true, certificate: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _, err := read(t, tt.text)
			require.NoError(t, err)
			if tt.none {
				require.Nil(t, cfg.TLS)
				return
			}
			require.NotNil(t, cfg.TLS)
			require.Equal(t, uint16(tls.VersionTLS12), cfg.TLS.MinVersion)
			require.Equal(t, tt.skip, cfg.TLS.InsecureSkipVerify)
			require.Equal(t, tt.authorities, cfg.TLS.RootCAs != nil)
			require.Equal(t, tt.certificate, cfg.TLS.GetClientCertificate != nil)
			require.Equal(t, tt.certificate, len(cfg.TLS.Certificates) == 1, "for programs that look, as those of the official function may")
		})
	}
}

// TestErrors: an error begins with the path of the file and the field that is wrong.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"endpoints: a:2379":                 "endpoints: want a list, got a string",
		"endpoints: [2379]":                 "endpoints: want text (in quotes, if it looks like a number), got a number",
		"password: 0123":                    "password: want text (in quotes, if it looks like a number), got a number",
		"username: yes":                     "username: want text (in quotes, if it looks like a number), got a bool",
		"cert-file: [a]":                    "cert-file: want text (in quotes, if it looks like a number), got an array",
		"insecure-transport: maybe":         "insecure-transport: want true or false, got a string",
		"permit-without-stream: 1":          "permit-without-stream: want true or false, got a number",
		"dial-timeout: 5s":                  "dial-timeout: want a time as a whole number of nanoseconds, got a string",
		"dial-timeout: 1.5":                 "dial-timeout: want a time as a whole number of nanoseconds, got a number 1.5",
		"max-unary-retries: -1":             "max-unary-retries: want a whole number that is not negative, got a number -1",
		"MaxCallSendMsgSize: 1.5":           "MaxCallSendMsgSize: want a whole number, got a number 1.5",
		"backoff-jitter-fraction: {}":       "backoff-jitter-fraction: want a number, got an object",
		"LogConfig: info":                   "LogConfig: want fields with values, got a string",
		"LogConfig: {encoding: []}":         "LogConfig.encoding: want text (in quotes, if it looks like a number), got an array",
		"LogConfig: {level: loud}":          `LogConfig: unrecognized level: "loud"`,
		"TLS: {ServerName: a}":              "TLS: it cannot be set in a file",
		"DialOptions: [a]":                  "DialOptions: it cannot be set in a file",
		"context: {}":                       "Context: it cannot be set in a file",
		"Logger: {}":                        "Logger: it cannot be set in a file",
		"just text":                         "the file holds a string: want fields with values",
		"[a, b]":                            "the file holds an array: want fields with values",
		"endpoints: [":                      "yaml: line 1: did not find expected node content",
		"a: 1\nb: 2: 3":                     "yaml: line 2: mapping values are not allowed in this context",
		"cert-file: DIR/client.crt":         "key-file: it is missing",
		"key-file: DIR/client.key":          "cert-file: it is missing",
		"cert-file: no.crt\nkey-file: no.k": "cert-file and key-file: open no.crt: no such file",
		"cert-file: DIR/ca.crt\nkey-file: DIR/client.key":    "cert-file and key-file: tls: private key does not match public key",
		"cert-file: DIR/etcd.yaml\nkey-file: DIR/client.key": "cert-file and key-file: tls: failed to find any PEM data in certificate input",
		"trusted-ca-file: no.crt":                            "trusted-ca-file: open no.crt: no such file",
		"ca-file: no.crt":                                    "ca-file: open no.crt: no such file",
		"trusted-ca-file: DIR/client.key":                    "trusted-ca-file: x509: malformed",
		"trusted-ca-file: DIR/empty.crt":                     "trusted-ca-file: DIR/empty.crt holds no certificate",
	} {
		t.Run(text, func(t *testing.T) {
			cfg, path, err := read(t, text)
			require.Error(t, err)
			require.Nil(t, cfg)
			want := path + ": " + strings.ReplaceAll(want, "DIR", filepath.Dir(path))
			require.True(t, strings.HasPrefix(err.Error(), want), "got  %v\nwant %s", err, want)
		})
	}
	missing := filepath.Join(t.TempDir(), "etcd.yaml")
	_, err := yaml.NewConfig(missing)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, missing)
}

// TestErrorsKeepSecrets has passwords that YAML takes for something else, or in a place where they do
// not belong. The official function's errors quote them.
func TestErrorsKeepSecrets(t *testing.T) {
	for _, text := range []string{
		"password: *hunter2",
		"password: &hunter2 [*hunter2]",
		"password: !!int hunter2",
		"~: hunter2",
		"~: 147258369",
		"? {password: hunter2}\n: 1",
		"? {hunter2: 147258369}\n: 1",
		"password: 'hunter2",
		"password: `hunter2`",
		"password: @hunter2",
		"password: %hunter2",
		"password: 147258369",
		"password: [147258369]",
		"password: {hunter2: 147258369}",
		"password: a: hunter2",
	} {
		_, _, err := read(t, text)
		require.Error(t, err, text)
		assert.NotContains(t, err.Error(), "hunter2", text)
		assert.NotContains(t, err.Error(), "147258369", text)
	}
}

// TestNullIsNotSet, as it is for every other field.
func TestNullIsNotSet(t *testing.T) {
	cfg, _, err := read(t, "TLS: null\nLogger: ~\nContext:\nDialOptions:\nLogConfig:\nusername:\ninsecure-transport: true")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(new(clientv3.Config), cfg, cmpopts.IgnoreUnexported(clientv3.Config{})))
}
