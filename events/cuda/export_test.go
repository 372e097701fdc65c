package cuda

// Codes are the runtime's names of codes and DriverCodes the driver library's, for
// tests.
func Codes() map[int32]string { return codes }

// DriverCodes are the driver library's names.
func DriverCodes() map[int32]string { return driverTable().Codes }

// Kind is the sentinel of a code, for tests.
func Kind(code int32) error { return kind(code) }
