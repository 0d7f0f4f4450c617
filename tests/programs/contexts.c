// Threads that work for spans of a trace and publish which (OTEP 4947): contexts THREADS ROUNDS
// [LIBRARY]. Of each round it prints `THREAD BEFORE AFTER SPAN`: between these times (ns of
// CLOCK_MONOTONIC) the thread published the span, 0: none. Half of the threads set the variable,
// the others change a record in place. At the end, what else may be found there is published:
// addresses that are none.
//
// With SLOW=1 in the environment, a round is another one: the thread publishes a span of QUICK and
// makes a call that takes no time, then the printed span, and makes one that takes milliseconds and
// does not sleep.
//
// The variable is its own, or with -DLIBRARY that of a library that it is linked with or loads.

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef OWN
#include "contexts_variable.c"
static void (*const set)(void *) = publish;
#elif defined LINKED
void publish(void *record);
static void (*const set)(void *) = publish;
#else
static void (*set)(void *);
#endif

struct record {
	uint8_t trace[16], span[8];
	volatile uint8_t valid;
	uint8_t flags;
	uint16_t attributes;
} __attribute__((packed));

struct line {
	uint64_t before, after, span;
};

struct work {
	pthread_t thread;
	int number, tid;
	struct line *lines;
};

static int rounds;

// In spans that are published for a quick call alone.
#define QUICK (1ull << 63)
// A slow call clears memory that is there. It takes at least so long, ns: well above what the
// recorder folds into one record (1.05 ms).
#define SLOW_NS 3000000ull
// Beginning of the search for how much that is on this machine, and its end.
#define SLOW_BYTES_MIN (16ul << 20)
#define SLOW_BYTES_MAX (1ul << 30)

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void fill(struct record *record, uint64_t span) {
	memset(record->trace, 0xab, sizeof record->trace);
	for (int i = 0; i < 8; i++)
		record->span[i] = span >> (56 - 8 * i);
	record->flags = 1;
	record->attributes = 0;
}

static void publish_span(struct record records[2], int in_place, int round, uint64_t span) {
	struct record *record = in_place ? records : &records[round % 2];
	if (in_place) {
		record->valid = 0;
		atomic_signal_fence(memory_order_seq_cst);
		fill(record, span);
		atomic_signal_fence(memory_order_seq_cst);
		record->valid = span != 0;
		set(record);
		return;
	}
	set(NULL);
	atomic_signal_fence(memory_order_seq_cst);
	if (span == 0)
		return;
	fill(record, span);
	record->valid = 1;
	atomic_signal_fence(memory_order_seq_cst);
	set(record);
}

// The fewest bytes, a power of two, whose reading always took SLOW_NS; memory for them.
static size_t slow_bytes(int zero, char **memory) {
	*memory = NULL;
	for (size_t bytes = SLOW_BYTES_MIN; bytes <= SLOW_BYTES_MAX; bytes *= 2) {
		*memory = realloc(*memory, bytes);
		if (!*memory)
			exit(1);
		memset(*memory, 1, bytes);
		int is_slow = 1;
		for (int i = 0; i < 8 && is_slow; i++) {
			uint64_t before = now();
			if (read(zero, *memory, bytes) != (ssize_t)bytes)
				exit(1);
			is_slow = now() - before >= SLOW_NS;
		}
		if (is_slow)
			return bytes;
	}
	exit(1);
}

static void *run_slow(void *argument) {
	struct work *work = argument;
	struct record records[2] = {0};
	work->tid = syscall(SYS_gettid);
	int zero = open("/dev/zero", O_RDONLY);
	if (zero < 0)
		exit(1);
	char *memory;
	size_t bytes = slow_bytes(zero, &memory);
	// Nothing else is switched to, if that may be.
	struct sched_param first = {.sched_priority = 1};
	sched_setscheduler(0, SCHED_FIFO, &first);
	for (int i = 0; i < rounds; i++) {
		struct line *line = &work->lines[i];
		publish_span(records, work->number % 2, 0, QUICK | (i + 1));
		syscall(SYS_getppid);
		// Every eighth works for none.
		line->span = i % 8 == 7 ? 0 : i + 1;
		line->before = now();
		publish_span(records, work->number % 2, 1, line->span);
		line->after = now();
		if (read(zero, memory, bytes) != (ssize_t)bytes)
			exit(1);
	}
	set(NULL);
	return NULL;
}

static void *run(void *argument) {
	struct work *work = argument;
	struct record records[2] = {0};
	work->tid = syscall(SYS_gettid);
	for (int i = 0; i < rounds; i++) {
		uint64_t span = i % 8 == 7 ? 0 : (uint64_t)(work->number + 1) << 32 | (i + 1);
		struct line *line = &work->lines[i];
		line->span = span;
		line->before = now();
		publish_span(records, work->number % 2, i, span);
		line->after = now();
		if (i % 3 == 0) {
			for (volatile int n = 0; n < 20000; n++)
				;
			sched_yield();
		} else {
			struct timespec pause = {0, 20000};
			nanosleep(&pause, NULL);
		}
	}
	set(NULL);
	// What is no record.
	uint8_t *none = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *odd[] = {(void *)1, none, (void *)0xffffffff81000000ull, (void *)0xffffc90000000000ull,
		(void *)0x7ffffffffff8ull, (void *)UINTPTR_MAX};
	for (int i = 0; i < 600; i++) {
		set(odd[i % 6]);
		struct timespec pause = {0, 1000};
		nanosleep(&pause, NULL);
	}
	set(NULL);
	return NULL;
}

int main(int argc, char **argv) {
	if (argc < 3)
		return 2;
	int threads = atoi(argv[1]);
	rounds = atoi(argv[2]);
#if !defined OWN && !defined LINKED
	void *library = dlopen(argv[3], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	set = dlsym(library, "publish");
#endif
	// Until whoever started it has written a line: the recorder has found it by then.
	printf("ready\n");
	fflush(stdout);
	char line[16];
	if (!fgets(line, sizeof line, stdin))
		return 1;
	struct work *works = calloc(threads, sizeof *works);
	for (int i = 0; i < threads; i++) {
		works[i].number = i;
		works[i].lines = calloc(rounds, sizeof *works[i].lines);
		pthread_create(&works[i].thread, NULL, getenv("SLOW") ? run_slow : run, &works[i]);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(works[i].thread, NULL);
	for (int i = 0; i < threads; i++)
		for (int n = 0; n < rounds; n++) {
			struct line *of = &works[i].lines[n];
			printf("%d %llu %llu %llu\n", works[i].tid, (unsigned long long)of->before,
				(unsigned long long)of->after, (unsigned long long)of->span);
		}
	fflush(stdout);
	// Another program in its place.
	const char *then = getenv("THEN");
	if (then)
		execlp(then, then, "300", (char *)NULL);
	return 0;
}
