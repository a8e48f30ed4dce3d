//go:build experiment

// Package system_test uses resolver/dns with the system's configuration: several DNS servers, search
// domains, and a resolv.conf(5) that changes. The tests run in network and mount namespaces of their
// own, where they have port 53 and /etc/resolv.conf for themselves.
package system_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/fatal"
)

const (
	// inside is set in the namespaces.
	inside = "QUORATE_DNS_SYSTEM_TEST"
	// required makes it a failure that there are no namespaces.
	required = "QUORATE_REQUIRE_NAMESPACES"
)

func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" {
		os.Exit(again())
	}
	if err := fatal.Catch(isolate); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// again runs this program in namespaces, and returns its exit code.
func again() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	}
	runtime.LockOSThread() // its end would be that of the child
	err := cmd.Start()
	if err == nil {
		err = cmd.Wait()
	} else if os.Getenv(required) != "1" {
		fmt.Printf("not tested: no namespaces: %v; %s=1 makes this a failure\n", err, required)
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// resolvConf is what is mounted over /etc/resolv.conf.
var resolvConf string

func isolate() {
	dir := fatal.OK(os.MkdirTemp("", "resolv"))
	resolvConf = filepath.Join(dir, "resolv.conf")
	fatal.If(os.WriteFile(resolvConf, nil, 0o600))
	system := fatal.OK(filepath.EvalSymlinks("/etc/resolv.conf"))
	fatal.If(os.NewSyscallError("mount namespace", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")))
	fatal.If(os.NewSyscallError("mount "+system, unix.Mount(resolvConf, system, "", unix.MS_BIND, "")))
	loopbackUp()
}

func loopbackUp() {
	fd := fatal.OK(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0))
	defer unix.Close(fd)
	lo := fatal.OK(unix.NewIfreq("lo"))
	lo.SetUint16(unix.IFF_UP)
	fatal.If(unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
}

// configure writes resolv.conf(5), and reports whether it is another one now.
func configure(t *testing.T, lines ...string) bool {
	t.Helper()
	before, err := os.ReadFile(resolvConf)
	require.NoError(t, err)
	text := strings.Join(lines, "\n") + "\n"
	require.NoError(t, os.WriteFile(resolvConf, []byte(text), 0o600))
	return text != string(before)
}

// use makes package net read a configuration. It looks at the file every 5 s.
func use(t *testing.T, lines ...string) {
	t.Helper()
	if configure(t, lines...) {
		time.Sleep(6 * time.Second)
	}
}
