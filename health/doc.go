// Package health holds what a client knows of its endpoints: a state for each, with the
// evidence that led to it. It does no I/O and has no clock. Whoever uses connections notes
// evidence in a [Table]; whoever chooses among endpoints reads it.
//
// # Evidence and states
//
// Evidence is what can be seen from outside: a connection was lost, a call was answered, a
// stream is silent, a probe was missed. [Record.Next] makes a state of it, and is a pure
// function. Three principles decide it.
//
// Silence shows nothing. It makes a suspect, whom others are preferred to, and who is asked;
// only questions that are not answered make an endpoint Dead.
//
// To be alive is not to serve. A member that is cut off from its peers answers everything
// except what it is for. An answer acquits nobody but the Unknown; what does is a probe
// that needs the server's work, Served.
//
// A fault is forgotten when the opposite is shown, not when time has passed. A reconnect
// alone repairs nothing.
//
//	                Answered, Served
//	   Unknown ────────────────────────────► Serving ◄────────────┐
//	      │                                     │                 │
//	      └──────────────┬──────────────────────┘                 │
//	            Silent, Missed                                    │ Served
//	                     ▼            Stalled                     │
//	Disconnected ◄── Suspected ─────────────────► Lagging ────────┤
//	(to Unknown)         │                        Slow (3 times)  │
//	                     │ 2 × Missed             NoLeader        │
//	                     ▼                        Learner         │
//	                    Dead ◄────────────────    NotServing      │
//	                     │         2 × Missed                     │
//	                     └────────────────────────────────────────┘
//
// From any state but Draining, which is final: ConnectFailed leads to Dead, Late to Slow,
// Leaderless to NoLeader, NonVoting to Learner, Refusing to NotServing, and Removed to
// Draining. In full, where a dot stands for the state it is in:
//
//	            Connected  Disconnected  ConnectFailed  Answered  Served    Silent     Missed         Late  Stalled  Leaderless  NonVoting  Refusing    Removed
//	Unknown     ·          ·             Dead           Serving   Serving   Suspected  Suspected (1)  Slow  Lagging  NoLeader    Learner    NotServing  Draining
//	Serving     ·          ·             Dead           ·         ·         Suspected  Suspected (1)  Slow  Lagging  NoLeader    Learner    NotServing  Draining
//	Suspected   ·          Unknown       Dead           ·         Serving   ·          Dead (2)       Slow  Lagging  NoLeader    Learner    NotServing  Draining
//	Slow        ·          ·             Dead           ·         Serving³  ·          Dead (2)       ·     Lagging  NoLeader    Learner    NotServing  Draining
//	Lagging     ·          ·             Dead           ·         Serving   ·          Dead (2)       Slow  ·        NoLeader    Learner    NotServing  Draining
//	NoLeader    ·          ·             Dead           ·         Serving   ·          Dead (2)       Slow  ·        ·           Learner    NotServing  Draining
//	Learner     ·          ·             Dead           ·         Serving   ·          Dead (2)       Slow  ·        ·           ·          NotServing  Draining
//	NotServing  ·          ·             Dead           ·         Serving   ·          Dead (2)       Slow  ·        NoLeader    Learner    ·           Draining
//	Dead        ·          ·             ·              ·         Serving   ·          ·              Slow  Lagging  NoLeader    Learner    NotServing  Draining
//	Draining    ·          ·             ·              ·         ·         ·          ·              ·     ·        ·           ·          ·           ·
//
//	(1) and the first of the two misses in a row that make it Dead; any answer, and the
//	    end of the connection, begin the count anew
//	(2) at the second miss in a row
//	³   at the third in a row
//
// What is not obvious in it:
//
//   - A Suspected endpoint whose connection is lost is Unknown: the loss explains the
//     silence. If the endpoint is gone, connecting to it will show that.
//   - An endpoint that cannot be connected to is Dead, and stays so when it can: a member
//     that has just been started connects long before it serves.
//   - A Learner without a leader is a Learner: it can do the same, and leadership comes
//     and goes while it does.
//   - A Dead endpoint that is shown to be alive and stuck is Lagging.
//
// # Silence
//
// How much silence is suspicious depends on what is silent. [Latency] learns how long the
// calls of a class take, [Rhythm] how long a stream usually pauses. A [Prober] finds out
// what a silence means; package etcdprobe has one for etcd, grpcprobe for any service with
// grpc.health.v1.
package health
