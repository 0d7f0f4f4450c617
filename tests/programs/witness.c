/*
 * A process that makes few calls, and knows how many. `witness RATE SECONDS CPU`: so many getpgrp a
 * second, evenly (those of a millisecond together), on one CPU, or on any for -1; after DELAY
 * seconds, if there is a fourth argument. Prints its process id and how many it made.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pin.h"

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	long rate, made = 0;
	double seconds;

	if (argc < 4)
		return 2;
	rate = atol(argv[1]);
	seconds = atof(argv[2]);
	pin(atoi(argv[3]));
	if (argc > 4)
		usleep(atof(argv[4]) * 1e6);
	long long began = now(), period = rate < 1000 ? 1000000000LL / rate : 1000000LL;
	for (long long at = began; at < began + (long long)(seconds * 1e9); at += period) {
		struct timespec t = { at / 1000000000LL, at % 1000000000LL };
		/* After the rate that was asked for after a wait: then as many as are due. */
		long due = (at - began + period) / 1e9 * rate + 0.5;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		for (; made < due; made++)
			syscall(SYS_getpgrp);
	}
	printf("pid=%d\ncalls=%ld\n", getpid(), made);
	return 0;
}
