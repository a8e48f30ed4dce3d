package lab_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab"
)

// crashDir names the environment variable that turns the test program into one that
// starts a cluster in that directory and waits to be killed.
const crashDir = "QUORATE_LAB_TEST_CRASH_DIR"

func runUntilKilled(dir string) {
	c, err := lab.Start(context.Background(), lab.Config{Dir: dir})
	if err == nil {
		err = c.Members()[0].Stop()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var endpoints []string
	for _, m := range c.Members() {
		endpoints = append(endpoints, m.DirectEndpoint())
	}
	fmt.Println(strings.Join(endpoints, " "))
	select {}
}

// A program that is killed leaves no member, not even a stopped one.
func TestCrashedParent(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	left := strings.Fields(line)
	require.Len(t, left, 3, "the program said: %s", line)

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // reports the kill
	for i, endpoint := range left {
		require.Eventually(t, func() bool { return refused(hostPort(t, endpoint)) }, soon, 10*time.Millisecond, "member %d lives on", i+1)
	}
}
