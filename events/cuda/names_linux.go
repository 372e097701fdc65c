package cuda

const runtimeStem = "libcudart.so."

// runtimeNames are the runtime's sonames, newest first. Installations without
// development files have only these.
func runtimeNames() []string {
	return []string{"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}
}

func driverNames() []string { return []string{"libcuda.so.1", "libcuda.so"} }
