// Package snapshot downloads the database of an etcd member to a file, from which
// etcdutl restores a cluster.
package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/endpoint"
)

// SaveWithVersion downloads a snapshot from the one endpoint of cfg to the file
// dbPath, and returns the storage version of the member, which determines the versions
// of etcd that can restore it. It is empty for servers before etcd 3.6, and for a member
// in the first seconds of its life. Once it is known, it is returned with an error too.
//
// The file appears under its name, in place of one that was there, when it is
// complete: the SHA-256 digest that ends it has been checked, and it has been
// written to disk. Until then the data is in a file beside it whose name ends in
// ".part", which is removed on any error; a process that is killed leaves it. Only
// the user may read and write the file. Downloads to one path at the same time do not
// disturb each other; the file is that of the last to finish.
//
// A snapshot is the state of one member, so cfg must hold exactly one endpoint,
// and its AutoSyncInterval has no effect. The client logs to lg, which may be nil.
//
// Only ctx bounds the time of a download. It also ends when its member dies or hangs,
// after the time of cfg's keepalive, 30 s by default. A download cannot be resumed.
//
// Errors wrap those of the context, of the file system (os.ErrPermission,
// syscall.ENOSPC, ...), of [clientv3.New] and of the server, and
// [clientv3.ErrSnapshotDigest] for a snapshot that is truncated or corrupt.
func SaveWithVersion(ctx context.Context, lg *zap.Logger, cfg clientv3.Config, dbPath string) (string, error) {
	lg = cmp.Or(lg, cfg.Logger, zap.NewNop())
	if n := len(cfg.Endpoints); n != 1 {
		return "", fmt.Errorf("snapshot: the configuration has %d endpoints, want exactly 1: a snapshot is the state of one member", n)
	}
	p, err := createPart(dbPath)
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	defer p.discard(lg)

	member := zap.String("endpoint", endpoint.Redact(cfg.Endpoints[0]))
	lg.Info("downloading snapshot", member, zap.String("path", dbPath))
	start := time.Now()
	version, size, err := download(ctx, lg, cfg, p)
	if err == nil {
		err = p.commit(lg)
	}
	if err != nil {
		return version, fmt.Errorf("snapshot: %w", err)
	}
	lg.Info("saved snapshot", member, zap.String("path", dbPath),
		zap.Int64("bytes", size), zap.Duration("took", time.Since(start)), zap.String("storage-version", version))
	return version, nil
}

// download fills the part and returns the version, once it is known, and the size.
func download(ctx context.Context, lg *zap.Logger, cfg clientv3.Config, p *part) (version string, size int64, err error) {
	clientCtx, cancel := context.WithCancel(cmp.Or(cfg.Context, context.Background()))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	cfg.Context = clientCtx // New is not given ctx, and may wait for a token
	cfg.Logger, cfg.Slog = lg.Named("client"), nil
	cfg.AutoSyncInterval = 0 // it would replace the member that was chosen
	client, err := clientv3.New(cfg)
	if err != nil {
		return "", 0, cmp.Or(ctx.Err(), err)
	}
	defer func() { _ = client.Close() }() // everything has been received by then

	resp, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return "", 0, cmp.Or(ctx.Err(), err)
	}
	defer func() { _ = resp.Snapshot.Close() }() // likewise
	size, err = p.fill(resp.Snapshot)
	return resp.Version, size, err
}
