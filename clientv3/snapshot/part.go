package snapshot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.uber.org/zap"
)

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
