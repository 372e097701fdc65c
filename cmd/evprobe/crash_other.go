//go:build !unix

package main

import "os"

// signalOf is for systems without signals.
func signalOf(*os.ProcessState) string { return "" }
