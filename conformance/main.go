// Command conformance runs etcd's own suite of client tests over Quorate, and the etcd
// tests of programs that use the official client.
//
// The suite is go.etcd.io/etcd/tests/v3/integration/clientv3, nine packages, as
// etcd released it: it comes from the module proxy, and go.sum pins its content.
// In place of the official client it is compiled with compat/clientv3, which is
// Quorate under the official client's name; the servers are etcd's own. No test
// is changed, and none is left out unless --short, --run or an argument asks for
// it.
//
//	go run .                       all of it, six minutes
//	go run . --short               without the slowest tests, four minutes
//	go run . --short --parallel 3  as CI runs it, two minutes
//	go run . lease watch           these packages only
//	go run . --run Leasing lease   these tests only
//	go run . --official            with the official client, to compare
//	go run . --suite dependents    the tests of CoreDNS, Trillian, Kitex's registry, go-zero and k8s.io/apiserver
//	go run . --suite cilium        those of Cilium's kvstore
//	go run . --suite robustness    etcd's robustness tests, on servers built with fail points
//	go run . --suite dependents --server PATH k8s.io/apiserver/pkg/storage/etcd3
//	                               those of Kubernetes' storage, on an etcd 3.4 to 3.6 or a kine at PATH
//
// It runs in its own directory. Exit status: 0 if all tests passed and are as
// many as the suite has; 1 if not; 2 if they could not be run, or for bad usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	lab.Main() // in the etcd of a suite this does not return
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var ok bool
	err := fatal.Catch(func() { ok = conform(ctx, parse(args, stderr), stdout, stderr) })
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "conformance:", err) // nothing reads the error any more
		return exitUsage
	case !ok:
		return exitFailed
	}
	return exitOK
}

type options struct {
	selection
	parallel int
	official bool
}

// parse ends with the first error, see package fatal.
func parse(args []string, stderr io.Writer) (opts options) {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprint(stderr, "Usage: conformance [flags] [package...]\n\n")
		for _, s := range suites {
			_, _ = fmt.Fprintf(stderr, "Packages of %s: %s\n\n", s.name, strings.Join(names(s.packages), " "))
		}
		_, _ = fmt.Fprint(stderr, "Flags:\n")
		flags.PrintDefaults()
	}
	name := flags.String("suite", etcdSuite.name, "run etcd's tests of its client (`etcd`), those of the client's users (dependents, cilium), or etcd's robustness tests (robustness)")
	flags.StringVar(&opts.run, "run", "", "run only the tests whose name matches the `regexp`; their number is not checked then")
	flags.IntVar(&opts.parallel, "parallel", 1, "run the tests of `n` packages at a time: faster, but processors may become scarce")
	flags.BoolVar(&opts.short, "short", false, "leave out the slowest tests, and those that need idle processors")
	flags.BoolVar(&opts.official, "official", false, "run over the official client instead")
	flags.StringVar(&opts.server, "server", "", "run the tests of Kubernetes' storage on the server at `path`, an etcd 3.4 to 3.6, or a kine if it is called so")
	fatal.If(flags.Parse(args))
	if opts.parallel < 1 {
		fatal.If(fmt.Errorf("--parallel is %d: it must be at least 1", opts.parallel))
	}
	_, err := regexp.Compile(opts.run)
	fatal.If(err, "--run")
	opts.suite = fatal.OK(suiteNamed(*name))
	opts.packages = fatal.OK(opts.suite.choose(flags.Args()))
	if opts.server != "" && (len(opts.packages) != 1 || opts.packages[0].name != storage) {
		fatal.If(fmt.Errorf("--server is for --suite dependents and the package %s alone", storage))
	}
	return opts
}

// conform runs the suite and reports whether all was well. An error, see package fatal, says that it could not be run.
func conform(ctx context.Context, opts options, stdout, stderr io.Writer) (ok bool) {
	b := fatal.OK(newBuild(ctx, opts.suite, opts.official))
	defer func() { fatal.If(b.remove()) }()
	b.buildServers(ctx)
	switch {
	case opts.server != "":
		b.useServer(ctx, opts.server)
	case opts.suite.etcd != "":
		defer fatal.OK(startEtcd(ctx, opts.suite.etcd))()
	}
	began := time.Now()
	r := newReport(stdout, opts.selection, b.String())
	b.goTest(ctx, opts, stderr, r.add)
	r.finish(time.Since(began))
	return r.ok
}
