/*
 * Numbered calls on each CPU: `numbers RATE [CPU]` starts one thread for each CPU on which it may
 * run, or for CPU alone. Each makes RATE calls getpgid(2^30 + n) a second, n = 0, 1, …, evenly. On
 * SIGTERM, once all have stopped, it prints "cpu C tid T calls N" for each.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CPUS_MAX 1024
#define FIRST (1L << 30) /* no process has it: the call fails at once */

struct thread {
	pthread_t id;
	int cpu;
	long tid, calls;
};

static struct thread threads[CPUS_MAX];
static long period;
static atomic_int done;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *call(void *argument)
{
	struct thread *self = argument;
	struct timespec t;

	self->tid = syscall(SYS_gettid);
	clock_gettime(CLOCK_MONOTONIC, &t);
	while (!atomic_load(&done)) {
		t.tv_nsec += period;
		while (t.tv_nsec >= 1000000000L) {
			t.tv_nsec -= 1000000000L;
			t.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		syscall(SYS_getpgid, FIRST + self->calls++);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int count = 0, only = argc == 3 ? atoi(argv[2]) : -1, number;
	cpu_set_t *on = CPU_ALLOC(CPUS_MAX), *may = CPU_ALLOC(CPUS_MAX);
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	sigset_t ends;

	if (argc < 2 || argc > 3 || atol(argv[1]) < 1) {
		fputs("usage: numbers RATE [CPU]\n", stderr);
		return 2;
	}
	period = 1000000000L / atol(argv[1]);
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	if (!on || !may || sched_getaffinity(0, size, may))
		die("sched_getaffinity");
	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		pthread_attr_t attributes;
		struct thread *self = &threads[count];

		if (!CPU_ISSET_S(cpu, size, may) || (only >= 0 && cpu != only))
			continue;
		self->cpu = cpu;
		CPU_ZERO_S(size, on);
		CPU_SET_S(cpu, size, on);
		pthread_attr_init(&attributes);
		if (pthread_attr_setaffinity_np(&attributes, size, on) ||
		    pthread_create(&self->id, &attributes, call, self))
			die("pthread_create");
		count++;
	}
	sigwait(&ends, &number);
	atomic_store(&done, 1);
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i].id, NULL);
		printf("cpu %d tid %ld calls %ld\n", threads[i].cpu, threads[i].tid, threads[i].calls);
	}
	return 0;
}
