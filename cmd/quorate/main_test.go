package main

import (
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/lab"
)

// testTimeout is far above what any of these tests takes.
const testTimeout = 5 * time.Minute

// runAsProgram is a variable with which the test binary is the program.
const runAsProgram = "QUORATE_TEST_RUN"

func TestMain(m *testing.M) {
	lab.Main()
	if os.Getenv(runAsProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// execute runs the program, whose exit status should be this.
func execute(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	got, stdout, stderr := clitest.Exec(t.Context(), newRootCommand(), args...)
	assert.Equal(t, status, got, stderr)
	return stdout, stderr
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"help"}} {
		stdout, _ := execute(t, cli.OK, args...)
		for _, want := range []string{"Examples:\n  quorate ", "exit status", "--version", "completion "} {
			assert.Contains(t, stdout, want)
		}
	}
	assert.Equal(t, io.Discard, log.Writer(), "net/http would log to the terminal")
}

func TestHelpOfEveryCommand(t *testing.T) { clitest.CheckHelp(t, newRootCommand()) }

func TestBadUsage(t *testing.T) {
	for args, want := range map[string]string{
		"nosuch":             `unknown command "nosuch"`,
		"docter":             "unknown command \"docter\" for \"quorate\"\n\nDid you mean this?\n doctor\n",
		"resolve --nosuch a": "unknown flag: --nosuch\nSee \"quorate resolve --help\"",
		"top --no\x1bsuch":   "unknown flag: --no such\nSee", // nothing that controls the terminal

		"doctor -w yaml":                   "it must be table or json",
		"doctor --cacert nosuch.pem":       "--cacert: open nosuch.pem",
		"doctor --command-timeout 0s":      "--command-timeout must be positive",
		"doctor --watch 1ms":               "--watch must be at least 1s",
		"doctor --discovery-srv a..b":      `"a..b" is not a domain name`,
		"doctor --endpoints http://[::1":   "http://[::1",
		"doctor --user root":               "--user needs a name and a password",
		"doctor --dial-timeout eventually": `"eventually" is no time such as 5s`,

		"top --interval 1ms":                      "--interval must be at least 500ms",
		"top --url ftp://a/":                      "--url must be like http://host:port/path",
		"top --endpoints a:1 --cacert nosuch.pem": "--cacert: open nosuch.pem",
		"top --url http://a/ --endpoints b:1":     "give one of them",

		"verify --duration 1h":            "--duration must be more than 0 and at most 10m0s",
		"verify --rate 1001":              "--rate must be 1 to 1000",
		"verify --rate 0":                 "--rate must be 1 to 1000",
		"verify --prefix=":                "--prefix must not be empty",
		"verify --html /nosuch/page.html": "--html: open /nosuch/page.html",
		"verify --endpoints 127.0.0.1:1 --command-timeout 100ms": "grant a lease: ",
	} {
		t.Run(args, func(t *testing.T) {
			stdout, stderr := execute(t, cli.Failure, strings.Fields(args)...)
			assert.Empty(t, stdout)
			assert.True(t, strings.HasPrefix(stderr, "quorate: "), stderr)
			assert.Contains(t, stderr, want)
		})
	}
}

// TestTheProgramIsSmall checks that neither a server nor client-go is compiled into the program.
func TestTheProgramIsSmall(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}", ".").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		path, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		assert.NotEqual(t, "github.com/quorate/quorate/lab", path, "it starts servers")
		for _, heavy := range []string{"k8s.io/", "go.etcd.io/etcd/server", "go.etcd.io/bbolt", "go.etcd.io/raft", "github.com/prometheus/", "go.opentelemetry.io/"} {
			assert.False(t, strings.HasPrefix(module, heavy), "%s is compiled into the program", module)
		}
	}
	binary := filepath.Join(t.TempDir(), "quorate")
	require.NoError(t, exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", binary, ".").Run())
	info, err := os.Stat(binary)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(20<<20), "bytes, stripped")
}
