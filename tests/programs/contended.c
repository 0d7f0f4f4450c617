/* Threads that wait for locks of the kernel: each writes the same file of a file system in memory,
 * whose inode one of them holds at a time. contended FILE THREADS ROUNDS */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BYTES = 4 << 20 };

static int fd, rounds;
static char bytes[BYTES];

static void *writer(void *arg)
{
	(void)arg;
	for (int i = 0; i < rounds; i++)
		if (pwrite(fd, bytes, BYTES, 0) != BYTES) {
			perror("pwrite");
			exit(1);
		}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int count;

	if (argc != 4 || (count = atoi(argv[2])) > 64)
		return 2;
	rounds = atoi(argv[3]);
	fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	printf("pid=%d\n", getpid());
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, writer, NULL))
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
