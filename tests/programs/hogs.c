/*
 * A run queue of known length: K threads spin on one CPU while another thread of that CPU
 * sleeps and is woken, N times. `hogs K CPU N [SLEEP_US]`. At each wakeup of the sleeper, K
 * threads of this program are runnable on the CPU, the running one among them.
 * Prints pid, hogI and sleeper (thread ids) before the first sleep, `done` at the end.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pin.h"

#define HOGS_MAX 64

static int cpu, sleeps;
static useconds_t sleep_us;
static long tids[HOGS_MAX + 1];
static atomic_int stop;
static pthread_barrier_t start;

static void join_cpu(long *tid, const char *name)
{
	pin(cpu);
	pthread_setname_np(pthread_self(), name);
	*tid = syscall(SYS_gettid);
	pthread_barrier_wait(&start); /* all ids are known */
	pthread_barrier_wait(&start); /* and printed */
}

static void *spin(void *tid)
{
	join_cpu(tid, "hog");
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		;
	return NULL;
}

static void *doze(void *tid)
{
	join_cpu(tid, "sleeper");
	for (int i = 0; i < sleeps; i++)
		usleep(sleep_us);
	atomic_store(&stop, 1);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[HOGS_MAX + 1];
	int hogs = argc > 1 ? atoi(argv[1]) : 0;

	cpu = argc > 2 ? atoi(argv[2]) : 0;
	sleeps = argc > 3 ? atoi(argv[3]) : 0;
	sleep_us = argc > 4 ? (useconds_t)atoi(argv[4]) : 5000;
	if (hogs < 1 || hogs > HOGS_MAX || sleeps < 1) {
		fprintf(stderr, "usage: hogs K CPU N [SLEEP_US], K at most %d\n", HOGS_MAX);
		return 2;
	}
	if (pthread_barrier_init(&start, NULL, (unsigned int)hogs + 2))
		return 1;
	for (int i = 0; i <= hogs; i++)
		if (pthread_create(&threads[i], NULL, i < hogs ? spin : doze, &tids[i]))
			return 1;
	pthread_barrier_wait(&start);
	printf("pid=%d\n", getpid());
	for (int i = 0; i < hogs; i++)
		printf("hog%d=%ld\n", i, tids[i]);
	printf("sleeper=%ld\n", tids[hogs]);
	fflush(stdout);
	pthread_barrier_wait(&start);
	for (int i = 0; i <= hogs; i++)
		pthread_join(threads[i], NULL);
	printf("done=%d\n", sleeps);
	return 0;
}
