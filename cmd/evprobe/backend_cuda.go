package main

import (
	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/events/cuda"
)

func openCUDA(ordinal int) (*opened, error) {
	rt, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	return deviceOf[cuda.Event, cuda.Stream](rt, rt.Info(), ordinal)
}

func listCUDA() (document.Backend, error) {
	rt, err := cuda.Open()
	return listed(rt.Info(), err)
}
