package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab"
)

// cheapPasswords is etcd's flag for the lowest cost of a login.
const cheapPasswords = "--bcrypt-cost=4"

func TestAuth(t *testing.T) {
	c := start(t, lab.Config{Members: 1, Args: []string{cheapPasswords}})
	ctl, root, reader := on(c), on(c, "--user=root:secret"), on(c, "--user=reader", "--password=one")

	script{steps: []step{
		{args: "put open/a 1", want: "OK\n"},
		{args: "put closed/a 2", want: "OK\n"},
		{args: "user add root:secret", want: "User root created\n"},
		{args: "user add reader --new-user-password=zero", want: "User reader created\n"},
		{args: "user add reader:again", fails: "etcdserver: user name already exists"},
		{args: "user add nobody --no-password", want: "User nobody created\n"},
		{args: "user passwd reader --interactive=false", stdin: "one\n", want: "Password updated\n"},
		{args: "user list", want: "nobody\nreader\nroot\n"},
		{args: "role add root", want: "Role root created\n"},
		{args: "role add open", want: "Role open created\n"},
		{args: "role grant-permission open read open/ --prefix", want: "Role open updated\n"},
		{args: "role grant-permission open readwrite shared", want: "Role open updated\n"},
		{args: "role get open", want: "Role open\nKV Read:\n\t[open/, open0) (prefix open/)\n\tshared\nKV Write:\n\tshared\n"},
		{args: "role list", want: "open\nroot\n"},
		{args: "user grant-role root root", want: "Role root is granted to user root\n"},
		{args: "user grant-role reader open", want: "Role open is granted to user reader\n"},
		{args: "user get reader", want: "User: reader\nRoles: open\n"},
		{args: "user get reader --detail", want: "User: reader\n\nRole open\nKV Read:\n\t[open/, open0) (prefix open/)\n\tshared\nKV Write:\n\tshared\n"},
		{args: "auth enable", want: "Authentication Enabled\n"},
		{args: "get open/a", fails: "etcdserver: user name is empty"},
	}}.play(t, ctl, nil)

	script{steps: []step{
		{args: "get open/a", want: "open/a\n1\n"},
		{args: "get closed/a", fails: "etcdserver: permission denied"},
		{args: "put open/a 2", fails: "etcdserver: permission denied"},
		{args: "put shared 1", want: "OK\n"},
		{args: "user list", fails: "etcdserver: permission denied"},
	}}.play(t, reader, nil)

	got := on(c, "--user=reader:wrong").run(t, "", "get", "open/a")
	require.NotZero(t, got.status)
	require.Contains(t, got.stderr, "etcdserver: authentication failed, invalid user ID or password")

	script{steps: []step{
		{args: "auth status", want: "Authentication Status: true\nAuthRevision: <_>\n"},
		{args: "get closed/a", want: "closed/a\n2\n"},
		{args: "role revoke-permission open shared", want: "Permission of key shared is revoked from role open\n"},
		{args: "role revoke-permission open open/ --prefix", want: "Permission of range [open/, open0) is revoked from role open\n"},
		{args: "user revoke-role reader open", want: "Role open is revoked from user reader\n"},
		{args: "role delete open", want: "Role open deleted\n"},
		{args: "user delete reader", want: "User reader deleted\n"},
		{args: "user delete nobody", want: "User nobody deleted\n"},
		{args: "auth disable", want: "Authentication Disabled\n"},
	}}.play(t, root, nil)
	require.Equal(t, "closed/a\n2\n", ctl.ok(t, "get", "closed/a"))
}

func TestTLS(t *testing.T) {
	c := start(t, lab.Config{Members: 1, TLS: true, ClientCertAuth: true})
	files := c.TLSFiles()
	script{steps: []step{
		{args: "put a 1", want: "OK\n"},
		{args: "get a", want: "a\n1\n"},
		{args: "endpoint health", want: "<_> is healthy: successfully committed proposal: took = <_>\n"},
	}}.play(t, on(c, "--cacert="+files.CA, "--cert="+files.ClientCert, "--key="+files.ClientKey), nil)

	for name, ctl := range map[string]etcdctl{
		"without a certificate of its own":     on(c, "--cacert="+files.CA),
		"without the authority of the members": on(c, "--cert="+files.ClientCert, "--key="+files.ClientKey),
	} {
		got := ctl.run(t, "", "get", "a", "--command-timeout=1s")
		require.NotZero(t, got.status, name)
		require.Empty(t, got.stdout, name)
	}
}
