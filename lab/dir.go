package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// dirPrefix begins the names of the data directories of all clusters.
	dirPrefix = "quorate-lab-"
	// ownerLock is the file in a data directory that its owner keeps locked. The
	// lock ends with the process.
	ownerLock = "owner.lock"
	// dirAttempts bounds how often a new directory may be removed by a sweep
	// before it is locked.
	dirAttempts = 10
)

// dataDir is the directory of one cluster, held by a lock.
type dataDir struct {
	path string
	lock *os.File
}

// newDataDir makes a directory in parent and locks it.
func newDataDir(parent string) (*dataDir, error) {
	for range dirAttempts {
		path, err := os.MkdirTemp(parent, dirPrefix)
		if err != nil {
			return nil, fmt.Errorf("lab: make a data directory in %s: %w", parent, err)
		}
		lock, err := lockFile(filepath.Join(path, ownerLock), os.O_CREATE)
		switch {
		case err == nil:
			return &dataDir{path: path, lock: lock}, nil
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errLocked):
			return nil, errors.Join(fmt.Errorf("lab: data directory: %w", err), os.RemoveAll(path))
		}
	}
	return nil, fmt.Errorf("lab: data directory: other processes keep removing it from %s", parent)
}

func (d *dataDir) join(name string) string {
	return filepath.Join(d.path, name)
}

func (d *dataDir) name() string {
	return filepath.Base(d.path)
}

// remove deletes the directory and then gives up the lock.
func (d *dataDir) remove() error {
	return errors.Join(removeLocked(d.path), d.lock.Close())
}

// removeLocked deletes a directory whose lock the caller holds. The lock file goes
// last, so that at any moment of a crash the rest is either recognisable as
// abandoned or empty.
func removeLocked(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != ownerLock {
			err = errors.Join(err, os.RemoveAll(filepath.Join(path, entry.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(path)
}

var errLocked = errors.New("locked by another process")

// lockFile opens a file with the given flags, for reading and writing, and locks it
// for as long as the descriptor or a copy of it is open. It returns errLocked when
// another process holds it, and os.ErrNotExist when it was removed meanwhile.
func lockFile(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	held, err := file.Stat()
	if err == nil {
		var present os.FileInfo
		if present, err = os.Stat(path); err == nil && !os.SameFile(held, present) {
			err = os.ErrNotExist
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// sweep removes the data directories in parent whose owners are gone. It leaves alone
// what belongs to other users. What cannot be removed is left for the next sweep: it
// is no reason not to start a cluster.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return // making the data directory there will say why
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && info.IsDir() && strings.HasPrefix(entry.Name(), dirPrefix) && isOurs(info) {
			sweepDir(filepath.Join(parent, entry.Name()))
		}
	}
}

func sweepDir(path string) {
	if os.Remove(path) == nil {
		return // it was empty: the owner died, or is about to find out, before it could lock it
	}
	owner, err := lockFile(filepath.Join(path, ownerLock), 0)
	if err != nil {
		return // the owner lives, or is removing the directory
	}
	defer func() { _ = owner.Close() }()
	_ = removeLocked(path)
}
