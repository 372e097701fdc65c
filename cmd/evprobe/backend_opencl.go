package main

import (
	"errors"
	"fmt"
	"strings"

	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
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
	d := info.Devices[ordinal]
	dev, err := rt.Device(ordinal)
	if err != nil {
		return nil, cannotOpen(info.Library, d, err)
	}
	about := probe.About{
		Library:     &probe.Library{API: "icd", Path: info.Library},
		Device:      ordinal,
		DeviceCount: len(info.Devices),
		RuntimeText: info.Platforms[d.Platform].Version,
		DriverText:  d.Driver,

		CommandsStamped: true,
	}
	return device(dev, about, d.Identity, dev.Close), nil
}

// cannotOpen explains a device that is listed and refuses to be opened.
func cannotOpen(library string, d opencl.DeviceInfo, err error) *events.UnavailableError {
	u := &events.UnavailableError{
		Backend: "opencl",
		Cause:   events.CauseDriverError,
		Detail:  err.Error(),
		Advice:  "see what clinfo says as the same user, and whether another program has taken all of the device; or choose another device with -device",
		Path:    library,
	}
	var refused *events.DriverError
	if errors.As(err, &refused) {
		u.Detail = fmt.Sprintf("device %d (%s) is listed, and opening it failed in %s", d.Ordinal, d.Name, refused.Op)
		u.Code, u.CodeName = refused.Code, refused.Name
	}
	return u
}

func listOpenCL() (document.Backend, error) {
	rt, err := opencl.Open()
	if err != nil {
		return document.Backend{}, err
	}
	info := rt.Info()
	b := document.Backend{Library: &document.Library{API: "icd", Path: info.Library}, Skipped: info.Skipped}
	var platforms []string
	for _, p := range info.Platforms {
		platforms = append(platforms, p.Name+" "+p.Version)
	}
	b.Library.RuntimeVersionText = strings.Join(platforms, ", ")
	for _, d := range info.Devices {
		b.Devices = append(b.Devices, document.Device(d.Identity))
	}
	return b, nil
}
