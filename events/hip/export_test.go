package hip

// Codes is the table of names, for tests.
func Codes() map[int32]string { return codes }

// Kind is the sentinel of a code, for tests.
func Kind(code int32) error { return kind(code) }
