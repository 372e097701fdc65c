package main

import "example.com/devevents/events/hip"

func openHIP(ordinal int) (*opened, error) {
	rt, err := hip.Open()
	if err != nil {
		return nil, err
	}
	return deviceOf[hip.Event, hip.Stream](rt, rt.Info(), ordinal)
}
