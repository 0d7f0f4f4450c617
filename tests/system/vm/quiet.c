/*
 * A quiet process: `quiet FIRST RATE` makes RATE calls getpgid(FIRST + n) a second, evenly, until
 * the machine ends. So a dump shows by itself whether a call is missing.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec t;

	if (argc != 3)
		return 2;
	long number = atol(argv[1]), period = 1000000000L / atol(argv[2]);
	clock_gettime(CLOCK_MONOTONIC, &t);
	for (;;) {
		t.tv_nsec += period;
		while (t.tv_nsec >= 1000000000L) {
			t.tv_nsec -= 1000000000L;
			t.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		syscall(SYS_getpgid, number++);
	}
}
