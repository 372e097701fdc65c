// Package device opens the device that an example's user asks for, under a type that
// names no vendor.
package device
