// Package servers builds and starts the servers that users of the client have: etcd from 3.4 to 3.8, its grpc-proxy, and
// kine, each from its released module.
//
// A server is built by an ordinary go build of its own program in a folder that is a module outside of the workspace, so that
// each has the dependencies that it was released with. [Server.Build] keeps what it built in the user's cache directory.
// [Server.Start] starts it as a [lab.Cluster] of one member.
//
// The command in the folder matrix compares what clients do on all of them, by the [Program] of package behaviours.
package servers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab/internal/etcd34"
	"github.com/quorate/quorate/lab/servers/site"
)

// Server is a released server.
type Server struct {
	// Name is product and version.
	Name string
	// Short is whether it is among the few that CI runs.
	Short bool

	folder   string // where its module is, "" for etcd 3.4
	kind     kind
	progress string // the flag for the interval of progress notifications, "" for none
}

type kind int

const (
	member kind = iota
	grpcProxy
	kine
)

const (
	oldProgress = "--experimental-watch-progress-notify-interval"
	progress    = "--watch-progress-notify-interval"
)

// All lists the servers, the oldest version first.
var All = []Server{
	{Name: "etcd 3.4", Short: true, progress: oldProgress},
	{Name: "etcd 3.5.0", Short: true, folder: "etcd350", progress: oldProgress},
	{Name: "etcd 3.5.5", folder: "etcd355", progress: oldProgress},
	{Name: "etcd 3.5.35", Short: true, folder: "etcd35", progress: oldProgress},
	{Name: "etcd 3.6.16", folder: "etcd36", progress: progress},
	{Name: "etcd 3.7.3", folder: "etcd37", progress: progress},
	{Name: "etcd 3.8.0-alpha.0", folder: "etcd38", progress: progress},
	{Name: "grpc-proxy 3.7.3", folder: "etcd37", kind: grpcProxy},
	{Name: "kine 0.17.5", Short: true, folder: "kine", kind: kine},
}

// BuiltIn is the etcd 3.7 that every program of the lab carries; its path is "". It is none of All.
var BuiltIn = Server{Name: "etcd 3.7", progress: progress}

// OldProxy is the grpc-proxy of etcd 3.4, before a member of that version, for tests that build nothing. It is none of All.
var OldProxy = Server{Name: "grpc-proxy 3.4", kind: grpcProxy}

// Built returns the path of the server's executable if it was built before, "" if not.
func (s Server) Built() string {
	if _, err := os.Stat(s.path()); err != nil {
		return ""
	}
	return s.path()
}

// path is where the executable is kept.
func (s Server) path() string {
	cache, _ := os.UserCacheDir() // without one the go command does not work either
	return filepath.Join(cache, "quorate", "servers", s.folder)
}

// Offers reports whether the server supports a setup: kine has no authentication.
func (s Server) Offers(setup site.Setup) bool {
	return s.kind != kine || setup != site.Tokens && setup != site.Auth
}

// Build builds the server's executable, unless it is up to date, and returns its path. Today's Go cannot build etcd
// 3.4: Build returns the path in QUORATE_ETCD34, or that of Debian's package.
func (s Server) Build(ctx context.Context) (string, error) {
	if s.folder == "" {
		return etcd34.Find()
	}
	program := "go.etcd.io/etcd/server/v3"
	if s.kind == kine {
		program = "github.com/k3s-io/kine"
	}
	return s.path(), fatal.Catch(func() { goBuild(ctx, filepath.Join(labFolder(ctx), "servers", s.folder), s.path(), program) })
}

// goBuild builds a package as the module in folder has it, outside of any workspace. An error ends it, see package fatal.
func goBuild(ctx context.Context, folder, to string, args ...string) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-ldflags=-s -w", "-o", to}, args...)...)
	cmd.Dir = folder
	// As kine itself is built: it asks SQLite for the size of its tables.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_CFLAGS=-O2 -DSQLITE_ENABLE_DBSTAT_VTAB=1 -DSQLITE_USE_ALLOCA=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		fatal.If(fmt.Errorf("servers: go build in %s: %w\n%s", folder, err, out))
	}
}

// labFolder returns the folder of the module lab in the checkout that the current directory is in.
func labFolder(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/quorate/quorate/lab").Output()
	fatal.If(err, "servers: the checkout is not known; run this inside of it")
	return strings.TrimSpace(string(out))
}

// Client names a client that a program of the lab can be compiled with.
type Client string

// The clients.
const (
	Official Client = "official"
	Quorate  Client = "Quorate"
)

// Clients lists both clients.
var Clients = []Client{Official, Quorate}

const officialModule = "go.etcd.io/etcd/client/v3"

// build compiles a program that imports the official client, and returns its path. For Quorate, the shim takes the place of the
// official module. What is up to date is not linked again; each program that builds has a folder of its own, so that none
// replaces what another one runs. An error ends it, see package fatal.
func (c Client) build(ctx context.Context, program string, flags ...string) string {
	lab := labFolder(ctx)
	root := filepath.Dir(lab)
	dir := filepath.Join(root, ".cache", "programs", filepath.Base(os.Args[0]))
	fatal.If(os.MkdirAll(dir, 0o700))
	modfile := filepath.Join(dir, string(c)+".mod")
	for _, extension := range []string{"mod", "sum"} {
		content := fatal.OK(os.ReadFile(filepath.Join(lab, "go."+extension)))
		fatal.If(os.WriteFile(filepath.Join(dir, string(c)+"."+extension), content, 0o600))
	}
	edit := []string{"mod", "edit", "-replace", "github.com/quorate/quorate=" + root, "-replace", "github.com/quorate/quorate/resolver/kubernetes=" + filepath.Join(root, "resolver", "kubernetes")}
	if c == Quorate {
		edit = append(edit, "-replace", officialModule+"="+filepath.Join(root, "compat", "clientv3"))
	}
	if out, err := exec.CommandContext(ctx, "go", append(edit, modfile)...).CombinedOutput(); err != nil {
		fatal.If(fmt.Errorf("servers: go mod edit: %w\n%s", err, out))
	}
	path := filepath.Join(dir, string(c))
	goBuild(ctx, lab, path, append([]string{"-buildvcs=false", "-modfile", modfile}, append(flags, program)...)...)
	return path
}

// Program has the paths of a program of the lab, compiled with clients.
type Program map[Client]string

// BuildProgram compiles a program, such as "./behaviours/program", once for each client. Flags are those of go build.
func BuildProgram(ctx context.Context, program string, clients []Client, flags ...string) (Program, error) {
	p := make(Program)
	return p, fatal.Catch(func() {
		for _, c := range clients {
			p[c] = c.build(ctx, program, flags...)
		}
	})
}

// Run runs the program with a client in a process of its own, which reads in and prints out, both as JSON. Its standard input
// stays open until it exits; it closes earlier if this process dies.
func (p Program) Run(ctx context.Context, c Client, in, out any, args ...string) error {
	cmd := exec.CommandContext(ctx, p[c], args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = json.NewEncoder(stdin).Encode(in)
	}
	if err != nil {
		return err
	}
	printed, err := cmd.Output()
	if err != nil { // the end of ctx kills the process
		return fmt.Errorf("%w: %s", cmp.Or(context.Cause(ctx), err), strings.TrimSpace(stderr.String()))
	}
	return json.Unmarshal(printed, out)
}

// Behave runs behaviours of ./behaviours/program on a site with a client, in this order.
func (p Program) Behave(ctx context.Context, c Client, s site.Site, names ...string) (o site.Outcome, err error) {
	err = p.Run(ctx, c, s, &o, names...)
	return o, err
}
