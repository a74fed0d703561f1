// Command refold is the whole of Refold in one binary; see infra/cli for its
// commands and infra/app for what it is made of.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"refold/infra/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, stop, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
