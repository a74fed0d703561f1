package tests

var questions = []string{
	"服务崩溃后任务如何继续？",
	"审批等待多久会超时？",
	"重复提问：服务崩溃后任务如何继续？请继续。",
}
