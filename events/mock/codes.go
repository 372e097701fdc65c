package mock

import "example.com/devevents/events"

// The numbers that the simulated library answers with: those of the CUDA
// runtime, so that a reader recognises them.
const (
	CodeInvalidValue       int32 = 1
	CodeOutOfMemory        int32 = 2
	CodeDevicesUnavailable int32 = 46
	CodeInvalidHandle      int32 = 400
	CodeIllegalState       int32 = 401
	CodeNotReady           int32 = 600
	CodeIllegalAddress     int32 = 700
	CodeLaunchFailure      int32 = 719
	CodeNotPermitted       int32 = 800
	CodeCaptureUnsupported int32 = 900
	CodeCaptureInvalidated int32 = 901
	CodeCaptureMerge       int32 = 902
	CodeCaptureUnmatched   int32 = 903
	CodeCaptureUnjoined    int32 = 904
	CodeCaptureIsolation   int32 = 905
	CodeCaptureImplicit    int32 = 906
	CodeCapturedEvent      int32 = 907
	CodeUnknown            int32 = 999
)

// named gives the name of a code and the sentinel that it stands for.
func named(code int32) (string, error) {
	switch code {
	case CodeInvalidValue:
		return "mockErrorInvalidValue", events.ErrInvalid
	case CodeOutOfMemory:
		return "mockErrorMemoryAllocation", events.ErrFull
	case CodeDevicesUnavailable:
		return "mockErrorDevicesUnavailable", events.ErrContextLost
	case CodeInvalidHandle:
		return "mockErrorInvalidResourceHandle", events.ErrInvalid
	case CodeIllegalState:
		return "mockErrorIllegalState", events.ErrInvalid
	case CodeNotReady:
		return "mockErrorNotReady", events.ErrNotReady
	case CodeIllegalAddress:
		return "mockErrorIllegalAddress", events.ErrDeviceFault
	case CodeLaunchFailure:
		return "mockErrorLaunchFailure", events.ErrDeviceFault
	case CodeNotPermitted:
		return "mockErrorNotPermitted", nil
	case CodeCaptureUnsupported:
		return "mockErrorStreamCaptureUnsupported", events.ErrCapturing
	case CodeCaptureInvalidated:
		return "mockErrorStreamCaptureInvalidated", events.ErrCapturing
	case CodeCaptureMerge:
		return "mockErrorStreamCaptureMerge", events.ErrCapturing
	case CodeCaptureUnmatched:
		return "mockErrorStreamCaptureUnmatched", events.ErrCapturing
	case CodeCaptureUnjoined:
		return "mockErrorStreamCaptureUnjoined", events.ErrCapturing
	case CodeCaptureIsolation:
		return "mockErrorStreamCaptureIsolation", events.ErrCapturing
	case CodeCaptureImplicit:
		return "mockErrorStreamCaptureImplicit", events.ErrCapturing
	case CodeCapturedEvent:
		return "mockErrorCapturedEvent", events.ErrCapturing
	case CodeUnknown:
		return "mockErrorUnknown", nil
	}
	return "", nil
}

// refusal is what the simulated library answers when it refuses a call.
func refusal(op Op, code int32) *events.DriverError {
	name, kind := named(code)
	return &events.DriverError{Backend: backend, Op: op.function(), Code: code, Name: name, Kind: kind}
}
