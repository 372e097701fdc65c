package main

import (
	"example.com/devevents/cmd/evprobe/internal/document"
	"example.com/devevents/events/hip"
)

func openHIP(ordinal int) (*opened, error) {
	rt, err := hip.Open()
	if err != nil {
		return nil, err
	}
	return deviceOf[hip.Event, hip.Stream](rt, rt.Info(), ordinal)
}

func listHIP() (document.Backend, error) {
	rt, err := hip.Open()
	return listed(rt.Info(), err)
}
