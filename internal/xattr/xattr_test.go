package xattr

import "testing"

func TestPortable(t *testing.T) {
	for name, want := range map[string]bool{
		"user.comment": true, "user.pyro": true, "trusted.key": true, "security.capability": true,
		"system.posix_acl_access": true, "system.posix_acl_default": true,
		Shared: false, SeveralNames: false, "user.pyro.": false, "trusted.overlay.opaque": false, "security.selinux": false,
		"system.nfs4_acl": false, "user": false, "": false,
	} {
		if got := Portable(name); got != want {
			t.Errorf("Portable(%q) is %v, want %v", name, got, want)
		}
	}
}
