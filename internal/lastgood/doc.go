// Package lastgood keeps the last good list of endpoints for resolvers: a Registry remembers it
// while no channel uses it, and a Guard delays the disappearance of many endpoints at once.
package lastgood
