// Package cost has tests of what operations of a client cost: allocations, heap, and the functions that they enter.
package cost
