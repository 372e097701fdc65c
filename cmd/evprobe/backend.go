package main

import (
	"context"
	"errors"
	"fmt"

	"example.com/devevents/cmd/evprobe/internal/probe"
	"example.com/devevents/events"
	"example.com/devevents/events/cuda"
)

// backend is a way to a device.
type backend struct {
	name string
	auto bool // whether -backend auto tries it
	open func(device int) (*opened, error)
}

// backends are all there are, in the order in which auto tries them.
func backends() []backend {
	return []backend{
		{name: "cuda", auto: true, open: openCUDA},
		{name: "hip", auto: true, open: openHIP},
		{name: "opencl", auto: true, open: openOpenCL},
		{name: "mock", open: openMock},
	}
}

// opened is a device of any vendor.
type opened struct {
	backend  string
	about    probe.About
	identity events.Identity
	check    func(context.Context, probe.Settings) probe.Outcome
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
		close: closing,
	}
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

// choose opens the backend of that name, or with auto the first that has something
// else than the host's own processors, which are no answer to a question about GPUs.
// The errors are of those that were tried in vain.
func choose(all []backend, name string, ordinal int) (*opened, []*events.UnavailableError) {
	var unavailable []*events.UnavailableError
	for _, b := range all {
		if b.name != name && (name != auto || !b.auto) {
			continue
		}
		o, err := b.open(ordinal)
		if err == nil && name == auto && o.identity.Kind == events.KindCPU {
			err = errors.Join(&events.UnavailableError{
				Backend: b.name,
				Cause:   events.CauseNoDevice,
				Detail:  fmt.Sprintf("device %d is the host's own processors (%s)", ordinal, o.identity.Name),
				Advice:  "probe them with -backend " + b.name,
			}, o.close())
		}
		if err == nil {
			return o, unavailable
		}
		unavailable = append(unavailable, explain(b.name, err))
	}
	return nil, unavailable
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
