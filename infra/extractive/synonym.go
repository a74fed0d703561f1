package extractive

import "strings"

// alike says which other words answer a question that uses the word before the
// colon. Entries with a space are looked for as they stand; the Chinese ones
// also name the English word, since papers of one language often lie beside
// files of the other.
const alike = `
crash: kill -9, killed, die, dies, died, restart, outage, panic
survive: recover, resume, durable, lose, loses, lost, continue
recover: survive, resume, restart, attempt, again
restart: crash, kill -9, recover, resume
wait: timeout, expire, expires, pending
timeout: expire, wait, limit, at most
expire: timeout, valid until
answer: decision, reply, response
delete: remove, erase
remove: delete, erase
start: begin, launch, boot
stop: cancel, abort, end
cancel: stop, abort
configure: configuration, setting, option, environment
configuration: configure, setting, option, environment
setting: configuration, option
error: fail, failure, fault
fail: error, failure, crash
limit: maximum, max, at most, up to
maximum: limit, max, at most, up to
max: limit, maximum, at most, up to
minimum: min, at least
cost: price, fee, charge, pay
price: cost, fee, charge
vacation: holiday, annual leave
holiday: vacation, annual leave
salary: pay, wage
lost: lose, loses, missing, stolen
stolen: lost, missing
notebook: laptop
install: setup, set up
retry: attempt, again
store: storage, database, save
licence: license
license: licence
library: dependency, package
office: workplace
auth: authentication, authorization, login
repo: repository
docs: documentation
allow: permit, may
崩溃: 宕机, 重启, 恢复, 挂掉, crash, kill -9
恢复: 重启, 继续, 重试, recover, resume
继续: 恢复, 重启, 接着, survive, recover, resume
重启: 恢复, 崩溃, restart
等待: 超时, 等候, timeout, wait
超时: 等待, 过期, timeout
审批: 批准, 核准, approval
批准: 审批, 同意, approval
启动: 开始, 开机, start, serve
服务: server
默认: 缺省, default
运行: run
会话: session
模型: model
工具: tool
事件: event
日志: log
配置: 设置, configuration
设置: 配置, configuration
错误: 失败, 故障, error
失败: 错误, 故障, fail
停止: 取消, 终止, stop
取消: 停止, 撤销, cancel
删除: 移除, 清除, delete
丢失: 遗失, 丢了, lost
遗失: 丢失, 丢了
电脑: 笔记本
密码: 口令
工资: 薪资, 薪酬
年假: 带薪假, 休假
磁盘: 硬盘, disk
满: full
备份: backup
密钥: key
断电: 停电, power
端口: port
请假: 休假
费用: 花费, 价格
价格: 费用, 售价
上限: 最多, 不超过, limit
最多: 上限, 不超过
`

// synonyms is alike by the stem of the word asked, or by its characters.
var synonyms = func() map[string][]term {
	table := map[string][]term{}
	for row := range strings.SplitSeq(strings.TrimSpace(alike), "\n") {
		word, others, _ := strings.Cut(row, ":")
		key := stemOf(word)
		for other := range strings.SplitSeq(others, ",") {
			other = strings.TrimSpace(other)
			t := term{text: stemOf(other), word: other}
			if hasHan(other) || strings.Contains(other, " ") {
				t.text, t.raw = other, true
			}
			if t.text != key {
				table[key] = append(table[key], t)
			}
		}
	}
	return table
}()
