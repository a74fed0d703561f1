package run

// Words are what a run says to its model.
var words = map[string]string{
	"notice": "上一条回复没有正常结束。如果那就是回答，请用纯文本完整地再写一次；否则请继续。",
	"again":  "The run goes on after a crash. How does a run survive a crash?",
}
