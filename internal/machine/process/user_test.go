package process

import "testing"

// TestUserExists checks that a machine's user exists in pyro's user namespace.
func TestUserExists(t *testing.T) {
	const all = "         0          0 4294967295\n"
	for _, c := range []struct {
		name, uids, gids string
		first, size      int
	}{
		{"host", all, all, firstUID, uidRange},
		{"unknown", "", "", firstUID, uidRange},
		{"rootless container", "0 1000 1\n1 100000 65536\n", "0 1000 1\n1 100000 65536\n", firstLowUID, lowUIDRange},
		{"groups", all, "0 100000 65536\n", firstLowUID, lowUIDRange},
		{"few", "0 100000 1000\n65534 65534 1\n", all, nobody, 1},
	} {
		for _, id := range []string{"ws-1", "ws-2", "m-3"} {
			user := userIn(id, c.uids, c.gids)
			if user < c.first || user >= c.first+c.size || user != userIn(id, c.uids, c.gids) {
				t.Errorf("%s, %s: user %d", c.name, id, user)
			}
		}
		if c.size > 1 && userIn("ws-1", c.uids, c.gids) == userIn("ws-2", c.uids, c.gids) {
			t.Errorf("%s: two machines have the same user", c.name)
		}
	}
}
