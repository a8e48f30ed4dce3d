package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/quorate/internal/doctor"
	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/resolver/dns"
)

func newDoctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine an etcd cluster from here, and say what is wrong and what to run",
		Long: `doctor examines each endpoint of an etcd cluster, one layer after the other: its name,
the TCP connection, TLS (authority, validity, names, whether the server wants a
certificate), authentication, and calls. Then it compares the members: leader and term,
entries that are not applied yet, alarms, the size of the database and its quota,
versions, clocks, and how fast linearizable reads are. Members that no endpoint names are
examined at the URLs that they advertise to clients; what is wrong with them is a
warning, or with --cluster an error as for endpoints.

It sends each member some ten requests, 18 at most, and changes nothing. What an election
could cause is examined again 2 s later.

A finding has a severity: an "error" fails calls, a "warning" does soon or at times, and
a "note" is only worth knowing. With --json a finding also has a stable "code".

The exit status is 0 if there are neither errors nor warnings, 1 if there are, and
2 if nothing could be examined.

The flags are etcdctl's, and so are the environment variables: ETCDCTL_ENDPOINTS,
ETCDCTL_CACERT, ETCDCTL_USER, ETCDCTL_PASSWORD, … A flag outranks its variable.`,
		Example: `  quorate doctor --endpoints https://10.0.0.1:2379,https://10.0.0.2:2379 --cacert ca.pem
  ETCDCTL_ENDPOINTS=10.0.0.1:2379 quorate doctor --json
  quorate doctor --endpoints 10.0.0.1:2379 --cluster --hash --bundle ticket.tar.gz`,
		Args: noEndpoints,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&f.cluster, "cluster", false, "examine all members as if they were endpoints")
	fs.BoolVar(&f.hash, "hash", false, "compare the data of the members at one revision; each reads its whole database for it")
	fs.DurationVar(&f.watch, "watch", 0, "examine again after this time, until Ctrl-C, and print what changes")
	fs.StringVar(&f.bundle, "bundle", "", "write report, statuses and metrics to this `file`, a tar.gz for a ticket")
	f.output.register(fs)
	fs.StringVar(&f.srv, "discovery-srv", os.Getenv("ETCDCTL_DISCOVERY_SRV"), "`domain` whose SRV records name the endpoints")
	fs.StringVar(&f.srvName, "discovery-srv-name", os.Getenv("ETCDCTL_DISCOVERY_SRV_NAME"), "suffix of the service in SRV records")
	f.timeout.register(fs)
	f.client.register(fs)
	return cmd
}

type doctorFlags struct {
	client        connectionFlags
	timeout       commandTimeout
	output        output
	cluster, hash bool
	watch         time.Duration
	bundle        string
	srv, srvName  string
}

// noEndpoints refuses arguments: endpoints are given by a flag.
func noEndpoints(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cli.Usage(cmd, fmt.Errorf("there is an argument; endpoints are given with --endpoints %s", endpoint.Redact(strings.Join(args, ","))))
	}
	return nil
}

func (f *doctorFlags) run(cmd *cobra.Command) error {
	cfg, limit, err := settings(&f.client, &f.timeout)
	if err != nil {
		return cli.Usage(cmd, err)
	}
	if cmd.Flags().Changed("watch") && f.watch < time.Second {
		return cli.Usage(cmd, errors.New("--watch must be at least 1s"))
	}
	given := cmd.Flags().Changed("endpoints")
	if given && cmd.Flags().Changed("discovery-srv") {
		return cli.Usage(cmd, errors.New("--discovery-srv and --endpoints name endpoints: give one of them"))
	}
	if f.srv != "" && !given {
		cfg.Endpoints, err = dns.DiscoverEtcd(cmd.Context(), f.srv, dns.EtcdConfig{Config: dns.Config{Timeout: limit}, ServiceName: f.srvName})
		if err != nil {
			return fmt.Errorf("--discovery-srv: %w", cmp.Or(context.Cause(cmd.Context()), err))
		}
	}
	config := doctor.Config{Client: cfg, Timeout: limit, Cluster: f.cluster, Hash: f.hash}
	ctx, stop := cli.WhileRead(cmd.Context(), cmd.OutOrStdout())
	defer stop()
	last := "nothing" // so that the first report is printed
	for {
		var files []doctor.File
		if f.bundle != "" {
			config.Collect = func(f doctor.File) { files = append(files, f) }
		}
		report, err := doctor.Examine(ctx, config)
		if err != nil {
			return err
		}
		if f.bundle != "" {
			if err := doctor.WriteBundle(f.bundle, report, files); err != nil {
				return fmt.Errorf("--bundle: %w", err)
			}
		}
		if f.watch <= 0 {
			return f.show(cmd, report)
		}
		if now := report.Codes(); now != last {
			last = now
			if !f.output.json {
				_, _ = fmt.Fprintln(cmd.OutOrStdout(), time.Now().Format(time.DateTime)) // the report shows if it fails
			}
			if err := f.show(cmd, report); err != nil && !errors.As(err, new(cli.NegativeError)) {
				return err
			}
		}
		if pause.For(ctx, f.watch) != nil {
			return context.Cause(ctx)
		}
		if now, _, err := settings(&f.client, &f.timeout); err == nil { // the CA file may have changed
			config.Client.TLS = now.TLS
		}
	}
}

// show prints a report; the error says whether the cluster is healthy.
func (f *doctorFlags) show(cmd *cobra.Command, report doctor.Report) error {
	if err := f.output.print(cmd.OutOrStdout(), report); err != nil || report.Healthy {
		return err
	}
	serious := 0
	for _, f := range report.Findings {
		if f.Severity != doctor.Note {
			serious++
		}
	}
	return cli.NegativeError(cli.Count(serious, "finding"))
}
