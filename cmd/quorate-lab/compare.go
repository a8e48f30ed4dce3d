package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/lab/compare"
	"github.com/quorate/quorate/lab/report"
	"github.com/quorate/quorate/lab/report/comparison"
	"github.com/quorate/quorate/lab/scenario"
)

// defaultPage is where "quorate-lab faults --compare" writes its page.
const defaultPage = "quorate-compare.html"

// runComparison runs the experiment with several clients, writes the page, and prints the
// result. Only Quorate's own violations make it fail.
func (f faultsFlags) runComparison(cmd *cobra.Command, cfg scenario.Config, run scenarioRunner) error {
	page, err := createPage(f.out)
	if err != nil {
		return cli.Usage(cmd, err)
	}
	defer page.abandon()
	stderr := cmd.ErrOrStderr()
	clearProgress := func() {}
	result, err := compare.Run(cmd.Context(), compare.Config{
		Scenario: cfg, Run: run,
		Begin: func(c compare.Client, number, of int) func(report.Snapshot) {
			clearProgress()
			_, _ = fmt.Fprintf(stderr, "%s (%d of %d): %s\n", c.Name, number, of, c.Description) // progress is not the result
			progress := newProgress(stderr)
			clearProgress = progress.Clear
			return progress.Show
		},
	})
	clearProgress()
	if len(result.Reports) == 0 {
		return err
	}
	if writeErr := f.writeComparison(cmd.OutOrStdout(), page, result.Document); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	_, _ = fmt.Fprintf(stderr, "The timelines are in %s.\n", f.out)
	if ours, ok := quorates(result); ok && !ours.OK() {
		return errors.Join(violations(ours), err)
	}
	if err == nil && result.Document.Interrupted {
		return endedEarly(cmd.Context())
	}
	return err
}

// writeComparison writes the page and prints the result.
func (f faultsFlags) writeComparison(w io.Writer, page *pageFile, d comparison.Document) error {
	if err := page.write(d); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	show := comparison.Table
	if f.json {
		show = comparison.JSON
	}
	if err := show(w, d); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// quorates returns Quorate's own report, if it was run.
func quorates(result compare.Result) (report.Report, bool) {
	for i, c := range result.Document.Clients {
		if c.ID == compare.QuorateID {
			return result.Reports[i], true
		}
	}
	return report.Report{}, false
}

// endedEarly is the end of a run by its context.
func endedEarly(ctx context.Context) error {
	return fmt.Errorf("the run was ended early: %w", context.Cause(ctx))
}

// pageFile is a file beside the one that is to be written, and takes its place when it is
// complete. It is made before the run, which takes minutes, so that a place that cannot be
// written is known at once.
type pageFile struct {
	path string
	file *os.File
}

func createPage(path string) (*pageFile, error) {
	if path == "" {
		return nil, errors.New("--out needs the name of a file")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("--out names a directory, %s; it must name a file", path)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("--out cannot be written: %w", err)
	}
	return &pageFile{path: path, file: file}, nil
}

// write writes the page and puts it in its place.
func (p *pageFile) write(d comparison.Document) error {
	err := comparison.HTML(p.file, d)
	if err == nil {
		err = p.file.Chmod(0o644)
	}
	if err = errors.Join(err, p.file.Close()); err != nil {
		return err
	}
	return os.Rename(p.file.Name(), p.path)
}

// abandon removes what has not been put in its place.
func (p *pageFile) abandon() {
	_ = p.file.Close()           // it is closed already when it was written
	_ = os.Remove(p.file.Name()) // it is gone already when it was written
}
