//go:build linux

package sqlite_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"refold/domain/event"
	"refold/infra/sqlite"
)

// TestPrivate: what a record holds is for its own user, also where everybody may
// look into the directory.
func TestPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	db := open(t, filepath.Join(dir, "a b&c%d?.db"))
	st := event.Stream{Tenant: "t", Category: "run", ID: "one"}
	if _, err := db.Events().Append(t.Context(), st, event.NoStream(), happened(1)...); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"", "-wal"} {
		info, err := os.Stat(db.Path() + end)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %v, %v", db.Path()+end, info, err)
		}
	}
}

// TestFixedMedium: a record that was archived on a medium that can't be written
// is read there; one that was not closed before is refused with advice.
func TestFixedMedium(t *testing.T) {
	dir := t.TempDir()
	do := func(args ...string) {
		t.Helper()
		if os.Geteuid() != 0 {
			args = append([]string{"sudo", "-n"}, args...)
		}
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s; a medium needs the right to mount one", args, err, out)
		}
	}
	mount := func(args ...string) {
		t.Helper()
		do(append(append([]string{"mount"}, args...), dir)...)
	}
	mount("-t", "tmpfs", "-o", "mode=777", "tmpfs")
	defer do("umount", "-l", dir)
	path := filepath.Join(dir, "refold.db")
	db := open(t, path)
	st := event.Stream{Tenant: "t", Category: "run", ID: "one"}
	if _, err := db.Events().Append(t.Context(), st, event.NoStream(), happened(3)...); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadFile(path + "-wal") // as the process would leave it if it died here
	if err != nil || len(left) == 0 {
		t.Fatal(len(left), err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	mount("-o", "remount,ro")
	r, err := sqlite.Open(t.Context(), path, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Events().Read(t.Context(), st, 0, 0)
	if err != nil || len(got) != 3 {
		t.Errorf("%d events, %v", len(got), err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	mount("-o", "remount,rw")
	if err := os.WriteFile(path+"-wal", left, 0o600); err != nil {
		t.Fatal(err)
	}
	mount("-o", "remount,ro")
	_, err = sqlite.Open(t.Context(), path, sqlite.Options{ReadOnly: true})
	unavailable(t, err, "not closed", "copy it", "another process")
}
