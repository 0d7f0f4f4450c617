/* Running on one CPU. After `#define _GNU_SOURCE`. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* The thread, and what it starts, runs on this CPU alone from here on; on any for -1. */
static void pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("sched_setaffinity");
		exit(1);
	}
}
