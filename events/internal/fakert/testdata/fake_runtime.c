// A hostile imitation of the C-family device runtimes, for tests. doc.go lists
// its build flags and its control keys.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef uint32_t u32;
typedef uint64_t u64;

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

// ---- which vendor ----------------------------------------------------------

#if defined(VENDOR_PREFIX)
#define RT_PREFIX VENDOR_PREFIX
#define FAKE_NO_DRIVER
#elif defined(FAKE_HIP)
#define RT_PREFIX hip
#define FAKE_NO_DRIVER
#else
#define RT_PREFIX cuda
#endif

#ifdef FAKE_HIP
enum { IS_HIP = 1 };
#define DEFAULT_VERSION 60241134
#else
enum { IS_HIP = 0 };
#define DEFAULT_VERSION 13000
#endif

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

// ---- codes -----------------------------------------------------------------

enum {
	OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400, ILLEGAL_STATE = 401, NOT_FOUND = 500,
	NOT_READY = 600, ILLEGAL_ADDRESS = 700, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900,
	CAPTURE_INVALIDATED = 901, CAPTURE_MERGE = 902, CAPTURE_UNMATCHED = 903, CAPTURE_UNJOINED = 904,
	CAPTURE_ISOLATION = 905, CAPTURE_IMPLICIT = 906, CAPTURED_EVENT = 907, CAPTURE_WRONG_THREAD = 908,
};

enum { DISABLE_TIMING = 2, INTERPROCESS = 4, EXTERNAL = 1, NON_BLOCKING = 1 };
enum { MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED };

// ---- exported functions, counted and scripted ---------------------------------

// A fn is one exported function: its name, and what a test has ordered for it.
// All of them lie in one section, so that keys can be looked up by name.
struct fn {
	const char *name;
	int skip; // length of the prefix
	int kind;
	int code, count, nth, seen; // fail_, fail_count_, fail_nth_, calls since
	_Atomic int slow_us, block, blocked;
	u64 base; // subtracted from the call count
} __attribute__((aligned(64)));

#define FN_SECTION __attribute__((used, section("fakefns")))
extern struct fn __start_fakefns[] __attribute__((visibility("hidden")));
extern struct fn __stop_fakefns[] __attribute__((visibility("hidden")));

enum {
	RUNTIME = 1, // has a last error, opens a context where one is needed
	DRIVER = 2,  // wants a current context
	PURE = 4,    // touches no context, so a sticky fault does not reach it
	BARE = 8,    // leaves the last error alone
};

enum { MAX_FN = 256, GO = -1 };

// tls is what the vendor keeps per OS thread, and this thread's call counts.
struct tls {
	_Atomic u64 calls[MAX_FN];
	struct fn *now;
	int last;   // last error
	int device; // chosen with SetDevice
	int ctx;    // device of the current context, or -1
	int mode;   // capture mode
	struct tls *next;
};

static _Atomic(struct tls *) threads;
static __thread struct tls *mine;

// flags is 0 on the fast path.
enum { F_HOOK = 1, F_STICKY = 2, F_EVERY = 4, F_BUSY = 8, F_CAPTURE = 16, F_ELAPSED = 32 };
static _Atomic int flags;
static _Atomic u64 dirty; // garbage for the upper half of the result register

#define FLAGS atomic_load_explicit(&flags, memory_order_relaxed)

static void set_flag(int bit, int on) {
	if (on)
		atomic_fetch_or(&flags, bit);
	else
		atomic_fetch_and(&flags, ~bit);
}

static __attribute__((noinline)) struct tls *new_thread(void) {
	struct tls *t = calloc(1, sizeof *t);
	t->ctx = -1;
	t->next = atomic_load(&threads);
	while (!atomic_compare_exchange_weak(&threads, &t->next, t))
		;
	return mine = t;
}

static inline struct tls *self(void) {
	struct tls *t = mine;
	return likely(t != NULL) ? t : new_thread();
}

static int enter_hooked(struct fn *f, struct tls *t);
static void note(struct fn *f, struct tls *t, int code);

static inline int enter(struct fn *f, struct tls *t) {
	_Atomic u64 *n = &t->calls[f - __start_fakefns];
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1, memory_order_relaxed);
	t->now = f;
	return unlikely(FLAGS & (F_HOOK | F_STICKY)) ? enter_hooked(f, t) : GO;
}

static inline u64 leave(struct fn *f, struct tls *t, int code) {
	if (unlikely(code != OK || (FLAGS & F_EVERY)))
		note(f, t, code);
	return (u32)code | atomic_load_explicit(&dirty, memory_order_relaxed);
}

// -DOMIT_<symbol> hides a symbol from the loader.
#define HIDE_1 0, "hidden",
#define SECOND(a, b, ...) b
#define PICK(...) SECOND(__VA_ARGS__)
#define VISIBILITY_(x) PICK(HIDE_##x 0, "default", 0)
#define VISIBILITY(x) VISIBILITY_(x)
#define EXPORT __attribute__((visibility("default")))

// API defines a symbol: what it does is an expression over its parameters, the
// thread t and the kind k of its library.
#define API_(pfx, sym, knd, params, expr) \
	static struct fn fn_##pfx##sym FN_SECTION = {.name = #pfx #sym, .skip = sizeof #pfx - 1, .kind = knd}; \
	__attribute__((visibility(VISIBILITY(OMIT_##pfx##sym)))) u64 pfx##sym params; \
	u64 pfx##sym params { \
		enum { k = knd }; \
		(void)k; \
		struct tls *t = self(); \
		int code = enter(&fn_##pfx##sym, t); \
		if (likely(code == GO)) \
			code = (expr); \
		return leave(&fn_##pfx##sym, t, code); \
	}
#define API(pfx, sym, knd, params, expr) API_(pfx, sym, knd, params, expr)

#define NOTHING_(pfx, sym) extern int pfx##sym##_is_not_built
#define NOTHING(pfx, sym) NOTHING_(pfx, sym);

#ifdef FAKE_NO_RUNTIME
#define RT(sym, params, expr) NOTHING(RT_PREFIX, sym)
#define RT_PURE(sym, params, expr) NOTHING(RT_PREFIX, sym)
#else
#define RT(sym, params, expr) API(RT_PREFIX, sym, RUNTIME, params, expr)
#define RT_PURE(sym, params, expr) API(RT_PREFIX, sym, RUNTIME | PURE, params, expr)
#endif
#ifdef FAKE_NO_DRIVER
#define DRV(sym, params, expr) NOTHING(cu, sym)
#define DRV_PURE(sym, params, expr) NOTHING(cu, sym)
#else
#define DRV(sym, params, expr) API(cu, sym, DRIVER, params, expr)
#define DRV_PURE(sym, params, expr) API(cu, sym, DRIVER | PURE, params, expr)
#endif
#define BOTH(sym, params, expr) RT(sym, params, expr) DRV(sym, params, expr)
#if defined(FAKE_HIP) && !defined(FAKE_NO_RUNTIME)
#define HIP(sym, params, expr) RT(sym, params, expr)
#define HIP_PURE(sym, params, expr) RT_PURE(sym, params, expr)
#else
#define HIP(sym, params, expr) NOTHING(hip, sym)
#define HIP_PURE(sym, params, expr) NOTHING(hip, sym)
#endif

// ---- settings ----------------------------------------------------------------

enum { MAX_DEVICES = 16 };

static struct {
	long abort_on_bad_handle, reuse_handles, runtime_version, driver_version, device_count, count_code;
	long null_error_strings, named_code, elapsed_bits, elapsed_untouched, sticky_code, last_error_every_call;
	long strict_captures, queue_depth, fast_clock, context_at_set_device;
	long cache_bytes, line_resets;
	long last_create_flags, last_stream_flags, last_record_flags, last_wait_flags;
	long live_events, live_streams, live_graphs, live_modules, live_allocations, bad_handles, invalidated_captures;
} set = {
	.abort_on_bad_handle = 1, .runtime_version = DEFAULT_VERSION, .driver_version = DEFAULT_VERSION,
	.device_count = 1, .elapsed_bits = -1, .last_error_every_call = IS_HIP, .strict_captures = 1,
	.queue_depth = 1020, .context_at_set_device = -1, .cache_bytes = 62914560,
};

// One lock for everything but the fast path; progress is told to all waiters.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress, wanted;

static int bad(struct tls *t, const char *what, const void *h) {
	pthread_mutex_lock(&lock);
	set.bad_handles++;
	pthread_mutex_unlock(&lock);
	if (set.abort_on_bad_handle) {
		dprintf(2, "fakert: %s was given the %s %p, which does not exist (any more)\n", t->now->name, what, h);
		abort();
	}
	return INVALID_HANDLE;
}

// ---- the device clock ----------------------------------------------------------

enum { TICK = 32, FAST_STEP = 1280 };

static _Atomic u64 skew; // device time less CLOCK_MONOTONIC
static _Atomic u64 fast; // the last stamp that was counted instead of read
static _Atomic int manual;
static _Atomic u64 manual_now;

static u64 clock_ns(clockid_t id) {
	struct timespec ts;
	clock_gettime(id, &ts);
	return (u64)ts.tv_sec * 1000000000u + ts.tv_nsec;
}

// device_now is for holders of the lock. Counted stamps may have run ahead of
// real time, which then goes on from there.
static u64 device_now(void) {
	if (atomic_load(&manual))
		return atomic_load(&manual_now);
	u64 now = clock_ns(CLOCK_MONOTONIC) + atomic_load(&skew), ahead = atomic_load(&fast);
	if (ahead > now) {
		atomic_fetch_add(&skew, ahead - now);
		return ahead;
	}
	atomic_store(&fast, now);
	return now;
}

static inline u64 tick(u64 ns) { return ns & ~(u64)(TICK - 1); }

static inline u64 stamp_now(void) {
	if (set.fast_clock)
		return tick(atomic_fetch_add_explicit(&fast, FAST_STEP, memory_order_relaxed) + FAST_STEP);
	if (atomic_load_explicit(&manual, memory_order_relaxed))
		return tick(atomic_load_explicit(&manual_now, memory_order_relaxed));
	return tick(clock_ns(CLOCK_MONOTONIC) + atomic_load_explicit(&skew, memory_order_relaxed));
}

// ---- handles -------------------------------------------------------------------

enum { EVENT = 0x45564e54, STREAM = 0x5354524d, GRAPH = 0x47524150, EXEC = 0x45584543, MODULE = 0x4d4f4455, FUNCTION = 0x46554e43, DEAD = 0xdead };
enum { NEVER, DONE, PENDING };

// A mark is one record, or one point in a queue, that others may wait for.
struct mark {
	int refs, done;
	u64 stamp;
	struct obj *event; // to be told; NULL once it was destroyed or recorded again
};

enum { WORK, RECORD, WAIT, WAIT_VALUE, WRITE_VALUE, HOLD };

struct item {
	int kind, started;
	u64 enqueued, start, ns;
	struct mark *mark;
	struct obj *event;  // of an external record in a graph
	u64 serial;         // that event's
	u64 *out;           // where a spin kernel writes its readings
	void *to, *from;    // of a memset or a copy
	size_t bytes;
	u32 value, flags;
};

struct list {
	struct item *item;
	int head, n, room;
};

// An obj is whatever a handle names. Slots are never unmapped, so a stale
// handle can be told instead of crashed on.
struct obj {
	_Atomic u32 magic;
	int dev;
	u32 flags;
	_Atomic int state;      // event
	_Atomic u64 stamp;      // event
	_Atomic u64 capture;    // event: id of the capture that its last record fell into
	_Atomic u64 serial;     // tells the users of a slot apart
	struct mark *mark;      // event: its record while pending
	struct obj *next;       // stream: all streams; free slots
	struct list list;       // stream: queue; graph: nodes
	u64 cursor;             // stream: device time at which what was queued so far is over
	u64 queued, retired;    // stream: items so far
	struct capture *cap;    // stream
	struct obj *of;         // event: stream it was captured on; function: its module
	u64 seq, joined;        // stream: nodes captured so far, and how many of them were waited for
	char *text;             // module, function
	int held;               // stream
} __attribute__((aligned(256)));

#define ARENA_SLOTS ((size_t)1 << 18)
static struct obj *arena;
static size_t used;
static struct obj *free_first, *free_last;
static struct obj *streams;

static inline struct obj *find(const void *h, u32 magic) {
	struct obj *o = (struct obj *)h;
	uintptr_t at = (uintptr_t)h - (uintptr_t)arena;
	if (likely(at < ARENA_SLOTS * sizeof *o && at % sizeof *o == 0 && atomic_load_explicit(&o->magic, memory_order_acquire) == magic))
		return o;
	return NULL;
}

static void map_arena(void) {
	void *p = mmap(NULL, (ARENA_SLOTS + 1) * sizeof *arena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		abort();
	uintptr_t a = (uintptr_t)p;
	arena = (struct obj *)(a + (sizeof *arena - a % sizeof *arena) % sizeof *arena);
}

// new_obj hands out slots that were never used, then the one that has been free
// for longest; with reuse_handles the one that was freed last.
static struct obj *new_obj(u32 magic, int dev, u32 objflags) {
	static u64 serial;
	struct obj *o = free_first;
	if (o && (set.reuse_handles || used == ARENA_SLOTS)) {
		free_first = o->next;
		if (!free_first)
			free_last = NULL;
	} else if (used < ARENA_SLOTS) {
		o = &arena[used++];
	} else {
		return NULL;
	}
	memset((char *)o + sizeof o->magic, 0, sizeof *o - sizeof o->magic);
	o->dev = dev;
	o->flags = objflags;
	o->serial = ++serial;
	atomic_store_explicit(&o->magic, magic, memory_order_release);
	return o;
}

static void free_obj(struct obj *o) {
	atomic_store(&o->magic, DEAD);
	free(o->list.item);
	free(o->text);
	o->list.item = NULL;
	o->text = NULL;
	if (set.reuse_handles || !free_last) {
		o->next = free_first;
		free_first = o;
		if (!free_last)
			free_last = o;
	} else {
		o->next = NULL;
		free_last->next = o;
		free_last = o;
	}
}

// ---- devices and contexts --------------------------------------------------------

enum { LEGACY = 0x100, OWN = 0x200, ZOMBIE = 0x400 }; // flags of streams, above the vendor's

static struct device {
	int active, retained, pinned;
	long inits;
	struct obj *legacy, *own;
} devices[MAX_DEVICES];

static _Atomic int driver_ready;

// An ordinal is good if the driver is ready and has that device. The runtime
// readies the driver by itself.
static int ordinal(int k, int dev) {
	if (k & RUNTIME) {
		if (set.count_code)
			return set.count_code;
		atomic_store(&driver_ready, 1);
	} else if (!atomic_load(&driver_ready)) {
		return NOT_INITIALIZED;
	}
	if (set.device_count == 0 && (k & RUNTIME))
		return NO_DEVICE;
	return dev >= 0 && dev < set.device_count ? OK : INVALID_DEVICE;
}

static void open_context(int dev) {
	if (!devices[dev].active) {
		devices[dev].active = 1;
		devices[dev].inits++;
	}
}

static __attribute__((noinline)) int need_slow(struct tls *t, int k) {
	if (k & DRIVER) {
		if (!atomic_load(&driver_ready))
			return NOT_INITIALIZED;
		return t->ctx < 0 ? INVALID_CONTEXT : 709; // the current context was destroyed
	}
	int dev = t->ctx >= 0 ? t->ctx : t->device;
	int code = ordinal(k, dev);
	if (code != OK)
		return code;
	pthread_mutex_lock(&lock);
	open_context(dev);
	devices[dev].pinned = 1;
	t->ctx = dev;
	pthread_mutex_unlock(&lock);
	return OK;
}

// need is for calls that want a context: the runtime opens one, the driver refuses.
static inline int need(struct tls *t, int k) {
	return likely(t->ctx >= 0 && devices[t->ctx].active) ? OK : need_slow(t, k);
}

static void add_stream(struct obj *s) {
	s->next = streams;
	streams = s;
}

static int default_stream(struct tls *t, int k, uintptr_t h, struct obj **s) {
	int code = need(t, k);
	if (code != OK)
		return code;
	if (IS_HIP && h == 1 && set.runtime_version < 60200000)
		return bad(t, "stream", (void *)h); // not yet a special handle
	struct device *d = &devices[t->ctx];
	struct obj **which = h == 2 ? &d->own : &d->legacy;
	if (unlikely(!*which)) {
		pthread_mutex_lock(&lock);
		if (!*which && (*which = new_obj(STREAM, t->ctx, h == 2 ? OWN : LEGACY)))
			add_stream(*which);
		pthread_mutex_unlock(&lock);
		if (!*which)
			return OUT_OF_MEMORY;
	}
	*s = *which;
	return OK;
}

static inline int stream_of(struct tls *t, int k, void *h, struct obj **s) {
	if (unlikely((uintptr_t)h <= 2))
		return default_stream(t, k, (uintptr_t)h, s);
	*s = find(h, STREAM);
	return likely(*s != NULL) ? OK : bad(t, "stream", h);
}

static inline int event_of(struct tls *t, void *h, struct obj **e) {
	*e = find(h, EVENT);
	if (likely(*e != NULL))
		return OK;
	return h ? bad(t, "event", h) : INVALID_HANDLE;
}

// ---- queues ------------------------------------------------------------------------

static long busy; // queued items of all streams
static int polling; // the head of a queue waits for a word in memory

static struct mark *new_mark(int refs, struct obj *event) {
	struct mark *m = calloc(1, sizeof *m);
	m->refs = refs;
	m->event = event;
	return m;
}

static void drop_mark(struct mark *m) {
	if (m && --m->refs == 0)
		free(m);
}

// detach makes an event forget its pending record, which others may still wait for.
static void detach(struct obj *e) {
	if (!e->mark)
		return;
	e->mark->event = NULL;
	drop_mark(e->mark);
	e->mark = NULL;
}

static void reach(struct mark *m, u64 at) {
	m->done = 1;
	m->stamp = tick(at);
	struct obj *e = m->event;
	if (!e)
		return;
	e->stamp = m->stamp;
	e->mark = NULL;
	atomic_store_explicit(&e->state, DONE, memory_order_release);
	m->event = NULL;
	drop_mark(m);
}

static void append(struct list *l, struct item it) {
	if (l->head > 0 && l->head == l->n) {
		l->head = l->n = 0;
	} else if (l->n == l->room && l->head > l->room / 2) {
		memmove(l->item, l->item + l->head, (l->n - l->head) * sizeof *l->item);
		l->n -= l->head;
		l->head = 0;
	}
	if (l->n == l->room) {
		l->room = l->room ? 2 * l->room : 8;
		l->item = realloc(l->item, l->room * sizeof *l->item);
	}
	l->item[l->n++] = it;
}

static int length(const struct list *l) { return l->n - l->head; }

static int word_reached(const struct item *it) {
	u32 v = __atomic_load_n((u32 *)it->to, __ATOMIC_ACQUIRE);
	switch (it->flags & 3) {
	case 0: return (int32_t)(v - it->value) >= 0;
	case 1: return v == it->value;
	case 2: return (v & it->value) != 0;
	}
	return ~(v | it->value) != 0;
}

// step retires the head of a queue if its time has come. Otherwise it tells
// when that will be, if anybody knows.
static int step(struct obj *s, u64 now, u64 *due) {
	struct item *it = &s->list.item[s->list.head];
	u64 at = s->cursor > it->enqueued ? s->cursor : it->enqueued;
	switch (it->kind) {
	case WORK:
		if (at > now) {
			*due = at;
			return 0;
		}
		if (!it->started) {
			it->started = 1;
			it->start = at;
		}
		at = it->start + it->ns;
		if (at > now) {
			*due = at;
			return 0;
		}
		if (it->out) {
			__atomic_store_n(&it->out[0], it->start, __ATOMIC_RELEASE);
			__atomic_store_n(&it->out[1], at > it->start ? at : at + 1, __ATOMIC_RELEASE);
		} else if (it->from) {
			memmove(it->to, it->from, it->bytes);
		} else if (it->to) {
			memset(it->to, (int)it->value, it->bytes);
		}
		break;
	case RECORD:
		reach(it->mark, at);
		break;
	case WAIT:
		if (!it->mark->done)
			return 0;
		if (it->mark->stamp > at)
			at = it->mark->stamp;
		break;
	case WAIT_VALUE:
		if (!word_reached(it)) {
			polling = 1;
			return 0;
		}
		at = now;
		break;
	case WRITE_VALUE:
		__atomic_store_n((u32 *)it->to, it->value, __ATOMIC_RELEASE);
		break;
	case HOLD:
		if (s->held)
			return 0;
		at = now;
		break;
	}
	drop_mark(it->mark);
	s->cursor = at;
	s->list.head++;
	s->retired++;
	busy--;
	return 1;
}

static void forget_stream(struct obj *s) {
	for (struct obj **p = &streams; *p; p = &(*p)->next) {
		if (*p == s) {
			*p = s->next;
			break;
		}
	}
	free_obj(s);
}

// advance retires everything whose time has come, and returns when the next
// thing is due (UINT64_MAX: nothing is known).
static u64 advance(u64 now) {
	u64 due = UINT64_MAX;
	int again = busy > 0, any = 0;
	while (again) {
		again = 0;
		due = UINT64_MAX;
		polling = 0;
		for (struct obj *s = streams, *next; s; s = next) {
			next = s->next;
			u64 mine_due = UINT64_MAX;
			while (length(&s->list) > 0 && step(s, now, &mine_due))
				again = any = 1;
			if (mine_due < due)
				due = mine_due;
			if (length(&s->list) == 0 && (s->flags & ZOMBIE))
				forget_stream(s);
		}
	}
	if (busy == 0)
		set_flag(F_BUSY, 0);
	if (any)
		pthread_cond_broadcast(&progress);
	return due;
}

static void settle(void) {
	if (busy > 0)
		advance(device_now());
}

static void wait_for(pthread_cond_t *c, u64 ns) {
	u64 until = clock_ns(CLOCK_MONOTONIC) + ns;
	struct timespec ts = {until / 1000000000u, until % 1000000000u};
	pthread_cond_timedwait(c, &lock, &ts);
}

// run is the device: it makes things happen while nobody asks.
static void *run(void *unused) {
	(void)unused;
	pthread_mutex_lock(&lock);
	for (;;) {
		if (busy == 0) {
			pthread_cond_wait(&wanted, &lock);
			continue;
		}
		u64 now = device_now(), due = advance(now);
		if (busy == 0)
			continue;
		u64 pause = atomic_load(&manual) || due == UINT64_MAX ? UINT64_MAX : due > now ? due - now : 1000;
		if (polling && pause > 20000)
			pause = 20000;
		if (pause == UINT64_MAX)
			pthread_cond_wait(&wanted, &lock);
		else
			wait_for(&wanted, pause);
	}
	return NULL;
}

static void start_device(void) {
	static int started;
	if (started)
		return;
	started = 1;
	// Signals are for the program's own threads.
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_t thread;
	if (pthread_create(&thread, NULL, run, NULL) == 0)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void queue_item(struct obj *s, struct item it) {
	it.enqueued = device_now();
	append(&s->list, it);
	s->queued++;
	busy++;
	set_flag(F_BUSY, 1);
	start_device();
	pthread_cond_signal(&wanted);
}

// push queues an item. A full queue blocks its caller.
static void push(struct obj *s, struct item it) {
	while (length(&s->list) >= set.queue_depth && !set.sticky_code) {
		advance(device_now());
		if (length(&s->list) >= set.queue_depth)
			wait_for(&progress, 1000000);
	}
	queue_item(s, it);
}

// after makes stream s wait for everything that is queued on other by now.
static void after(struct obj *s, struct obj *other) {
	if (length(&other->list) == 0)
		return;
	struct mark *m = new_mark(2, NULL);
	queue_item(other, (struct item){.kind = RECORD, .mark = m});
	queue_item(s, (struct item){.kind = WAIT, .mark = m});
}

static int blocking(const struct obj *s) { return !(s->flags & (NON_BLOCKING | LEGACY)); }

// enqueue is push, in the order that the legacy stream and the blocking streams
// of its device keep among each other.
static void enqueue(struct obj *s, struct item it) {
	if (s->flags & LEGACY) {
		for (struct obj *other = streams; other; other = other->next)
			if (other->dev == s->dev && blocking(other))
				after(s, other);
	} else if (blocking(s) && devices[s->dev].legacy) {
		after(s, devices[s->dev].legacy);
	}
	push(s, it);
}

// wait_mark blocks until a mark is reached. The caller holds a reference.
static int wait_mark(struct mark *m) {
	for (;;) {
		u64 now = device_now(), due = advance(now);
		if (m->done)
			return OK;
		if (set.sticky_code)
			return set.sticky_code;
		if (!atomic_load(&manual) && due < now + 100000) {
			pthread_mutex_unlock(&lock);
			sched_yield();
			pthread_mutex_lock(&lock);
		} else {
			wait_for(&progress, 2000000);
		}
	}
}

static int wait_stream(struct obj *s) {
	if (length(&s->list) == 0)
		return OK;
	struct mark *m = new_mark(2, NULL);
	queue_item(s, (struct item){.kind = RECORD, .mark = m});
	int code = wait_mark(m);
	drop_mark(m);
	return code;
}

// ---- captures ------------------------------------------------------------------------

struct capture {
	u64 id;
	int mode, invalid;
	struct tls *owner;
	struct obj *origin;
	struct list nodes;
	struct capture *next;
};

static struct capture *captures;

static void invalidate(struct capture *c) {
	if (!c->invalid)
		set.invalidated_captures++;
	c->invalid = 1;
}

// capture_of is the capture that an event's last record fell into, while it lasts.
static struct capture *capture_of(const struct obj *e) {
	struct capture *c = captures;
	while (c && c->id != e->capture)
		c = c->next;
	return c;
}

// implicit is the capture that work on the legacy stream s would be drawn into.
static struct capture *implicit(const struct obj *s) {
	if (s->flags & LEGACY)
		for (struct obj *other = streams; other; other = other->next)
			if (other->cap && other->dev == s->dev && blocking(other))
				return other->cap;
	return NULL;
}

// unsafe judges a call that captures forbid to the threads in their reach.
static int unsafe(struct tls *t) {
	int code = OK;
	if (t->mode == MODE_RELAXED || !set.strict_captures)
		return OK;
	for (struct capture *c = captures; c; c = c->next) {
		if (c->mode != MODE_RELAXED && (c->owner == t || (t->mode == MODE_GLOBAL && c->mode == MODE_GLOBAL))) {
			invalidate(c);
			code = CAPTURE_UNSUPPORTED;
		}
	}
	return code;
}

// ask judges a query or a wait. What concerns the capture itself kills it even
// on a relaxed thread.
static int ask(struct tls *t, struct obj *e, struct obj *s) {
	if (e && e->capture) {
		struct capture *c = capture_of(e);
		if (c) {
			invalidate(c);
			return CAPTURED_EVENT;
		}
		if (!IS_HIP)
			return INVALID_VALUE;
	}
	if (s && s->cap) {
		invalidate(s->cap);
		return CAPTURE_UNSUPPORTED;
	}
	struct capture *c = s ? implicit(s) : NULL;
	if (c) {
		invalidate(c);
		return CAPTURE_IMPLICIT;
	}
	return unsafe(t);
}

static int unsafe_call(struct tls *t) {
	pthread_mutex_lock(&lock);
	int code = unsafe(t);
	pthread_mutex_unlock(&lock);
	return code;
}

// work puts an item into a stream, or into the capture that the stream is in.
static int work(struct obj *s, struct item it) {
	struct capture *c = implicit(s);
	if (c) {
		invalidate(c);
		return CAPTURE_IMPLICIT;
	}
	if (s->cap) {
		if (s->cap->invalid)
			return CAPTURE_INVALIDATED;
		append(&s->cap->nodes, it);
		s->seq++;
		return OK;
	}
	enqueue(s, it);
	settle();
	return OK;
}

static int begin_capture(struct tls *t, int k, void *sh, int mode) {
	struct obj *s;
	int code = stream_of(t, k, sh, &s);
	if (code != OK)
		return code;
	if (mode < MODE_GLOBAL || mode > MODE_RELAXED)
		return INVALID_VALUE;
	if (s->flags & LEGACY)
		return CAPTURE_UNSUPPORTED;
	static u64 id;
	pthread_mutex_lock(&lock);
	if (s->cap) {
		code = ILLEGAL_STATE;
	} else {
		struct capture *c = calloc(1, sizeof *c);
		*c = (struct capture){.id = ++id, .mode = mode, .owner = t, .origin = s, .next = captures};
		captures = s->cap = c;
		s->seq = s->joined = 0;
		set_flag(F_CAPTURE, 1);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static void forget_capture(struct capture *c) {
	for (struct obj *s = streams; s; s = s->next)
		if (s->cap == c)
			s->cap = NULL;
	struct capture **p = &captures;
	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	free(c->nodes.item);
	free(c);
	set_flag(F_CAPTURE, captures != NULL);
}

static int end_capture(struct tls *t, int k, void *sh, void **graph) {
	struct obj *s;
	int code = stream_of(t, k, sh, &s);
	if (code != OK)
		return code;
	if (!graph)
		return INVALID_VALUE;
	*graph = NULL;
	pthread_mutex_lock(&lock);
	struct capture *c = s->cap;
	if (!c) {
		code = ILLEGAL_STATE;
	} else if (c->origin != s) {
		code = CAPTURE_UNMATCHED;
	} else if (c->owner != t && c->mode != MODE_RELAXED) {
		code = CAPTURE_WRONG_THREAD;
	} else {
		if (c->invalid)
			code = CAPTURE_INVALIDATED;
		for (struct obj *other = streams; other && code == OK; other = other->next)
			if (other->cap == c && other != s && other->joined < other->seq)
				code = CAPTURE_UNJOINED;
		if (code == OK) {
			struct obj *g = new_obj(GRAPH, s->dev, 0);
			if (g) {
				g->list = c->nodes;
				c->nodes = (struct list){0};
				set.live_graphs++;
				*graph = g;
			} else {
				code = OUT_OF_MEMORY;
			}
		}
		forget_capture(c);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static inline int is_capturing(struct tls *t, int k, void *sh, int *status) {
	struct obj *s;
	int code = stream_of(t, k, sh, &s);
	if (unlikely(code != OK))
		return code;
	if (unlikely(!status))
		return INVALID_VALUE;
	if (likely(!(FLAGS & F_CAPTURE))) {
		*status = 0;
		return OK;
	}
	pthread_mutex_lock(&lock);
	if (implicit(s))
		code = CAPTURE_IMPLICIT;
	else
		*status = s->cap ? 1 + s->cap->invalid : 0;
	pthread_mutex_unlock(&lock);
	return code;
}

static int exchange_mode(struct tls *t, int k, int *mode) {
	if (!mode || *mode < MODE_GLOBAL || *mode > MODE_RELAXED)
		return INVALID_VALUE;
	if ((k & DRIVER) && !atomic_load(&driver_ready))
		return NOT_INITIALIZED;
	if (k & RUNTIME) { // the driver's opens no context
		int code = need(t, k);
		if (code != OK)
			return code;
	}
	int old = t->mode;
	t->mode = *mode;
	*mode = old;
	return OK;
}

// ---- graphs ----------------------------------------------------------------------------

static int instantiate(struct tls *t, void **exec, void *graph) {
	if (!exec || !graph)
		return INVALID_VALUE;
	struct obj *g = find(graph, GRAPH);
	if (!g)
		return bad(t, "graph", graph);
	pthread_mutex_lock(&lock);
	struct obj *x = new_obj(EXEC, g->dev, 0);
	if (x) {
		for (int i = 0; i < g->list.n; i++)
			append(&x->list, g->list.item[i]);
		set.live_graphs++;
		*exec = x;
	}
	pthread_mutex_unlock(&lock);
	return x ? OK : OUT_OF_MEMORY;
}

static int graph_free(struct tls *t, u32 magic, void *h) {
	struct obj *g = find(h, magic);
	if (!g)
		return h ? bad(t, magic == GRAPH ? "graph" : "graph exec", h) : INVALID_VALUE;
	pthread_mutex_lock(&lock);
	free_obj(g);
	set.live_graphs--;
	pthread_mutex_unlock(&lock);
	return OK;
}

static int graph_launch(struct tls *t, int k, void *exec, void *sh) {
	struct obj *x = find(exec, EXEC), *s;
	if (!x)
		return exec ? bad(t, "graph exec", exec) : INVALID_VALUE;
	int code = stream_of(t, k, sh, &s);
	if (code != OK)
		return code;
	if (x->dev != s->dev)
		return INVALID_HANDLE;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < x->list.n && code == OK; i++) {
		struct item it = x->list.item[i];
		if (it.kind == RECORD && !s->cap) {
			struct obj *e = it.event;
			if (e->magic != EVENT || e->serial != it.serial)
				continue; // destroyed since
			detach(e);
			e->capture = 0;
			e->mark = it.mark = new_mark(2, e);
			e->state = PENDING;
		}
		code = work(s, it);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

// ---- events ----------------------------------------------------------------------------

static int event_create(struct tls *t, int k, void **event, u32 create_flags) {
	int code = need(t, k);
	if (code != OK)
		return code;
	u32 known = IS_HIP ? 0xe0000007 : 7, release = create_flags & 0xe0000000;
	if (!event || (create_flags & ~known) || ((create_flags & INTERPROCESS) && !(create_flags & DISABLE_TIMING)) || (release & (release - 1)))
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	struct obj *e = new_obj(EVENT, t->ctx, create_flags);
	if (e) {
		set.live_events++;
		set.last_create_flags = create_flags;
		*event = e;
	}
	pthread_mutex_unlock(&lock);
	return e ? OK : OUT_OF_MEMORY;
}

static int event_destroy(struct tls *t, void *h) {
	struct obj *e;
	int code = event_of(t, h, &e);
	if (code != OK)
		return code;
	pthread_mutex_lock(&lock);
	if (e->magic == EVENT) { // else: two destroys at once, and this is the second
		detach(e);
		free_obj(e);
		set.live_events--;
	} else {
		code = -1;
	}
	pthread_mutex_unlock(&lock);
	return code == OK ? OK : bad(t, "event", h);
}

// refused_outside: an external record is for captures only, as measured on CUDA
// 13.0. HIP's source makes a plain record of it.
static inline int refused_outside(u32 record_flags) { return !IS_HIP && (record_flags & EXTERNAL); }

static __attribute__((noinline)) int record_slow(struct obj *e, struct obj *s, u32 record_flags) {
	int code;
	pthread_mutex_lock(&lock);
	settle();
	if (s->cap) {
		if (s->cap->invalid) {
			code = CAPTURE_INVALIDATED;
		} else if (record_flags & EXTERNAL) {
			code = work(s, (struct item){.kind = RECORD, .event = e, .serial = e->serial});
		} else { // no node: the event stands for what was captured so far
			if (!IS_HIP)
				detach(e);
			e->capture = s->cap->id;
			e->of = s;
			e->seq = s->seq;
			code = OK;
		}
	} else if (implicit(s)) {
		invalidate(implicit(s));
		code = CAPTURE_IMPLICIT;
	} else if (refused_outside(record_flags)) {
		code = ILLEGAL_STATE;
	} else {
		detach(e);
		e->capture = 0;
		e->mark = new_mark(2, e);
		e->state = PENDING;
		enqueue(s, (struct item){.kind = RECORD, .mark = e->mark});
		settle();
		code = OK;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static inline int event_record(struct tls *t, int k, void *eh, void *sh, u32 record_flags) {
	struct obj *e, *s;
	int code = event_of(t, eh, &e);
	if (unlikely(code != OK))
		return code;
	code = stream_of(t, k, sh, &s);
	if (unlikely(code != OK))
		return code;
	if (unlikely(e->dev != s->dev))
		return INVALID_HANDLE;
	if (unlikely((FLAGS & (F_BUSY | F_CAPTURE)) || refused_outside(record_flags)))
		return record_slow(e, s, record_flags);
	atomic_store_explicit(&e->stamp, stamp_now(), memory_order_relaxed);
	atomic_store_explicit(&e->capture, 0, memory_order_relaxed);
	atomic_store_explicit(&e->state, DONE, memory_order_release);
	return OK;
}

static int event_record_with(struct tls *t, int k, void *e, void *s, u32 record_flags) {
	__atomic_store_n(&set.last_record_flags, record_flags, __ATOMIC_RELAXED);
	return record_flags & ~EXTERNAL ? INVALID_VALUE : event_record(t, k, e, s, record_flags);
}

// settled: nothing about this event needs the lock.
static inline int settled(struct obj *e) {
	return !(FLAGS & F_CAPTURE) && atomic_load_explicit(&e->state, memory_order_acquire) != PENDING &&
		!atomic_load_explicit(&e->capture, memory_order_relaxed);
}

static __attribute__((noinline)) int query_slow(struct tls *t, struct obj *e) {
	pthread_mutex_lock(&lock);
	int code = ask(t, e, NULL);
	if (code == OK) {
		settle();
		code = e->state == PENDING ? NOT_READY : OK;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static inline int event_query(struct tls *t, void *h) {
	struct obj *e;
	int code = event_of(t, h, &e);
	if (unlikely(code != OK))
		return code;
	return likely(settled(e)) ? OK : query_slow(t, e);
}

static __attribute__((noinline)) int synchronize_slow(struct tls *t, struct obj *e) {
	pthread_mutex_lock(&lock);
	int code = ask(t, e, NULL);
	struct mark *m = e->mark;
	if (code == OK && m) {
		m->refs++;
		code = wait_mark(m);
		drop_mark(m);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static inline int event_synchronize(struct tls *t, void *h) {
	struct obj *e;
	int code = event_of(t, h, &e);
	if (unlikely(code != OK))
		return code;
	return likely(settled(e)) ? OK : synchronize_slow(t, e);
}

static __attribute__((noinline)) int elapsed_slow(float *ms, struct obj *a, struct obj *b, double more) {
	if (a->dev != b->dev)
		return INVALID_HANDLE;
	pthread_mutex_lock(&lock);
	settle();
	int code = OK;
	if (!IS_HIP && (a->capture || b->capture))
		code = INVALID_VALUE;
	else if (a->state == NEVER || b->state == NEVER || ((a->flags | b->flags) & DISABLE_TIMING))
		code = INVALID_HANDLE;
	else if (a->state == PENDING || b->state == PENDING)
		code = NOT_READY;
	else if (set.elapsed_bits >= 0)
		*ms = ((union { u32 u; float f; }){.u = (u32)set.elapsed_bits}).f;
	else if (!set.elapsed_untouched)
		*ms = (float)((double)(int64_t)(b->stamp - a->stamp) / 1e6 + more);
	pthread_mutex_unlock(&lock);
	return code;
}

static inline int elapsed(struct tls *t, float *ms, void *ah, void *bh, double more) {
	struct obj *a, *b;
	int code = event_of(t, ah, &a);
	if (likely(code == OK))
		code = event_of(t, bh, &b);
	if (unlikely(code != OK)) {
		// The real thing crashes on null handles, and HIP does not.
		return (ah && bh) || IS_HIP ? code : bad(t, "event", NULL);
	}
	if (unlikely(!ms))
		return INVALID_VALUE;
	if (unlikely(a->dev != b->dev || (FLAGS & F_ELAPSED) || a->state != DONE || b->state != DONE || a->capture || b->capture || ((a->flags | b->flags) & DISABLE_TIMING)))
		return elapsed_slow(ms, a, b, more);
	int64_t ns = (int64_t)(atomic_load_explicit(&b->stamp, memory_order_relaxed) - atomic_load_explicit(&a->stamp, memory_order_relaxed));
	*ms = (float)((double)ns / 1e6 + more);
	return OK;
}

// ---- streams -------------------------------------------------------------------------

static int stream_create(struct tls *t, int k, void **stream, u32 create_flags) {
	int code = need(t, k);
	if (code != OK)
		return code;
	if (!stream || (create_flags & ~NON_BLOCKING))
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	struct obj *s = new_obj(STREAM, t->ctx, create_flags);
	if (s) {
		add_stream(s);
		set.live_streams++;
		set.last_stream_flags = create_flags;
		*stream = s;
	}
	pthread_mutex_unlock(&lock);
	return s ? OK : OUT_OF_MEMORY;
}

static int stream_destroy(struct tls *t, void *h) {
	if ((uintptr_t)h <= 2)
		return INVALID_HANDLE;
	struct obj *s = find(h, STREAM);
	if (!s)
		return bad(t, "stream", h);
	int code = OK;
	pthread_mutex_lock(&lock);
	if (s->magic != STREAM) {
		code = -1;
	} else if (s->cap) {
		invalidate(s->cap);
		code = CAPTURE_UNSUPPORTED;
	} else {
		set.live_streams--;
		settle();
		if (length(&s->list) == 0) {
			forget_stream(s);
		} else { // its work still runs
			s->flags |= ZOMBIE;
			s->magic = DEAD;
		}
	}
	pthread_mutex_unlock(&lock);
	return code == -1 ? bad(t, "stream", h) : code;
}

static int stream_query(struct tls *t, int k, void *h, int wait) {
	struct obj *s;
	int code = stream_of(t, k, h, &s);
	if (code != OK)
		return code;
	if (likely(!(FLAGS & (F_BUSY | F_CAPTURE))))
		return OK;
	pthread_mutex_lock(&lock);
	code = ask(t, NULL, s);
	if (code == OK) {
		settle();
		if (wait)
			code = wait_stream(s);
		else if (length(&s->list) > 0)
			code = NOT_READY;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static int device_synchronize(struct tls *t, int k) {
	int code = need(t, k);
	if (code != OK)
		return code;
	pthread_mutex_lock(&lock);
	for (struct obj *s = streams; s; s = s->next) {
		if (s->dev == t->ctx && s->cap) {
			invalidate(s->cap);
			code = CAPTURE_UNSUPPORTED;
		}
	}
	int also = unsafe(t);
	if (code == OK)
		code = also;
	// A stream's end may free it, so the list is read anew each time.
	for (struct obj *s = streams; s && code == OK;) {
		if (s->dev == t->ctx && length(&s->list) > 0) {
			code = wait_stream(s);
			s = streams;
		} else {
			s = s->next;
		}
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static __attribute__((noinline)) int wait_event_slow(struct obj *s, struct obj *e, u32 wait_flags) {
	int code = OK;
	pthread_mutex_lock(&lock);
	settle();
	struct capture *c = e->capture ? capture_of(e) : NULL, *drawn = implicit(s);
	if (drawn) {
		invalidate(drawn);
		code = CAPTURE_IMPLICIT;
	} else if (s->cap && s->cap->invalid) {
		code = CAPTURE_INVALIDATED;
	} else if (s->cap && (wait_flags & EXTERNAL)) {
		s->seq++;
	} else if (s->cap && !c) {
		invalidate(s->cap);
		code = CAPTURE_ISOLATION;
	} else if (s->cap && c != s->cap) {
		invalidate(s->cap);
		invalidate(c);
		code = CAPTURE_MERGE;
	} else if (c && c->invalid) {
		code = CAPTURE_INVALIDATED;
	} else if (c && (s->flags & LEGACY)) {
		invalidate(c);
		code = CAPTURE_IMPLICIT;
	} else if (c) {
		if (!s->cap) { // drawn into the capture: it has to find back
			s->cap = c;
			s->seq = s->joined = 0;
			s->seq++;
		}
		if (e->of->joined < e->seq)
			e->of->joined = e->seq;
	} else if (e->capture && !IS_HIP) {
		code = INVALID_VALUE;
	} else if (e->mark) {
		e->mark->refs++;
		enqueue(s, (struct item){.kind = WAIT, .mark = e->mark});
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static inline int wait_event(struct tls *t, int k, void *sh, void *eh, u32 wait_flags) {
	struct obj *e, *s;
	int code = stream_of(t, k, sh, &s);
	if (likely(code == OK))
		code = event_of(t, eh, &e);
	if (unlikely(code != OK))
		return code;
	__atomic_store_n(&set.last_wait_flags, wait_flags, __ATOMIC_RELAXED);
	if (unlikely(wait_flags & ~EXTERNAL))
		return INVALID_VALUE;
	if (likely(!(FLAGS & (F_BUSY | F_CAPTURE)) && !e->capture))
		return OK;
	return wait_event_slow(s, e, wait_flags);
}

BOTH(EventRecord, (void *event, void *stream), event_record(t, k, event, stream, 0))
BOTH(EventRecordWithFlags, (void *event, void *stream, u32 f), event_record_with(t, k, event, stream, f))
BOTH(EventQuery, (void *event), event_query(t, event))
BOTH(EventSynchronize, (void *event), event_synchronize(t, event))
BOTH(EventElapsedTime, (float *ms, void *start, void *end), elapsed(t, ms, start, end, 0))
#ifdef FAKE_ELAPSED_V2 // its answers are 7 s longer, so that they can be told
BOTH(EventElapsedTime_v2, (float *ms, void *start, void *end), elapsed(t, ms, start, end, 7000))
#endif
RT(EventCreate, (void **event), event_create(t, k, event, 0))
RT(EventCreateWithFlags, (void **event, u32 f), event_create(t, k, event, f))
DRV(EventCreate, (void **event, u32 f), event_create(t, k, event, f))
RT(EventDestroy, (void *event), event_destroy(t, event))
DRV(EventDestroy_v2, (void *event), event_destroy(t, event))

RT(StreamCreate, (void **stream), stream_create(t, k, stream, 0))
RT(StreamCreateWithFlags, (void **stream, u32 f), stream_create(t, k, stream, f))
DRV(StreamCreate, (void **stream, u32 f), stream_create(t, k, stream, f))
BOTH(StreamCreateWithPriority, (void **stream, u32 f, int priority), ((void)priority, stream_create(t, k, stream, f)))
RT(StreamDestroy, (void *stream), stream_destroy(t, stream))
DRV(StreamDestroy_v2, (void *stream), stream_destroy(t, stream))
BOTH(StreamSynchronize, (void *stream), stream_query(t, k, stream, 1))
BOTH(StreamQuery, (void *stream), stream_query(t, k, stream, 0))
BOTH(StreamWaitEvent, (void *stream, void *event, u32 f), wait_event(t, k, stream, event, f))
BOTH(StreamIsCapturing, (void *stream, int *status), is_capturing(t, k, stream, status))
RT(StreamBeginCapture, (void *stream, int mode), begin_capture(t, k, stream, mode))
DRV(StreamBeginCapture_v2, (void *stream, int mode), begin_capture(t, k, stream, mode))
BOTH(StreamEndCapture, (void *stream, void **graph), end_capture(t, k, stream, graph))
RT_PURE(ThreadExchangeStreamCaptureMode, (int *mode), exchange_mode(t, k, mode))
DRV_PURE(ThreadExchangeStreamCaptureMode, (int *mode), exchange_mode(t, k, mode))
BOTH(GraphInstantiateWithFlags, (void **exec, void *graph, u64 f), ((void)f, instantiate(t, exec, graph)))
BOTH(GraphLaunch, (void *exec, void *stream), graph_launch(t, k, exec, stream))
BOTH(GraphExecDestroy, (void *exec), graph_free(t, EXEC, exec))
BOTH(GraphDestroy, (void *graph), graph_free(t, GRAPH, graph))

// ---- devices ---------------------------------------------------------------------------

static int device_count(int k, int *n) {
	if (!n)
		return INVALID_VALUE;
	if ((k & DRIVER) && !atomic_load(&driver_ready))
		return NOT_INITIALIZED;
	if (set.count_code)
		return (int)set.count_code;
	if (k & RUNTIME)
		atomic_store(&driver_ready, 1);
	*n = (int)set.device_count;
	return *n == 0 && (k & RUNTIME) ? NO_DEVICE : OK;
}

static int set_device(struct tls *t, int k, int dev) {
	int code = ordinal(k, dev);
	if (code != OK)
		return code;
	long opens = set.context_at_set_device;
	if (opens < 0)
		opens = !IS_HIP && set.runtime_version >= 12000;
	t->device = dev;
	t->ctx = -1;
	return opens ? need(t, k) : OK;
}

static int get_device(struct tls *t, int k, int *dev) {
	if (!dev)
		return INVALID_VALUE;
	*dev = t->ctx >= 0 ? t->ctx : t->device;
	return ordinal(k, *dev);
}

static int pci_bus_id(int k, char *text, int len, int dev) {
	int code = ordinal(k, dev);
	if (code != OK)
		return code;
	if (!text || len < 13)
		return INVALID_VALUE;
	snprintf(text, len, IS_HIP ? "%04x:%02x:%02x.%01x" : "%04X:%02X:%02X.%01X", 0, 0x1a + dev, 0, 0);
	return OK;
}

static int device_name(int k, char *text, int len, int dev) {
	int code = ordinal(k, dev);
	if (code != OK)
		return code;
	if (!text || len < 1)
		return INVALID_VALUE;
	snprintf(text, len, "Fake %s device %d", TEXT(RT_PREFIX), dev);
	return OK;
}

static int device_uuid(int k, unsigned char *uuid, int dev) {
	int code = ordinal(k, dev);
	if (code != OK)
		return code;
	if (!uuid)
		return INVALID_VALUE;
	for (int i = 0; i < 16; i++)
		uuid[i] = (unsigned char)(0xf0 + i);
	uuid[15] = (unsigned char)dev;
	return OK;
}

static int device_attribute(int k, int *value, int attr, int dev) {
	static const struct { int cuda, hip, value; } known[] = {
		{13, 5, 1980000}, {16, 63, 132}, {36, 60, 3201000}, {37, 59, 6144}, {38, 19, 0}, {75, 23, 9}, {76, 61, 0},
		{10, 87, 32}, {18, 16, 0}, {19, 3, 1}, {20, 6, 0}, {33, 67, 0x1a}, {41, 85, 1}, {78, 78, 1}, {92, 10013, 1}, {122, -1, 1},
	};
	int code = ordinal(k, dev);
	if (code != OK)
		return code;
	if (!value || attr <= 0)
		return INVALID_VALUE;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (attr == (IS_HIP ? known[i].hip : known[i].cuda)) {
			*value = known[i].cuda == 38 ? (int)set.cache_bytes : known[i].value;
			return OK;
		}
	}
	return INVALID_VALUE;
}

static int version(int *v, long known) {
	if (!v)
		return INVALID_VALUE;
	*v = (int)known;
	return OK;
}

RT_PURE(GetDeviceCount, (int *n), device_count(k, n))
RT_PURE(GetDevice, (int *dev), get_device(t, k, dev))
RT(SetDevice, (int dev), set_device(t, k, dev))
RT(DeviceSynchronize, (void), device_synchronize(t, k))
RT_PURE(DeviceGetAttribute, (int *value, int attr, int dev), device_attribute(k, value, attr, dev))
RT_PURE(DeviceGetPCIBusId, (char *text, int len, int dev), pci_bus_id(k, text, len, dev))
RT_PURE(RuntimeGetVersion, (int *v), version(v, set.runtime_version))
RT_PURE(DriverGetVersion, (int *v), version(v, set.driver_version))
HIP_PURE(DeviceGetName, (char *text, int len, int dev), device_name(k, text, len, dev))
HIP_PURE(DeviceGetUuid, (unsigned char *uuid, int dev), device_uuid(k, uuid, dev))

// ---- the driver's contexts ---------------------------------------------------------------

// A context's handle is the address of its device.
static int context_of(const void *h) {
	uintptr_t at = (uintptr_t)h - (uintptr_t)devices;
	return at < sizeof devices && at % sizeof *devices == 0 ? (int)(at / sizeof *devices) : -1;
}

static int init_driver(u32 f) {
	if (f != 0)
		return INVALID_VALUE;
	if (set.count_code)
		return (int)set.count_code;
	if (set.device_count == 0)
		return NO_DEVICE;
	atomic_store(&driver_ready, 1);
	return OK;
}

static int driver_device(int k, int *out, int dev) {
	int code = ordinal(k, dev);
	if (code == OK && !out)
		code = INVALID_VALUE;
	if (code == OK)
		*out = dev;
	return code;
}

static int retain(int k, void **ctx, int dev) {
	int code = ordinal(k, dev);
	if (code != OK)
		return code;
	if (!ctx)
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	open_context(dev);
	devices[dev].retained++;
	*ctx = &devices[dev];
	pthread_mutex_unlock(&lock);
	return OK;
}

// close_context takes everything with it that was made in the context.
static void close_context(int dev) {
	for (size_t i = 0; i < used; i++) {
		struct obj *o = &arena[i];
		if (o->magic == DEAD || o->dev != dev)
			continue;
		switch (o->magic) {
		case EVENT:
			detach(o);
			set.live_events--;
			break;
		case STREAM:
			busy -= length(&o->list);
			if (!(o->flags & (LEGACY | OWN)))
				set.live_streams--;
			forget_stream(o);
			continue;
		case GRAPH:
		case EXEC:
			set.live_graphs--;
			break;
		case MODULE:
			set.live_modules--;
		}
		free_obj(o);
	}
	devices[dev].active = 0;
	devices[dev].legacy = devices[dev].own = NULL;
}

static int release(int k, int dev) {
	int code = ordinal(k, dev);
	if (code != OK)
		return code;
	pthread_mutex_lock(&lock);
	struct device *d = &devices[dev];
	if (d->retained == 0)
		code = INVALID_CONTEXT;
	else if (--d->retained == 0 && !d->pinned)
		close_context(dev);
	pthread_mutex_unlock(&lock);
	return code;
}

static int primary_state(int k, int dev, u32 *f, int *active) {
	int code = ordinal(k, dev);
	if (code != OK)
		return code;
	if (!f || !active)
		return INVALID_VALUE;
	*f = 0;
	*active = devices[dev].active;
	return OK;
}

static int get_context(struct tls *t, void **ctx) {
	if (!atomic_load(&driver_ready))
		return NOT_INITIALIZED;
	if (!ctx)
		return INVALID_VALUE;
	*ctx = t->ctx >= 0 ? &devices[t->ctx] : NULL;
	return OK;
}

static int set_context(struct tls *t, void *ctx) {
	if (!atomic_load(&driver_ready))
		return NOT_INITIALIZED;
	int dev = ctx ? context_of(ctx) : -1;
	if (ctx && (dev < 0 || !devices[dev].active))
		return bad(t, "context", ctx);
	t->ctx = dev;
	return OK;
}

DRV_PURE(Init, (u32 f), init_driver(f))
DRV_PURE(DriverGetVersion, (int *v), version(v, set.driver_version))
DRV_PURE(DeviceGetCount, (int *n), device_count(k, n))
DRV_PURE(DeviceGet, (int *out, int dev), driver_device(k, out, dev))
DRV_PURE(DeviceGetName, (char *text, int len, int dev), device_name(k, text, len, dev))
DRV_PURE(DeviceGetUuid_v2, (unsigned char *uuid, int dev), device_uuid(k, uuid, dev))
DRV_PURE(DeviceGetPCIBusId, (char *text, int len, int dev), pci_bus_id(k, text, len, dev))
DRV_PURE(DeviceGetAttribute, (int *value, int attr, int dev), device_attribute(k, value, attr, dev))
DRV(DevicePrimaryCtxRetain, (void **ctx, int dev), retain(k, ctx, dev))
DRV(DevicePrimaryCtxRelease_v2, (int dev), release(k, dev))
DRV_PURE(DevicePrimaryCtxGetState, (int dev, u32 *f, int *active), primary_state(k, dev, f, active))
DRV_PURE(CtxGetCurrent, (void **ctx), get_context(t, ctx))
DRV_PURE(CtxSetCurrent, (void *ctx), set_context(t, ctx))
DRV(CtxSynchronize, (void), device_synchronize(t, k))
BOTH(ProfilerStart, (void), need(t, k))
BOTH(ProfilerStop, (void), need(t, k))

// reset_lines makes persisting lines of the cache ordinary ones: there are none here.
static int reset_lines(struct tls *t, int k) {
	int code = need(t, k);
	if (code == OK)
		set.line_resets++;
	return code;
}

DRV(CtxResetPersistingL2Cache, (void), reset_lines(t, k))

// ---- memory ------------------------------------------------------------------------------

// The device's address of a block is not the host's, and the host cannot follow it.
#define FAR ((uintptr_t)1 << 52)

static struct block {
	char *at; // host address
	size_t bytes, mapped;
	int host, dev;
	struct block *next;
} *blocks;

static struct block *block_of(const char *at, size_t bytes) {
	for (struct block *b = blocks; b; b = b->next)
		if (at >= b->at && (size_t)(at - b->at) < b->bytes && bytes <= b->bytes - (size_t)(at - b->at))
			return b;
	return NULL;
}

// reach_memory is the host's address of device memory, or NULL.
static void *reach_memory(u64 address, size_t bytes) {
	char *at = (char *)(uintptr_t)(address - FAR);
	return block_of(at, bytes) ? at : NULL;
}

static int allocate(struct tls *t, int k, void **out, size_t bytes, int host) {
	int code = need(t, k);
	if (code == OK && (!out || bytes == 0))
		code = INVALID_VALUE;
	if (code == OK)
		code = unsafe_call(t);
	if (code != OK)
		return code;
	if (bytes > (size_t)140 << 30)
		return OUT_OF_MEMORY;
	struct block *b = calloc(1, sizeof *b);
	b->mapped = (bytes + 4095) & ~(size_t)4095;
	b->at = mmap(NULL, b->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (b->at == MAP_FAILED) {
		free(b);
		return OUT_OF_MEMORY;
	}
	if (host)
		memset(b->at, 0xa5, bytes); // pinned memory comes with what was in it
	b->bytes = bytes;
	b->host = host;
	b->dev = t->ctx;
	pthread_mutex_lock(&lock);
	b->next = blocks;
	blocks = b;
	set.live_allocations++;
	pthread_mutex_unlock(&lock);
	*out = host ? b->at : b->at + FAR;
	return OK;
}

// unallocate waits for the device, as the real ones do.
static int unallocate(struct tls *t, void *h, int host) {
	if (!h)
		return OK;
	char *at = host ? h : (char *)((uintptr_t)h - FAR);
	pthread_mutex_lock(&lock);
	int code = unsafe(t);
	struct block *b = block_of(at, 1);
	if (code == OK && (!b || b->at != at || b->host != host))
		code = INVALID_VALUE;
	for (struct obj *s = streams; s && code == OK;) {
		if (s->dev == b->dev && length(&s->list) > 0) {
			code = wait_stream(s);
			s = streams;
		} else {
			s = s->next;
		}
	}
	if (code == OK) {
		struct block **p = &blocks;
		while (*p != b)
			p = &(*p)->next;
		*p = b->next;
		munmap(b->at, b->mapped);
		free(b);
		set.live_allocations--;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static int host_address(u64 *out, char *host, u32 f) {
	if (!out || f != 0)
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	struct block *b = block_of(host, 1);
	int code = b && b->host ? OK : INVALID_VALUE;
	if (code == OK)
		*out = (u64)(uintptr_t)host + FAR;
	pthread_mutex_unlock(&lock);
	return code;
}

enum { REALLY = 1 << 20 }; // more bytes than this are only pretended

static int stick(int code) {
	set.sticky_code = code;
	set_flag(F_STICKY, 1);
	pthread_cond_broadcast(&progress);
	return OK; // it shows at the next call
}

// transfer queues a memset (from 0) or a copy.
static int transfer(struct tls *t, int k, u64 to, u64 from, int value, size_t bytes, void *sh) {
	struct obj *s;
	int code = need(t, k);
	if (code == OK)
		code = stream_of(t, k, sh, &s);
	if (code != OK)
		return code;
	pthread_mutex_lock(&lock);
	struct item it = {.kind = WORK, .ns = 1500 + bytes / 4580, .value = (u32)value};
	void *at = reach_memory(to, bytes), *source = from ? reach_memory(from, bytes) : NULL;
	if (!at || (from && !source)) {
		code = stick(ILLEGAL_ADDRESS);
	} else {
		if (bytes <= REALLY) {
			it.to = at;
			it.from = source;
			it.bytes = bytes;
		}
		code = work(s, it);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

RT(Malloc, (void **out, size_t bytes), allocate(t, k, out, bytes, 0))
RT(Free, (void *at), unallocate(t, at, 0))
RT(MemsetAsync, (void *to, int value, size_t bytes, void *stream), transfer(t, k, (uintptr_t)to, 0, value, bytes, stream))
HIP(MemcpyDtoDAsync, (void *to, void *from, size_t bytes, void *stream), transfer(t, k, (uintptr_t)to, (uintptr_t)from, 0, bytes, stream))
HIP(HostMalloc, (void **out, size_t bytes, u32 f), ((void)f, allocate(t, k, out, bytes, 1)))
HIP(HostFree, (void *at), unallocate(t, at, 1))
RT(HostAlloc, (void **out, size_t bytes, u32 f), ((void)f, allocate(t, k, out, bytes, 1)))
RT(FreeHost, (void *at), unallocate(t, at, 1))
RT(HostGetDevicePointer, (u64 *out, char *host, u32 f), host_address(out, host, f))
DRV(MemAlloc_v2, (void **out, size_t bytes), allocate(t, k, out, bytes, 0))
DRV(MemFree_v2, (void *at), unallocate(t, at, 0))
DRV(MemsetD8Async, (u64 to, unsigned char value, size_t bytes, void *stream), transfer(t, k, to, 0, value, bytes, stream))
DRV(MemcpyDtoDAsync_v2, (u64 to, u64 from, size_t bytes, void *stream), transfer(t, k, to, from, 0, bytes, stream))
DRV(MemHostAlloc, (void **out, size_t bytes, u32 f), ((void)f, allocate(t, k, out, bytes, 1)))
DRV(MemHostGetDevicePointer_v2, (u64 *out, char *host, u32 f), host_address(out, host, f))
DRV(MemFreeHost, (void *at), unallocate(t, at, 1))

// ---- kernels and words in memory -----------------------------------------------------------

static int module_load(struct tls *t, int k, void **module, const char *image) {
	int code = need(t, k);
	if (code == OK && (!module || !image))
		code = INVALID_VALUE;
	if (code != OK)
		return code;
	if (!strstr(image, ".entry "))
		return INVALID_PTX;
	pthread_mutex_lock(&lock);
	struct obj *m = new_obj(MODULE, t->ctx, 0);
	if (m) {
		m->text = strdup(image);
		set.live_modules++;
		*module = m;
	}
	pthread_mutex_unlock(&lock);
	return m ? OK : OUT_OF_MEMORY;
}

static int module_function(struct tls *t, void **function, void *module, const char *name) {
	struct obj *m = find(module, MODULE);
	if (!m)
		return module ? bad(t, "module", module) : INVALID_HANDLE;
	if (!function || !name)
		return INVALID_VALUE;
	if (!*name || !strstr(m->text, name))
		return NOT_FOUND;
	pthread_mutex_lock(&lock);
	struct obj *f = new_obj(FUNCTION, m->dev, 0);
	if (f) {
		f->text = strdup(name);
		f->of = m;
		f->serial = m->serial;
		*function = f;
	}
	pthread_mutex_unlock(&lock);
	return f ? OK : OUT_OF_MEMORY;
}

static int module_unload(struct tls *t, void *module) {
	struct obj *m = find(module, MODULE);
	if (!m)
		return module ? bad(t, "module", module) : INVALID_HANDLE;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < used; i++)
		if (arena[i].magic == FUNCTION && arena[i].of == m)
			free_obj(&arena[i]);
	free_obj(m);
	set.live_modules--;
	pthread_mutex_unlock(&lock);
	return OK;
}

// launch knows three kernels: devevents_spin(u64 ns, u64 *out), devevents_ask(u32 *flag,
// u64 *out), which does not wait to be asked here, and devevents_read(u8 *from, u64 bytes), of
// which each thread takes 64 bytes. Any other, devevents_empty among them, has no parameters.
// All but the spin take 2 us.
static int launch(struct tls *t, int k, void *function, const u32 *sizes, void *sh, void **params) {
	struct obj *f = find(function, FUNCTION), *s;
	if (!f)
		return function ? bad(t, "function", function) : INVALID_HANDLE;
	int code = stream_of(t, k, sh, &s);
	if (code != OK)
		return code;
	if (f->dev != s->dev)
		return INVALID_HANDLE;
	for (int i = 0; i < 6; i++)
		if (sizes[i] == 0)
			return INVALID_VALUE;
	struct item it = {.kind = WORK, .ns = 2000};
	pthread_mutex_lock(&lock);
	int ask = strcmp(f->text, "devevents_ask") == 0;
	if (ask || strcmp(f->text, "devevents_spin") == 0) {
		u64 out = 0;
		if (params && params[0] && params[1]) {
			it.ns = ask ? 2000 : *(u64 *)params[0];
			out = *(u64 *)params[1];
		} else {
			code = INVALID_VALUE;
		}
		if (code == OK && (out % 8 || !(it.out = reach_memory(out, 16)))) {
			code = stick(ILLEGAL_ADDRESS);
			it.kind = -1;
		}
	}
	if (strcmp(f->text, "devevents_read") == 0) {
		u64 bytes = 0, threads = (u64)sizes[0] * sizes[3];
		if (!params || !params[0] || !params[1])
			code = INVALID_VALUE;
		else if ((bytes = *(u64 *)params[1]) > 64 * threads || (bytes > 0 && !reach_memory(*(u64 *)params[0], bytes)))
			code = stick(ILLEGAL_ADDRESS);
	}
	if (code == OK && it.kind == WORK)
		code = work(s, it);
	pthread_mutex_unlock(&lock);
	return code;
}

static int memory_op(struct tls *t, int k, int kind, void *sh, u64 address, u32 value, u32 opflags) {
	struct obj *s;
	int code = stream_of(t, k, sh, &s);
	if (code != OK)
		return code;
	pthread_mutex_lock(&lock);
	void *at = address % 4 == 0 ? reach_memory(address, 4) : NULL;
	if (!at || (kind == WAIT_VALUE && (opflags & ~(3u | 1u << 30))))
		code = INVALID_VALUE;
	else
		code = work(s, (struct item){.kind = kind, .to = at, .value = value, .flags = opflags});
	pthread_mutex_unlock(&lock);
	return code;
}

#define LAUNCH_PARAMS (void *function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, void *stream, void **params, void **extra)
#define LAUNCH_EXPR ((void)shared, (void)extra, launch(t, k, function, (u32[]){gx, gy, gz, bx, by, bz}, stream, params))

DRV(ModuleLoadData, (void **module, const char *image), module_load(t, k, module, image))
DRV(ModuleGetFunction, (void **function, void *module, const char *name), module_function(t, function, module, name))
DRV(ModuleUnload, (void *module), module_unload(t, module))
DRV(LaunchKernel, LAUNCH_PARAMS, LAUNCH_EXPR)
DRV(StreamWaitValue32_v2, (void *s, u64 at, u32 value, u32 f), memory_op(t, k, WAIT_VALUE, s, at, value, f))
DRV(StreamWriteValue32_v2, (void *s, u64 at, u32 value, u32 f), memory_op(t, k, WRITE_VALUE, s, at, value, f))
HIP(ModuleLoadData, (void **module, const char *image), module_load(t, k, module, image))
HIP(ModuleGetFunction, (void **function, void *module, const char *name), module_function(t, function, module, name))
HIP(ModuleUnload, (void *module), module_unload(t, module))
HIP(ModuleLaunchKernel, LAUNCH_PARAMS, LAUNCH_EXPR)
HIP(StreamWaitValue32, (void *s, u64 at, u32 value, u32 f, u32 mask), ((void)mask, memory_op(t, k, WAIT_VALUE, s, at, value, f)))
HIP(StreamWriteValue32, (void *s, u64 at, u32 value, u32 f), memory_op(t, k, WRITE_VALUE, s, at, value, f))

// ---- errors ------------------------------------------------------------------------------

static const struct { int code; const char *name, *driver, *hip; } names[] = {
	{0, "Success", "SUCCESS", "Success"},
	{1, "InvalidValue", "INVALID_VALUE", NULL},
	{2, "MemoryAllocation", "OUT_OF_MEMORY", "OutOfMemory"},
	{3, "InitializationError", "NOT_INITIALIZED", "NotInitialized"},
	{4, "CudartUnloading", "DEINITIALIZED", "Deinitialized"},
	{34, "StubLibrary", "STUB_LIBRARY", NULL},
	{35, "InsufficientDriver", NULL, NULL},
	{46, "DevicesUnavailable", "DEVICE_UNAVAILABLE", NULL},
	{100, "NoDevice", "NO_DEVICE", NULL},
	{101, "InvalidDevice", "INVALID_DEVICE", NULL},
	{201, "DeviceUninitialized", "INVALID_CONTEXT", "InvalidContext"},
	{218, "InvalidPtx", "INVALID_PTX", "InvalidKernelFile"},
	{400, "InvalidResourceHandle", "INVALID_HANDLE", "InvalidHandle"},
	{401, "IllegalState", "ILLEGAL_STATE", NULL},
	{500, "SymbolNotFound", "NOT_FOUND", "NotFound"},
	{600, "NotReady", "NOT_READY", NULL},
	{700, "IllegalAddress", "ILLEGAL_ADDRESS", NULL},
	{709, "ContextIsDestroyed", "CONTEXT_IS_DESTROYED", NULL},
	{710, "Assert", "ASSERT", NULL},
	{719, "LaunchFailure", "LAUNCH_FAILED", NULL},
	{800, "NotPermitted", "NOT_PERMITTED", NULL},
	{801, "NotSupported", "NOT_SUPPORTED", NULL},
	{802, "SystemNotReady", "SYSTEM_NOT_READY", NULL},
	{900, "StreamCaptureUnsupported", "STREAM_CAPTURE_UNSUPPORTED", NULL},
	{901, "StreamCaptureInvalidated", "STREAM_CAPTURE_INVALIDATED", NULL},
	{902, "StreamCaptureMerge", "STREAM_CAPTURE_MERGE", NULL},
	{903, "StreamCaptureUnmatched", "STREAM_CAPTURE_UNMATCHED", NULL},
	{904, "StreamCaptureUnjoined", "STREAM_CAPTURE_UNJOINED", NULL},
	{905, "StreamCaptureIsolation", "STREAM_CAPTURE_ISOLATION", NULL},
	{906, "StreamCaptureImplicit", "STREAM_CAPTURE_IMPLICIT", NULL},
	{907, "CapturedEvent", "CAPTURED_EVENT", NULL},
	{908, "StreamCaptureWrongThread", "STREAM_CAPTURE_WRONG_THREAD", NULL},
	{999, "Unknown", "UNKNOWN", NULL},
};
enum { NAMES = sizeof names / sizeof *names };

// error_name spells a code as the vendor does; the texts live for ever.
static const char *error_name(int code, int driver) {
	static char text[NAMES + 1][2][64];
	static const char future[] = "FromTheFuture";
	if (set.null_error_strings)
		return NULL;
	const char *name = NULL;
	int i = 0;
	while (i < NAMES && names[i].code != code)
		i++;
	if (i < NAMES)
		name = driver ? names[i].driver : IS_HIP && names[i].hip ? names[i].hip : names[i].name;
	else if (set.named_code && code == set.named_code)
		name = future;
	if (!name)
		return NULL;
	char *p = text[i][driver];
	pthread_mutex_lock(&lock);
	if (!*p)
		snprintf(p, sizeof text[0][0], "%s%s", driver ? "CUDA_ERROR_" + (code == OK ? 11 : 0) : code == OK ? TEXT(RT_PREFIX) : TEXT(RT_PREFIX) "Error", name);
	pthread_mutex_unlock(&lock);
	return p;
}

static int last_error(struct tls *t, int clear) {
	int code = set.sticky_code ? (int)set.sticky_code : t->last;
	if (clear)
		t->last = OK;
	return code;
}

static int driver_error_name(int code, const char **out) {
	if (!out)
		return INVALID_VALUE;
	*out = error_name(code, 1);
	return *out ? OK : INVALID_VALUE;
}

#define RT_TEXT_(pfx, sym, unknown) \
	static struct fn fn_##pfx##sym FN_SECTION = {.name = #pfx #sym, .skip = sizeof #pfx - 1, .kind = RUNTIME | PURE | BARE}; \
	__attribute__((visibility(VISIBILITY(OMIT_##pfx##sym)))) const char *pfx##sym(int code); \
	const char *pfx##sym(int code) { \
		enter(&fn_##pfx##sym, self()); \
		const char *name = error_name(code, 0); \
		return name || set.null_error_strings ? name : unknown; \
	}
#define RT_TEXT(pfx, sym, unknown) RT_TEXT_(pfx, sym, unknown)

#ifndef FAKE_NO_RUNTIME
RT_TEXT(RT_PREFIX, GetErrorName, IS_HIP ? "hipErrorUnknown" : "unrecognized error code")
RT_TEXT(RT_PREFIX, GetErrorString, IS_HIP ? "unknown error" : "unrecognized error code")
API(RT_PREFIX, GetLastError, RUNTIME | PURE | BARE, (void), last_error(t, 1))
API(RT_PREFIX, PeekAtLastError, RUNTIME | PURE | BARE, (void), last_error(t, 0))
#endif
DRV_PURE(GetErrorName, (int code_, const char **out), driver_error_name(code_, out))

// ---- scripts and the control functions ----------------------------------------------------------

static int enter_hooked(struct fn *f, struct tls *t) {
	(void)t;
	int us = f->slow_us;
	if (us > 0)
		usleep((useconds_t)us);
	int code = GO;
	pthread_mutex_lock(&lock);
	if (f->block) {
		f->blocked++;
		while (f->block)
			pthread_cond_wait(&progress, &lock);
		f->blocked--;
	}
	if (set.sticky_code && !(f->kind & PURE)) {
		code = (int)set.sticky_code;
	} else if (f->code) {
		int first = f->nth > 0 ? f->nth : 1;
		int count = f->count ? f->count : f->nth > 0 ? 1 : -1;
		f->seen++;
		if (f->seen >= first && (count < 0 || f->seen < first + count))
			code = f->code;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static void note(struct fn *f, struct tls *t, int code) {
	if (!(f->kind & RUNTIME) || (f->kind & BARE))
		return;
	if (set.last_error_every_call || (code != OK && code != NOT_READY))
		t->last = code;
}

static const struct { const char *key; long *value; } settings[] = {
#define S(x) {#x, &set.x}
	S(abort_on_bad_handle), S(reuse_handles), S(runtime_version), S(driver_version), S(device_count), S(count_code),
	S(null_error_strings), S(named_code), S(elapsed_bits), S(elapsed_untouched), S(sticky_code), S(last_error_every_call),
	S(strict_captures), S(queue_depth), S(fast_clock), S(context_at_set_device),
	S(last_create_flags), S(last_stream_flags), S(last_record_flags), S(last_wait_flags),
	S(live_events), S(live_streams), S(live_graphs), S(live_modules), S(live_allocations), S(bad_handles), S(invalidated_captures), S(cache_bytes), S(line_resets),
#undef S
};
enum { SETTINGS = sizeof settings / sizeof *settings };

// after_prefix is what follows prefix in key, or NULL.
static const char *after_prefix(const char *key, const char *prefix) {
	size_t n = strlen(prefix);
	return strncmp(key, prefix, n) == 0 ? key + n : NULL;
}

static int matches(const struct fn *f, const char *name) {
	return strcmp(name, f->name) == 0 || strcmp(name, f->name + f->skip) == 0;
}

static u64 calls(const struct fn *f) {
	u64 n = 0;
	for (struct tls *t = atomic_load(&threads); t; t = t->next)
		n += atomic_load_explicit(&t->calls[f - __start_fakefns], memory_order_relaxed);
	return n - f->base;
}

enum { PER_CALLS, PER_FAIL_COUNT, PER_FAIL_NTH, PER_FAIL, PER_SLOW, PER_BLOCKED, PER_BLOCK };
static const char *const per_function[] = {"calls_", "fail_count_", "fail_nth_", "fail_", "slow_us_", "blocked_", "block_"};

// function_key splits a key of one function.
static const char *function_key(const char *key, int *which) {
	for (*which = 0; *which <= PER_BLOCK; ++*which) {
		const char *name = after_prefix(key, per_function[*which]);
		if (name)
			return name;
	}
	return NULL;
}

#define UNKNOWN_KEY (-0x7fffffffffffffffL)

EXPORT long fake_get(const char *key);
EXPORT int fake_set(const char *key, long value);
EXPORT void *fake_echo(void *p);
EXPORT int fake_work(void *stream, long ns);
EXPORT int fake_hold(void *stream);
EXPORT int fake_release(void *stream);

static long get(const char *key) {
	struct tls *t = self();
	const char *rest;
	int which;
	for (int i = 0; i < SETTINGS; i++)
		if (strcmp(key, settings[i].key) == 0)
			return *settings[i].value;
	if (strcmp(key, "last_error") == 0)
		return t->last;
	if (strcmp(key, "capture_mode") == 0)
		return t->mode;
	if (strcmp(key, "current_context") == 0)
		return t->ctx;
	if (strcmp(key, "current_device") == 0)
		return t->ctx >= 0 ? t->ctx : t->device;
	if (strcmp(key, "dirty_upper") == 0)
		return atomic_load(&dirty) != 0;
	if (strcmp(key, "manual_clock") == 0)
		return atomic_load(&manual);
	if (strcmp(key, "now_ns") == 0)
		return (long)device_now();
	if (strcmp(key, "queued") == 0) {
		settle();
		return busy;
	}
	if (strcmp(key, "live_captures") == 0) {
		long n = 0;
		for (struct capture *c = captures; c; c = c->next)
			n++;
		return n;
	}
	if (strcmp(key, "calls_total") == 0) {
		long n = 0;
		for (struct fn *f = __start_fakefns; f < __stop_fakefns; f++)
			n += (long)calls(f);
		return n;
	}
	if ((rest = after_prefix(key, "ctx_init_")) || (rest = after_prefix(key, "ctx_active_")) || (rest = after_prefix(key, "ctx_retained_"))) {
		int dev = atoi(rest);
		if (dev < 0 || dev >= MAX_DEVICES)
			return UNKNOWN_KEY;
		return key[4] == 'i' ? devices[dev].inits : key[4] == 'a' ? devices[dev].active : devices[dev].retained;
	}
	const char *name = function_key(key, &which);
	long sum = 0;
	int found = 0;
	for (struct fn *f = __start_fakefns; name && f < __stop_fakefns; f++) {
		if (!matches(f, name))
			continue;
		found = 1;
		switch (which) {
		case PER_CALLS: sum += (long)calls(f); break;
		case PER_FAIL: sum = f->code; break;
		case PER_FAIL_COUNT: sum = f->count; break;
		case PER_FAIL_NTH: sum = f->nth; break;
		case PER_SLOW: sum = f->slow_us; break;
		case PER_BLOCK: sum = f->block; break;
		case PER_BLOCKED: sum += f->blocked; break;
		}
	}
	return found ? sum : UNKNOWN_KEY;
}

static int set_function(struct fn *f, int which, long value) {
	switch (which) {
	case PER_CALLS: f->base = 0; f->base = calls(f) - (u64)value; return 0;
	case PER_FAIL:
		f->code = (int)value;
		f->seen = 0;
		if (value == 0)
			f->count = f->nth = 0;
		return 0;
	case PER_FAIL_COUNT: f->count = (int)value; f->seen = 0; return 0;
	case PER_FAIL_NTH: f->nth = (int)value; f->seen = 0; return 0;
	case PER_SLOW: f->slow_us = (int)value; return 0;
	case PER_BLOCK: f->block = (int)value; return 0;
	}
	return -1;
}

static int change(const char *key, long value) {
	int which;
	for (int i = 0; i < SETTINGS; i++) {
		if (strcmp(key, settings[i].key) != 0)
			continue;
		if (settings[i].value == &set.device_count && (value < 0 || value > MAX_DEVICES))
			return -1;
		*settings[i].value = value;
		return 0;
	}
	if (strcmp(key, "dirty_upper") == 0) {
		atomic_store(&dirty, value ? 0xdeadbeef00000000u : 0);
		return 0;
	}
	if (strcmp(key, "now_ns") == 0 || strcmp(key, "advance_ns") == 0) {
		u64 base = key[0] == 'n' ? 0 : device_now();
		atomic_store(&manual_now, base + (u64)value);
		atomic_store(&manual, 1);
		return 0;
	}
	if (strcmp(key, "manual_clock") == 0) {
		if (value)
			atomic_store(&manual_now, device_now());
		else if (atomic_load(&manual)) // real time goes on from here
			atomic_store(&skew, atomic_load(&manual_now) - clock_ns(CLOCK_MONOTONIC));
		atomic_store(&manual, value != 0);
		return 0;
	}
	if (strcmp(key, "last_error") == 0) {
		self()->last = (int)value;
		return 0;
	}
	const char *name = function_key(key, &which);
	int found = -1;
	for (struct fn *f = __start_fakefns; name && f < __stop_fakefns; f++)
		if (matches(f, name))
			found = set_function(f, which, value);
	return found;
}

long fake_get(const char *key) {
	pthread_mutex_lock(&lock);
	long v = get(key);
	pthread_mutex_unlock(&lock);
	return v;
}

int fake_set(const char *key, long value) {
	pthread_mutex_lock(&lock);
	int code = change(key, value), hooked = 0;
	for (struct fn *f = __start_fakefns; f < __stop_fakefns; f++)
		hooked |= f->code || f->slow_us || f->block;
	set_flag(F_HOOK, hooked);
	set_flag(F_STICKY, set.sticky_code != 0);
	set_flag(F_EVERY, set.last_error_every_call != 0);
	set_flag(F_ELAPSED, set.elapsed_bits >= 0 || set.elapsed_untouched);
	settle();
	pthread_cond_broadcast(&progress);
	pthread_cond_signal(&wanted);
	pthread_mutex_unlock(&lock);
	return code;
}

void *fake_echo(void *p) { return p; }

// hand_in queues something that no vendor offers.
static int hand_in(void *h, struct item it) {
	struct obj *s = find(h, STREAM);
	if (!s)
		return INVALID_HANDLE;
	pthread_mutex_lock(&lock);
	if (it.kind == HOLD)
		s->held = 1;
	int code = work(s, it);
	pthread_mutex_unlock(&lock);
	return code;
}

int fake_work(void *stream, long ns) { return hand_in(stream, (struct item){.kind = WORK, .ns = (u64)ns}); }
int fake_hold(void *stream) { return hand_in(stream, (struct item){.kind = HOLD}); }

int fake_release(void *h) {
	struct obj *s = find(h, STREAM);
	if (!s)
		return INVALID_HANDLE;
	pthread_mutex_lock(&lock);
	s->held = 0;
	settle();
	pthread_cond_signal(&wanted);
	pthread_mutex_unlock(&lock);
	return OK;
}

__attribute__((constructor)) static void begin(void) {
	map_arena();
	pthread_condattr_t a;
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&progress, &a);
	pthread_cond_init(&wanted, &a);
	// Device time reads as Unix time, and is not CLOCK_MONOTONIC.
	atomic_store(&skew, clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
	set_flag(F_EVERY, set.last_error_every_call != 0);
}
