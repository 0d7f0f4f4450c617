/*
 * A path in a page that was never touched: the kernel faults it in during the call, so that a
 * recorder finds nothing there at the entry. `cold_path [PATH]`: opens PATH (/etc/passwd).
 * `present` is what the page table says of the page just before the call; 0 is the premise.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int present(const void *address)
{
	uint64_t entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY);
	off_t at = (off_t)((uintptr_t)address / 4096 * sizeof(entry));

	if (fd < 0 || pread(fd, &entry, sizeof(entry), at) != sizeof(entry))
		return -1;
	close(fd);
	return (int)(entry >> 63);
}

int main(int argc, char **argv)
{
	char name[] = "/tmp/flightrec-cold-XXXXXX";
	const char *path = argc > 1 ? argv[1] : "/etc/passwd";
	int file = mkstemp(name);

	if (file < 0 || unlink(name) || write(file, path, strlen(path) + 1) < 0 || ftruncate(file, 4096)) {
		perror("file");
		return 1;
	}
	const char *cold = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);

	if (cold == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	int before = present(cold);
	long fd = syscall(SYS_openat, AT_FDCWD, cold, O_RDONLY);
	int after = present(cold);

	printf("pid=%d\npath=%s\npresent=%d\npresent_after=%d\nfd=%ld\n", getpid(), path, before, after, fd);
	return fd < 0;
}
