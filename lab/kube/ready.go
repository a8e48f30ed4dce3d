package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// pollInterval is the pause between two questions whether the API server is
	// ready.
	pollInterval = 50 * time.Millisecond
	// pollTimeout bounds one such question.
	pollTimeout = 5 * time.Second
)

// awaitReady waits until the process reports that it is ready, ends, or ctx ends.
func (c *ControlPlane) awaitReady(ctx context.Context, p *process) error {
	for {
		err := c.askReady(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.Exited():
			return fmt.Errorf("it ended: %w", p.Cause())
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pollInterval):
		}
	}
}

// askReady asks the API server once, over a connection of its own.
func (c *ControlPlane) askReady(ctx context.Context) error {
	transport, err := c.newTransport()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL()+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.files.admin)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz: %s", resp.Status)
	}
	return nil
}
