package e2e

import (
	"flag"
	"fmt"
	"os"

	"refold/api"
	"refold/tests/openapi"
)

// checker compares what the tests send and get with the OpenAPI document.
var checker = func() *openapi.Checker {
	c, err := openapi.New(api.Document)
	if err != nil {
		panic("the OpenAPI document: " + err.Error())
	}
	return c
}()

// notCalled are operations that these tests need not call.
var notCalled = map[string]bool{}

// checked fails a run in which traffic did not fit the document, or, if all
// tests were run, an operation was not called at all.
func checked(code int) int {
	problems := checker.Problems()
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "--- FAIL: openapi.json:", p)
	}
	if f := flag.Lookup("test.run"); code == 0 && f != nil && f.Value.String() == "" {
		for _, op := range checker.Unseen() {
			if !notCalled[op] {
				fmt.Fprintln(os.Stderr, "--- FAIL: openapi.json: no test calls", op)
				code = 1
			}
		}
	}
	fmt.Printf("openapi.json: %d requests checked, %d problems\n", checker.Seen(), len(problems))
	if len(problems) > 0 && code == 0 {
		code = 1
	}
	return code
}
