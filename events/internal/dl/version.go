package dl

import "strings"

// versionOf is the version in a file name that begins with stem: "13.0.96" of
// libcudart.so.13.0.96, "13" of cudart64_13.dll.
func versionOf(stem, base string) (string, bool) {
	rest, ok := strings.CutPrefix(base, stem)
	if !ok || stem == "" {
		return "", false
	}
	rest = strings.TrimSuffix(rest, ".dll")
	for part := range strings.SplitSeq(rest, ".") {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool { return r < '0' || r > '9' }) {
			return "", false
		}
	}
	return rest, true
}

// majorOf is the part of a version before the first dot.
func majorOf(version string) string {
	major, _, _ := strings.Cut(version, ".")
	return major
}

// naturalCompare orders names by the numbers in them: cuda-9.2 before cuda-13.0.
// Equal means identical.
func naturalCompare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		if isDigit(x[0]) && isDigit(y[0]) {
			var m, n string
			m, x = cutNumber(x)
			n, y = cutNumber(y)
			if len(m) != len(n) {
				return len(m) - len(n)
			}
			if c := strings.Compare(m, n); c != 0 {
				return c
			}
			continue
		}
		if x[0] != y[0] {
			return int(x[0]) - int(y[0])
		}
		x, y = x[1:], y[1:]
	}
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	return strings.Compare(a, b) // 7 and 007
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// cutNumber takes the digits off the front of s, without leading zeros.
func cutNumber(s string) (number, rest string) {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return strings.TrimLeft(s[:n], "0"), s[n:]
}
