// Package child runs the processes that the lab's clusters are made of: children of
// this program that end with it, that can be frozen and killed, and whose last words
// go into errors.
//
// A [Spawner] starts a [Process]. On Linux the kernel kills the process when this
// program ends, however it ends, and be the process frozen or not. On macOS and the
// BSDs it survives a crash of this program, unless it looks out for one by itself.
// Everywhere it has a process group of its own, so that Ctrl-C reaches this program
// alone.
//
// The errors of this package do not say which process they are about: the caller
// adds its name.
package child
