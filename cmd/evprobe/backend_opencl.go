package main

import (
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events/opencl"
)

func openOpenCL(ordinal int) (*opened, error) {
	rt, err := opencl.Open()
	if err != nil {
		return nil, err
	}
	info := rt.Info()
	if ordinal >= len(info.Devices) {
		u := noSuchDevice(info.Backend, ordinal, len(info.Devices))
		u.Path = info.Library
		return nil, u
	}
	dev, err := rt.Device(ordinal)
	if err != nil {
		return nil, err
	}
	d := info.Devices[ordinal]
	about := probe.About{
		Library:     &probe.Library{API: "icd", Path: info.Library},
		Device:      ordinal,
		DeviceCount: len(info.Devices),
		RuntimeText: info.Platforms[d.Platform].Version,
		DriverText:  d.Driver,
	}
	return device(dev, about, d.Identity, dev.Close), nil
}
