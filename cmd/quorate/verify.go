package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/quorate/internal/doctor"
	"github.com/quorate/quorate/cmd/quorate/internal/verify"
)

type verifyFlags struct {
	client   connectionFlags
	timeout  commandTimeout
	prefix   string
	duration time.Duration
	rate     int
	html     string
	output   output
}

func newVerifyCommand() *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that a live cluster is linearizable and its watches are true, on keys of its own",
		Long: fmt.Sprintf(`verify reads, writes, deletes and compares a dozen keys of a live etcd cluster through
Quorate, below a random name under --prefix, and watches them meanwhile. Then it checks
the answers:

  - There is one order of everything that explains every answer, with its revisions and
    versions (linearizability, checked by porcupine). A write that failed has no effect;
    one of unknown outcome has one, once, or none.
  - Every watch delivered every event once, in order, whole and true. The history of the
    store is read once more for that.

The load is bounded: --rate operations a second, by default %d and at most %d, values of a
few bytes, for --duration, at most %v. All keys belong to one lease, which is revoked at the end,
also after Ctrl-C; should the program be killed, they expire with it.

The exit status is 0 if every promise was kept, 1 if one was broken, 2 if that could
not be found out, or if something could not be removed, and 130 after Ctrl-C.

The flags are etcdctl's, and so are the environment variables. The user must be allowed to
read and write below --prefix.`, verify.DefaultRate, verify.MaxRate, verify.MaxDuration),
		Example: `  quorate verify --endpoints 10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379
  quorate verify --duration 5m --rate 200 --html verify.html`,
		Args: noEndpoints,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.DurationVar(&flags.duration, "duration", verify.DefaultDuration, "how long the load lasts")
	fs.IntVar(&flags.rate, "rate", verify.DefaultRate, "operations a second")
	fs.StringVar(&flags.prefix, "prefix", verify.DefaultPrefix, "`prefix` of the keys; a random name follows it")
	fs.StringVar(&flags.html, "html", "", "write a page for browsers with a history of keys to this `file`")
	flags.output.register(fs)
	flags.timeout.register(fs)
	flags.client.register(fs)
	return cmd
}

func (f *verifyFlags) check() error {
	switch {
	case f.duration <= 0 || f.duration > verify.MaxDuration:
		return fmt.Errorf("--duration must be more than 0 and at most %v", verify.MaxDuration)
	case f.rate <= 0 || f.rate > verify.MaxRate:
		return fmt.Errorf("--rate must be 1 to %d", verify.MaxRate)
	case f.prefix == "":
		return errors.New("--prefix must not be empty")
	}
	return nil
}

func (f *verifyFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return cli.Usage(cmd, err)
	}
	cfg, limit, err := settings(&f.client, &f.timeout)
	if err != nil {
		return cli.Usage(cmd, err)
	}
	var page *os.File
	if f.html != "" {
		if page, err = os.OpenFile(f.html, os.O_CREATE|os.O_WRONLY, 0o666); err != nil { // an older page stays until there is a new one
			return cli.Usage(cmd, fmt.Errorf("--html: %w", err))
		}
		defer func() { _ = page.Close() }() // the second time, if it was closed below
	}
	cfg.Logger = zap.NewNop() // errors are returned
	client, err := connect(cfg)
	if err != nil {
		return because(cmd.Context(), err, cfg, limit)
	}
	defer func() { _ = client.Close() }() // nothing is under way
	result, err := verify.Run(cmd.Context(), verify.Config{
		Client: client, Prefix: f.prefix, Duration: f.duration, Rate: f.rate, Timeout: limit,
	})
	if ended := context.Cause(cmd.Context()); !errors.Is(err, ended) {
		err = errors.Join(err, ended)
	}
	if result.Operations == 0 && err != nil {
		return because(cmd.Context(), err, cfg, limit)
	}
	if page != nil {
		_ = page.Truncate(0) // a pipe has nothing to truncate
		err = errors.Join(err, result.Page(page), page.Close())
	}
	return errors.Join(f.show(cmd.OutOrStdout(), result), err)
}

// because returns an error that says what is wrong with the cluster, if that can be found out.
func because(ctx context.Context, err error, cfg clientv3.Config, limit time.Duration) error {
	if why := doctor.Why(ctx, doctor.Config{Client: cfg, Timeout: limit}); why != "" {
		return fmt.Errorf("%s (see \"quorate doctor\"; %w)", why, err)
	}
	return err
}

// show prints the result; the error says whether every guarantee was kept.
func (f *verifyFlags) show(out io.Writer, result verify.Result) error {
	if err := f.output.print(out, result); err != nil || result.OK() {
		return err
	}
	return cli.NegativeError(cli.Count(len(result.Violations), "violation"))
}
