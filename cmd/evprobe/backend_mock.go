package main

import (
	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events/mock"
)

// mockDrift gives the drift check something to find.
const mockDrift = 4.2

func openMock(ordinal int) (*opened, error) {
	sys := mock.New(mock.Drift(mockDrift))
	if ordinal >= sys.Devices() {
		return nil, noSuchDevice("mock", ordinal, sys.Devices())
	}
	dev := sys.Device(ordinal)
	about := probe.About{Device: ordinal, DeviceCount: sys.Devices()}
	return device(dev, about, dev.Identity(), func() error {
		sys.Close()
		return nil
	}), nil
}

func listMock() (document.Backend, error) {
	sys := mock.New()
	defer sys.Close()
	b := document.Backend{Origin: "made of Go, always there"}
	for i := range sys.Devices() {
		b.Devices = append(b.Devices, document.Device(sys.Device(i).Identity()))
	}
	return b, nil
}
