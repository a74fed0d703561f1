package openai

import "unicode"

// codeSpan follows Markdown text rune by rune and knows whether the next rune
// stands inside a code fence or inline code. Inline code that is never closed
// ends with its paragraph.
type codeSpan struct {
	inLine bool // the line has more than indentation and quote marks

	run      int  // length of the run of ` or ~ just before
	mark     rune // what that run is made of
	runFirst bool // that run opens its line

	fence    rune // the mark of the open fence, 0 if none
	fenceLen int
	info     bool // still on the line that opened the fence
	closing  bool // the line closes the fence if nothing but white space follows
	inline   int  // length of the run that opened inline code, 0 if none
}

// outside tells whether the next rune is plain text, if it is no mark itself.
func (c *codeSpan) outside() bool {
	c.endRun()
	return c.fence == 0 && c.inline == 0
}

func (c *codeSpan) step(r rune) {
	if r == '`' || r == '~' {
		if c.run == 0 || c.mark != r {
			c.endRun()
			c.runFirst = !c.inLine
			c.mark = r
		}
		c.run++
		c.inLine = true
		return
	}
	c.endRun()
	switch {
	case r == '\n':
		if c.closing {
			c.fence = 0
		}
		if !c.inLine {
			c.inline = 0
		}
		c.closing, c.info, c.inLine = false, false, false
	case unicode.IsSpace(r):
	case r == '>' && !c.inLine:
	default:
		c.inLine, c.closing = true, false
	}
}

func (c *codeSpan) endRun() {
	n := c.run
	c.run = 0
	switch {
	case n == 0:
	case c.fence != 0 && c.info && c.mark == '`' && c.fence == '`':
		// A fence has no backtick on its first line: this was inline code.
		c.inline, c.fence, c.info = c.fenceLen, 0, false
		if n == c.inline {
			c.inline = 0
		}
	case c.fence != 0:
		c.closing = c.mark == c.fence && c.runFirst && n >= c.fenceLen
	case c.inline != 0 && c.mark == '`' && n == c.inline:
		c.inline = 0
	case c.runFirst && n >= 3:
		c.fence, c.fenceLen, c.info, c.inline = c.mark, n, true, 0
	case c.inline == 0 && c.mark == '`':
		c.inline = n
	}
}
