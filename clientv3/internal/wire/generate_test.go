package wire

import (
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// generator writes messages field by field: in any order, repeated, or not at
// all, as an encoder may.
type generator struct {
	*rand.Rand
	// oddity is how likely a field is one that etcd would not send.
	oddity float64
}

// message returns a message of the type md.
func (g generator) message(md protoreflect.MessageDescriptor) []byte {
	b := []byte{}
	for range g.IntN(2 * md.Fields().Len()) {
		if g.Float64() < g.oddity {
			b = g.appendOddField(b, md)
			continue
		}
		fd := md.Fields().Get(g.IntN(md.Fields().Len()))
		switch fd.Kind() {
		case protoreflect.MessageKind:
			b = protowire.AppendTag(b, fd.Number(), protowire.BytesType)
			b = protowire.AppendBytes(b, g.message(fd.Message()))
		case protoreflect.BytesKind, protoreflect.StringKind:
			b = protowire.AppendTag(b, fd.Number(), protowire.BytesType)
			b = protowire.AppendBytes(b, g.text())
		default:
			b = protowire.AppendTag(b, fd.Number(), protowire.VarintType)
			b = protowire.AppendVarint(b, g.number())
		}
	}
	return b
}

// appendOddField appends a field with a number or a wire type that does not
// exist in md, a group, or bytes that are no field.
func (g generator) appendOddField(b []byte, md protoreflect.MessageDescriptor) []byte {
	num := protowire.Number(1 + g.IntN(20))
	switch g.IntN(7) {
	case 0:
		return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), g.number())
	case 1:
		return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), g.text())
	case 2:
		return protowire.AppendFixed32(protowire.AppendTag(b, num, protowire.Fixed32Type), g.Uint32())
	case 3:
		return protowire.AppendFixed64(protowire.AppendTag(b, num, protowire.Fixed64Type), g.Uint64())
	case 4:
		b = append(protowire.AppendTag(b, num, protowire.StartGroupType), generator{g.Rand, 0}.message(md)...)
		return protowire.AppendTag(b, num, protowire.EndGroupType)
	case 5: // a tag in more bytes than it needs
		return append(b, byte(num<<3)|byte(g.IntN(8))|0x80, 0)
	default:
		return append(b, byte(g.Uint32()))
	}
}

func (g generator) number() uint64 {
	edges := []uint64{0, 1, 2, 127, 128, math.MaxInt32, math.MaxUint32, math.MaxInt64, 1 << 63, math.MaxUint64}
	if i := g.IntN(2 * len(edges)); i < len(edges) {
		return edges[i]
	}
	return g.Uint64() >> g.IntN(64)
}

// text returns up to 150 characters, so that some lengths take two bytes; an odd
// generator returns some that are not UTF-8.
func (g generator) text() []byte {
	b := make([]byte, g.IntN(4)*g.IntN(50))
	for i := range b {
		b[i] = byte('a' + g.IntN(26))
	}
	if len(b) > 0 && g.Float64() < g.oddity {
		b[0] = 0xff
	}
	return b
}
