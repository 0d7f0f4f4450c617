/*
 * Tries to keep a process out of a table of threads in which a thread's places follow from its id:
 * `crowd PAGES COUNT` starts a victim, which works 3 ms and sleeps 40 ms in turns, and then
 * processes that sleep 2 ms at a time: whoever of them has no place takes that of a thread that is
 * awake. It keeps those whose ids had the victim's places in a table of PAGES pages by the hash of
 * builds before it was seeded; COUNT of them. With PAGES 0 it keeps all, and they wait for ever.
 * Prints victim, kept and forks; ends, with all of them, when its input does.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FORKS_MAX 60000

static void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

static void work(int ms)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < ms * 1000000L);
}

static void place(uint32_t tid, uint32_t pages, uint32_t *page, uint32_t *way)
{
	uint32_t h = tid * 2654435761u;

	*page = (uint32_t)(((uint64_t)h * pages) >> 32);
	*way = ((h & 0xffff) * 27) >> 16;
}

int main(int argc, char **argv)
{
	uint32_t pages = argc > 2 ? (uint32_t)atoi(argv[1]) : 0, page, way, its_page, its_way;
	int count = argc > 2 ? atoi(argv[2]) : 0, kept = 0, forks = 0;
	pid_t self = getpid(), victim;
	char byte;

	if (count < 1) {
		fprintf(stderr, "usage: crowd PAGES COUNT\n");
		return 2;
	}
	victim = fork();
	if (victim == 0) {
		die_with(self);
		for (;;) {
			/* Long beside the work, also where it waits for a CPU. */
			usleep(200000);
			work(3);
		}
	}
	place((uint32_t)victim, pages, &page, &way);
	while (kept < count && forks < FORKS_MAX) {
		pid_t child = fork();

		if (child < 0)
			break;
		forks++;
		if (child == 0) {
			uint32_t mine = (uint32_t)getpid();

			place(mine, pages, &its_page, &its_way);
			if (pages != 0 && (its_page != page || abs((int)its_way - (int)way) > 3))
				_exit(0);
			die_with(self);
			for (;;) {
				if (pages == 0)
					pause();
				usleep(2000);
			}
		}
		place((uint32_t)child, pages, &its_page, &its_way);
		if (pages == 0 || (its_page == page && abs((int)its_way - (int)way) <= 3))
			kept++;
		else
			waitpid(child, NULL, 0);
	}
	printf("victim=%d\nkept=%d\nforks=%d\n", (int)victim, kept, forks);
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	kill(0, SIGTERM);
	return 0;
}
