/*
 * Spends CPU time in one function: `spin_in_program`, or `spin_in_kernel`, which makes a system
 * call that takes long. Arguments: "program" or "kernel"; seconds of CPU time.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sum;
static char buffer[1 << 20];

static double cpu_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

__attribute__((noinline)) void spin_in_program(void)
{
	for (unsigned long i = 0; i < 1000000; i++)
		sum += i;
}

__attribute__((noinline)) void spin_in_kernel(int fd)
{
	for (int i = 0; i < 20; i++)
		if (read(fd, buffer, sizeof buffer) != sizeof buffer)
			exit(1);
	sum++;
}

int main(int argc, char **argv)
{
	int zero = open("/dev/zero", O_RDONLY);

	if (argc != 3 || zero < 0)
		return 1;
	for (double end = cpu_time() + atof(argv[2]); cpu_time() < end;) {
		if (strcmp(argv[1], "program") == 0)
			spin_in_program();
		else
			spin_in_kernel(zero);
	}
	printf("pid=%d\ncpu_ms=%.0f\n", getpid(), cpu_time() * 1e3);
	return 0;
}
