package hip

// Codes is the table of names, for tests.
func Codes() map[int32]string { return codes }
