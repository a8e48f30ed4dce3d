package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/quorate/internal/doctor"
)

func newDoctorCommand() *cobra.Command {
	var client connectionFlags
	var timeout commandTimeout
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine an etcd cluster from here, and say what is wrong and what to run",
		Long: `doctor examines each endpoint of an etcd cluster, one layer after the other: its name,
the TCP connection, TLS (authority, validity, names, whether the server wants a
certificate), authentication, and calls. Then it compares the members: leader and term,
entries that are not applied yet, alarms, the size of the database and its quota,
versions, clocks, how fast linearizable reads are, and whether what the members
advertise to clients can be reached from here.

It asks each endpoint a dozen questions at most, and changes nothing. What an election
explains, too, is looked at a second time, 2 s later. The clock of a server is taken
from the header Date of its HTTP answers, which is in whole seconds; a finding means that
it is off by a second for certain.

A finding has a severity: an "error" fails calls, a "warning" does soon or at times, and
a "note" is only worth knowing. With --json a finding also has a stable "code".

The exit status is 0 if there are neither errors nor warnings, 1 if there are, and
2 if nothing could be examined.

The flags are etcdctl's, and so are the environment variables: ETCDCTL_ENDPOINTS,
ETCDCTL_CACERT, ETCDCTL_USER, ETCDCTL_PASSWORD, … A flag outranks its variable.`,
		Example: `  quorate doctor --endpoints https://10.0.0.1:2379,https://10.0.0.2:2379 --cacert ca.pem
  ETCDCTL_ENDPOINTS=10.0.0.1:2379 quorate doctor --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, limit, err := settings(&client, &timeout)
			if err != nil {
				return cli.Usage(cmd, err)
			}
			report, err := doctor.Examine(cmd.Context(), doctor.Config{Client: cfg, Timeout: limit})
			if err != nil {
				return err
			}
			return showReport(cmd, report, asJSON)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one object, for programs")
	timeout.register(cmd.Flags())
	client.register(cmd.Flags())
	return cmd
}

// showReport prints a report; the error says whether the cluster is healthy.
func showReport(cmd *cobra.Command, report doctor.Report, asJSON bool) error {
	var err error
	if asJSON {
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else {
		err = report.Text(cmd.OutOrStdout())
	}
	if err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if report.Healthy {
		return nil
	}
	serious := 0
	for _, f := range report.Findings {
		if f.Severity != doctor.Note {
			serious++
		}
	}
	if serious == 1 {
		return cli.NegativeError("1 finding")
	}
	return cli.NegativeError(fmt.Sprintf("%d findings", serious))
}
