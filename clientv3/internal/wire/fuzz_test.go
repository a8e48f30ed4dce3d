package wire

import "testing"

// FuzzDecode compares with proto.Unmarshal on any input.
func FuzzDecode(f *testing.F) {
	for _, e := range encodings {
		f.Add(e.data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { assertDecodesAsProto(t, data) })
}
