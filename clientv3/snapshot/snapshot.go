// Package snapshot downloads the database of an etcd member to a file, from which
// etcdutl restores a cluster.
package snapshot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
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

// sectorSize, in bytes, divides the size of every database file, which consists of
// whole pages. etcdutl restores no other file.
const sectorSize = 512

// part is a file that is being downloaded. It has a unique name until it is
// complete, so a file under the target's name is always complete.
type part struct {
	target string
	file   *os.File
}

// createPart creates a part beside its target. It fails for a target that could
// not be replaced in the end.
func createPart(target string) (*part, error) {
	if target == "" {
		return nil, errors.New("the path of the file is empty")
	}
	if info, err := os.Stat(target); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, want the path of a file", target)
	}
	// CreateTemp lets only the user read and write the file.
	file, err := os.CreateTemp(filepath.Dir(target), filepath.Base(target)+".*.part")
	if err != nil {
		return nil, err
	}
	return &part{target: target, file: file}, nil
}

// fill writes all of src, which has checked the digest when it ends with io.EOF,
// and returns the size.
func (p *part) fill(src io.Reader) (int64, error) {
	size, err := io.Copy(p.file, src)
	var onDisk *fs.PathError
	switch database := size - sha256.Size; {
	case errors.As(err, &onDisk):
		return size, err // it names the file
	case err != nil:
		return size, fmt.Errorf("the download ended after %d bytes: %w", size, err)
	case database <= 0 || database%sectorSize != 0:
		return size, fmt.Errorf("the member sent %d bytes before the digest, which is no database: its size is a multiple of %d",
			database, sectorSize)
	}
	return size, nil
}

// commit gives the file its name when its content is on disk.
func (p *part) commit(lg *zap.Logger) error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	if err := p.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(p.file.Name(), p.target); err != nil {
		return err
	}
	// Not every file system can sync a directory, and the file is there.
	dir, err := fileutil.OpenDir(filepath.Dir(p.target))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		lg.Warn("could not sync the snapshot's directory: if the host crashes now, the file may be gone", zap.Error(err))
	}
	return nil
}

// discard removes the file unless it was committed.
func (p *part) discard(lg *zap.Logger) {
	_ = p.file.Close() // it will not be read, or commit has closed it
	if err := os.Remove(p.file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		lg.Warn("could not remove the part of a snapshot", zap.Error(err))
	}
}
