//go:build !windows

package hip

const libraryStem = "libamdhip64.so."

func libraryNames() []string {
	return []string{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}
}
