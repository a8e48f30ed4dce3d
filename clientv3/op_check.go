package clientv3

// opPlace is a set of the operation types that check their options.
type opPlace uint8

const (
	inGet opPlace = 1 << iota
	inPut
	inDelete
	inWatch
)

var opPlaceNames = map[opPlace]string{inPut: "put", inDelete: "delete", inWatch: "watch"}

// misplaced lists, in the order of the checks, the settings of options and the
// operations they do not apply to. The names are part of the panic's value, which
// equals the official client's.
var misplaced = [...]struct {
	name  string
	where opPlace
	isSet func(*Op) bool
}{
	{"lease", inDelete | inWatch, func(op *Op) bool { return op.leaseID != NoLease }},
	{"range", inPut, func(op *Op) bool { return op.end != nil }},
	{"limit", inPut | inDelete | inWatch, func(op *Op) bool { return op.limit != 0 }},
	{"revision", inPut | inDelete, func(op *Op) bool { return op.rev != 0 }},
	{"sort", inPut | inDelete | inWatch, func(op *Op) bool { return op.sort != nil }},
	{"serializable", inPut | inDelete | inWatch, func(op *Op) bool { return op.serializable }},
	{"countOnly", inPut | inDelete | inWatch, func(op *Op) bool { return op.countOnly }},
	{"mod revision filter", inPut | inDelete | inWatch, func(op *Op) bool {
		return op.minModRev != 0 || op.maxModRev != 0
	}},
	{"create revision filter", inPut | inDelete | inWatch, func(op *Op) bool {
		return op.minCreateRev != 0 || op.maxCreateRev != 0
	}},
	{"filter", inPut | inDelete, func(op *Op) bool { return op.filterPut || op.filterDelete }},
	{"createdNotify", inPut | inDelete, func(op *Op) bool { return op.createdNotify }},
}

// reject panics if an option does not apply to the operation, or two options set
// conflicting ranges.
func (op *Op) reject(place opPlace) {
	if place&(inGet|inDelete) != 0 && op.isOptsWithPrefix && op.isOptsWithFromKey {
		panic("`WithPrefix` and `WithFromKey` cannot be set at the same time, choose one")
	}
	for i := range misplaced {
		if m := &misplaced[i]; m.where&place != 0 && m.isSet(op) {
			panic("unexpected " + m.name + " in " + opPlaceNames[place])
		}
	}
}
