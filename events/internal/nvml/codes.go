package nvml

import "example.com/devevents/events"

// The codes that decide something.
const (
	success         int32 = 0
	notSupported    int32 = 3
	driverNotLoaded int32 = 9
	versionMismatch int32 = 18
)

// codeName names a code. NVML's numbers have only been added to.
func codeName(code int32) string {
	if code == 999 {
		return "NVML_ERROR_UNKNOWN"
	}
	names := []string{
		"NVML_SUCCESS", "NVML_ERROR_UNINITIALIZED", "NVML_ERROR_INVALID_ARGUMENT", "NVML_ERROR_NOT_SUPPORTED",
		"NVML_ERROR_NO_PERMISSION", "NVML_ERROR_ALREADY_INITIALIZED", "NVML_ERROR_NOT_FOUND", "NVML_ERROR_INSUFFICIENT_SIZE",
		"NVML_ERROR_INSUFFICIENT_POWER", "NVML_ERROR_DRIVER_NOT_LOADED", "NVML_ERROR_TIMEOUT", "NVML_ERROR_IRQ_ISSUE",
		"NVML_ERROR_LIBRARY_NOT_FOUND", "NVML_ERROR_FUNCTION_NOT_FOUND", "NVML_ERROR_CORRUPTED_INFOROM", "NVML_ERROR_GPU_IS_LOST",
		"NVML_ERROR_RESET_REQUIRED", "NVML_ERROR_OPERATING_SYSTEM", "NVML_ERROR_LIB_RM_VERSION_MISMATCH", "NVML_ERROR_IN_USE",
		"NVML_ERROR_MEMORY", "NVML_ERROR_NO_DATA", "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED", "NVML_ERROR_INSUFFICIENT_RESOURCES",
		"NVML_ERROR_FREQ_NOT_SUPPORTED", "NVML_ERROR_ARGUMENT_VERSION_MISMATCH", "NVML_ERROR_DEPRECATED", "NVML_ERROR_NOT_READY",
		"NVML_ERROR_GPU_NOT_FOUND", "NVML_ERROR_INVALID_STATE",
	}
	if code < 0 || int(code) >= len(names) {
		return ""
	}
	return names[code]
}

// kind tells which sentinel a code stands for.
func kind(code int32) error {
	switch code {
	case 2:
		return events.ErrInvalid
	case 3, 13, 25, 26:
		return events.ErrUnsupported
	case 4, 6, 9, 12, 18, 28:
		return events.ErrUnavailable
	case 15, 16:
		return events.ErrDeviceFault
	case 27:
		return events.ErrNotReady
	}
	return nil
}

func failed(f op, code int32) error {
	return &events.DriverError{Backend: "nvml", Op: names()[f][0], Code: code, Name: codeName(code), Kind: kind(code)}
}
