package doctor

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"
)

// File is what a member answered, for a bundle.
type File struct {
	Name string // a path
	Data []byte
}

// collect reads what an endpoint serves over HTTP, and adds what it answered to the examination.
func (v *visit) collect(ctx context.Context, add func(File)) {
	dir := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:`, r) {
			return '_'
		}
		return r
	}, v.endpoint.Address) + "/"
	for _, path := range []string{"/version", "/health", "/metrics"} {
		limited, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
		if a := v.request(limited, v.tls, path); a.err == nil {
			add(File{dir + strings.TrimPrefix(path, "/") + ".txt", a.body})
		}
		cancel()
	}
	for name, answered := range map[string]any{"status": v.status, "members": v.members, "hash": v.hash} {
		if data, err := json.MarshalIndent(answered, "", "  "); err == nil {
			add(File{dir + name + ".json", data})
		}
	}
}

// WriteBundle writes a report and files to a tar.gz.
func WriteBundle(path string, report Report, files []File) (err error) {
	object, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	files = append([]File{{"report.txt", []byte(report.Text())}, {"report.json", object}}, files...)
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) // it shows how the cluster is built
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(out)
	archive := tar.NewWriter(zip)
	for _, f := range files {
		header := &tar.Header{Name: "quorate-doctor/" + f.Name, Mode: 0o600, Size: int64(len(f.Data)), ModTime: time.Now()}
		if err = archive.WriteHeader(header); err != nil {
			break
		}
		if _, err = archive.Write(f.Data); err != nil {
			break
		}
	}
	return errors.Join(err, archive.Close(), zip.Close(), out.Close())
}
