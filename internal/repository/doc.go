// Package repository has tests of the repository itself: which package imports which, how many lines of code folders
// have, the words of names and comments, and the pages.
package repository
