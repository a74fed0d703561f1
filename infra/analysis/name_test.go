package analysis

import (
	"strings"
	"testing"
)

const doc = "7d0a6f0e-0000-4000-8000-00000000d0c1"

func TestNameTable(t *testing.T) {
	const table = "k_7d0a6f0e_0000_4000_8000_00000000d0c1"
	for sql, want := range map[string]string{
		"SELECT * FROM " + doc:                                "SELECT * FROM " + table,
		"SELECT * FROM \"" + doc + "\" WHERE x='" + doc + "'": "SELECT * FROM \"" + table + "\" WHERE x='" + doc + "'",
		"SELECT * FROM '" + doc + "'":                         "SELECT * FROM \"" + table + "\"",
		"SELECT * FROM `" + strings.ToUpper(doc) + "` t":      "SELECT * FROM \"" + table + "\" t",
		"SELECT 1 -- " + doc:                                  "SELECT 1 -- " + doc,
		"SELECT '" + doc + "'":                                "SELECT '" + doc + "'",
		"SELECT * FROM x":                                     "SELECT * FROM x",
		"SELECT 'it''s' FROM " + doc + ", y":                  "SELECT 'it''s' FROM " + table + ", y",
	} {
		if got := nameTable(sql, doc, table); got != want {
			t.Errorf("%s\n got %s\nwant %s", sql, got, want)
		}
	}
}

func TestMendColumns(t *testing.T) {
	columns := []string{"Order ID", "金额", "收入_线上", "a\"b", "Total", "total "}
	for sql, want := range map[string]string{
		`SELECT "order id" FROM t`:                `SELECT "Order ID" FROM t`,
		"SELECT `OrderID` FROM t":                 `SELECT "Order ID" FROM t`,
		"SELECT \"金\u3000额\" FROM t":              `SELECT "金额" FROM t`,
		`SELECT "A""B" FROM t`:                    `SELECT "a""b" FROM t`,
		`SELECT "TOTAL" FROM t`:                   `SELECT "TOTAL" FROM t`, // it fits two
		`SELECT '"order id"' FROM t -- "orderid"`: `SELECT '"order id"' FROM t -- "orderid"`,
		`SELECT /* "orderid" */ "nothing"`:        `SELECT /* "orderid" */ "nothing"`,
		`SELECT "open`:                            `SELECT "open"`,
		`SELECT /*`:                               `SELECT /*`,
		`SELECT 'open`:                            `SELECT 'open`,
	} {
		if got := mendColumns(sql, columns); got != want {
			t.Errorf("%s\n got %s\nwant %s", sql, got, want)
		}
	}
	if got := hint(`Binder Error: Referenced column "ammount" not found`, []string{"id", "amount"}); got != "\nDid you mean \"amount\"?" {
		t.Error(got)
	}
}
