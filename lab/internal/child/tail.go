package child

import (
	"bytes"
	"io"
	"os"
)

// Tail returns the last n bytes, or fewer, of what the file at path holds from the
// offset from on, without the white space around them: the end of a log, for an
// error. Of a file that cannot be read it returns "", because that error has another
// to tell.
func Tail(path string, from, n int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	from = max(from, info.Size()-n)
	text, err := io.ReadAll(io.NewSectionReader(file, from, info.Size()-from))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text))
}
