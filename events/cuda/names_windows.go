package cuda

const runtimeStem = "cudart64_"

func runtimeNames() []string {
	return []string{"cudart64_13.dll", "cudart64_12.dll", "cudart64_110.dll"}
}

func driverNames() []string { return []string{"nvcuda.dll"} }
