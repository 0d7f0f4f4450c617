/*
 * Loads for the budget, and what they leave of a CPU.
 *
 * `budget paced CPU SECONDS`: 25,000 system calls, 5,000 switches and 5,000 wakeups a second on one
 * CPU, by two threads, and beside them a loop that counts in what is left (SCHED_IDLE). Prints how
 * far it counted, and how far it counts in a second of CPU time of its own.
 *
 * `budget hammer SECONDS CPU...`: getppid in a tight loop on each of these CPUs. Prints the calls
 * of all a second from the end of the first second on, and how many loops of a fixed length between
 * them they made in a second of CPU time: how fast the machine was meanwhile.
 *
 * `budget burst CPU CALLS MS`: so many getppid, evenly over so many milliseconds.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pin.h"

#define TICK_NS 2000000L
#define TICK_CALLS 33
#define TICK_TRIPS 4
#define CPUS_MAX 1024

static atomic_bool end;
static int to_pong[2], to_ping[2];
static atomic_ulong counts[CPUS_MAX], spins[CPUS_MAX], spin_ns[CPUS_MAX];
static double cpu_seconds;

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void *count(void *cpu)
{
	struct sched_param none = { 0 };
	unsigned long n = 0;
	double before;

	pin((int)(intptr_t)cpu);
	if (sched_setscheduler(0, SCHED_IDLE, &none))
		exit(1);
	before = seconds(CLOCK_THREAD_CPUTIME_ID);
	while (!atomic_load_explicit(&end, memory_order_relaxed)) {
		for (int i = 0; i < 1000; i++)
			__asm__ volatile("" : "+r"(n));
		n++;
	}
	cpu_seconds = seconds(CLOCK_THREAD_CPUTIME_ID) - before;
	atomic_store(&counts[0], n);
	return NULL;
}

static void *pong(void *cpu)
{
	char byte;

	pin((int)(intptr_t)cpu);
	while (read(to_pong[0], &byte, 1) == 1)
		if (write(to_ping[1], &byte, 1) != 1)
			exit(1);
	return NULL;
}

static int paced(int cpu, double duration)
{
	pthread_t counter, other;
	struct timespec next;
	char byte = 0;

	if (pipe(to_pong) || pipe(to_ping))
		return 1;
	pin(cpu);
	if (pthread_create(&counter, NULL, count, (void *)(intptr_t)cpu) ||
	    pthread_create(&other, NULL, pong, (void *)(intptr_t)cpu))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long tick = 0; tick < (long)(duration * 1e9 / TICK_NS); tick++) {
		for (int i = 0; i < TICK_CALLS; i++)
			syscall(SYS_getppid);
		for (int i = 0; i < TICK_TRIPS; i++)
			if (write(to_pong[1], &byte, 1) != 1 || read(to_ping[0], &byte, 1) != 1)
				return 1;
		next.tv_nsec += TICK_NS;
		if (next.tv_nsec >= 1000000000L) {
			next.tv_nsec -= 1000000000L;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	atomic_store(&end, 1);
	close(to_pong[1]);
	pthread_join(counter, NULL);
	pthread_join(other, NULL);
	printf("count=%lu\na_second=%.0f\n", atomic_load(&counts[0]), atomic_load(&counts[0]) / cpu_seconds);
	return 0;
}

static void *hammer(void *arg)
{
	int i = (int)(intptr_t)arg >> 16, cpu = (int)(intptr_t)arg & 0xffff;
	unsigned long n = 0, loops = 0;
	double spent = 0, before;

	pin(cpu);
	while (!atomic_load_explicit(&end, memory_order_relaxed)) {
		for (int j = 0; j < 200; j++) {
			for (int k = 0; k < 100; k++)
				syscall(SYS_getppid);
			n += 100;
			atomic_store_explicit(&counts[i], n, memory_order_relaxed);
		}
		before = seconds(CLOCK_THREAD_CPUTIME_ID);
		for (int k = 0; k < 200000; k++)
			__asm__ volatile("" : "+r"(k));
		spent += seconds(CLOCK_THREAD_CPUTIME_ID) - before;
		atomic_store_explicit(&spins[i], ++loops, memory_order_relaxed);
		atomic_store_explicit(&spin_ns[i], (unsigned long)(spent * 1e9), memory_order_relaxed);
	}
	return NULL;
}

static unsigned long sum(atomic_ulong *of, int n)
{
	unsigned long all = 0;

	for (int i = 0; i < n; i++)
		all += atomic_load(&of[i]);
	return all;
}

static int hammers(double duration, int n, char **cpus)
{
	pthread_t threads[CPUS_MAX];
	unsigned long calls, loops, ns;
	double began;

	if (n < 1 || n > CPUS_MAX)
		return 2;
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, hammer, (void *)(intptr_t)(i << 16 | atoi(cpus[i]))))
			return 1;
	sleep(1);
	calls = sum(counts, n);
	loops = sum(spins, n);
	ns = sum(spin_ns, n);
	began = seconds(CLOCK_MONOTONIC);
	usleep((useconds_t)(duration * 1e6));
	printf("rate=%.0f\n", (sum(counts, n) - calls) / (seconds(CLOCK_MONOTONIC) - began));
	printf("speed=%.3f\n", (sum(spins, n) - loops) * 1e9 / (sum(spin_ns, n) - ns));
	atomic_store(&end, 1);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static int burst(int cpu, long calls, double ms)
{
	double began;

	pin(cpu);
	began = seconds(CLOCK_MONOTONIC);
	for (long i = 0; i < calls; i++) {
		syscall(SYS_getppid);
		while ((seconds(CLOCK_MONOTONIC) - began) * 1e3 < ms * i / calls)
			;
	}
	printf("pid=%d\n", getpid());
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "paced"))
		return paced(atoi(argv[2]), atof(argv[3]));
	if (argc >= 4 && !strcmp(argv[1], "hammer"))
		return hammers(atof(argv[2]), argc - 3, argv + 3);
	if (argc == 5 && !strcmp(argv[1], "burst"))
		return burst(atoi(argv[2]), atol(argv[3]), atof(argv[4]));
	return 2;
}
