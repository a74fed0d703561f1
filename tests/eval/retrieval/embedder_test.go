package retrieval

import (
	"context"
	"hash/fnv"
	"math"
	"strings"

	"refold/domain/search"
)

// synonyms are words of one meaning, in both languages. They were written down
// from the language, not from the questions.
var synonyms = [][]string{
	{"holiday", "vacation", "leave", "假期", "休假", "年假", "年休假"}, {"ill", "sick", "病", "病假", "生病"}, {"baby", "infant", "宝宝", "婴儿"},
	{"dad", "father", "爸爸", "父亲", "男员工"}, {"wife", "spouse", "老婆", "妻子", "配偶"}, {"birth", "生孩子", "生育"}, {"twins", "双胞胎", "多胞胎"},
	{"money", "amount", "cash", "钱", "金额", "款项"}, {"pay", "reimburse", "refund", "contribute", "付款", "报销", "支付", "补贴", "补助"},
	{"hotel", "accommodation", "酒店", "住宿", "宾馆"}, {"eat", "meal", "food", "吃饭", "伙食", "用餐"}, {"salary", "wage", "工资", "薪水"},
	{"buy", "purchase", "procure", "购买", "采购"}, {"quote", "bid", "报价", "比价"}, {"home", "house", "家里", "在家"}, {"remote", "远程"},
	{"password", "credential", "密码", "口令"}, {"forget", "forgotten", "忘记", "忘了"}, {"phone", "mobile", "手机", "电话"}, {"company", "firm", "公司", "单位"},
	{"lawyer", "legal", "法务"}, {"competitor", "竞争对手", "竞争企业"}, {"resign", "quit", "离职", "辞职"}, {"delete", "remove", "删除", "删掉"},
	{"document", "proof", "certificate", "证明", "材料"}, {"doctor", "hospital", "医院", "住院"}, {"fault", "error", "problem", "故障", "原因"},
	{"wifi", "wireless", "wi-fi", "无线", "网络", "信号"}, {"clean", "清扫", "清洁", "打扫"}, {"car", "train", "transport", "车票", "交通"}, {"bullying", "harassment"},
	{"present", "gift", "bottle"}, {"anonymously", "anonymous", "name"}, {"email", "e-mail", "mail"}, {"lost", "lose", "loss"}, {"christmas", "december"},
	{"retain", "keep", "kept", "store", "保存", "保留"}, {"parcel", "delivery", "shipping", "shipment"}, {"tax", "duty", "vat", "税", "税率"}, {"winter", "cold", "freezing"},
	{"desk", "chair", "equipment"}, {"outage", "downtime"}, {"replace", "rotation", "rotate", "exchange"}, {"blink", "flash", "flashing"}, {"meeting", "会议", "活动"},
	{"cancel", "release", "取消", "释放", "作废"}, {"lock", "锁", "锁定"}, {"notify", "inform", "tell", "report"}, {"spain", "abroad", "country"},
}

// concepts gives the number of the meaning of a term.
var concepts = func() map[string]int {
	out := map[string]int{}
	for i, group := range synonyms {
		for _, w := range group {
			if terms := search.QueryTerms(w); len(terms) > 0 {
				out[terms[0].Text] = i + 1
			}
		}
	}
	return out
}()

// embedder is a deterministic test model: terms and meanings, hashed into 384
// dimensions.
type embedder struct{}

func (embedder) Name() string { return "test-bag" }

func (embedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		counts := map[string]float64{}
		for _, term := range search.QueryTerms(t) {
			counts["t:"+term.Text]++
		}
		for _, term := range search.Terms(t) {
			counts["t:"+term] += 0.5
			if c := concepts[term]; c > 0 {
				counts["c:"+string(rune(c))] += 1.5
			}
		}
		for _, word := range synonyms {
			for _, w := range word {
				if len([]rune(w)) > 2 && strings.Contains(t, w) {
					if terms := search.QueryTerms(w); len(terms) > 0 {
						counts["c:"+string(rune(concepts[terms[0].Text]))] += 1.5
					}
				}
			}
		}
		v := make([]float32, 384)
		for f, n := range counts {
			h := fnv.New64a()
			h.Write([]byte(f))
			sum := h.Sum64()
			w := float32(1 + math.Log(n+0.5))
			for k := range 3 { // each feature in three places
				place := sum >> (k * 16) % 384
				if sum>>(48+k)&1 == 0 {
					v[place] -= w
				} else {
					v[place] += w
				}
			}
		}
		out[i] = v
	}
	return out, nil
}
