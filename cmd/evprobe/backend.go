package main

import (
	"context"
	"errors"
	"fmt"

	"example.com/devevents/bench"
	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/cmd/evprobe/internal/ladder"
	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
)

// backend is a way to a device.
type backend struct {
	name string
	auto bool // whether -backend auto tries it
	open func(device int) (*opened, error)
	list func() (document.Backend, error) // what evprobe list says of it
}

// backends are all there are, in the order in which auto tries them.
func backends() []backend {
	return []backend{
		{name: "cuda", auto: true, open: openCUDA, list: listCUDA},
		{name: "hip", auto: true, open: openHIP, list: listHIP},
		{name: "opencl", auto: true, open: openOpenCL, list: listOpenCL},
		{name: "mock", open: openMock, list: listMock},
	}
}

// opened is a device of any vendor.
type opened struct {
	backend  string
	about    probe.About
	identity events.Identity
	check    func(context.Context, probe.Settings) probe.Outcome
	bench    func(ladder.Settings) *bench.Report
	close    func() error
}

// device hides the vendor's types.
func device[E any, S comparable](api events.EventApi[E, S], about probe.About, identity events.Identity, closing func() error) *opened {
	return &opened{
		backend:  api.Backend(),
		about:    about,
		identity: identity,
		check: func(ctx context.Context, s probe.Settings) probe.Outcome {
			return probe.Run(ctx, api, about, s)
		},
		bench: func(s ladder.Settings) *bench.Report { return ladder.Run(api, s) },
		close: closing,
	}
}

// opening is what a message says of the device.
func (o *opened) opening() *opening {
	m := &opening{Backend: o.backend, Device: (*document.Device)(&o.identity)}
	if lib := o.about.Library; lib != nil {
		m.Library = &document.Library{
			API: lib.API, Path: lib.Path, Driver: lib.Driver,
			RuntimeVersion: o.about.RuntimeVersion, RuntimeVersionText: o.about.RuntimeText,
			DriverVersion: o.about.DriverVersion, DriverVersionText: o.about.DriverText,
		}
	}
	return m
}

// vendorDevice is a device of a vendor's loaded library.
type vendorDevice[E any, S comparable] interface {
	events.EventApi[E, S]
	Close() error
}

// deviceOf takes a device of a loaded library. The vendors' libraries describe
// themselves in the same way.
func deviceOf[E any, S comparable, D vendorDevice[E, S]](rt interface{ Device(i int) (D, error) }, info cuda.Info, ordinal int) (*opened, error) {
	if ordinal >= len(info.Devices) {
		u := noSuchDevice(info.Backend, ordinal, len(info.Devices))
		u.Path, u.Version = info.Library, info.RuntimeVersion
		return nil, u
	}
	dev, err := rt.Device(ordinal)
	if err != nil {
		return nil, err
	}
	about := probe.About{
		Library:        &probe.Library{API: info.API, Path: info.Library, Driver: info.Driver},
		Device:         ordinal,
		DeviceCount:    len(info.Devices),
		RuntimeVersion: info.RuntimeVersion,
		RuntimeText:    info.RuntimeVersionText,
		DriverVersion:  info.DriverVersion,
		DriverText:     info.DriverVersionText,
	}
	return device(dev, about, info.Devices[ordinal], dev.Close), nil
}

// noSuchDevice answers for an ordinal that the backend does not have.
func noSuchDevice(backend string, asked, count int) *events.UnavailableError {
	return &events.UnavailableError{
		Backend: backend,
		Cause:   events.CauseNoDevice,
		Detail:  fmt.Sprintf("device %d was asked for and there are %d, counted from 0", asked, count),
		Advice:  "choose another with -device",
	}
}

// open opens the backend's device. With notCPU the host's own processors are no device.
func (b backend) openDevice(ordinal int, notCPU bool) (*opened, error) {
	o, err := b.open(ordinal)
	if err == nil && notCPU && o.identity.Kind == events.KindCPU {
		return nil, errors.Join(&events.UnavailableError{
			Backend: b.name,
			Cause:   events.CauseNoDevice,
			Detail:  fmt.Sprintf("device %d is the host's own processors (%s)", ordinal, o.identity.Name),
			Advice:  "probe them with -backend " + b.name,
		}, o.close())
	}
	return o, err
}

// explain gives every error the form of an unavailability.
func explain(backend string, err error) *events.UnavailableError {
	var u *events.UnavailableError
	if errors.As(err, &u) {
		return u
	}
	u = &events.UnavailableError{Backend: backend, Cause: events.CauseDriverError, Detail: err.Error()}
	var refused *events.DriverError
	if errors.As(err, &refused) {
		u.Code, u.CodeName = refused.Code, refused.Name
	}
	return u
}
