//go:build !linux && !windows

package cuda

// No CUDA exists here; Open says so.
const runtimeStem = "libcudart."

func runtimeNames() []string { return []string{"libcudart"} }

func driverNames() []string { return nil }
