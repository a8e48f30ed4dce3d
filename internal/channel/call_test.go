package channel

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// An object of up to 512 bytes with pointers in it has no header of the allocator's, and one of
// 513 takes 576.
func TestSizeOfACall(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(call{}), uintptr(512))
}
