package noise

// 服务崩溃的次数由 counter 统计，每天清零。
var counter = "服务崩溃，任务继续"
