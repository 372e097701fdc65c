package main

import (
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events/cuda"
)

func openCUDA(ordinal int) (*opened, error) {
	rt, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	info := rt.Info()
	if ordinal >= len(info.Devices) {
		u := noSuchDevice("cuda", ordinal, len(info.Devices))
		u.Path, u.Version = info.Library, info.RuntimeVersion
		return nil, u
	}
	dev, err := rt.Device(ordinal)
	if err != nil {
		return nil, err
	}
	about := probe.About{
		Library:        &probe.Library{Path: info.Library, Driver: info.Driver},
		Device:         ordinal,
		DeviceCount:    len(info.Devices),
		RuntimeVersion: info.RuntimeVersion,
		RuntimeText:    info.RuntimeVersionText,
		DriverVersion:  info.DriverVersion,
		DriverText:     info.DriverVersionText,
	}
	return device(dev, about, info.Devices[ordinal], dev.Close), nil
}
