// load-crash-kernel KERNEL INITRD COMMANDLINE: kexec -p -s, without kexec-tools.
#include <fcntl.h>
#include <linux/kexec.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: load-crash-kernel KERNEL INITRD COMMANDLINE\n");
        return 2;
    }
    int kernel = open(argv[1], O_RDONLY | O_CLOEXEC), initrd = open(argv[2], O_RDONLY | O_CLOEXEC);
    if (kernel < 0 || initrd < 0) {
        perror("open");
        return 1;
    }
    if (syscall(SYS_kexec_file_load, kernel, initrd, strlen(argv[3]) + 1, argv[3], KEXEC_FILE_ON_CRASH) != 0) {
        perror("kexec_file_load");
        return 1;
    }
    return 0;
}
