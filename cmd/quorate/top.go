package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/quorate/internal/doctor"
	"github.com/quorate/quorate/cmd/quorate/internal/top"
	"github.com/quorate/quorate/internal/pause"
)

// The default of --interval and its lower bound: each interval is one request to each member.
const (
	defaultInterval = time.Second
	minInterval     = 500 * time.Millisecond
)

type topFlags struct {
	client   connectionFlags
	urls     []string
	interval time.Duration
	once     bool
	output   output
}

func newTopCommand() *cobra.Command {
	var flags topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show members, calls, watches and leases, live",
		Long: `top shows the members of an etcd cluster with state, role and latency, live. It asks each of
--endpoints for its status once each --interval.

With --url it shows what processes that use Quorate know, in place of asking members: URLs at
which they serve the handler of package observe/introspect. It shows for each client and each gRPC
channel the endpoints with their state and the evidence for it, and for all together the calls by rate,
those in flight by age, watches with their lag, and leases with the time that is left.

The arrow keys, PgUp and PgDn scroll; "s" sorts the members by state, by latency, or as they
were given; "f" shows only those that do not serve; "q" ends it. With --once, or if standard
output is no terminal, it prints one table (with --url after two reports, for rates); with
--json one object.

The exit status is 0, 2 if nothing could be shown, and 130 after Ctrl-C.

The flags are etcdctl's, and so are the environment variables.`,
		Example: `  quorate top --endpoints 10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379
  quorate top --url http://10.0.1.1:8080/debug/etcd --url http://10.0.1.2:8080/debug/etcd
  quorate top --once --json`,
		Args: noEndpoints,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&flags.urls, "url", nil, "`URL` of the introspection handler of a process; may be repeated")
	fs.DurationVar(&flags.interval, "interval", defaultInterval, "time between two requests to a member or process")
	fs.BoolVar(&flags.once, "once", false, "print one table")
	flags.output.register(fs)
	flags.client.register(fs)
	return cmd
}

func (f *topFlags) run(cmd *cobra.Command) error {
	if f.interval < minInterval {
		return cli.Usage(cmd, fmt.Errorf("--interval must be at least %v", minInterval))
	}
	if len(f.urls) > 0 && cmd.Flags().Changed("endpoints") {
		return cli.Usage(cmd, errors.New("--url asks processes and --endpoints asks members: give one of them"))
	}
	source, release, err := f.source()
	if err != nil {
		return cli.Usage(cmd, err)
	}
	defer release()
	out := cmd.OutOrStdout()
	terminal, ok := out.(*os.File)
	if f.once || f.output.json || !ok || !term.IsTerminal(int(terminal.Fd())) || os.Getenv("TERM") == "dumb" {
		return f.print(cmd.Context(), out, source)
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	_, err = tea.NewProgram(top.NewScreen(ctx, source, f.interval),
		tea.WithContext(ctx), tea.WithOutput(out), tea.WithoutSignalHandler()).Run()
	switch {
	case err != nil && cmd.Context().Err() != nil:
		return context.Cause(cmd.Context())
	case errors.Is(err, tea.ErrInterrupted):
		return cli.SignalError(syscall.SIGINT)
	}
	return err
}

// source returns where snapshots come from, and what ends it.
func (f *topFlags) source() (top.Source, func(), error) {
	if len(f.urls) > 0 {
		for _, raw := range f.urls {
			if u, err := url.Parse(raw); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return nil, nil, errors.New("--url must be like http://host:port/path")
			}
		}
		client := &http.Client{Transport: &http.Transport{}}
		return &top.Processes{URLs: f.urls, HTTP: client, Timeout: f.interval}, client.CloseIdleConnections, nil
	}
	cfg, err := f.client.config()
	if err != nil {
		return nil, nil, err
	}
	cfg.Logger = zap.NewNop() // the table says it
	client, err := connect(cfg)
	if err != nil {
		return nil, nil, err
	}
	return top.Members{Client: client, Timeout: f.interval, Why: causes(cfg, f.interval)}, func() { _ = client.Close() }, nil
}

// causeAge is how long the cause of an endpoint that does not answer is shown before it is determined
// again.
const causeAge = 10 * time.Second

// causes returns a function that finds out why an endpoint does not answer.
func causes(cfg clientv3.Config, timeout time.Duration) func(context.Context, string) string {
	type cause struct {
		text string
		at   time.Time
	}
	var known sync.Map // by endpoint
	return func(ctx context.Context, endpoint string) string {
		if c, ok := known.Load(endpoint); ok && time.Since(c.(cause).at) < causeAge {
			return c.(cause).text
		}
		text := doctor.Why(ctx, doctor.Config{Client: cfg, Only: endpoint, Timeout: timeout})
		known.Store(endpoint, cause{text, time.Now()})
		return text
	}
}

func (f *topFlags) print(ctx context.Context, out io.Writer, source top.Source) error {
	s := source.Snapshot(ctx)
	if len(s.Clients) > 0 && pause.For(ctx, f.interval) == nil { // rates need two snapshots
		s = source.Snapshot(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := f.output.print(out, s); err != nil {
		return err
	}
	switch {
	case len(s.Members)+len(s.Clients) == 0:
		return errors.New("no process answered that has a client or an open channel")
	case len(s.Clients) == 0 && !slices.ContainsFunc(s.Members, func(m top.Member) bool { return m.Version != "" }):
		return errors.New("no endpoint answered")
	}
	return nil
}
