// Package house holds tests about the repository itself: which package may
// import which, that importing does nothing, that documents name things that
// exist, that the module can be renamed. It has no code of its own.
package house
