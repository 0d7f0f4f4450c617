/*
 * A 32-bit program: its system call numbers are those of the i386 table.
 * Flags: -m32 -nostdlib (no 32-bit C library is needed).
 * Calls, in order: getpid, openat(AT_FDCWD, "/etc/hostname", O_RDONLY), write(1, "", 0),
 * write of the lines, exit_group(0).
 */
enum { NR_WRITE = 4, NR_GETPID = 20, NR_EXIT_GROUP = 252, NR_OPENAT = 295 };

static int call(int nr, int a, const void *b, int c)
{
	int ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory");
	return ret;
}

static char line[64];
static int used;

static void key_value(const char *key, int value)
{
	char digits[12];
	int n = 0;
	unsigned int rest = value < 0 ? -(unsigned int)value : (unsigned int)value;

	while (*key)
		line[used++] = *key++;
	line[used++] = '=';
	if (value < 0)
		line[used++] = '-';
	do {
		digits[n++] = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	while (n)
		line[used++] = digits[--n];
	line[used++] = '\n';
}

__attribute__((force_align_arg_pointer, noreturn)) void _start(void)
{
	int pid = call(NR_GETPID, 0, 0, 0);
	int fd = call(NR_OPENAT, -100, "/etc/hostname", 0);

	call(NR_WRITE, 1, "", 0);
	key_value("pid", pid);
	key_value("openat", fd);
	call(NR_WRITE, 1, line, used);
	call(NR_EXIT_GROUP, 0, 0, 0);
	__builtin_unreachable();
}
