// Package clapi is the border to OpenCL's C functions: it finds and loads the
// loader library (libOpenCL), and makes each call that package opencl needs.
//
//	api.go     API: the calls as a Go interface, handles and numbers
//	open.go    which files may be the library, and its functions
//	lib.go     Lib: API over the loaded library
//	mem.go     every unsafe conversion, and the frames of calls
//	call.go    the one call into C
//
// It decides nothing: codes come back as they are, and a handle is passed on as
// it was given. Package opencl sees to it that no stale one gets here.
package clapi
