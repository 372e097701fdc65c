package main

import (
	"flag"
	"fmt"
	"strings"

	"example.com/devevents/cmd/evprobe/internal/probe"
)

func help(v *verb, fs *flag.FlagSet) string {
	var b strings.Builder
	switch v.name {
	case "":
		b.WriteString("evprobe measures whether the event timing of a GPU can be trusted.\n\nUsage: evprobe [flags]\n")
		b.WriteString("       evprobe SUBCOMMAND [flags]    (evprobe SUBCOMMAND -h explains each)\n\nSubcommands:\n")
		for _, sub := range verbs()[1:] {
			fmt.Fprintf(&b, "  %-7s %s\n", sub.name, sub.about)
		}
	default:
		fmt.Fprintf(&b, "evprobe %s: %s.\n\nUsage: evprobe %s\n", v.name, v.about, strings.TrimSpace(v.name+" [flags] "+v.operands))
	}
	if v.more != "" {
		b.WriteString("\n" + v.more + "\n")
	}
	b.WriteString("\nExamples:\n")
	for _, e := range v.examples {
		b.WriteString("  " + e + "\n")
	}
	b.WriteString("\nFlags:\n")
	fs.SetOutput(&b)
	fs.PrintDefaults()
	if v.name == "" || v.name == "check" {
		b.WriteString("\nChecks: " + strings.Join(probe.Names(), ", ") + "\n")
	}
	b.WriteString(exitCodes)
	return b.String()
}

const exitCodes = `
Exit codes:
    0  all checks passed (or help or the version was asked for)
    1  a check failed, the driver crashed, or the result could not be written
    2  wrong usage
    3  no usable library or device
    5  timed out
  130  interrupted or terminated
`
