// Package openai is a handlers.Model over any server that speaks OpenAI's chat
// completions: OpenAI, Ollama, vLLM, llama.cpp, DeepSeek, Qwen and the gateways
// in front of them. Requests use go-openai's types where they fit; the stream is
// read by our own decoder, which understands the shapes that servers really
// send and turns everything else into a typed *handlers.ModelError.
//
// Beside it are a handlers.Embedder over /embeddings and a handlers.Reranker over
// the common /rerank.
//
// It may import domain, handlers and go-openai. Start reading at Client.Chat,
// then eventReader (bytes to events), assembly (events to a reply) and
// ThinkSplitter (content to thinking and answer).
package openai
