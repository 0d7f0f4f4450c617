/* Holds descriptors of every kind that were there before the recorder, and uses them when it is
 * told to.
 *
 * Prints, a line each, the descriptor's name in the test, its number and its inode, and "ready".
 * Then for each line on its standard input: 'u' uses every one of them once, 's' makes the number
 * of "swapped" stand for another file and uses that, 'x' executes itself (descriptors that an exec
 * keeps are used once more), end of file ends it. It answers "done". */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int known[64], count;

static int keep(const char *name, int fd)
{
	struct stat st;
	if (fd < 0 || fstat(fd, &st)) {
		perror(name);
		exit(1);
	}
	known[count++] = fd;
	printf("%s %d %lu\n", name, fd, (unsigned long)st.st_ino);
	return fd;
}

static void use(void)
{
	for (int i = 0; i < count; i++)
		fcntl(known[i], F_GETFL);
}

int main(int argc, char **argv)
{
	char line[8];

	if (argc == 2) {
		/* Executed again: the arguments are the descriptors that stayed. */
		for (char *next = strtok(argv[1], ","); next; next = strtok(NULL, ","))
			fcntl(atoi(next), F_GETFL);
		puts("done");
		fflush(stdout);
		while (fgets(line, sizeof line, stdin)) {
		}
		return 0;
	}

	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "fds.sock" };
	socklen_t length = sizeof here;
	int ends[2];

	keep("file", open("held", O_RDWR | O_CREAT, 0600));
	keep("closed", open("/etc/passwd", O_RDONLY | O_CLOEXEC));
	int swapped = keep("swapped", open("/etc/hostname", O_RDONLY));
	if (pipe(ends))
		return 1;
	keep("pipe_r", ends[0]);
	keep("pipe_w", ends[1]);
	keep("dup", dup(known[0]));
	int listener = keep("listener", socket(AF_INET, SOCK_STREAM, 0));
	if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&here, &length))
		return 1;
	int client = keep("client", socket(AF_INET, SOCK_STREAM, 0));
	if (connect(client, (struct sockaddr *)&here, sizeof here))
		return 1;
	keep("accepted", accept(listener, NULL, NULL));
	if (getsockname(client, (struct sockaddr *)&here, &length))
		return 1;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	keep("pair_a", ends[0]);
	keep("pair_b", ends[1]);
	int bound = keep("bound", socket(AF_UNIX, SOCK_DGRAM, 0));
	if (bind(bound, (struct sockaddr *)&name, sizeof name))
		return 1;
	keep("eventfd", eventfd(0, 0));
	length = sizeof here;
	getsockname(listener, (struct sockaddr *)&here, &length);
	printf("port_listener 0 %u\n", ntohs(here.sin_port));
	getsockname(client, (struct sockaddr *)&here, &length);
	printf("port_client 0 %u\n", ntohs(here.sin_port));
	puts("ready");
	fflush(stdout);

	while (fgets(line, sizeof line, stdin)) {
		switch (line[0]) {
		case 'u':
			use();
			break;
		case 's':
			close(swapped);
			if (pipe(ends) || ends[0] != swapped)
				return 1;
			fcntl(swapped, F_GETFL);
			break;
		case 'x': {
			char list[256] = "";
			for (int i = 0; i < count; i++)
				sprintf(list + strlen(list), "%d,", known[i]);
			execl("/proc/self/exe", argv[0], list, NULL);
			return 1;
		}
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}
