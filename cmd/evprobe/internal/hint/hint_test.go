package hint

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Users saw a number and no way on: ollama/ollama#3417, NVIDIA/warp#219.
func TestEachKnownCodeHasAHintOfItsOwn(t *testing.T) {
	for code, word := range map[int32]string{
		3: "kernel log", 34: "stubs", 35: "older", 36: "update the driver", 46: "exclusive", 100: "hides devices",
		802: "fabric manager", 803: "different versions", 804: "compat", 805: "MPS", 999: "does not say why",
	} {
		h := For("cuda", code)
		require.NotNil(t, h, code)
		require.Equal(t, code, h.Code)
		require.Contains(t, h.Text, word, code)
	}
	texts := map[string]int32{}
	for code, h := range known {
		require.Zero(t, texts[h.Text], "codes %d and %d say the same", code, texts[h.Text])
		texts[h.Text] = code
		require.NotEmpty(t, h.ID)
		require.NotContains(t, h.Text, "\n")
		require.Regexp(t, `^[a-z-]+$`, h.ID)
	}
}

func TestCodeThatNobodyExplainsHasNoHint(t *testing.T) {
	require.Nil(t, For("cuda", 0))
	require.Nil(t, For("cuda", 400))
	require.Nil(t, For("opencl", 35), "OpenCL's numbers mean other things")
	require.NotNil(t, For("hip", 100))
}

// An empty variable hides every device, and looks like one that is not set.
func TestNoDeviceShowsWhatTheVisibilityVariablesHold(t *testing.T) {
	env := map[string]string{"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void", "ROCR_VISIBLE_DEVICES": "0,1"}
	text := noDevice(func(name string) (string, bool) { v, ok := env[name]; return v, ok }).Text
	require.Contains(t, text, `CUDA_VISIBLE_DEVICES="" (hides every device), NVIDIA_VISIBLE_DEVICES="void" (hides every device), HIP_VISIBLE_DEVICES is not set, ROCR_VISIBLE_DEVICES="0,1";`)
	for value, hides := range map[string]bool{"": true, " ": true, "-1": true, "none": true, "NoDevFiles": true, "0": false, "all": false, "GPU-8a1": false, "-1,0": true, "0,-1": false} {
		require.Equal(t, hides, hidesAll(value), "%q", value)
	}
	require.Equal(t, 4, strings.Count(noDevice(func(string) (string, bool) { return "", false }).Text, "is not set"))
}
