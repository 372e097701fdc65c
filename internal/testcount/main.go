package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run exits 0 when nothing failed, 1 when something did, 2 on wrong usage.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("testcount", flag.ContinueOnError)
	flags.SetOutput(stderr)
	into := flags.String("into", "", "append one line for each test to this `file`")
	closing := flags.String("close", "", "name what failed, and print the closing line, for the results in this `file`")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "testcount: unexpected argument %q\n", flags.Arg(0))
		return 2
	}
	failed, err := work(*into, *closing, stdin, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "testcount: %v\n", err)
		return 2
	}
	if failed > 0 {
		return 1
	}
	return 0
}

func work(into, closing string, stdin io.Reader, stdout io.Writer) (failed int, err error) {
	if closing != "" {
		text, err := os.ReadFile(closing)
		if err != nil {
			return 0, err
		}
		results, err := parse(string(text))
		if err != nil {
			return 0, err
		}
		counts := count(results)
		for _, r := range failing(results) {
			fmt.Fprintf(stdout, "FAIL %s %s\n", r.pkg, r.test)
		}
		fmt.Fprintln(stdout, counts)
		return counts.failed, nil
	}
	results, err := digest(stdin, stdout)
	if err != nil {
		return 0, err
	}
	text := lines(results)
	if into != "" {
		if err := appendTo(into, text); err != nil {
			return 0, err
		}
	}
	counts := count(results)
	fmt.Fprintf(stdout, "in all %s\n", counts)
	return counts.failed, nil
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		_ = f.Close() // the write's error says more
		return err
	}
	return f.Close()
}
