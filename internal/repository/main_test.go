package repository

import (
	"fmt"
	"os"
	"testing"
)

// TestMain lets tests name files as seen from the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m.Run()
}
