package charset

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// What is common in texts of a language: of what is not ASCII in ordinary text, a
// third to two thirds. Read in a wrong encoding, a few in a hundred.
const (
	simplified  = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本去把性好应开它合还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比或但质气第向道命此变条只没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料象员革位入常文总次品式活设及管特件长求老头基资边流路级少图山统接知较将组见计别手角期根论运农指几九区强放决西被干做必战先回则任取据处队南给色光门即保治北造百规热领七海口东导器压志世金增争济阶油思术极交受联什认六共权收证改清己美再采转更单风切打白教速花带安场身车例真务具万每目至达走积示议声报完类八离华名确才科张信马节话米整空元况今集温传土许步群广石记需段研界林律叫且究观越织装影算低持音众书布复容儿须际商非验连断深难近千周委素技备半办青省列习响约支般史感劳便团往历市克何除消构府称太准精值号率族维划选标写存候毛亲快效院查江型眼王按格养易置派层片始却专状育厂京识适属圆包火住调满县局照参红细引听该铁价严额订款客户售量店姓性别岁址邮编码备注：，。、（）"
	traditional = "的一是在不了有和人這中大為上個國我以要他時來用們生到作地於出就分對成會可主發年動同工也能下過子說產種面而方後多定行學法所民得經十三之進著等部度家電力裡如水化高自二理起小物現實加量都兩體制機當使點從業本去把性好應開它合還因由其些然前外天政四日那社義事平形相全表間樣與關各重新線內數正心反你明看原又麼利比或但質氣第向道命此變條只沒結解問意建月公無系軍很情者最立代想已通並提直題黨程展五果料象員革位入常文總次品式活設及管特件長求老頭基資邊流路級少圖山統接知較將組見計別手角期根論運農指幾九區強放決西被做必戰先回則任取據處隊南給色光門即保治北造百規熱領七海口東導器壓志世金增爭濟階油思術極交受聯什認六共權收證改清己美再採轉更單風切打白教速花帶安場身車例真務具萬每目至達走積示議聲報完類八離華名確才科張信馬節話米整空元況今集溫傳土許步群廣石記需段研界林律叫且究觀越織裝影算低持音眾書布復容兒須際商非驗連斷深難近千周委素技備半辦青省列習響約支般史感勞便團往歷市克何除消構府稱太準精值號率族維劃選標寫存候毛親快效院查江型眼王按格養易置派層片始卻專狀育廠京識適屬圓包火住調滿縣局照參紅細引聽該鐵價嚴額訂款客戶售店臺灣姓址郵編碼註：，。、（）"
	kana        = "あいうえおかがきぎくけげこごさしじすずせそただちっつてでとどなにねのはばひびふへべほぼまみむめもゃやゅゆょよらりるれろわをんアイウエオカガキクグコサシジスズセタダチッツテデトドナニネノハバパビピフブプベペホボポマミムメモャュョラリルレロワンー、。・「」年月日大人会社本東京一国"
	syllables   = "이다는을를에의가고하지로은기사시어도인아리한나서자대해정일보스그전수상부장마라여조주제있것들과만공성원동비구게트소니안면경문위회수량금액명름번호년월계합오무관중신용치생각세"
)

func familiar(common string) func(string) float64 {
	known := map[rune]bool{}
	for _, r := range common {
		known[r] = true
	}
	return func(s string) float64 {
		hits, all := 0, 0
		for _, r := range s {
			if r < 0x80 {
				continue
			}
			all++
			if known[r] {
				hits++
			}
		}
		return float64(hits) / float64(max(all, 1))
	}
}

const (
	enough = 0.15 // of the characters are common
	clear  = 1.6  // times as many as in the next best encoding
)

// guess tells the encoding of a sample that is not UTF-8.
func guess(sample []byte) (Encoding, error) {
	if e, ok := western(sample); ok {
		return e, nil
	}
	var best Encoding
	first, second := 0.0, 0.0
	for _, c := range candidates {
		text, ok := decoded(sample, c.Encoding)
		if !ok {
			continue
		}
		switch score := c.score(text); {
		case score > first:
			best, first, second = c.Encoding, score, first
		case score > second:
			second = score
		}
	}
	if first < enough || first < clear*second {
		return Encoding{}, ErrUnknown
	}
	return best, nil
}

// decoded is the sample as text, if it is valid but for a cut character at its
// end.
func decoded(sample []byte, e Encoding) (string, bool) {
	out, err := e.decode.NewDecoder().Bytes(sample)
	if err != nil {
		return "", false
	}
	text := strings.TrimRight(string(out), "\uFFFD")
	if len(sample) < sampled && len(text) < len(out) {
		return "", false
	}
	return text, !strings.ContainsRune(text, utf8.RuneError)
}

// western tells Windows-1252, and Latin-1, which is a part of it: single letters
// with accents among many without, and typographic marks.
func western(sample []byte) (Encoding, bool) {
	e := Encoding{Name: "windows-1252", decode: charmap.Windows1252}
	text, ok := decoded(sample, e)
	if !ok {
		return e, false
	}
	good, all := 0, 0
	before := ' '
	runes := []rune(text)
	for i, r := range runes {
		after := ' '
		if i+1 < len(runes) {
			after = runes[i+1]
		}
		if r >= 0x80 {
			all++
			alone := before < 0x80 && after < 0x80
			near := isLatin(before) || isLatin(after)
			if alone && !near && strings.ContainsRune("àáéèíóòÀÁÉÈÓ", r) { // a word of its own in French, Italian, Spanish: says neither
				all--
			}
			switch {
			case strings.ContainsRune("äöüßéèêëàâáãåçíìîïñóòôõøúùûæœÿÄÖÜÉÈÊÀÂÁÃÅÇÍÎÑÓÔÕØÚÛÆŒ", r) && near && (alone || isLatin(before) && isLatin(after)):
				good++
			case strings.ContainsRune("€£§°©®™–—‘’“”„…«»¡¿·•²³½\u00a0", r) && alone:
				good++
			}
		}
		before = r
	}
	return e, all > 0 && good*10 >= all*9
}

func isLatin(r rune) bool { return r < 0x250 && unicode.IsLetter(r) }
