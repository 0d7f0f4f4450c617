/*
 * A 64-bit program that makes a 32-bit call: `int 0x80` with i386's getpid (20), which the
 * 64-bit table would call writev.
 */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
	printf("pid=%d\nint80=%ld\n", getpid(), ret);
	return ret != getpid();
}
