/*
 * Paths whose end is hidden behind padding: `padded FILE`, an absolute path. FILE is opened with
 * 300 times "/." before it, again from memory whose second page is not there yet, renamed to another
 * that is not there, opened with 4000 times "/." (more than the kernel takes), and executed. `present` is
 * what the page table says of the second page.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

static void padded(char *to, int times, const char *file)
{
	for (int i = 0; i < times; i++)
		memcpy(to + 2 * i, "/.", 2);
	strcpy(to + 2 * times, file);
}

static int present(const void *address)
{
	uint64_t entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY);
	off_t at = (off_t)((uintptr_t)address / PAGE * sizeof(entry));

	if (fd < 0 || pread(fd, &entry, sizeof(entry), at) != sizeof(entry))
		return -1;
	close(fd);
	return (int)(entry >> 63);
}

int main(int argc, char **argv)
{
	static char path[16384], other[16384], pages[2 * PAGE];
	char name[] = "/tmp/flightrec-padded-XXXXXX";

	if (argc != 2 || strlen(argv[1]) > 1000)
		return 2;
	padded(path, 300, argv[1]);
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);

	/* The last 50 bytes and more are on the second page. */
	int file = mkstemp(name);
	size_t begin = PAGE + 50 - strlen(path);

	memcpy(pages + begin, path, strlen(path));
	if (file < 0 || unlink(name) || write(file, pages, sizeof(pages)) < 0) {
		perror("file");
		return 1;
	}
	char *cold = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, file, 0);

	if (cold == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	/* The fault around the first page brings the second as well. */
	volatile char touched = cold[0];

	madvise(cold + PAGE, PAGE, MADV_DONTNEED);
	int before = present(cold + PAGE);
	long again = syscall(SYS_openat, AT_FDCWD, cold + begin, O_WRONLY | O_APPEND);
	int after = present(cold + PAGE);

	padded(other, 290, argv[1]);
	strcat(other, "-moved");
	strcat(path, "-old");
	long renamed = syscall(SYS_rename, path, other);

	padded(path, 4000, argv[1]);
	long refused = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);

	(void)touched;
	printf("pid=%d\nfd=%ld\nagain=%ld\npresent=%d\npresent_after=%d\nrenamed=%ld\nrefused=%ld\n", getpid(), fd, again,
	       before, after, renamed, refused);
	fflush(stdout);
	padded(path, 300, argv[1]);
	execl(path, "secret", NULL);
	perror("execl");
	return 1;
}
