// delay DEVICE MS: makes /dev/dm-N, which passes requests to DEVICE, and waits MS before each write
// and flush (the device mapper's target "delay"). Prints the new device's path.
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static struct {
    struct dm_ioctl head;
    struct dm_target_spec target;
    char parameters[256];
} request;

static void ask(int control, unsigned long what, const char *name) {
    request.head.version[0] = DM_VERSION_MAJOR;
    request.head.data_size = sizeof request;
    request.head.data_start = sizeof request.head;
    strcpy(request.head.name, "slow");
    if (ioctl(control, what, &request)) {
        perror(name);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "delay DEVICE MS\n");
        return 2;
    }
    int control = open("/dev/mapper/control", O_RDWR), device = open(argv[1], O_RDONLY);
    uint64_t bytes = 0;
    if (control < 0 || device < 0 || ioctl(device, BLKGETSIZE64, &bytes)) {
        perror(control < 0 ? "/dev/mapper/control" : argv[1]);
        return 1;
    }
    ask(control, DM_DEV_CREATE, "create");
    memset(&request, 0, sizeof request);
    request.head.target_count = 1;
    request.target.length = bytes / 512;
    strcpy(request.target.target_type, "delay");
    // Reads at once; writes, and with them flushes, late.
    snprintf(request.parameters, sizeof request.parameters, "%s 0 0 %s 0 %s", argv[1], argv[1],
             argv[2]);
    ask(control, DM_TABLE_LOAD, "load");
    memset(&request, 0, sizeof request);
    // Without DM_SUSPEND_FLAG it resumes.
    ask(control, DM_DEV_SUSPEND, "resume");
    printf("/dev/dm-%u\n", minor(request.head.dev));
    return 0;
}
