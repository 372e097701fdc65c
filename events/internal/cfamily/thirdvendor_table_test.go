package cfamily_test

import (
	"strconv"

	"example.com/devevents/events"
	"example.com/devevents/events/internal/cfamily"
	"example.com/devevents/events/internal/dl"
)

// musa is a vendor that does not exist. This file is all that it takes to add one
// of the family: names, codes and habits.
type musa struct{}

func (musa) VendorName() string { return "musa" }

func musaTable() *cfamily.Table {
	symbols := map[cfamily.Op]cfamily.Symbol{}
	for op, name := range map[cfamily.Op]string{
		cfamily.OpEventCreate:    "EventCreateWithFlags",
		cfamily.OpEventDestroy:   "EventDestroy",
		cfamily.OpEventRecord:    "EventRecord",
		cfamily.OpEventQuery:     "EventQuery",
		cfamily.OpEventWait:      "EventSynchronize",
		cfamily.OpEventElapsed:   "EventElapsedTime",
		cfamily.OpStreamCreate:   "StreamCreateWithFlags",
		cfamily.OpStreamDestroy:  "StreamDestroy",
		cfamily.OpStreamSync:     "StreamSynchronize",
		cfamily.OpStreamWait:     "StreamWaitEvent",
		cfamily.OpDeviceCount:    "GetDeviceCount",
		cfamily.OpGetDevice:      "GetDevice",
		cfamily.OpSetDevice:      "SetDevice",
		cfamily.OpRuntimeVersion: "RuntimeGetVersion",
	} {
		symbols[op] = cfamily.Symbol{Name: "musa" + name}
	}
	for op, name := range map[cfamily.Op]string{
		cfamily.OpEventRecordExt: "EventRecordWithFlags",
		cfamily.OpCapturing:      "StreamIsCapturing",
		cfamily.OpCaptureBegin:   "StreamBeginCapture",
		cfamily.OpCaptureEnd:     "StreamEndCapture",
		cfamily.OpGraphInstance:  "GraphInstantiateWithFlags",
		cfamily.OpGraphLaunch:    "GraphLaunch",
		cfamily.OpGraphExecFree:  "GraphExecDestroy",
		cfamily.OpGraphFree:      "GraphDestroy",
		cfamily.OpDevicePCI:      "DeviceGetPCIBusId",
		cfamily.OpDriverVersion:  "DriverGetVersion",
		cfamily.OpLastErrorPeek:  "PeekAtLastError",
		cfamily.OpLastErrorClear: "GetLastError",
		cfamily.OpErrorName:      "GetErrorName",
		cfamily.OpExchangeMode:   "ThreadExchangeStreamCaptureMode",
	} {
		symbols[op] = cfamily.Symbol{Name: "musa" + name, Need: cfamily.Optional}
	}
	return &cfamily.Table{
		Backend: "musa",
		Label:   "MUSA",
		API:     "runtime",
		Library: dl.Spec{
			Backend: "musa",
			Names:   []string{"libmusart.so.4"},
			Stem:    "libmusart.so.",
			Env:     "DEVEVENTS_MUSA",
		},
		VersionText:     func(v int) string { return strconv.Itoa(v/1000) + "." + strconv.Itoa(v%1000/10) },
		BlockingUntimed: 3,
		Symbols:         symbols,
		Codes: map[int32]string{
			1: "musaErrorInvalidValue", 400: "musaErrorInvalidResourceHandle", 600: "musaErrorNotReady",
			700: "musaErrorIllegalAddress", 900: "musaErrorStreamCaptureUnsupported", 907: "musaErrorCapturedEvent",
		},
		Kind: func(code int32) error {
			switch {
			case code == 600:
				return events.ErrNotReady
			case code == 1 || code == 400:
				return events.ErrInvalid
			case code == 700 || code == 719:
				return events.ErrDeviceFault
			case code >= 900 && code < 910:
				return events.ErrCapturing
			}
			return nil
		},
	}
}
