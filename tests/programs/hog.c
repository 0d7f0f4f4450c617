/*
 * Nothing but system calls. `hog COUNT CPU`: makes so many getppid on one CPU.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	cpu_set_t set;

	if (argc < 3)
		return 2;
	CPU_ZERO(&set);
	CPU_SET(atoi(argv[2]), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return 1;
	for (long i = atol(argv[1]); i > 0; i--)
		syscall(SYS_getppid);
	printf("pid=%d\n", getpid());
	return 0;
}
