package main

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/lab"
)

// keyValue are the commands of keys. Each script has a prefix of its own.
var keyValue = []script{
	{"put and get", []step{
		{args: "put kv/a 1", want: "OK\n"},
		{args: "put kv/b 2", want: "OK\n"},
		{args: "put kv/c", stdin: "from standard input", want: "OK\n"},
		{args: "get kv/a", want: "kv/a\n1\n"},
		{args: "get kv/none"},
		{args: "get kv/ --prefix", want: "kv/a\n1\nkv/b\n2\nkv/c\nfrom standard input\n"},
		{args: "get kv/ --prefix --keys-only", want: "kv/a\n\nkv/b\n\nkv/c\n\n"},
		{args: "get kv/b --print-value-only", want: "2\n"},
		{args: "get kv/ --prefix --limit=1 --order=DESCEND --sort-by=KEY --keys-only", want: "kv/c\n\n"},
		{args: "get kv/a kv/c", want: "kv/a\n1\nkv/b\n2\n"},
		{args: "get kv/c kv/z --consistency=s --hex", want: `\x6b\x76\x2f\x63` + "\n" + `\x66\x72\x6f\x6d\x20\x73\x74\x61\x6e\x64\x61\x72\x64\x20\x69\x6e\x70\x75\x74` + "\n"},
		{args: "get kv/ --prefix --count-only --write-out=fields", want: "\"ClusterID\" : <cluster>\n\"MemberID\" : <_>\n\"Revision\" : <_>\n\"RaftTerm\" : <_>\n\"More\" : false\n\"Count\" : 3\n"},
		{args: "put kv/a 3 --prev-kv", want: "OK\nkv/a\n1\n"},
		{args: "put kv/a --ignore-value", want: "OK\n"},
		{args: "put kv/none --ignore-value", fails: "etcdserver: key not found"},
		{
			args: "get kv/a --write-out=json",
			want: `{"header":{"cluster_id":<cluster>,"member_id":<_>,"revision":<rev>,"raft_term":<_>},"kvs":[{"key":"a3YvYQ==","create_revision":<created>,"mod_revision":<rev>,"version":3,"value":"Mw=="}],"count":1}` + "\n",
		},
		{args: "get kv/a --rev=$created", want: "kv/a\n1\n"},
		{args: "get kv/a --rev=999999", fails: "etcdserver: mvcc: required revision is a future revision"},
		{args: "get kv/a --write-out=table", fails: "table not supported as output format"},
		{args: "get ''", fails: "etcdserver: key is not provided"},
	}},
	{"del", []step{
		{args: "put del/a 1", want: "OK\n"},
		{args: "put del/b 2", want: "OK\n"},
		{args: "put del/c 3", want: "OK\n"},
		{args: "put del/d 4", want: "OK\n"},
		{args: "del del/a", want: "1\n"},
		{args: "del del/a", want: "0\n"},
		{args: "del del/b del/d --range --prev-kv", want: "2\ndel/b\n2\ndel/c\n3\n"},
		{args: "del del/ --prefix", want: "1\n"},
		{args: "put ~del/z 5", want: "OK\n"},
		{args: "del ~del/ --from-key", want: "1\n"},
	}},
	{"txn", []step{
		{args: "put txn/a 1", want: "OK\n"},
		{args: "txn", stdin: "value(\"txn/a\") = \"1\"\n\nput txn/b 2\nget txn/a\n\ndel txn/a\n\n", want: "SUCCESS\n\nOK\n\ntxn/a\n1\n"},
		{args: "txn", stdin: "version(\"txn/a\") > \"1\"\ncreate(\"txn/b\") > \"0\"\n\nput txn/c 3\n\ndel txn/a\nget txn/ --prefix\n\n", want: "FAILURE\n\n1\n\ntxn/b\n2\n"},
		{
			args: "txn --interactive", stdin: "mod(\"txn/none\") = \"0\"\n\nput txn/d 4\n\n\n",
			want: "compares:\nsuccess requests (get, put, del):\nfailure requests (get, put, del):\nSUCCESS\n\nOK\n",
		},
		{args: "txn", stdin: "\nput txn/e 1\nput txn/e 2\n\n\n", fails: "etcdserver: duplicate key given in txn request"},
		{args: "get txn/ --prefix --keys-only", want: "txn/b\n\ntxn/d\n\n"},
	}},
	{"lease", []step{
		{args: "lease grant 600", want: "lease <lease> granted with TTL(600s)\n"},
		{args: "put lease/a 1 --lease=$lease", want: "OK\n"},
		{args: "put lease/a 2 --ignore-lease", want: "OK\n"},
		{args: "put lease/b 1 --lease=7777", fails: "etcdserver: requested lease not found"},
		{args: "lease list", want: "found 1 leases\n<lease>\n"},
		{args: "lease timetolive $lease --keys", want: "lease <lease> granted with TTL(600s), remaining(<_>), attached keys([lease/a])\n"},
		{args: "lease timetolive $lease", want: "lease <lease> granted with TTL(600s), remaining(<_>)\n"},
		{args: "lease keep-alive $lease --once", want: "lease <lease> keepalived with TTL(600)\n"},
		{args: "lease revoke $lease", want: "lease <lease> revoked\n"},
		{args: "lease revoke $lease", fails: "etcdserver: requested lease not found"},
		{args: "lease timetolive $lease", want: "lease <lease> already expired\n"},
		{args: "lease list", want: "found 0 leases\n"},
		{args: "get lease/a"},
	}},
	{"compaction", []step{
		{args: "put compaction/a 1", want: "OK\n"},
		{args: "put compaction/a 2", want: "OK\n"},
		{
			args: "get compaction/a --write-out=json",
			want: `{"header":{"cluster_id":<_>,"member_id":<_>,"revision":<rev>,"raft_term":<_>},"kvs":[{"key":"Y29tcGFjdGlvbi9h","create_revision":<created>,"mod_revision":<rev>,"version":2,"value":"Mg=="}],"count":1}` + "\n",
		},
		{args: "compaction $rev --physical", want: "compacted revision <rev>\n"},
		{args: "compaction $rev", fails: "etcdserver: mvcc: required revision has been compacted"},
		{args: "get compaction/a --rev=$created", fails: "etcdserver: mvcc: required revision has been compacted"},
		{args: "watch compaction/a --rev=$created", fails: "watch was canceled (etcdserver: mvcc: required revision has been compacted)"},
	}},
}

// maintenance are the commands of a member.
var maintenance = []script{
	{"endpoint", []step{
		{args: "endpoint health", want: "<endpoint> is healthy: successfully committed proposal: took = <_>\n"},
		{args: "endpoint status", want: "<endpoint>, <id>, 3.7.3, 3.7.0, <_> kB, <_> kB, <_>, 2.1 GB, true, false, <_>, <_>, <_>, , , false\n"},
		{args: "endpoint hashkv", want: "<endpoint>, <_>, <rev>\n"},
		{args: "endpoint hashkv --rev=$rev", want: "<endpoint>, <_>, <rev>\n"},
	}},
	{"alarm", []step{{args: "alarm list"}, {args: "alarm disarm"}}},
	{"defrag", []step{
		{args: "defrag", want: "Finished defragmenting etcd member[<endpoint>]. took <_>\n"},
	}},
	{"member list", []step{
		{args: "member list", want: "<id>, started, m1, https://192.0.2.1:2380, <endpoint>, false\n"},
	}},
	{"auth", []step{
		{args: "auth status", want: "Authentication Status: false\nAuthRevision: 1\n"},
		{args: "auth enable", fails: "etcdserver: root user does not exist"},
	}},
	{"downgrade", []step{
		{args: "downgrade validate 3.6", want: "Downgrade validate success, cluster version 3.7\n"},
	}},
	{"version", []step{{args: "version", want: "etcdctl version: 3.7.3\nAPI version: 3.7\n"}}},
}

func TestCommands(t *testing.T) {
	c := start(t, lab.Config{Members: 1})
	for _, s := range append(keyValue, maintenance...) {
		t.Run(s.name, func(t *testing.T) {
			s.play(t, on(c), map[string]string{"endpoint": c.Endpoints()[0], "id": fmt.Sprintf("%x", c.Members()[0].ID())})
		})
	}
}
