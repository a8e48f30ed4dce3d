package child

import (
	"bytes"
	"os"
)

// Tail returns the last n bytes, or fewer, of the file at path, without the white space around them: the end of a log,
// for an error. Of a file that cannot be read it returns "", because that error has another to tell.
func Tail(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text[max(len(text)-n, 0):]))
}
