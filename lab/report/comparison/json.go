package comparison

import (
	"encoding/json"
	"io"
)

// JSON writes the document for programs: one indented object and a newline.
func JSON(w io.Writer, d Document) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(d)
}
