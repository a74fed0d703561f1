//go:build unix

package analysis

import (
	"os/exec"
	"syscall"
)

// own gives the process a group of its own, so that a signal to the server's is
// not one to it, and all that it may have started can be ended with it.
func own(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
