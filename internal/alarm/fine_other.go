//go:build !linux

package alarm

import "time"

// fine is absent.
type fine struct{}

func (*fine) open()                    {}
func (*fine) sleep(time.Duration) bool { return false }
func (*fine) wake() bool               { return false }
func (*fine) close()                   {}
