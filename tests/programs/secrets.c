/*
 * Puts a marked text into every place where a program can put one: zqPLACEzq.
 *
 * secrets DIR: opens zqheldzq in DIR and listens on zqboundzq there, prints "ready", and waits for a
 * line. Then does the rest, prints "done", and waits again, with all of it open. To be executed
 * from DIR/zqmappedzq, so that samples of it name that.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char name[4096];

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static const char *in(const char *dir, const char *file)
{
	snprintf(name, sizeof name, "%s/%s", dir, file);
	return name;
}

/* Listens on a unix socket; an abstract name begins with a NUL. */
static int listening(const char *path, size_t length, struct sockaddr_un *address, socklen_t *size)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	memset(address, 0, sizeof *address);
	address->sun_family = AF_UNIX;
	check(length < sizeof address->sun_path, "a path");
	memcpy(address->sun_path, path, length);
	*size = offsetof(struct sockaddr_un, sun_path) + length;
	check(fd >= 0 && !bind(fd, (void *)address, *size) && !listen(fd, 4), "listen");
	return fd;
}

static void connected(int listener, const void *address, socklen_t size, int family)
{
	int fd = socket(family, SOCK_STREAM, 0);
	check(fd >= 0 && !connect(fd, address, size), "connect");
	check(accept(listener, NULL, NULL) >= 0, "accept");
}

static void spin(double seconds)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
}

int main(int argc, char **argv)
{
	struct sockaddr_un local;
	struct sockaddr_in inet = { .sin_family = AF_INET };
	socklen_t size;
	const char *dir = argv[1], *path;
	static char padded[4096];
	int listener, i, status;

	check(argc == 2, "secrets DIR");
	check(open(in(dir, "zqheldzq"), O_CREAT | O_RDWR, 0600) >= 0, "open");
	path = in(dir, "zqboundzq");
	listening(path, strlen(path), &local, &size);
	puts("ready");
	fflush(stdout);
	getchar();

	check(open(in(dir, "zqpathzq"), O_CREAT | O_RDWR, 0600) >= 0, "open");
	/* Too long to be recorded whole: its beginning and its end are. */
	check(!mkdir(in(dir, "zqheadzq"), 0700), "mkdir");
	strcpy(padded, name);
	for (i = 0; i < 150; i++)
		strcat(padded, "/.");
	strcat(padded, "/zqtailzq");
	check(open(padded, O_CREAT | O_RDWR, 0600) >= 0, "open");
	if (!fork()) {
		execl("/bin/true", "true", "zqargumentzq", "--password=zqmaskedzq", NULL);
		_exit(1);
	}
	check(wait(&status) > 0 && !status, "true");
	path = in(dir, "zqsocketzq");
	listener = listening(path, strlen(path), &local, &size);
	connected(listener, &local, size, AF_UNIX);
	/* The process's id, as abstract names are the machine's. */
	i = snprintf(name + 1, sizeof name - 1, "zqabstractzq%d", getpid());
	name[0] = 0;
	listener = listening(name, i + 1, &local, &size);
	connected(listener, &local, size, AF_UNIX);
	inet.sin_addr.s_addr = inet_addr("127.77.33.11");
	listener = socket(AF_INET, SOCK_STREAM, 0);
	size = sizeof inet;
	check(!bind(listener, (void *)&inet, size) && !listen(listener, 4), "listen");
	check(!getsockname(listener, (void *)&inet, &size), "getsockname");
	connected(listener, &inet, size, AF_INET);
	prctl(PR_SET_NAME, "zqthreadzq");
	spin(0.7);
	puts("done");
	fflush(stdout);
	getchar();
	return 0;
}
