package dl

import (
	"runtime"
	"slices"
)

// CUDADirs are the directories where CUDA's runtime is known to be installed.
func CUDADirs() []string { return cudaDirs(runtime.GOOS, runtime.GOARCH) }

// DriverDirs are the directories where NVIDIA's driver library is known to be
// installed. Toolkits are not among them: they have stubs of it, and a forward
// compatibility copy that only some machines can use.
func DriverDirs() []string { return driverDirs(runtime.GOOS, runtime.GOARCH) }

// HIPDirs are the directories where AMD's HIP runtime is known to be installed.
func HIPDirs() []string { return hipDirs(runtime.GOOS, runtime.GOARCH) }

// layout is how distributions and toolkits spell a processor.
type layout struct {
	triplet string   // Debian's multiarch directory
	targets []string // CUDA toolkit: targets/*/lib
	sdk     string   // NVIDIA's HPC SDK
	winBin  string   // CUDA 13 on Windows: bin\*
	winSite string   // CUDA 13 wheels on Windows
}

var layouts = map[string]layout{
	"amd64": {"x86_64-linux-gnu", []string{"x86_64-linux"}, "Linux_x86_64", "x64", "x86_64"},
	"arm64": {"aarch64-linux-gnu", []string{"sbsa-linux", "aarch64-linux"}, "Linux_aarch64", "arm64", "arm64"},
}

func cudaDirs(goos, goarch string) []string {
	arch, known := layouts[goarch]
	if !known {
		return nil
	}
	if goos == "windows" {
		wheels := []string{`nvidia\cu[0-9]*\bin\` + arch.winSite, `nvidia\cuda_runtime\bin`}
		dirs := []string{`$CUDA_PATH\bin\` + arch.winBin, `$CUDA_PATH\bin`}
		dirs = append(dirs, join([]string{`$VIRTUAL_ENV\Lib\site-packages\`, `$CONDA_PREFIX\Lib\site-packages\`}, wheels)...)
		dirs = append(dirs, `$CONDA_PREFIX\Library\bin\`+arch.winBin, `$CONDA_PREFIX\Library\bin`)
		toolkit := `$ProgramFiles\NVIDIA GPU Computing Toolkit\CUDA\v*\bin`
		return append(dirs, toolkit+`\`+arch.winBin, toolkit)
	}
	if goos != "linux" {
		return nil
	}
	// Inside a toolkit; lib64 is usually a link to targets/*/lib.
	inside := []string{"/lib64"}
	for _, target := range arch.targets {
		inside = append(inside, "/targets/"+target+"/lib")
	}
	insideOrLib := slices.Concat(inside, []string{"/lib"})
	wheels := []string{"/nvidia/cu[0-9]*/lib", "/nvidia/cuda_runtime/lib"}

	// What the user has set up or activated comes before what the machine has.
	dirs := join([]string{"$CUDA_HOME", "$CUDA_PATH", "$CUDA_ROOT", "$CUDA_TOOLKIT_ROOT_DIR"}, insideOrLib)
	dirs = append(dirs, join(activeSites, wheels)...)
	dirs = append(dirs, join([]string{"$CONDA_PREFIX"}, insideOrLib)...)
	dirs = append(dirs, join([]string{"/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda"}, inside)...)
	dirs = append(dirs, "/usr/lib/"+arch.triplet, "/usr/lib64", "/usr/lib", "/usr/local/lib64", "/usr/local/lib",
		"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib")
	dirs = append(dirs, join([]string{"$NVHPC_ROOT/cuda", "$NVHPC_ROOT/cuda/*", "/opt/nvidia/hpc_sdk/" + arch.sdk + "/*/cuda/*"}, inside)...)
	return append(dirs, join(otherSites, wheels)...)
}

func driverDirs(goos, goarch string) []string {
	arch, known := layouts[goarch]
	switch {
	case !known:
		return nil
	case goos == "windows":
		return []string{`$SystemRoot\System32`}
	case goos != "linux":
		return nil
	}
	// Under WSL the host's driver is the right one even if a Linux driver was
	// installed beside it by mistake.
	dirs := []string{"/usr/lib/wsl/lib", "/usr/lib/" + arch.triplet, "/usr/lib/" + arch.triplet + "/nvidia/current"}
	if goarch == "arm64" { // Jetson, newer and older
		dirs = append(dirs, "/usr/lib/"+arch.triplet+"/nvidia", "/usr/lib/"+arch.triplet+"/tegra")
	}
	return append(dirs, "/usr/lib64", "/usr/lib64/nvidia", "/usr/lib",
		"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", // container mounts
		"/run/opengl-driver/lib", // NixOS
		"/usr/lib/nvidia-*", "/usr/lib/wsl/drivers/*")
}

func hipDirs(goos, goarch string) []string {
	arch, known := layouts[goarch]
	if !known {
		return nil
	}
	if goos == "windows" {
		return []string{`$HIP_PATH\bin`,
			`$VIRTUAL_ENV\Lib\site-packages\_rocm_sdk_core\bin`, `$CONDA_PREFIX\Lib\site-packages\_rocm_sdk_core\bin`,
			`$ProgramFiles\AMD\ROCm\*\bin`, `$SystemRoot\System32`}
	}
	if goos != "linux" {
		return nil
	}
	wheels := []string{"/_rocm_sdk_core/lib", "/torch/lib"}
	dirs := []string{"$HIP_PATH/lib", "$ROCM_PATH/lib", "$ROCM_HOME/lib"}
	dirs = append(dirs, join(activeSites, wheels)...)
	dirs = append(dirs, "$CONDA_PREFIX/lib",
		"/opt/rocm/lib", "/opt/rocm/lib64", "/opt/rocm/core/lib", "/opt/rocm/core-*/lib", "/opt/rocm-*/lib",
		"/opt/rocm/hip/lib", "/opt/rocm-*/hip/lib", // before ROCm 5.2
		"/usr/lib/"+arch.triplet, "/usr/lib64", "/usr/lib", "/usr/local/lib64", "/usr/local/lib")
	return append(dirs, join(otherSites, wheels)...)
}

// Where Python keeps packages: in the environment that is active, and elsewhere.
var (
	activeSites = []string{"$VIRTUAL_ENV/lib/python*/site-packages", "$CONDA_PREFIX/lib/python*/site-packages"}
	otherSites  = []string{
		"$HOME/.local/lib/python*/site-packages",
		"/usr/local/lib/python*/dist-packages", "/usr/local/lib/python*/site-packages",
		"/usr/lib/python3*/dist-packages", "/usr/lib/python3*/site-packages", "/usr/lib64/python3*/site-packages",
		"/opt/conda/lib/python*/site-packages",
	}
)

// join is every front with every back.
func join(fronts, backs []string) []string {
	all := make([]string, 0, len(fronts)*len(backs))
	for _, front := range fronts {
		for _, back := range backs {
			all = append(all, front+back)
		}
	}
	return all
}
