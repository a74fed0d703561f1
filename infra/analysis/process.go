package analysis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"refold/infra/analysis/line"
)

// errBroken says that a process is no more, or speaks nonsense.
var errBroken = errors.New("the analysis process broke down")

// process is one running refold-data. Not safe for concurrent use, except kill.
type process struct {
	cmd     *exec.Cmd
	dir     string
	in      io.WriteCloser
	replies *line.Reader
	done    chan struct{}
	end     sync.Once
}

// start runs the binary in an empty directory, without an environment, in a
// process group of its own.
func start(binary, tempDir string) (*process, error) {
	dir, err := os.MkdirTemp(tempDir, "refold-data-")
	if err != nil {
		return nil, fmt.Errorf("directory of the analysis process: %w", err)
	}
	p := &process{cmd: exec.Command(binary), dir: dir, done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = dir, []string{}
	own(p.cmd)
	fail := func(err error) (*process, error) {
		return nil, errors.Join(fmt.Errorf("start the analysis process: %w", err), os.RemoveAll(dir))
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return fail(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	p.replies = line.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return fail(err)
	}
	return p, nil
}

// send writes a request that has no reply.
func (p *process) send(q line.Request) error {
	if err := line.Write(p.in, q); err != nil {
		return fmt.Errorf("%w: %v", errBroken, err)
	}
	return nil
}

// ask writes a request and reads its reply.
func (p *process) ask(q line.Request) (line.Reply, error) {
	var r line.Reply
	if err := p.send(q); err != nil {
		return r, err
	}
	if err := p.replies.Read(&r); err != nil {
		return r, fmt.Errorf("%w: %v", errBroken, err)
	}
	return r, nil
}

// under ends the process when ctx does; the caller must call the answer.
func (p *process) under(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, p.kill)
}

// kill ends the process and all that belongs to it.
func (p *process) kill() {
	p.end.Do(func() {
		endGroup(p.cmd)
		_ = p.in.Close()
		go func() {
			_ = p.cmd.Wait()
			_ = os.RemoveAll(p.dir)
			close(p.done)
		}()
	})
}

// close ends the process and waits until it is gone.
func (p *process) close() {
	p.kill()
	<-p.done
}
