package main

import "example.com/devevents/events/cuda"

func openCUDA(ordinal int) (*opened, error) {
	rt, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	return deviceOf[cuda.Event, cuda.Stream](rt, rt.Info(), ordinal)
}
