/*
 * Gate, stop, send, stall, crash, receipt, look-up, cancel and a new run of one task, for spin to explore exhaustively.
 *
 * One task with at most two runs; NA senders, each of which asks once for the same effect (one key), so that all but the
 * first are redeliveries, retries, or the next run; two incarnations; a worker that reconciles; a person; a provider on
 * a network that loses; and time. docs/proof.md says what it proves, on which assumptions, and how to repeat it.
 * An `atomic` is one transaction under the task's lock, or one step of the provider.
 *
 * Scenes: BLIND (a provider without key, look-up and cancel), KEY_LIFE (one that forgets keys; nobody stops, no work
 * fails), NO_NEW_RUN; ACTS and TROUBLES say how much the person does, and how many requests of the worker go wrong.
 * Faults, each of which must be found: NO_LOCK NO_SEND_BEFORE NO_RUN_NUMBER NO_SETTLING ACK_IS_FINAL BLIND_RESEND
 * TO_THE_END STALL_AFTER_CHECK NO_LISTING NO_LOOK_UP ENDLESS. tests/model/scenes.py says what each one breaks.
 */

#ifndef NA
#define NA 2
#endif
#ifndef ACTS
#define ACTS 2
#endif
#ifndef TROUBLES
#define TROUBLES 1
#endif
#define NI 2
#define BIT(a) (1 << (a))

/* An operation's state as it is folded; up to CANCELLED they deny that there is an effect. */
#define PREPARED 0
#define NOT_SENT 1
#define FAILED 2
#define CANCELLED 3
#define SENDING 4
#define ACCEPTED 5
#define UNKNOWN 6
#define SUCCEEDED 7
#define denies(s) ((s) <= CANCELLED)
#define is_open(s) ((s) >= SENDING && (s) <= UNKNOWN)

/* What is heard besides FAILED, CANCELLED and SUCCEEDED. */
#define NOTHING 0
#define RUNNING 10
#define REFUSED 11
#define UNSENT 12
#define LOST 13

/* Where an attempt's bytes are. */
#define NOWHERE 0
#define ON_THE_WIRE 1
#define ARRIVED 2
#define TURNED_DOWN 3

/* An attempt's time: its lease is live, over, over together with the settling time. A pass ends before its lease. */
#define LEASED 0
#define OVER 1
#define SETTLED 2

/* The task. */
bool task_active = true;
byte live = 1;          /* the live run; 0: none */

/* What only the referee knows. */
bool ended[3];          /* this run was stopped or superseded */
bool shown[NI];         /* the last stop has listed this incarnation as open or succeeded */
bool made[NI];          /* the effect was made under this incarnation's key */
byte effects;           /* how often it was made in all */
bool retired;           /* the person does nothing more */

/* The facts about each incarnation: sets of attempts, as bits. */
bool listed[NI];
bool refused_by_gate[NI];
byte passed[NI];        /* attempts that passed the gate */
byte no_send[NI];       /* proven unsent: by the sender, or not found, with authority, after lease and settling time */
byte lost[NI];          /* no answer while the lease is live: after that it makes no difference */
byte turned_down[NI];   /* refused by the provider */
byte alive[NI];         /* a sign of life may come from these */
byte with_ref[NI];      /* their own answer held the reference */
byte failed[NI];
byte cancelled[NI];
bool done[NI];          /* succeeded was heard */
byte op_state[NI];      /* what these fold to */

/* The facts about cancelling: asked by a stop, acknowledged, and what became of the last request. */
bool cancel_asked[NI];
bool acknowledged[NI];
byte cancel_try[NI];    /* NOTHING, RUNNING (under way), REFUSED, LOST, FAILED (due again) */

/* Attempts, and the provider. */
byte attempts;
byte whose[NA];         /* the incarnation that it is an attempt of */
byte when[NA];
byte wire[NA];
byte record[NI];        /* what the provider keeps under the key of each incarnation */
byte key_life;          /* of the first key: 0 a send that leaves now arrives while it is honoured, 1 it might not, 2 forgotten */
#ifdef KEY_LIFE
byte in_time;           /* the attempts that passed while it was 0 */
#endif
byte troubles = TROUBLES;   /* how many requests of the worker may still go wrong */
byte closed;            /* only within refold */

#define known_ref(i) (done[i] || alive[i] || failed[i] || cancelled[i])
#define moot(i) (denies(op_state[i]) || op_state[i] == SUCCEEDED)
#define cancel_open(i) (cancel_asked[i] && !moot(i) && (acknowledged[i] || cancel_try[i] != REFUSED))
#define cancel_due(i) (cancel_asked[i] && !moot(i) && !acknowledged[i] && known_ref(i) && \
                       (cancel_try[i] == NOTHING || cancel_try[i] == FAILED))
#define look_due(i) (op_state[i] == ACCEPTED || op_state[i] == UNKNOWN)

#ifdef NO_RUN_NUMBER
#define may_leave(run_) (task_active)
#else
#define may_leave(run_) (task_active && live == (run_))
#endif

/* Sending again is harmless where a key is honoured until the send has arrived. */
#if defined(BLIND) && !defined(BLIND_RESEND)
#define resendable(i) (false)
#elif defined(TO_THE_END)
#define resendable(i) ((i) > 0 || key_life <= 1)
#else
#define resendable(i) ((i) > 0 || key_life == 0)
#endif
#define forgotten(i) ((i) == 0 && key_life == 2)

#define is_set(set, a) (((set) & BIT(a)) != 0)
#define is_single(set) (((set) & ((set) - 1)) == 0)
#define is_over(i, a) (!is_set(passed[i], a) || when[a] >= OVER)
#define under_way(i, a) (is_set(passed[i] & ~(closed | lost[i]), a) && when[a] == LEASED)
#if NA == 2
#define all_over(i) (is_over(i, 0) && is_over(i, 1))
#define any_under_way(i) (under_way(i, 0) || under_way(i, 1))
#else
#define all_over(i) (is_over(i, 0) && is_over(i, 1) && is_over(i, 2))
#define any_under_way(i) (under_way(i, 0) || under_way(i, 1) || under_way(i, 2))
#endif

/* Once the provider has forgotten a key, a failed operation that is tried again is like a first one: not explored. */
#define may_advance(i) (!forgotten(i) && (op_state[i] == PREPARED || op_state[i] == NOT_SENT || op_state[i] == FAILED || \
                        (op_state[i] == UNKNOWN && all_over(i) && resendable(i) && !cancel_open(i))))

/* Once it is known to have succeeded, nothing else that was heard matters: fewer states to tell apart. */
inline forget(i) {
    no_send[i] = 0; lost[i] = 0; turned_down[i] = 0; alive[i] = 0; with_ref[i] = 0;
    failed[i] = 0; cancelled[i] = 0;
    cancel_asked[i] = false; acknowledged[i] = false; cancel_try[i] = NOTHING
}

inline refold(i) {
    closed = failed[i] | cancelled[i] | no_send[i] | turned_down[i];
    if
    :: passed[i] == 0 -> op_state[i] = (refused_by_gate[i] -> NOT_SENT : PREPARED)
    :: passed[i] != 0 && done[i] -> op_state[i] = SUCCEEDED; forget(i)
    :: passed[i] != 0 && !done[i] ->
        if
        :: (failed[i] | cancelled[i]) == passed[i] ->
            op_state[i] = (failed[i] & cancelled[i] -> UNKNOWN : (cancelled[i] -> CANCELLED : FAILED))
        :: (failed[i] | cancelled[i]) != passed[i] && (alive[i] & ~(failed[i] | cancelled[i])) -> op_state[i] = ACCEPTED
        :: else ->
            if
            :: closed == passed[i] ->
                op_state[i] = (failed[i] | turned_down[i] -> FAILED : (cancelled[i] -> CANCELLED : NOT_SENT))
            :: closed != passed[i] -> op_state[i] = (any_under_way(i) -> SENDING : UNKNOWN)
            fi
        fi
    fi;
    closed = 0;
    assert(!(made[i] && denies(op_state[i])))       /* what has happened is never denied */
}

inline make_effect(i) {
    made[i] = true;
    effects++;
    assert(effects <= 1);                           /* no double effect */
    assert(listed[i] && !denies(op_state[i]));      /* every effect is listed, and not as something that is not there */
    assert(task_active || shown[i])                 /* and the stop has said so */
}

inline let_pass(i, run_) {
    a = attempts;
    attempts++;
    listed[i] = true;
    whose[a] = i;
    passed[i] = passed[i] | BIT(a);
#ifdef KEY_LIFE
    in_time = in_time | (key_life == 0 -> BIT(a) : 0);
#endif
    refold(i);
    assert(!ended[run_])                            /* nothing passes the gate for a run that is over */
}

inline hear(i, a, claim) {
    if
    :: claim == UNSENT -> no_send[i] = no_send[i] | BIT(a)
    :: claim == LOST -> lost[i] = lost[i] | (when[a] == LEASED -> BIT(a) : 0)
    :: claim == REFUSED -> turned_down[i] = turned_down[i] | BIT(a)
    :: claim == RUNNING -> alive[i] = alive[i] | BIT(a); with_ref[i] = with_ref[i] | BIT(a)
    :: claim == SUCCEEDED -> done[i] = true; with_ref[i] = with_ref[i] | BIT(a)
    :: claim == FAILED -> failed[i] = failed[i] | BIT(a); with_ref[i] = with_ref[i] | BIT(a)
    :: claim == CANCELLED -> cancelled[i] = cancelled[i] | BIT(a); with_ref[i] = with_ref[i] | BIT(a)
    fi;
    refold(i)
}

/* A process that acts for a run: asks the gate, sends, hears, records. It may stall and crash on its way. */
proctype Sender(byte mine) {
    byte i, a;
#ifdef NO_LOCK
    bool seen;
#endif

    if
    :: mine == 0 && live != 0 -> mine = live        /* whichever run is live when it starts */
    :: mine == 0 && live == 0 && retired -> goto gone
    :: mine != 0
    fi;

gate:
#ifdef NO_LOCK
    seen = may_leave(mine);
#endif
    atomic {
        if
#ifdef NO_LOCK
        :: seen && (!listed[i] || may_advance(i)) -> let_pass(i, mine); goto check
#else
        :: may_leave(mine) && (!listed[i] || may_advance(i)) -> let_pass(i, mine); goto check
#endif
        :: else
        fi
    };

    /* Why not: a second transaction, which records the refusal or names the incarnation to try. */
    atomic {
        if
        :: !may_leave(mine) && !listed[0] -> listed[0] = true; refused_by_gate[0] = true; refold(0); goto gone
        :: !may_leave(mine) && listed[0] -> goto gone
        :: may_leave(mine) ->
            i = (listed[1] -> 1 : 0);
            if
            :: !listed[i] || may_advance(i) -> goto gate
            :: listed[i] && op_state[i] == CANCELLED && i + 1 < NI -> i++; goto gate
            :: else -> goto gone                    /* replayed, in flight, or unknown: a person is asked */
            fi
        fi
    };

check:
    /* The last thing before the write. A pass may have expired, or the stop was heard, while the lease is live. */
    if
#ifdef STALL_AFTER_CHECK
    :: when[a] == LEASED -> wire[a] = ON_THE_WIRE
#elif defined(NO_SEND_BEFORE)
    :: wire[a] = ON_THE_WIRE
#else
    :: atomic { when[a] == LEASED -> wire[a] = ON_THE_WIRE }
#endif
    :: atomic { hear(i, a, UNSENT); goto gone }
    :: goto gone                                    /* crashed: nobody knows whether it was sent */
    fi;

    /* The answer arrives, or is given up, or the sender crashes first; the record may have changed since it answered. */
    if
#ifndef BLIND
    :: atomic { wire[a] == ARRIVED -> hear(i, a, RUNNING) }
#endif
    :: atomic { wire[a] == ARRIVED && record[i] != RUNNING && record[i] != NOTHING -> hear(i, a, record[i]);
        if
        :: record[i] == SUCCEEDED && may_leave(mine) -> assert(!ended[mine])    /* only a live run's context takes it */
        :: else
        fi }
    :: atomic { wire[a] == TURNED_DOWN -> hear(i, a, REFUSED) }
    :: atomic { hear(i, a, LOST) }
    :: true
    fi;

gone:
    atomic {
        if
        :: passed[i] && is_set(passed[i], a) && wire[a] > ON_THE_WIRE -> wire[a] = NOWHERE
        :: else
        fi;
        a = 0; i = 0; mine = 0
    }
}

/* The provider: requests arrive, work is done or fails, whatever became of the sender. */
#ifdef BLIND
#define ARRIVES(a) \
    :: atomic { wire[a] == ON_THE_WIRE -> wire[a] = ARRIVED; record[whose[a]] = SUCCEEDED; make_effect(whose[a]) } \
    :: atomic { wire[a] == ON_THE_WIRE -> wire[a] = TURNED_DOWN }
#else
#define ARRIVES(a) \
    :: atomic { wire[a] == ON_THE_WIRE -> wire[a] = ARRIVED; \
        if \
        :: record[whose[a]] == NOTHING || forgotten(whose[a]) -> record[whose[a]] = RUNNING \
        :: else \
        fi } \
    :: atomic { wire[a] == ON_THE_WIRE && record[whose[a]] == NOTHING -> wire[a] = TURNED_DOWN }
#endif
#ifdef ENDLESS
#define WORKS(i)
#elif defined(KEY_LIFE)
/* No failure: a second record under one key is not told apart from the first here. */
#define WORKS(i) :: atomic { record[i] == RUNNING -> make_effect(i); record[i] = SUCCEEDED }
#else
#define WORKS(i) \
    :: atomic { record[i] == RUNNING -> make_effect(i); record[i] = SUCCEEDED } \
    :: atomic { record[i] == RUNNING -> record[i] = FAILED }
#endif

proctype Provider() {
end:
    do
    ARRIVES(0)
    ARRIVES(1)
#if NA > 2
    ARRIVES(2)
#endif
    WORKS(0)
    WORKS(1)
    od
}

/* Time. All leases are equally long. What has not arrived when the settling time is over never will. */
#define TICKS(a, first) \
    :: atomic { attempts > a && !done[whose[a]] && when[a] == LEASED && (first || when[a - !first] > LEASED) -> \
        when[a] = OVER; lost[whose[a]] = lost[whose[a]] & ~BIT(a); refold(whose[a]) } \
    :: atomic { attempts > a && !done[whose[a]] && when[a] == OVER && (first || when[a - !first] > OVER) -> \
        when[a] = SETTLED; \
        if \
        :: wire[a] == ON_THE_WIRE -> wire[a] = NOWHERE \
        :: else \
        fi }

#define arrived(a) (!is_set(in_time, a) || when[a] == SETTLED)
#if NA == 2
#define arrived_in_time (arrived(0) && arrived(1))
#else
#define arrived_in_time (arrived(0) && arrived(1) && arrived(2))
#endif

proctype Clock() {
end:
    do
    TICKS(0, true)
    TICKS(1, false)
#if NA > 2
    TICKS(2, false)
#endif
#ifdef KEY_LIFE
    :: atomic { attempts && key_life == 0 -> key_life = 1 }
    :: atomic { key_life == 1 && arrived_in_time -> key_life = 2 }
#endif
    od
}

#ifndef BLIND
/* Reconciling: due cancel requests and look-ups. It has no effect at the provider but to cancel. */
#ifdef NO_SETTLING
#define aged_one(a) (attempts > (a) && when[a] >= OVER -> BIT(a) : 0)
#else
#define aged_one(a) (attempts > (a) && when[a] == SETTLED -> BIT(a) : 0)
#endif
#if NA == 2
#define aged_ones (aged_one(0) | aged_one(1))
#else
#define aged_ones (aged_one(0) | aged_one(1) | aged_one(2))
#endif
#ifdef NO_LOOK_UP
#define LOOKS(n)
#else
#define LOOKS(n) \
    :: atomic { !cancel_due(n) && look_due(n) -> \
        i = n; asked = passed[i]; aged = aged_ones & asked; over_then = (aged | turned_down[i]) & asked; goto look }
#endif
#define CANCELS(n) :: atomic { cancel_due(n) -> i = n; cancel_try[i] = RUNNING; asked = passed[i]; goto cancel }

/* A final word outside an answer to a send is about the one attempt, else about those that returned its reference. */
#define about(others) (is_single(passed[i]) -> asked : asked & (with_ref[i] | (others)))

proctype Worker() {
    byte i, asked, aged, over_then, answer;
    bool acked;

end:
    if
    CANCELS(0)
    CANCELS(1)
    LOOKS(0)
    LOOKS(1)
    fi;

cancel:
    atomic {
        if
        :: troubles > 0 -> troubles--; answer = NOTHING                     /* an error there, and nothing done */
        :: troubles > 0 -> troubles--; answer = LOST
        :: troubles > 0 && record[i] == RUNNING -> troubles--; record[i] = CANCELLED; answer = LOST
        :: record[i] == RUNNING -> record[i] = CANCELLED; answer = CANCELLED
        :: record[i] == RUNNING -> acked = true                             /* acknowledged, and it goes on */
        :: record[i] == RUNNING -> answer = REFUSED
        :: record[i] != RUNNING -> answer = record[i]                       /* refused, with its final word */
        fi
    };
    atomic {
        acknowledged[i] = acknowledged[i] || acked;
        cancel_try[i] = (answer == NOTHING && !acked -> FAILED : (answer == LOST -> LOST : REFUSED));
        if
        :: answer == CANCELLED -> cancelled[i] = cancelled[i] | about(0)
        :: answer == FAILED -> failed[i] = failed[i] | about(0)
        :: answer == SUCCEEDED -> done[i] = true
        :: else
        fi;
#ifdef ACK_IS_FINAL
        if
        :: acked -> cancelled[i] = cancelled[i] | asked
        :: else
        fi;
#endif
        refold(i);
        i = 0; asked = 0; answer = NOTHING; acked = false;
        goto end
    };

look:
    atomic {
        if
        :: troubles > 0 -> troubles--; answer = LOST
        :: answer = record[i]
        fi
    };
    atomic {
        if
        :: answer == NOTHING -> no_send[i] = no_send[i] | aged
        :: answer == RUNNING -> alive[i] = alive[i] | asked
        :: answer == SUCCEEDED -> done[i] = true
        :: answer == FAILED -> failed[i] = failed[i] | about(over_then)
        :: answer == CANCELLED -> cancelled[i] = cancelled[i] | about(over_then)
        :: answer == LOST
        fi;
        refold(i);
        i = 0; asked = 0; aged = 0; over_then = 0; answer = NOTHING;
        goto end
    }
}
#endif

/* A press on Stop: one commit, which lists what has left and asks to cancel it. */
#ifdef NO_LISTING
#define LISTS(i) shown[i] = false;
#else
#define LISTS(i) \
    shown[i] = is_open(op_state[i]) || op_state[i] == SUCCEEDED; \
    cancel_asked[i] = cancel_asked[i] || is_open(op_state[i]);
#endif

inline press_stop() {
    ended[live] = live != 0;
    live = 0;
    task_active = false;
    LISTS(0)
    LISTS(1)
}

/* The person does at most two things in any order: stop the run that is live, and begin another, after it or instead. */
proctype Person() {
#ifndef KEY_LIFE
    byte acts = ACTS;
    bool begun;

    do
    :: atomic { acts > 0 && live != 0 -> acts--; press_stop() }
#ifndef NO_NEW_RUN
    :: atomic { acts > 0 && !begun -> acts--; begun = true;
        ended[live] = live != 0; live = 2; task_active = true; shown[0] = false; shown[1] = false }
#endif
    :: atomic { true -> acts = 0; begun = false; retired = true; break }
    od
#else
    retired = true
#endif
}

/* When nobody can do anything any more, the record says what is true; a blind provider's says at worst "unknown". */
#ifdef BLIND
#define is_true(i) (op_state[i] == UNKNOWN || (!is_open(op_state[i]) && made[i] == (op_state[i] == SUCCEEDED)))
#else
#define is_true(i) (!is_open(op_state[i]) && made[i] == (op_state[i] == SUCCEEDED))
#endif

proctype Referee() {
    timeout -> assert(is_true(0) && is_true(1))
}

init {
    atomic {
        run Sender(1);
        run Sender(0);
#if NA > 2
        run Sender(0);
#endif
        run Provider();
        run Clock();
#ifndef BLIND
        run Worker();
#endif
        run Person();
        run Referee()
    }
}
