// Package lastgood has what resolvers share to keep the last good list of endpoints: a
// Registry, which remembers it while no channel uses it, and a Guard, which delays the
// disappearance of many endpoints at once.
package lastgood
