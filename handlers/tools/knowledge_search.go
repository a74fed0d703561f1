package tools

// KnowledgeSearchName is the name of the tool that searches by meaning.
const KnowledgeSearchName = "knowledge_search"
