package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/retry"
)

const docs = "../../../docs"

func TestFilesAreUpToDate(t *testing.T) {
	for name, render := range files {
		want, err := render()
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(docs, name))
		require.NoError(t, err)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("docs/%s is stale, run: go generate ./retry\n%s", name, diff)
		}
	}
}

func TestPageHoldsEveryTable(t *testing.T) {
	text, err := page()
	require.NoError(t, err)
	rows := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|--") {
			rows++
			assert.True(t, strings.HasSuffix(line, "|\n"), line)
		}
	}
	const otherTables = 6 + 3 // defaults, heads included
	const heads = 5
	tables := len(retry.Decisions()) + len(retry.ServerErrors()) + len(retry.LocalErrors()) + len(retry.Codes()) + len(retry.Methods())
	assert.Equal(t, tables+heads+otherTables, rows)
}

// read reads the file as another language does.
func read(t *testing.T) (vectors struct {
	Attempts []attempt `json:"attempts"`
	Delays   []delay   `json:"delays"`
},
) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, "error-vectors.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &vectors))
	require.NotEmpty(t, vectors.Attempts)
	require.NotEmpty(t, vectors.Delays)
	return vectors
}

// The cases hold for the forms in which Go's clients see an error: a status of gRPC, the official
// client's error, and one that is wrapped.
func TestCasesHoldForEachFormOfAnError(t *testing.T) {
	for _, want := range read(t).Attempts {
		plain := status.Error(want.Code, want.Message)
		forms := []error{plain, fmt.Errorf("put k: %w", plain)}
		if official := rpctypes.Error(plain); errors.As(official, new(rpctypes.EtcdError)) {
			forms = append(forms, official)
		}
		for _, err := range forms {
			assert.Equal(t, want, expectOf(err, want), "%T", err)
		}
	}
}

// Every class and every action that a single attempt leads to has a case.
func TestEachClassHasACase(t *testing.T) {
	seen := make(map[string]bool)
	for _, a := range read(t).Attempts {
		seen[a.Class], seen[a.Action] = true, true
	}
	for _, class := range retry.Classes() {
		assert.Equal(t, class != retry.OK, seen[class.String()], "%v", class)
	}
	for _, action := range []retry.Action{retry.Return, retry.ReturnUnknown, retry.Again, retry.Refresh} {
		assert.True(t, seen[action.String()], "%v", action)
	}
}

func TestDelaysAreWithinTheBounds(t *testing.T) {
	for _, d := range read(t).Delays {
		p := retry.Policy{
			InitialBackoff: time.Duration(d.InitialBackoffMS * float64(time.Millisecond)), MaxBackoff: time.Duration(d.MaxBackoffMS * float64(time.Millisecond)),
			BackoffMultiplier: d.BackoffMultiplier, Jitter: d.Jitter,
		}
		for range 1000 {
			took := ms(p.Delay(d.Repetition))
			assert.GreaterOrEqual(t, took, d.LeastMS-1e-6)
			assert.LessOrEqual(t, took, d.MostMS+1e-6)
		}
	}
}
