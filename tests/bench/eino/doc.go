// Package eino holds the benchmarks beside Eino's ReAct agent, in a module of
// their own, so that the product does not depend on it. Run them with
// tests/bench/run.
package eino
